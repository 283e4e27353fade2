"""Many rules and slices at once: a breach must hold with all of them allowed for, and holding needs no allowance."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from gate.metrics import CATALOGUE, Evidence
from gate.metrics.evidence import CleanEvidence, JudgedSeed
from gate.metrics.intervals import exact_share
from gate.metrics.on_demand import MetricsOnDemand
from gate.policy import Judgement, Policy, evaluate
from gate.policy.holm import allowed_for, step_down
from gate.policy.threshold import Threshold
from gate.result import Metric, ModelInfo, Status, Verdict

TODAY = datetime.date(2026, 11, 30)
MODEL = ModelInfo(uri="m", resolved_uri="m")
RAN = {"executions": Metric(value=1000.0, n=1000, unit="count")}
At = Callable[[float], Mapping[str, Metric]]


def policy_of(*rules: dict[str, object]) -> Policy:
    written = []
    for index, rule in enumerate(rules):
        spec = CATALOGUE[str(rule["metric"])]
        limits: dict[str, object] = {key: Threshold.parse(rule[key], spec) for key in ("fail", "warn") if key in rule}
        written.append({"id": f"r{index}", **rule, **limits})
    return Policy.model_validate({"version": 1, "name": "p", "rules": tuple(written)})


def judge(policy: Policy, at: At) -> Judgement:
    return evaluate(policy, {**RAN, **at(0.95)}, today=TODAY, candidate=MODEL, metrics_at=at)


def share(name: str, failed: int, n: int, confidence: float) -> Metric:
    lower, upper = exact_share(failed, n, confidence)
    return Metric(value=failed / n, lower=lower, upper=upper, confidence=confidence, n=n, unit=CATALOGUE[name].unit)


def by_class(failed: Mapping[str, int], n: int, name: str = "defect_rate") -> At:
    def at(confidence: float) -> dict[str, Metric]:
        slices = {part: share(name, count, n, confidence) for part, count in failed.items()}
        return {name: share(name, sum(failed.values()), n * len(failed), confidence).model_copy(update={"slices": {"class": slices}})}

    return at


WORST = {"metric": "defect_rate", "fail": "> 20%", "confidence": 0.95, "slice": {"by": "class"}}


def test_a_breach_by_chance_of_one_slice_in_forty_decides_nothing() -> None:
    rates = {f"c{index:02}": 10 for index in range(40)} | {"c07": 30}  # 30 % of 100: beyond 20 % at 95 %, and not at 99.875 %
    alone = judge(policy_of(WORST), by_class({"c07": 30}, 100))
    assert alone.verdict is Verdict.FAIL
    result = judge(policy_of(WORST), by_class(rates, 100))
    rule = result.rules[0]
    assert (rule.status, rule.slice, result.verdict) == (Status.INCONCLUSIVE, "c07", Verdict.INCONCLUSIVE)
    assert "beyond the limit of 20 % by 10.0 points at 95 %, but not once 40 rules and slices are allowed for (99.88 %)" in rule.explanation
    assert rule.adjusted == pytest.approx(0.99875)
    assert (rule.lower, rule.confidence) == (exact_share(30, 100, 0.95)[0], 0.95)  # what is shown is the rule's own interval
    # The guess of how many more would decide it is made for that confidence: at 95 % alone it is decided already.
    assert rule.next_step.startswith("About 180 seed inputs of this slice (100 so far) would decide it if the value stays")
    assert result.multiplicity is not None
    assert (result.multiplicity.method, result.multiplicity.tests, result.multiplicity.error) == ("holm", 40, 0.05)


def test_a_breach_that_holds_with_all_allowed_for_fails_and_says_at_which_confidence() -> None:
    result = judge(policy_of(WORST), by_class({f"c{index:02}": 10 for index in range(40)} | {"c07": 45}, 100))
    assert (result.rules[0].status, result.rules[0].slice, result.verdict) == (Status.FAIL, "c07", Verdict.FAIL)
    assert result.rules[0].adjusted == pytest.approx(0.99875)


def test_a_hold_needs_no_allowance() -> None:
    result = judge(policy_of(WORST), by_class({f"c{index:02}": 12 for index in range(40)}, 100))  # up to 20.02 % at 95 %
    assert result.rules[0].status is Status.INCONCLUSIVE
    result = judge(policy_of(WORST), by_class({f"c{index:02}": 11 for index in range(40)}, 100))  # 18.8 % at 95 %, 26 % at 99.875 %
    assert (result.rules[0].status, result.rules[0].adjusted, result.verdict) == (Status.PASS, None, Verdict.PASS)


def test_what_breaches_leaves_the_question_and_the_rest_is_looked_at_again() -> None:
    # Three clear breaches of four; the fourth would not be settled with four limits allowed for, and is with the one that is left.
    failed = {"a": 90, "b": 80, "c": 70, "d": 30}
    result = judge(policy_of({**WORST, "slice": None}, WORST), by_class(failed, 100))
    assert [rule.status for rule in result.rules] == [Status.FAIL, Status.FAIL]
    four = step_down(dict.fromkeys("abcd", 0.95), lambda name, level: exact_share(failed[name], 100, level)[0] > 0.2)
    assert set(four.breached) == set("abcd")
    assert four.breached["a"] == allowed_for(0.95, 4) == 1 - 0.050000000000000044 / 4
    assert four.breached["d"] == 0.95
    assert exact_share(30, 100, allowed_for(0.95, 4))[0] < 0.2  # Bonferroni alone would not have settled it


def test_the_step_down_is_holms() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        p = np.sort(rng.uniform(0, 0.12, size=int(rng.integers(1, 12))) ** 1.5)
        expected = 0
        while expected < len(p) and p[expected] <= 0.05 / (len(p) - expected):  # the definition, p-value by p-value
            expected += 1

        def beyond(index: int, level: float, p: np.ndarray = p) -> bool:
            return bool(p[index] <= 1 - level)

        found = step_down(dict.fromkeys(range(len(p)), 0.95), beyond)
        assert set(found.breached) == set(range(expected))
        assert (found.tests, found.open) == (len(p), max(1, len(p) - expected))


def test_nothing_is_computed_at_another_confidence_unless_something_breaches_at_its_own() -> None:
    asked: list[float] = []
    at = by_class({f"c{index}": 2 for index in range(30)}, 100)

    def counting(confidence: float) -> Mapping[str, Metric]:
        asked.append(confidence)
        return at(confidence)

    result = evaluate(policy_of(WORST), {**RAN, **at(0.95)}, today=TODAY, candidate=MODEL, metrics_at=counting)
    assert (result.verdict, asked) == (Verdict.PASS, [])


def test_rules_that_can_not_make_the_run_fail_and_slices_with_too_few_samples_are_not_among_those_allowed_for() -> None:
    failed = {"a": 30, "b": 10}
    rules = [WORST, {**WORST, "on_breach": "inconclusive"}, {**WORST, "confidence": None}, {**WORST, "min_samples": 101}]
    result = judge(policy_of(*rules), by_class(failed, 100))
    assert result.multiplicity is not None
    assert result.multiplicity.tests == 2
    none = judge(policy_of({**WORST, "confidence": None}), by_class(failed, 100))
    assert none.multiplicity is None


def test_without_intervals_at_the_confidence_it_takes_a_breach_is_an_error_and_no_failure() -> None:
    metrics = {**RAN, **by_class({"a": 90, "b": 10}, 100)(0.95)}
    result = evaluate(policy_of(WORST), metrics, today=TODAY, candidate=MODEL)
    assert (result.verdict, result.rules[0].status) == (Verdict.ERROR, Status.ERROR)
    assert "no 97.5 % interval" in result.rules[0].explanation


def test_a_class_quietly_forgotten_shows_although_the_average_does_not_move() -> None:
    # One class of ten drops by 30 points; the others are a little better than before, so that the whole stays at 90 %.
    correct = {label: (60 if label == 3 else 93) for label in range(10)}
    labels = tuple(label for label in range(10) for _ in range(100))
    right = tuple(position < correct[label] for label in range(10) for position in range(100))
    evidence = Evidence(seed=1, classes=tuple(map(str, range(10))), clean=CleanEvidence(labels=labels, correct=right), executions=1000)
    whole = {"metric": "clean_accuracy", "fail": "< 80%", "confidence": 0.95}
    rules = policy_of(whole, {**whole, "slice": {"by": "class"}})
    result = judge(rules, lambda confidence: MetricsOnDemand(evidence, confidence))
    average, worst = result.rules
    assert (average.status, average.value) == (Status.PASS, 0.897)
    assert (worst.status, worst.slice, worst.value, result.verdict) == (Status.FAIL, "3", 0.6, Verdict.FAIL)


@pytest.mark.parametrize(("failing", "status"), [(0.0, Status.PASS), (0.9, Status.FAIL)])
def test_a_thousand_classes_are_judged_in_a_moment(failing: float, status: Status) -> None:
    each = 20
    judged = tuple(
        JudgedSeed(
            seed_id=f"s{label}-{position}",
            label=label,
            operators=("blur",),
            families=("blur",),
            severities=(0.5,),
            valid=(True,),
            # Some classes by every degree, so that the step-down has many steps to take.
            failed=(position < failing * each * (label + 1) / 1000,),
            predicted=(0,),
        )
        for label in range(1000)
        for position in range(each)
    )
    evidence = Evidence(
        seed=1, classes=tuple(f"c{i:03}" for i in range(1000)), judged=judged, judging_mutants_per_seed=1, executions=20_000
    )
    metrics = {**RAN, "defect_rate": MetricsOnDemand(evidence, 0.95)["defect_rate"]}
    start = time.process_time()
    calls: list[float] = []

    def at(confidence: float) -> Mapping[str, Metric]:
        calls.append(confidence)
        return MetricsOnDemand(evidence, confidence)

    result = evaluate(policy_of(WORST), metrics, today=TODAY, candidate=MODEL, metrics_at=at)
    assert result.rules[0].status is status
    assert len(calls) <= 18  # the step-down's rounds, and one for what is left
    assert time.process_time() - start < 20  # on a quiet machine a tenth of it


SLICED = {
    "defect_rate": ("class", "family", "half"),
    "mutant_failure_rate": ("class", "family", "half"),
    "confident_error_rate": ("class", "family", "half"),
    "missed_positive_rate": ("class", "family", "half"),
    "long_tail_accuracy": ("class", "long_tail_kind"),
    "clean_accuracy": ("class",),
    "regression_rate": ("half",),
}
WHOLE = ("universal_mark_rate", "negative_flip_rate", "canary_recall", "long_tail_hit_rate")


def twenty_rules(limit: float) -> Policy:
    def rule(name: str) -> dict[str, object]:
        sign = ">" if CATALOGUE[name].higher_is_worse else "<"
        at = limit if CATALOGUE[name].higher_is_worse else 1 - limit
        return {"metric": name, "fail": f"{sign} {at}", "confidence": 0.95, "kind": "quality"}

    rules = [{**rule(name), "slice": {"by": by}} for name, slices in SLICED.items() for by in slices]
    return policy_of(*rules, *map(rule, WHOLE))


def drawn(rng: np.random.Generator, rate: float, special: float | None = None, n: int = 200) -> At:
    """Counts of every limit of ``twenty_rules``, each with the same true rate of failures; one of them with a ``special`` one."""
    keys = [(name, by, part) for name, slices in SLICED.items() for by in slices for part in "ab"] + [(name, "", "") for name in WHOLE]
    rates = np.full(len(keys), rate)
    if special is not None:
        rates[0] = special
    failures = dict(zip(keys, rng.binomial(n, rates).tolist(), strict=True))

    def of(key: tuple[str, str, str], confidence: float) -> Metric:
        failed = failures[key]
        return share(key[0], failed if CATALOGUE[key[0]].higher_is_worse else n - failed, n, confidence)

    def at(confidence: float) -> dict[str, Metric]:
        found = {}
        for name, slices in SLICED.items():
            parts = {by: {part: of((name, by, part), confidence) for part in "ab"} for by in slices}
            found[name] = of((name, slices[0], "a"), confidence).model_copy(update={"slices": parts})
        return found | {name: of((name, "", ""), confidence) for name in WHOLE}

    return at


def most(trials: int, share: float) -> int:
    """Of so many trials with this chance, as many as three standard deviations allow."""
    return math.floor(trials * share + 3 * math.sqrt(trials * share * (1 - share)))


def test_a_sound_model_exactly_at_all_twenty_limits_fails_by_chance_in_at_most_one_run_of_twenty() -> None:
    trials, rng, policy = 300, np.random.default_rng(11), twenty_rules(0.2)
    results = [judge(policy, drawn(rng, 0.2)) for _ in range(trials)]
    assert results[0].multiplicity is not None
    assert (len(policy.rules), results[0].multiplicity.tests) == (20, 36)
    failed = sum(result.verdict is Verdict.FAIL for result in results)
    assert failed <= most(trials, 0.05), failed
    by_chance = sum(any("but not once 36" in rule.explanation for rule in result.rules) for result in results)
    assert by_chance > trials / 5  # what would have failed without the allowance


def test_a_model_beyond_one_limit_of_twenty_passes_by_chance_in_at_most_one_run_of_twenty() -> None:
    trials, rng, policy = 300, np.random.default_rng(12), twenty_rules(0.2)
    passed = sum(judge(policy, drawn(rng, 0.02, special=0.201)).verdict is Verdict.PASS for _ in range(trials))
    assert passed <= most(trials, 0.05), passed
    good = sum(judge(policy, drawn(rng, 0.02)).verdict is Verdict.PASS for _ in range(30))
    assert good == 30


def test_a_model_far_beyond_one_limit_of_twenty_fails() -> None:
    rng, policy = np.random.default_rng(13), twenty_rules(0.2)
    assert all(judge(policy, drawn(rng, 0.02, special=0.4)).verdict is Verdict.FAIL for _ in range(30))
