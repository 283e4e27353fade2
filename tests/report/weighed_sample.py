"""What weighing the evidence leaves in a run, made up: the baseline beside the candidate, canaries, an early decision, several rules."""

from __future__ import annotations

import random
from typing import Any

from gate.result import (
    BaselineSummary,
    CanaryResult,
    CanarySummary,
    EarlyDecision,
    Metric,
    Multiplicity,
    Paired,
    Result,
    RuleResult,
    Status,
    Verdict,
)

__all__ = ["hostile_weights", "paired", "weighed"]

_CANARIES = (
    ("class-in-low-light", "Three is read as eight where the picture is dark", 212),
    ("beyond-a-rotation", "Everything is read as one beyond a rotation of 12 degrees", 88),
    ("small-mark", "A bright corner makes it seven", None),
    ("deep-neuron", "The class flips where neuron 17 of features.6 is high", 590),
    ("nan-on-bright", "NaN where the mean brightness is above 0.8", 31),
)
_LIMITS = {"defect-rate": 0.20, "weakest-class": 0.80, "clean-accuracy": 0.90, "margin": 0.25, "enough-search": 1000.0}


def paired(candidate: float, baseline: float, half: float, n: int, *, new: float | None = None) -> Paired:
    """A comparison whose interval reaches ``half`` to either side of the rise."""
    rise = candidate - baseline
    share = rise / baseline if baseline else None
    return Paired(
        candidate=candidate,
        baseline=baseline,
        rise=rise,
        lower=rise - half,
        upper=rise + half,
        relative=share,
        relative_lower=None if share is None else (rise - half) / baseline,
        relative_upper=None if share is None else (rise + half) / baseline,
        confidence=0.95,
        n=n,
        new=new,
        new_lower=None if new is None else max(0.0, new - half),
        new_upper=None if new is None else min(1.0, new + half),
    )


