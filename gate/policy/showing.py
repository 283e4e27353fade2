"""Which defects show what a rule complains about, the most telling first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gate.corpus.export import half_of
from gate.metrics.costly_errors import CONFIDENT
from gate.metrics.evidence import Evidence
from gate.metrics.measured import class_names
from gate.policy.positive import positive_positions
from gate.policy.schema import Policy, Rule
from gate.result import Defect, Metric, RootCause

__all__ = ["SHOWN", "Case", "evidence_for"]

SHOWN = 5

_OF_ORACLE = {
    "nonfinite_outputs": ("non_finite",),
    "crashes": ("crash",),
    "hangs": ("timeout",),
    "backend_disagreements": ("batch_dependence", "numeric_path"),
    "universal_mark_rate": ("universal_mark",),
}
_RATES = ("defect_rate", "mutant_failure_rate", "confident_error_rate", "missed_positive_rate", "negative_flip_rate", "flips_per_mistake")
_JUDGED = (*_RATES, "robust_margin_p05")
_SEARCHED = ("defect_density", "defects_per_1k_executions")


class Case:
    """The defects of a run, and what names in it mean."""

    def __init__(self, policy: Policy, defects: Sequence[Defect], causes: Sequence[RootCause], classes: Sequence[str]) -> None:
        self.defects = tuple(defects)
        self.causes = tuple(causes)
        self.classes = class_names(Evidence(seed=0, classes=tuple(classes)))
        self.positive = set(positive_positions(policy, classes))


def evidence_for(rule: Rule, case: Case, *, slice_name: str | None, metric: Metric | None) -> tuple[tuple[str, ...], int]:
    """Ids of at most five defects, and how many there are.

    Rates of the judging arm show its own defects. Where the search found every one of them first, so that none is left under the judging
    arm's name, they show natural defects of the other arms. Defects that the baseline does not have come first in a comparison; then the
    surest answers, and among these the smallest changes. The margin's smallest changes come first.

    Args:
        slice_name: the slice that speaks.
        metric: as judged; its slices say which root causes recur.
    """
    if rule.metric == "root_causes":
        largest = sorted(case.causes, key=lambda cause: (-cause.size, cause.id))
        return tuple(cause.example for cause in largest[:SHOWN]), len(largest)
    if rule.metric in _RATES and _value(rule, slice_name, metric) == 0:
        return (), 0  # what only the search found is no example of a rate that is 0
    shown = [defect for defect in _candidates(rule, case, metric) if _in_slice(rule, defect, slice_name, case)]
    shown.sort(key=_telling(rule))
    return tuple(defect.id for defect in shown[:SHOWN]), len(shown)


def _value(rule: Rule, slice_name: str | None, metric: Metric | None) -> float | None:
    if metric is None or rule.slice is None or slice_name is None:
        return None if metric is None else metric.value
    part = metric.slices.get(rule.slice.by, {}).get(slice_name)
    return None if part is None else part.value


def _candidates(rule: Rule, case: Case, metric: Metric | None) -> list[Defect]:
    name = rule.metric
    if name in _OF_ORACLE:
        # A numeric path is named with the oracle, as in numeric_path:half.
        return [d for d in case.defects if {oracle.partition(":")[0] for oracle in (d.oracle, *d.also)} & set(_OF_ORACLE[name])]
    if name in _SEARCHED:
        return [defect for defect in case.defects if defect.arm == "search"]
    if name == "long_tail_hit_rate":
        return [defect for defect in case.defects if defect.natural and "long_tail" in defect.files]
    if name == "regression_rate":
        parts = metric.slices.get("root_cause", {}) if metric is not None else {}
        recurring = {cause for cause, part in parts.items() if part.value}
        return [defect for defect in case.defects if defect.root_cause in recurring]
    if name not in _JUDGED:
        return []
    fitting = [defect for defect in case.defects if defect.natural and defect.label is not None and _fits(name, defect, case)]
    return [defect for defect in fitting if defect.arm == "judging"] or [defect for defect in fitting if defect.arm in ("search", "random")]


def _fits(name: str, defect: Defect, case: Case) -> bool:
    match name:
        case "confident_error_rate":
            return defect.predicted is not None and (defect.confidence_after or 0.0) >= CONFIDENT
        case "missed_positive_rate":
            return defect.label in case.positive and defect.predicted not in case.positive
        case "negative_flip_rate" | "flips_per_mistake":
            return defect.baseline is not None and defect.baseline == defect.label
    return True


def _in_slice(rule: Rule, defect: Defect, slice_name: str | None, case: Case) -> bool:
    if rule.slice is None or slice_name is None:
        return True
    match rule.slice.by:
        case "class":
            return defect.label is not None and case.classes.get(defect.label, str(defect.label)) == slice_name
        case "family":
            return slice_name in defect.families
        case "half":
            return half_of(defect.seed_id) == slice_name
        case "long_tail_kind":
            return defect.long_tail_kind == slice_name
        case "root_cause":
            return defect.root_cause == slice_name


def _telling(rule: Rule) -> Callable[[Defect], tuple[bool, float, float, str]]:
    def key(defect: Defect) -> tuple[bool, float, float, str]:
        shared = rule.compare is not None and defect.baseline is not None and defect.baseline != defect.label
        sure = -(defect.confidence_after if defect.confidence_after is not None else 2.0)  # not a number at all tells most
        order = (defect.severity, sure) if rule.metric == "robust_margin_p05" else (sure, defect.severity)
        return (shared, *order, defect.id)

    return key
