"""How much more evidence would decide a rule that is open: an honest guess from the width of its interval, or none."""

from __future__ import annotations

import math

from gate.metrics.catalogue import MetricSpec
from gate.policy.looks import Look
from gate.policy.schema import Policy

__all__ = ["to_decide", "to_reach"]

_TOO_MANY = 100  # times as many: then the guess says no more than "very many"

_JUDGED = ("defect_rate", "mutant_failure_rate", "confident_error_rate", "missed_positive_rate")
_COUNTED = dict.fromkeys(_JUDGED, "seed inputs") | {
    "negative_flip_rate": "inputs",
    "universal_mark_rate": "held-out seed inputs",
    "clean_accuracy": "labelled seed samples",
    "long_tail_accuracy": "long-tail samples",
}


def to_decide(
    metric: str, spec: MetricSpec, look: Look, policy: Policy, *, judged: int | None, sliced: bool, changed: bool = False
) -> str | None:
    """A next step in words, or None where nothing honest can be said.

    An interval narrows with 1 / sqrt(n), and with 1 / n where no observation or every one failed; the value is taken to stay where it is.
    Quantiles, ratios and counts narrow otherwise, or not at all, and get no guess.

    Args:
        look: with the interval at the confidence that has to decide.
        judged: seed inputs of the judging arm in this run; None: unknown.
        sliced: whether the number of samples is that of one slice.
        changed: whether it is a change against the baseline, for which 0 is no edge.
    """
    what = _COUNTED.get(metric)
    bound = _far_end(look)
    if what is None or bound is None or not math.isfinite(bound) or look.n < 1:
        return None
    reach, gap = abs(bound - look.value), abs(look.distance)
    linear = not changed and spec.is_share and look.value in (0.0, 1.0)
    ratio = math.inf if gap == 0 else reach / gap
    factor = ratio if linear else ratio**2
    if factor > _TOO_MANY:
        return (
            f"The value lies so near the limit that {_TOO_MANY} times as many {what} might not decide it: improve the model, or ask "
            "whether the limit is the right one."
        )
    needed = _rounded_up(max(look.n + 1, look.n * factor))
    where = " of this slice" if sliced else ""
    start = f"About {needed:,} {what}{where} ({look.n:,} so far) would decide it if the value stays"
    return f"{start}{_executions(metric, needed / look.n, policy, judged)}"


def to_reach(metric: str, needed: int, n: int, policy: Policy, *, judged: int | None) -> str | None:
    """What to give so that a metric of the judging arm has the samples that a rule needs."""
    if metric not in (*_JUDGED, "robust_margin_p05") or n < 1:
        return None
    return f"{needed:,} seed inputs are needed, {n:,} were judged{_executions(metric, needed / n, policy, judged)}"


def _far_end(look: Look) -> float | None:
    """The end of the interval which has to come over to the value's side of the limit."""
    bad = look.threshold.breached(look.value)
    return look.lower if bad is look.threshold.upper else look.upper


def _executions(metric: str, factor: float, policy: Policy, judged: int | None) -> str:
    if metric not in (*_JUDGED, "robust_margin_p05"):
        return "."
    share = policy.arms.judging
    if not judged or share <= 0:
        return "; give more seed inputs and a larger budget."
    total = _rounded_up(math.ceil(judged * factor) * policy.judging.mutants_per_seed * policy.judging.repeat / share)
    return f": about {total:,} executions (--executions {total}), where there are seed inputs enough."


def _rounded_up(number: float) -> int:
    """To two significant digits."""
    unit: int = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return math.ceil(number / unit - 1e-9) * unit
