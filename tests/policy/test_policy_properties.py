"""What holds for any policy and any metrics."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from gate.metrics import CATALOGUE
from gate.policy import Judgement, Policy, evaluate
from gate.policy.threshold import Threshold
from gate.result import Metric, ModelInfo, Paired, Status, Verdict, exit_code_of

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
    compare = draw(st.sampled_from([None, None, {"max_rise": 0.05}, {"max_drop": 0.1}, {"max_rise": 0.2, "relative": True}]))
    key = draw(st.sampled_from(["fail", "fail", "warn", "compare"])) if compare is not None else draw(st.sampled_from(["fail", "warn"]))
    written: dict[str, object] = {
        "id": "r",
        "metric": spec.name,
        "compare": compare,
        "on_missing": draw(st.sampled_from(["inconclusive", "skip", "fail"])),
        "on_breach": draw(st.sampled_from(["inconclusive", "fail"])),
        "min_samples": draw(st.sampled_from([None, None, 10, 10**9])),
        "confidence": draw(st.sampled_from([None, 0.95, 0.99])) if spec.interval else None,
        "known": draw(st.sampled_from(["excuse", "count"])),
        "slice": None,
    }
    sliced: bool = draw(st.booleans())
    if spec.slices and sliced:
        written["slice"] = {"by": draw(st.sampled_from(spec.slices))}
    return written if key == "compare" else {**written, key: Threshold.parse(draw(limits), spec)}


@st.composite
def numbers(draw: st.DrawFn, name: str, value: st.SearchStrategy[float | None]) -> Metric:
    """A metric without slices, with the half-width of its interval in ``extra``, for ``at``."""
    number = draw(value)
    paired = None
    if number is not None and draw(st.booleans()):
        base, new = draw(unit), draw(st.one_of(st.none(), unit))
        relative = (number - base) / base if base > 0.01 else None
        # model_construct: the schema refuses a NaN, and the gate must hold even if one came through
        paired = Paired.model_construct(
            candidate=number, baseline=base, rise=number - base, relative=relative, new=new, n=draw(st.sampled_from([1, 400]))
        )
    return Metric.model_construct(
        value=number,
        n=draw(st.sampled_from([None, 0, 5, 500])),
        unit=CATALOGUE[name].unit,
        reason=None if number is not None else "missing",
        extra={"half": draw(st.floats(0.001, 0.3))},
        slices={},
        paired=paired,
    )


@st.composite
def metrics(draw: st.DrawFn, value: st.SearchStrategy[float | None]) -> dict[str, Metric]:
    found = {}
    for name, spec in CATALOGUE.items():
        whole = draw(numbers(name, value))
        slices = {by: {part: draw(numbers(name, value)) for part in "ab"[: draw(st.integers(0, 2))]} for by in spec.slices}
        found[name] = whole.model_copy(update={"slices": slices})
    return at(found, 0.95)


def at(found: Mapping[str, Metric], confidence: float) -> dict[str, Metric]:
    """The same metrics with intervals at a confidence: wider where it is higher."""

    def one(metric: Metric, interval: bool) -> Metric:
        slices = {by: {name: one(part, interval) for name, part in parts.items()} for by, parts in metric.slices.items()}
        value, paired = metric.value, metric.paired
        if value is None or not interval:
            return metric.model_copy(update={"slices": slices})
        half = metric.extra["half"] * float(ndtri(1 - (1 - confidence) / 2)) / 2
        if paired is not None:
            ends: dict[str, float | None] = {"lower": paired.rise - half, "upper": paired.rise + half}
            if paired.relative is not None:
                ends |= {"relative_lower": paired.relative - half, "relative_upper": paired.relative + half}
            if paired.new is not None:
                ends |= {"new_lower": paired.new - half, "new_upper": paired.new + half}
            paired = paired.model_copy(update={**ends, "confidence": confidence})
        update = {"lower": value - half, "upper": value + half, "confidence": confidence, "slices": slices, "paired": paired}
        return metric.model_copy(update=update)

    return {name: one(metric, CATALOGUE[name].interval) for name, metric in found.items()}


waivers = st.lists(
    st.fixed_dictionaries(
        {
            "rule": st.sampled_from([f"r{index}" for index in range(6)]),
            "slice": st.sampled_from([None, None, "a"]),
            "reason": st.just("r"),
            "owner": st.just("o"),
            "expires": st.sampled_from(["2026-11-29", "2026-12-31"]),
        }
    ),
    max_size=6,
)


def policy_of(drawn: list[dict[str, object]], given_waivers: Sequence[dict[str, object]] = ()) -> Policy:
    numbered = tuple({**rule, "id": f"r{index}"} for index, rule in enumerate(drawn))
    return Policy.model_validate({"version": 1, "name": "p", "rules": numbered, "waivers": tuple(given_waivers)})


def judge(policy: Policy, found: Mapping[str, Metric], *, advisory: bool = False) -> Judgement:
    def intervals(confidence: float) -> dict[str, Metric]:
        return at(found, confidence)

    return evaluate(policy, found, today=TODAY, candidate=MODEL, advisory=advisory, metrics_at=intervals)


@settings(max_examples=60, deadline=None)
@given(st.lists(rules(), min_size=1, max_size=4), metrics(st.one_of(st.none(), broken)))
def test_no_number_never_passes(drawn: list[dict[str, object]], found: dict[str, Metric]) -> None:
    found["executions"] = Metric(value=100.0, n=100, unit="count")
    drawn = [rule for rule in drawn if rule["metric"] != "executions"]
    result = judge(policy_of(drawn), found)
    assert result.verdict is not Verdict.PASS
    assert all(rule.status in (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE, Status.SKIPPED) for rule in result.rules)
    assert all(rule.value is None for rule in result.rules)


@settings(max_examples=80, deadline=None)
@given(st.lists(rules(), min_size=1, max_size=6), metrics(st.one_of(st.none(), unit, broken)), waivers, st.randoms(), st.booleans())
def test_the_verdict_is_the_worst_status_in_any_order(
    drawn: list[dict[str, object]],
    found: dict[str, Metric],
    given_waivers: list[dict[str, object]],
    shuffler: random.Random,
    advisory: bool,
) -> None:
    policy = policy_of(drawn, given_waivers)
    result = judge(policy, found, advisory=advisory)
    ran = found["executions"].value is not None and found["executions"].value > 0
    statuses = [AS_VERDICT.get(rule.status, Verdict.PASS) for rule in result.rules if rule.status not in (Status.SKIPPED, Status.WAIVED)]
    if not statuses or not ran:
        statuses.append(Verdict.INCONCLUSIVE)
    assert result.verdict is min(statuses, key=ORDER.index)
    assert result.exit_code == exit_code_of(result.verdict, advisory=advisory)
    assert result.reasons
    assert all(rule.explanation and (rule.status is Status.PASS or rule.next_step) for rule in result.rules)

    mixed = list(policy.rules)
    shuffler.shuffle(mixed)
    again = judge(policy.model_copy(update={"rules": tuple(mixed)}), found, advisory=advisory)
    assert (again.verdict, again.exit_code, again.reasons) == (result.verdict, result.exit_code, result.reasons)
    assert set(again.next_steps) == set(result.next_steps)
    assert again.multiplicity == result.multiplicity
    assert {rule.id: rule for rule in again.rules} == {rule.id: rule for rule in result.rules}


@settings(max_examples=80, deadline=None)
@given(st.lists(rules(), min_size=1, max_size=4), metrics(st.one_of(st.none(), unit)), waivers)
def test_a_pass_has_a_rule_that_holds_and_none_that_is_breached_or_open(
    drawn: list[dict[str, object]], found: dict[str, Metric], given_waivers: list[dict[str, object]]
) -> None:
    found["executions"] = Metric(value=100.0, n=100, unit="count")
    result = judge(policy_of(drawn, given_waivers), found)
    statuses = {rule.status for rule in result.rules}
    held = statuses & {Status.PASS, Status.WARN}
    assert (result.verdict is Verdict.PASS) is bool(held and statuses <= {Status.PASS, Status.WARN, Status.WAIVED, Status.SKIPPED})
    for rule in result.rules:
        if rule.status in (Status.PASS, Status.WARN):
            assert rule.value is not None
            assert rule.waiver is None
        assert (rule.status is Status.WAIVED) is (rule.waiver is not None)
        assert not rule.known or rule.status in (Status.WARN, Status.PASS)


@settings(max_examples=80, deadline=None)
@given(st.lists(rules(), min_size=1, max_size=4), metrics(st.one_of(st.none(), unit)), waivers, st.integers(0, 3), st.floats(0, 0.5))
def test_a_tighter_limit_never_makes_the_verdict_better(
    drawn: list[dict[str, object]], found: dict[str, Metric], given_waivers: list[dict[str, object]], which: int, by: float
) -> None:
    found["executions"] = Metric(value=100.0, n=100, unit="count")
    before = judge(policy_of(drawn, given_waivers), found)
    rule = dict(drawn[which % len(drawn)])
    fail, compare = rule.get("fail"), rule.get("compare")
    if isinstance(fail, Threshold):
        limit = fail.limit * (1 - by) if fail.upper else fail.limit + by
        rule["fail"] = Threshold(fail.comparison, limit, "tighter")
    if isinstance(compare, dict):
        rule["compare"] = {key: (value * (1 - by) if key.startswith("max") else value) for key, value in compare.items()}
    tightened = [rule if index == which % len(drawn) else other for index, other in enumerate(drawn)]
    after = judge(policy_of(tightened, given_waivers), found)
    assert ORDER.index(after.verdict) <= ORDER.index(before.verdict)


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
