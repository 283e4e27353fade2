"""Which rules a campaign that decides early goes on for."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import numpy as np
import pytest

from gate.metrics.catalogue import CATALOGUE
from gate.metrics.evidence import BaselineEvidence, BaselineSeed, CoverageEvidence, Evidence, JudgedSeed
from gate.metrics.on_demand import MetricsOnDemand
from gate.metrics.sequences import mean_sequence
from gate.policy.evaluate import evaluate
from gate.policy.schema import Policy
from gate.policy.settled import WHEN, at_a_look, unsettled, when
from gate.policy.threshold import Threshold
from gate.result import ModelInfo, RuleResult

CLASSES = ("cat", "dog")


def policy(*rules: dict[str, Any], **more: Any) -> Policy:
    numbered = [{"id": f"r{number}", **rule} for number, rule in enumerate(rules)]
    for rule in numbered:
        for key in {"fail", "warn"} & set(rule):
            sign, limit = rule[key].split()
            rule[key] = Threshold(sign, float(limit), rule[key])
    return Policy.model_validate({"version": 1, "name": "test", "decide": "early", "rules": numbered, **more}, strict=False)


@functools.cache
def judged(label: int, failing: bool, family: str = "blur") -> JudgedSeed:
    return JudgedSeed(
        seed_id=f"s-{label}-{failing}",
        label=label,
        operators=("box_blur",),
        families=(family,),
        severities=(0.5,),
        valid=(True,),
        failed=(failing,),
        predicted=(1 - label if failing else label,),
        confidence=(0.95,),
    )


def evidence(failing: Iterator[bool] | list[bool], labels: Iterator[int] | None = None, **more: Any) -> Evidence:
    rows = [judged(0 if labels is None else next(labels), one) for one in failing]
    given = {"executions": 3 * len(rows), "search_executions": 2 * len(rows), "preflight_faults": 0, **more}
    return Evidence(seed=0, classes=CLASSES, judged=tuple(rows), judging_mutants_per_seed=1, decide="early", **given)


def look(
    asked: Policy, seen: Evidence, *, paired: bool = False, reachable: Mapping[str, Mapping[str, int]] | None = None
) -> tuple[tuple[str, ...], tuple[RuleResult, ...]]:
    """(open rules, results of all) as of a look during the campaign."""
    strict = at_a_look(asked)
    at = functools.cache(lambda confidence: MetricsOnDemand(seen, confidence))
    candidate = ModelInfo(uri="m", resolved_uri="m")
    rules = evaluate(strict, at(0.95), today=date(2026, 1, 1), candidate=candidate, metrics_at=at).rules
    return unsettled(strict, rules, at(0.95), paired=paired, reachable=reachable or {}), rules


def still_open(asked: Policy, seen: Evidence, **more: Any) -> tuple[str, ...]:
    return look(asked, seen, **more)[0]


RATE = {"metric": "defect_rate", "fail": "> 0.20", "confidence": 0.95}


def test_every_metric_says_what_settles_it() -> None:
    assert set(WHEN) == set(CATALOGUE)


def test_a_rate_is_settled_once_its_whole_interval_lies_on_one_side() -> None:
    assert still_open(policy(RATE), evidence([False] * 60)) == ()
    assert still_open(policy(RATE), evidence([True] * 20)) == ()
    assert still_open(policy(RATE), evidence([False] * 8)) == ("r0",)
    assert still_open(policy(RATE), evidence([True, False, False, False, False] * 20)) == ("r0",)


def test_too_few_samples_keep_a_rule_open_whatever_they_say() -> None:
    assert still_open(policy({**RATE, "min_samples": 100}), evidence([True] * 60)) == ("r0",)
    assert still_open(policy({"metric": "robust_margin_p05", "warn": "< 0.1", "min_samples": 100}), evidence([False] * 60)) == ("r0",)


def test_a_point_value_settles_nothing_by_itself() -> None:
    point = policy({"metric": "defect_rate", "fail": "> 0.20"})
    assert still_open(point, evidence([False] * 8)) == ("r0",)
    assert still_open(point, evidence([False] * 60)) == ()
    assert still_open(policy({"metric": "defect_rate", "warn": "> 0.20"}), evidence([False] * 8)) == ()  # which blocks nothing


def test_a_class_that_could_still_be_judged_keeps_a_sliced_rule_open() -> None:
    sliced = policy({**RATE, "slice": {"by": "class"}, "min_samples": 20})
    one_of_ten = evidence([False] * 100, iter(([0] * 9 + [1]) * 10))
    both = evidence([False] * 160, iter([0, 1] * 80))
    assert still_open(sliced, one_of_ten, reachable={"class": {"cat": 180, "dog": 20}}) == ("r0",)
    assert still_open(sliced, one_of_ten, reachable={"class": {"cat": 180, "dog": 12}}) == ()  # it never gets as many as are needed
    assert still_open(sliced, both, reachable={"class": {"cat": 100, "dog": 100}}) == ()
    only = evidence([False] * 100)
    assert still_open(sliced, only, reachable={"class": {"cat": 100, "dog": 30}}) == ("r0",)  # a class that has not come up yet
    broken = evidence([True] * 40)
    assert still_open(sliced, broken, reachable={"class": {"cat": 100, "dog": 30}}) == ()  # one slice that breaches is enough


@pytest.mark.parametrize("missing", ["skip", "fail"])
def test_a_slice_that_is_still_missing_is_not_settled_by_what_missing_means(missing: str) -> None:
    sliced = policy({**RATE, "slice": {"by": "class"}, "min_samples": 50, "on_missing": missing})
    assert still_open(sliced, evidence([False] * 30), reachable={"class": {"cat": 60}}) == ("r0",)


def test_positive_classes_that_have_not_come_up_are_waited_for_and_none_named_is_not() -> None:
    rule = {"metric": "missed_positive_rate", "fail": "> 0.2", "confidence": 0.95, "on_missing": "skip"}
    named = policy(rule, positive=["dog"])
    assert still_open(named, evidence([False] * 60)) == ("r0",)
    assert when(policy(rule).rules[0], policy(rule), paired=False) == "elsewhere"
    assert still_open(policy(rule), evidence([False] * 60)) == ()
    sliced = policy({**rule, "slice": {"by": "class"}, "min_samples": 20}, positive=["dog"])
    both = evidence([False] * 120, iter([0, 1] * 60), positive=(1,))
    assert still_open(sliced, both, reachable={"class": {"cat": 100, "dog": 100}}) == ()  # cats can't be missed


def test_counts_and_effort_are_taken_as_they_are() -> None:
    enough = policy(RATE, {"metric": "executions", "fail": "< 300"}, {"metric": "crashes", "fail": "> 0"})
    assert still_open(enough, evidence([False] * 60)) == ("r1",)
    assert still_open(enough, evidence([False] * 120)) == ()
    assert still_open(enough, evidence([False] * 120, crashes=1)) == ()  # a breach of a quality rule is settled, too
    blocking = policy({"metric": "executions", "fail": "< 300", "on_breach": "fail"})
    assert still_open(blocking, evidence([False] * 60)) == ("r0",)  # more executions would mend it
    gain = policy({"metric": "coverage_gain", "fail": "<= 0"})
    flat = CoverageEvidence(initial=0.5, final=0.5, after_first=0.5, first=10)
    grown = flat.model_copy(update={"final": 0.6})
    assert still_open(gain, evidence([False] * 60, coverage={"kmnc": flat}, criterion="kmnc")) == ("r0",)
    assert still_open(gain, evidence([False] * 60, coverage={"kmnc": grown}, criterion="kmnc")) == ()


def test_what_is_measured_before_or_after_the_campaign_is_not_waited_for() -> None:
    elsewhere = [name for name, kind in WHEN.items() if kind == "elsewhere"]
    rules = [{"metric": name, "fail": "> 0.5"} for name in elsewhere]
    assert still_open(policy(*rules), evidence([False] * 20)) == ()


def test_a_comparison_waits_for_the_baseline_only_where_there_is_one() -> None:
    rule = {"metric": "defect_rate", "compare": {"to": "baseline", "max_rise": 0.1}, "confidence": 0.95, "on_missing": "skip"}
    assert still_open(policy(rule), evidence([False] * 60), paired=True) == ("r0",)
    assert still_open(policy(rule), evidence([False] * 60), paired=False) == ()


@pytest.mark.parametrize(("dogs", "still"), [(60, ()), (15, ("r0",))])
def test_a_class_that_has_too_few_pairs_yet_is_waited_for(dogs: int, still: tuple[str, ...]) -> None:
    """It is left out of the comparison so far, and the other class alone would settle the rule."""
    rule = {"metric": "defect_rate", "compare": {"max_rise": 0.3}, "confidence": 0.95, "slice": {"by": "class"}, "min_samples": 20}
    seen = evidence([False] * 120, iter([0, 1] * 60))
    rows = tuple(row.model_copy(update={"seed_id": f"{row.label}-{number // 2}"}) for number, row in enumerate(seen.judged))
    right = BaselineSeed(failed=(False,), predicted=(0,), confidence=(0.9,))
    both = {row.seed_id: right for row in rows if row.label == 0 or int(row.seed_id[2:]) < dogs}
    seen = seen.model_copy(update={"judged": rows, "baseline": BaselineEvidence(correct=(True,), judged=both)})
    reachable = {"class": {"cat": 60, "dog": 60}}
    assert still_open(policy(rule), seen, paired=True, reachable=reachable) == still


TRIALS, SEEDS, LIMIT = 300, 250, 0.2


@functools.cache
def outcomes(truth: float) -> dict[str, int]:
    """What ``defect_rate > 0.2`` is first settled as by looks after every seed input, in seeded trials of this true rate.

    The sequence is what is left of all intervals until then, so the last one tells whether any of them lay on one side, and halving finds
    the first. A metric's interval is that, widened to hold its value, so no look can settle what the sequence has not.
    """
    counts: dict[str, int] = {}
    for trial in range(TRIALS):
        failing = np.random.default_rng([7, trial]).random(SEEDS) < truth

        def apart(n: int, failing: np.ndarray = failing) -> bool:
            lower, upper = mean_sequence(failing[:n].astype(np.float64), 0.95)
            return lower > LIMIT or upper <= LIMIT

        became = "open"
        if apart(SEEDS):
            first = bisect.bisect_left(range(1, SEEDS + 1), True, key=apart) + 1
            open_rules, rules = look(policy(RATE), evidence(failing[:first].tolist()))
            assert not open_rules
            became = str(rules[0].status)
        counts[became] = counts.get(became, 0) + 1
    return counts


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "wrong"), [(0.2, "fail"), (0.2, "pass"), (0.15, "fail"), (0.19, "fail"), (0.21, "pass"), (0.25, "pass")])
def test_looking_after_every_seed_input_settles_at_most_one_in_twenty_wrongly(truth: float, wrong: str) -> None:
    """At most 5 %, with no slack for chance: fewer than 0.1 % of such sets of trials would show 28 or more of 300 where 5 % were true."""
    assert outcomes(truth).get(wrong, 0) <= 0.05 * TRIALS


def test_what_one_look_has_settled_in_a_clear_case_no_later_one_opens_again() -> None:
    for trial in range(4):
        failing = (np.random.default_rng([9, trial]).random(120) < 0.05).tolist()
        settled: list[str] = []
        for n in range(10, 121, 10):
            still, rules = look(policy(RATE), evidence(failing[:n]))
            if not still:
                settled.append(str(rules[0].status))
            else:
                assert not settled
        assert settled
        assert len(set(settled)) == 1
