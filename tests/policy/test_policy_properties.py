"""What holds for any policy and any metrics."""

from __future__ import annotations

import datetime
import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gate.metrics import CATALOGUE
from gate.policy import Policy, evaluate
from gate.policy.threshold import Threshold
from gate.result import Metric, ModelInfo, Status, Verdict, exit_code_of

TODAY = datetime.date(2026, 11, 30)
MODEL = ModelInfo(uri="m", resolved_uri="m")
ORDER = (Verdict.ERROR, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
AS_VERDICT = {Status.ERROR: Verdict.ERROR, Status.FAIL: Verdict.FAIL, Status.INCONCLUSIVE: Verdict.INCONCLUSIVE}
NAMES = sorted(CATALOGUE)

unit = st.floats(0, 1, allow_nan=False)
broken = st.sampled_from([math.nan, math.inf, -math.inf])
limits = st.builds(
    lambda sign, limit: f"{sign} {limit:.3f}", st.sampled_from([">", ">=", "<", "<="]), st.floats(0.001, 0.999, allow_nan=False)
)


@st.composite
def rules(draw: st.DrawFn) -> dict[str, object]:
    spec = CATALOGUE[draw(st.sampled_from(NAMES))]
    return {
        "id": "r",
        "metric": spec.name,
        draw(st.sampled_from(["fail", "warn"])): Threshold.parse(draw(limits), spec),
        "on_missing": draw(st.sampled_from(["inconclusive", "skip", "fail"])),
        "on_breach": draw(st.sampled_from(["inconclusive", "fail"])),
        "min_samples": draw(st.sampled_from([None, 10])),
        "confidence": draw(st.sampled_from([None, 0.95])) if spec.interval else None,
    }


@st.composite
def metrics(draw: st.DrawFn, value: st.SearchStrategy[float | None]) -> dict[str, Metric]:
    found = {}
    for name, spec in CATALOGUE.items():
        number = draw(value)
        bounds = (number, number) if number is not None and spec.interval else (None, None)
        # model_construct: the schema refuses a NaN, and the gate must hold even if one came through
        found[name] = Metric.model_construct(
            value=number,
            lower=bounds[0],
            upper=bounds[1],
            confidence=0.95 if bounds[0] is not None else None,
            n=draw(st.sampled_from([None, 0, 5, 500])),
            unit=spec.unit,
            reason=None if number is not None else "missing",
            extra={},
            slices={},
        )
    return found


def policy_of(drawn: list[dict[str, object]]) -> Policy:
    numbered = tuple({**rule, "id": f"r{index}"} for index, rule in enumerate(drawn))
    return Policy.model_validate({"version": 1, "name": "p", "rules": numbered})


@settings(max_examples=60, deadline=None)
@given(st.lists(rules(), min_size=1, max_size=4), metrics(st.one_of(st.none(), broken)))
def test_no_number_never_passes(drawn: list[dict[str, object]], found: dict[str, Metric]) -> None:
    found["executions"] = Metric(value=100.0, n=100, unit="count")
    drawn = [rule for rule in drawn if rule["metric"] != "executions"]
    result = evaluate(policy_of(drawn), found, today=TODAY, candidate=MODEL)
    assert result.verdict is not Verdict.PASS
    assert all(rule.status in (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE, Status.SKIPPED) for rule in result.rules)
    assert all(rule.value is None for rule in result.rules)


@settings(max_examples=60, deadline=None)
@given(st.lists(rules(), min_size=1, max_size=6), metrics(st.one_of(st.none(), unit, broken)), st.randoms(), st.booleans())
def test_the_verdict_is_the_worst_status_in_any_order(
    drawn: list[dict[str, object]], found: dict[str, Metric], shuffler: random.Random, advisory: bool
) -> None:
    policy = policy_of(drawn)
    result = evaluate(policy, found, today=TODAY, candidate=MODEL, advisory=advisory)
    ran = found["executions"].value is not None and found["executions"].value > 0
    statuses = [AS_VERDICT.get(rule.status, Verdict.PASS) for rule in result.rules if rule.status is not Status.SKIPPED]
    if not statuses or not ran:
        statuses.append(Verdict.INCONCLUSIVE)
    assert result.verdict is min(statuses, key=ORDER.index)
    assert result.exit_code == exit_code_of(result.verdict, advisory=advisory)
    assert result.reasons

    mixed = list(policy.rules)
    shuffler.shuffle(mixed)
    again = evaluate(policy.model_copy(update={"rules": tuple(mixed)}), found, today=TODAY, candidate=MODEL, advisory=advisory)
    assert (again.verdict, again.exit_code, again.reasons) == (result.verdict, result.exit_code, result.reasons)
    assert set(again.next_steps) == set(result.next_steps)
    assert {rule.id: rule for rule in again.rules} == {rule.id: rule for rule in result.rules}


@given(limits, st.one_of(unit, broken))
def test_a_limit_is_held_or_breached_and_not_a_number_breaches(text: str, value: float) -> None:
    threshold = Threshold.parse(text, CATALOGUE["defect_rate"])
    assert threshold.breached(value) is not threshold.holds(value)
    if math.isnan(value):
        assert threshold.breached(value)
        assert threshold.decide(value, value) == "breached"


@given(limits, unit, unit)
def test_an_interval_of_one_point_decides_as_the_point(text: str, a: float, b: float) -> None:
    threshold = Threshold.parse(text, CATALOGUE["defect_rate"])
    assert threshold.decide(a, a) == ("breached" if threshold.breached(a) else "holds")
    low, high = sorted((a, b))
    inside = {threshold.breached(low), threshold.breached(high)}
    assert threshold.decide(low, high) == ("undecided" if len(inside) == 2 else "breached" if inside == {True} else "holds")
