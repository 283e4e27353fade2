"""``long_tail_hit_rate``: whether what the search finds by natural changes also happens in the world."""

from __future__ import annotations

import numpy as np

from gate.metrics.evidence import Evidence
from gate.metrics.measured import measured, missing
from gate.metrics.reweighting import reweighted_ratio
from gate.result import Metric

__all__ = ["MIN_DEFECTS", "MIN_ERRORS", "long_tail_hit_rate"]

MIN_DEFECTS = 10
MIN_ERRORS = 20


def long_tail_hit_rate(evidence: Evidence, confidence: float) -> Metric:
    """Share of distinct natural defects whose failure also occurs in the long-tail set; interval over the seed inputs that have one.

    Null below 10 natural defects or 20 long-tail errors. ``extra`` holds the chance level and the radius where they are known.
    """
    name = "long_tail_hit_rate"
    tail = evidence.long_tail
    if tail is None:
        return missing(name, evidence.long_tail_reason or "no long-tail set was given", evidence=evidence)
    if tail.reason:
        return missing(name, tail.reason, evidence=evidence)
    errors = sum(label != answer for label, answer in zip(tail.labels, tail.predicted, strict=True))
    natural = [defect for defect in evidence.defects if defect.natural]
    decided = [defect for defect in natural if defect.recurs_in_long_tail is not None]
    n = len(decided)
    if n < MIN_DEFECTS and not (errors < MIN_ERRORS and len(natural) >= MIN_DEFECTS):  # with too few errors, nothing was compared
        undecided = f" ({len(natural) - n} more could not be compared)" if len(natural) > n else ""
        return missing(name, f"the search found {n} natural defects{undecided}; {MIN_DEFECTS} are needed", n=n, evidence=evidence)
    if errors < MIN_ERRORS:
        return missing(
            name, f"the model gets {errors} long-tail samples wrong; {MIN_ERRORS} are needed to compare with", n=n, evidence=evidence
        )
    by_seed: dict[str, list[float]] = {}
    for defect in decided:
        pair = by_seed.setdefault(defect.seed_id, [0.0, 0.0])
        pair[0] += bool(defect.recurs_in_long_tail)
        pair[1] += 1
    table = np.array([by_seed[seed] for seed in sorted(by_seed)])
    most = float(table[:, 1].max())  # the imaginary seed input weighs as much as the heaviest
    interval = reweighted_ratio(table[:, 0], table[:, 1], confidence, best=(0.0, most), worst=(most, most))
    extra = {"long_tail_errors": float(errors), "seed_inputs": float(len(table)), "undecided": float(len(natural) - n)}
    if tail.chance is not None:
        extra["chance"] = tail.chance
    if tail.radius is not None:
        extra["radius"] = tail.radius
    value = float(table[:, 0].sum() / n)
    return measured(name, value, n=n, interval=interval, confidence=confidence, extra=extra)