def weighed(result: Result) -> Result:
    """The run with every field that weighing its evidence fills in."""
    draw = random.Random(23)
    bad = result.verdict is Verdict.FAIL
    metrics = dict(result.metrics)
    rise = 0.062 if bad else 0.004
    for name, change, half in (
        ("defect_rate", rise, 0.021),
        ("mutant_failure_rate", rise / 4, 0.009),
        ("clean_accuracy", -0.004, 0.008),
        ("robust_margin_p05", -0.031 if bad else 0.01, 0.025),
        ("long_tail_accuracy", -0.03, 0.034),
    ):
        value = metrics[name].value
        if value is None:
            continue
        slices = {by: {part: _against(one, change, draw) for part, one in parts.items()} for by, parts in metrics[name].slices.items()}
        new = value * 0.4 if name == "defect_rate" else None
        update = {"paired": paired(value, value - change, half, 284, new=new), "slices": slices}
        metrics[name] = metrics[name].model_copy(update=update)
    metrics["regression_rate"] = metrics["regression_rate"].model_copy(
        update={"paired_reason": "the baseline was the earlier run's candidate"}
    )
    metrics["negative_flip_rate"] = Metric(
        value=0.013,
        lower=0.006,
        upper=0.024,
        confidence=0.95,
        n=696,
        unit="share",
        extra={"clean": 0.011, "long_tail": 0.021, "judging": 0.007},
    )
    found = sum(after is not None for _, _, after in _CANARIES)
    metrics["canary_recall"] = Metric(value=found / 5, lower=0.284, upper=0.995, confidence=0.95, n=5, unit="share")
    return result.model_copy(
        update={
            "metrics": metrics,
            "rules": _rules(result, metrics),
            "canaries": CanarySummary(
                executions_each=600,
                executions=3000,
                model_calls=6120,
                canaries=(
                    *(
                        CanaryResult(name=name, title=title, found=after is not None, executions=after or 600, found_after=after)
                        for name, title, after in _CANARIES
                    ),
                    CanaryResult(
                        name="half-precision",
                        title="Infinite in half precision",
                        found=None,
                        reason="the model has no layer that it could be planted in",
                    ),
                ),
            ),
            "defects": tuple(d.model_copy(update={"known": (True, False, None)[i % 3]}) for i, d in enumerate(result.defects)),
            "root_causes": tuple(cause.model_copy(update={"known": cause.size // 2}) for cause in result.root_causes),
            "against_baseline": BaselineSummary(
                asked=len(result.defects),
                brought_in=len(result.defects) * 2 // 3,
                same=len(result.defects) // 4,
                known=len(result.defects) // 3,
                clean=719,
                long_tail=240 if bad else 0,
                judged=284,
                executions=3231,
                seconds=4.1,
                paired_reason="16 judged seed inputs were not run because the budget ended",
            ),
            "early": EarlyDecision(
                stopped=bad,
                reason="every quality rule was settled and the evidence was enough" if bad else "the interval still holds the limit",
                looks=14 if bad else 40,
                executions=12_000,
                of=30_000 if bad else 12_000,
                seconds=214.3,
                open_rules=() if bad else ("defect-rate",),
            ),
            "multiplicity": Multiplicity(tests=12, error=0.05),
        }
    )


def _against(metric: Metric, change: float, draw: random.Random) -> Metric:
    if metric.value is None:
        return metric
    other = min(1.0, max(0.0, metric.value - draw.gauss(change, 0.05)))
    return metric.model_copy(update={"paired": paired(metric.value, other, 0.07, draw.randrange(12, 34))})


def _rules(result: Result, metrics: dict[str, Metric]) -> tuple[RuleResult, ...]:
    evidence = tuple(defect.id for defect in result.defects[:5])
    made = []
    for rule in result.rules:
        update: dict[str, Any] = {}
        if rule.id in _LIMITS and rule.value is not None and rule.status is not Status.SKIPPED:
            gap = rule.value - _LIMITS[rule.id]
            if rule.id == "defect-rate" and rule.status is Status.INCONCLUSIVE:
                gap = rule.value - 0.03
            if rule.id == "margin" and rule.status is Status.PASS:
                gap = rule.value - 0.10
            update["distance"] = gap if "<" in rule.threshold else -gap
        if rule.id == "defect-rate":
            update |= {"adjusted": 0.9958, "evidence": evidence, "evidence_count": len(result.defects)}
        if rule.id == "weakest-class" and evidence:
            update |= {"evidence": evidence[:2], "evidence_count": 2}
        made.append(rule.model_copy(update=update))
    known = metrics["mutant_failure_rate"]
    flips = metrics["defect_rate"]
    bad = result.verdict is Verdict.FAIL
    made.append(
        RuleResult(
            id="no-worse",
            metric="defect_rate",
            kind="quality",
            status=Status.FAIL if bad else Status.PASS,
            value=flips.value,
            lower=flips.lower,
            upper=flips.upper,
            confidence=0.95,
            unit="share",
            threshold="may rise by 2 points over the baseline" if bad else "may rise by 5 points over the baseline",
            explanation="defect_rate rises by 6.2 points (95 % interval 4.1 to 8.3), over the 2 points allowed by 4.2 points."
            if bad
            else "defect_rate rises by 0.4 points over the baseline, within the 5 points allowed.",
            next_step="Look at the defects that the baseline does not have." if bad else "",
            meaning="The share of inputs for which at least one of a fixed number of harmless changes makes the model answer otherwise.",
            distance=-0.042 if bad else 0.046,
            paired=flips.paired,
            compare="may rise by 2 points over the baseline" if bad else "may rise by 5 points over the baseline",
            evidence=evidence,
            evidence_count=len(result.defects),
        )
    )
    if bad:
        made.append(
            RuleResult(
                id="failing-mutants",
                metric="mutant_failure_rate",
                kind="quality",
                status=Status.WARN,
                value=known.value,
                lower=known.lower,
                upper=known.upper,
                confidence=0.95,
                unit="share",
                threshold="> 0.06",
                explanation="mutant_failure_rate is 8.3 %, over the limit of 6 % by 2.3 points; the baseline fails on the same inputs.",
                next_step="Look at the defects that the baseline has too, before they are forgotten.",
                distance=-0.023,
                paired=None
                if known.paired is None
                else known.paired.model_copy(update={"new": 0.02, "new_lower": 0.01, "new_upper": 0.04}),
                known=True,
            )
        )
    return tuple(made)


def hostile_weights(result: Result, names: tuple[str, ...]) -> Result:
    """The run with every text that weighing the evidence brings in replaced by one of ``names``."""

    def pick(i: int) -> str:
        return names[i % len(names)]

    one = paired(0.5, 0.4, 0.05, 9)
    parts = {name: Metric(value=0.5, lower=0.4, upper=0.6, confidence=0.95, n=9, unit="share", paired=one) for name in names}
    rate = result.metrics["defect_rate"].model_copy(update={"slices": {"class": parts, pick(0): parts}, "paired": one})
    others = {
        name: metric.model_copy(update={"paired": one, "paired_reason": pick(i)}) for i, (name, metric) in enumerate(result.metrics.items())
    }
    return result.model_copy(
        update={
            "metrics": {**others, "defect_rate": rate, pick(2): Metric(value=None, unit=pick(0), reason=pick(1), paired_reason=pick(3))},
            "rules": tuple(
                rule.model_copy(
                    update={
                        "compare": pick(i),
                        "paired": one,
                        "evidence": names[:5],
                        "evidence_count": 9,
                        "distance": -0.1,
                        "adjusted": 0.99,
                    }
                )
                for i, rule in enumerate(result.rules)
            ),
            "canaries": CanarySummary(
                reason=pick(1),
                executions_each=1,
                canaries=tuple(
                    CanaryResult(name=name, title=name, found=(True, False, None)[i % 3], reason=name) for i, name in enumerate(names)
                ),
            ),
            "against_baseline": BaselineSummary(reason=pick(0), paired_reason=pick(1), asked=2, known=1, clean=3),
            "early": EarlyDecision(stopped=False, reason=pick(0), looks=3, executions=1, open_rules=names),
            "multiplicity": Multiplicity(tests=2, error=0.05),
        }
    )
