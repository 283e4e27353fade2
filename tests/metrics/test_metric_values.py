"""Every metric against values worked out by hand, and on inputs where a careless formula divides by zero."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gate.metrics import CATALOGUE, Evidence, compute
from gate.metrics.evidence import CleanEvidence, CoverageEvidence, JudgedSeed, LongTailEvidence, RegressionEvidence, SearchDefect
from gate.metrics.sequences import mean_sequence

NAMES = [
    "defect_density",
    "defects_per_1k_executions",
    "defect_rate",
    "mutant_failure_rate",
    "confident_error_rate",
    "missed_positive_rate",
    "coverage_gain",
    "coverage_gain_per_iteration",
    "long_tail_hit_rate",
    "regression_rate",
    "canary_recall",
    "clean_accuracy",
    "long_tail_accuracy",
    "negative_flip_rate",
    "flips_per_mistake",
    "robust_margin_p05",
    "universal_mark_rate",
    "root_causes",
    "crashes",
    "hangs",
    "nonfinite_outputs",
    "backend_disagreements",
    "flaky_findings",
    "preflight_faults",
    "executions",
]


def evidence(**more: Any) -> Evidence:
    return Evidence(**{"seed": 3, "classes": ("cat", "truck"), **more})


def judged(name: str, label: int, mutants: list[tuple[str, float, bool, bool]]) -> JudgedSeed:
    """Mutants as (family, severity, valid, failed)."""
    return JudgedSeed(
        seed_id=name,
        label=label,
        operators=tuple(family for family, *_ in mutants),
        families=tuple(family for family, *_ in mutants),
        severities=tuple(severity for _, severity, *_ in mutants),
        valid=tuple(valid for *_, valid, _ in mutants),
        failed=tuple(failed for *_, failed in mutants),
        predicted=tuple(1 - label if failed else label for *_, failed in mutants),
    )


FOUR = (
    judged("a", 0, [("blur", 0.2, True, True), ("noise", 0.5, True, True), ("blur", 0.9, True, False)]),
    judged("b", 0, [("blur", 0.3, True, False), ("noise", 0.4, True, False), ("noise", 0.8, True, False)]),
    judged("c", 1, [("blur", 0.6, True, True), ("noise", 0.1, False, True), ("blur", 0.7, True, False)]),
    judged("d", 1, [("noise", 0.1, False, True), ("noise", 0.1, False, True), ("blur", 0.1, False, False)]),
)


def exact(k: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    bounds = stats.binomtest(k, n).proportion_ci(confidence, method="exact")
    return bounds.low, bounds.high


def defects(*seed_ids: str, **more: Any) -> tuple[SearchDefect, ...]:
    return tuple(SearchDefect(id=f"d-{i}", seed_id=seed, label=0, predicted=1, natural=True, **more) for i, seed in enumerate(seed_ids))


def test_every_name_of_the_catalogue_comes_back_with_its_unit_and_a_value_or_a_reason() -> None:
    for given in (evidence(), evidence(judged=FOUR, judging_mutants_per_seed=3, executions=12, preflight_faults=0)):
        metrics = compute(given)
        assert list(metrics) == list(CATALOGUE)
        assert set(metrics) == set(NAMES)
        for name, metric in metrics.items():
            assert metric.unit == CATALOGUE[name].unit
            assert (metric.value is None) == (metric.reason is not None)
            assert metric.value is None or math.isfinite(metric.value)


def test_the_catalogue_explains_every_metric() -> None:
    for spec in CATALOGUE.values():
        assert all(text.endswith(".") and len(text) > 20 for text in (spec.meaning, spec.next_step, spec.to_measure)), spec.name
    assert CATALOGUE["defect_density"].never_quality


def test_defect_rate_counts_seed_inputs_with_a_valid_failing_mutant() -> None:
    metric = compute(evidence(judged=FOUR, judging_mutants_per_seed=3))["defect_rate"]
    # a and c fail, b holds, d has no valid mutant and says nothing
    assert (metric.value, metric.n) == (pytest.approx(2 / 3), 3)
    assert (metric.lower, metric.upper) == pytest.approx(exact(2, 3))
    assert metric.extra["seeds_without_valid_mutants"] == 1


def test_defect_rate_is_sliced_by_class_and_family() -> None:
    slices = compute(evidence(judged=FOUR, judging_mutants_per_seed=3))["defect_rate"].slices
    assert {name: (part.value, part.n) for name, part in slices["class"].items()} == {"cat": (0.5, 2), "truck": (1.0, 1)}
    # blur: a fails, b holds, c fails; noise: a fails, b holds (c's only noise mutant is invalid)
    assert {name: (part.value, part.n) for name, part in slices["family"].items()} == {"blur": (pytest.approx(2 / 3), 3), "noise": (0.5, 2)}
    assert (slices["class"]["cat"].lower, slices["class"]["cat"].upper) == pytest.approx(exact(1, 2))


def test_mutant_failure_rate_is_the_mean_over_seed_inputs_not_over_mutants() -> None:
    metric = compute(evidence(judged=FOUR, judging_mutants_per_seed=3))["mutant_failure_rate"]
    assert metric.value == pytest.approx((2 / 3 + 0 / 3 + 1 / 2) / 3)
    assert metric.extra["mutants"] == 8
    assert metric.slices["family"]["blur"].value == pytest.approx((1 / 2 + 0 + 1 / 2) / 3)
    assert metric.lower is not None
    assert metric.upper is not None
    assert 0 <= metric.lower < metric.value < metric.upper < 1


def test_a_recipe_of_two_families_belongs_to_both_slices() -> None:
    seeds = (judged("a", 0, [("noise+blur", 0.2, True, True)]), judged("b", 0, [("noise", 0.2, True, False)]))
    slices = compute(evidence(judged=seeds, judging_mutants_per_seed=1))["defect_rate"].slices["family"]
    assert {name: (part.value, part.n) for name, part in slices.items()} == {"blur": (1.0, 1), "noise": (0.5, 2)}


def test_seed_inputs_whose_mutants_did_not_all_run_are_left_out() -> None:
    cut = judged("e", 0, [("blur", 0.1, True, True)])
    metric = compute(evidence(judged=(*FOUR, cut), judging_mutants_per_seed=3))["defect_rate"]
    assert (metric.value, metric.n, metric.extra["seeds_incomplete"]) == (pytest.approx(2 / 3), 3, 1)
    alone = compute(evidence(judged=(cut,), judging_mutants_per_seed=3, stopped_early="the budget ended."))["defect_rate"]
    assert alone.value is None
    assert alone.reason == "the budget ended before any seed input had its 3 mutants (the run stopped early: the budget ended)"


def test_robust_margin_is_the_5th_percentile_of_the_smallest_failing_severity() -> None:
    # 40 seed inputs: 0.05 * 40 = 2, so the second smallest margin; an invalid mutant of severity 0.01 must not count
    seeds = [judged(f"s{i}", 0, [("blur", 0.9, True, False), ("blur", 0.01, False, True)]) for i in range(37)]
    seeds += [judged(f"f{i}", 0, [("blur", s, True, True), ("blur", 0.95, True, True)]) for i, s in enumerate((0.5, 0.3, 0.4))]
    metric = compute(evidence(judged=tuple(seeds), judging_mutants_per_seed=2))["robust_margin_p05"]
    assert (metric.value, metric.n) == (0.4, 40)
    # ranks: the 2.5 % and 97.5 % points of Binomial(40, 0.05) are 0 and 5
    assert (stats.binom.ppf(0.025, 40, 0.05), stats.binom.ppf(0.975, 40, 0.05)) == (0, 5)
    assert (metric.lower, metric.upper) == (0.0, 1.0)


@pytest.mark.parametrize("n", [1, 19, 20, 21, 140, 141])
def test_the_percentile_is_the_least_margin_that_a_twentieth_does_not_exceed(n: int) -> None:
    margins = np.linspace(0.01, 0.99, n)
    seeds = tuple(judged(f"s{i}", 0, [("blur", float(s), True, True)]) for i, s in enumerate(margins))
    value = compute(evidence(judged=seeds, judging_mutants_per_seed=1))["robust_margin_p05"].value
    assert value == next(float(s) for s in margins if 100 * int((margins <= s).sum()) >= 5 * n)


def test_seed_inputs_that_never_fail_have_margin_1() -> None:
    seeds = tuple(judged(f"s{i}", 0, [("blur", 0.5, True, False)]) for i in range(30))
    metrics = compute(evidence(judged=seeds, judging_mutants_per_seed=1))
    assert metrics["robust_margin_p05"].value == 1.0
    assert metrics["defect_rate"].value == 0.0
    assert metrics["defect_rate"].upper == pytest.approx(exact(0, 30)[1])
    assert metrics["mutant_failure_rate"].upper == pytest.approx(1 - 0.025 ** (1 / 30))  # no certainty out of 30 seed inputs


def test_all_failing_gives_a_rate_of_one_with_room_below() -> None:
    seeds = tuple(judged(f"s{i}", 0, [("blur", 0.5, True, True)]) for i in range(10))
    metrics = compute(evidence(judged=seeds, judging_mutants_per_seed=1))
    assert (metrics["defect_rate"].value, metrics["defect_rate"].upper) == (1.0, 1.0)
    assert metrics["mutant_failure_rate"].value == 1.0
    assert (metrics["mutant_failure_rate"].lower or 0) < 0.75


def test_defect_density_is_per_device_hour_and_draws_all_searched_seed_inputs() -> None:
    searched = tuple(f"s{i}" for i in range(50))
    found = defects(*["s0"] * 6, *["s1"] * 2, "s2", "s3")
    given = evidence(search_executions=400, search_device_seconds=720.0, searched_seed_ids=searched, defects=found)
    density, per_1k = compute(given)["defect_density"], compute(given)["defects_per_1k_executions"]
    assert (density.value, density.n) == (pytest.approx(50.0), 50)  # 10 in a fifth of an hour
    assert per_1k.value == pytest.approx(25.0)
    # an independent reweighting of all 50 seed inputs, not of the four that failed, with a 51st which has none, or five more than the worst
    counts = np.array([6, 2, 1, 1] + [0] * 46)
    weights = np.random.default_rng(0).dirichlet(np.ones(51), 100_000)
    low, high = (np.quantile(weights @ np.append(counts, one), at) * 50 / 0.2 for one, at in ((0, 0.025), (6 + 5, 0.975)))
    assert (density.lower, density.upper) == (pytest.approx(low, rel=0.02), pytest.approx(high, rel=0.02))
    assert (per_1k.lower or 0) / (density.lower or 1) == pytest.approx(0.5)


def test_a_search_that_finds_nothing_has_an_upper_bound() -> None:
    given = evidence(search_executions=1000, search_device_seconds=3600.0, searched_seed_ids=("a", "b"))
    density = compute(given)["defect_density"]
    assert (density.value, density.lower, density.upper) == (0.0, 0.0, pytest.approx(2 * 5 * (1 - 0.025**0.5)))


@pytest.mark.parametrize(("executions", "seconds"), [(0, 0.0), (0, 10.0), (10, 0.0)])
def test_a_search_without_time_or_executions_has_no_density(executions: int, seconds: float) -> None:
    metric = compute(evidence(search_executions=executions, search_device_seconds=seconds, searched_seed_ids=("a",)))["defect_density"]
    assert metric.value is None
    assert "ran no mutant" in (metric.reason or "")


def test_coverage_gain_and_gain_per_iteration_of_the_policys_criterion() -> None:
    coverage = {
        "kmnc": CoverageEvidence(initial=0.40, final=0.52, after_first=0.49, first=1000),
        "nbc": CoverageEvidence(initial=0.1, final=0.9, after_first=0.8, first=1000),
    }
    metrics = compute(evidence(coverage=coverage, criterion="kmnc", search_executions=5000))
    assert (metrics["coverage_gain"].value, metrics["coverage_gain"].n) == (pytest.approx(0.12), 5000)
    assert metrics["coverage_gain"].extra == {"initial": 0.40, "final": 0.52}
    assert metrics["coverage_gain_per_iteration"].value == pytest.approx(0.09 / 1000)
    assert metrics["coverage_gain_per_iteration"].n == 1000


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"criterion": None, "search_executions": 9}, "no coverage criterion was measured"),
        ({"criterion": "snac", "search_executions": 9}, "measured: nc"),
        ({"criterion": "nc", "search_executions": 0}, "ran no mutant"),
    ],
)
def test_coverage_that_was_not_measured_has_a_reason(more: dict[str, Any], reason: str) -> None:
    coverage = {"nc": CoverageEvidence(initial=0.4, final=0.4, after_first=0.4, first=0)}
    metrics = compute(evidence(coverage=coverage, **more))
    for name in ("coverage_gain", "coverage_gain_per_iteration"):
        assert metrics[name].value is None
        assert reason in (metrics[name].reason or "")


def long_tail(errors: int, right: int = 30, **more: Any) -> LongTailEvidence:
    return LongTailEvidence(labels=(0,) * (errors + right), predicted=(1,) * errors + (0,) * right, **more)


def test_long_tail_hit_rate_is_the_share_of_natural_defects_that_recur() -> None:
    found = (
        *defects(*"abcdefgh", recurs_in_long_tail=True),
        *(defect.model_copy(update={"id": f"x-{i}"}) for i, defect in enumerate(defects("a", "i", "j", "k", recurs_in_long_tail=False))),
        SearchDefect(id="adv", seed_id="z", label=0, predicted=1, natural=False, recurs_in_long_tail=True),
        SearchDefect(id="nan", seed_id="z", label=0, predicted=None, natural=True),
    )
    metric = compute(evidence(defects=found, long_tail=long_tail(20, chance=0.25, radius=0.4)))["long_tail_hit_rate"]
    assert (metric.value, metric.n) == (pytest.approx(8 / 12), 12)
    assert metric.extra == {"long_tail_errors": 20, "seed_inputs": 11, "undecided": 1, "chance": 0.25, "radius": 0.4}
    assert metric.lower is not None
    assert metric.upper is not None
    assert 0.2 < metric.lower < 8 / 12 < metric.upper <= 1.0


@pytest.mark.parametrize(
    ("found", "tail", "reason"),
    [
        (10, None, "no long-tail set was given"),
        (9, long_tail(20), "found 9 natural defects; 10 are needed"),
        (10, long_tail(19), "gets 19 long-tail samples wrong; 20 are needed"),
        (10, long_tail(20, reason="the features are not finite"), "the features are not finite"),
    ],
)
def test_long_tail_hit_rate_is_null_where_too_little_can_be_compared(found: int, tail: LongTailEvidence | None, reason: str) -> None:
    given = evidence(defects=defects(*map(str, range(found)), recurs_in_long_tail=True), long_tail=tail)
    metric = compute(given)["long_tail_hit_rate"]
    assert metric.value is None
    assert reason in (metric.reason or "")


def test_too_few_errors_are_the_reason_where_for_that_nothing_was_compared() -> None:
    given = evidence(defects=defects(*map(str, range(45)), recurs_in_long_tail=None), long_tail=long_tail(19))
    assert "gets 19 long-tail samples wrong; 20 are needed" in (compute(given)["long_tail_hit_rate"].reason or "")


def test_long_tail_hit_rate_appears_at_exactly_ten_defects_and_twenty_errors() -> None:
    given = evidence(defects=defects(*map(str, range(10)), recurs_in_long_tail=True), long_tail=long_tail(20))
    metric = compute(given)["long_tail_hit_rate"]
    assert metric.value == 1.0
    assert (metric.lower or 0) < 0.75  # ten of ten is no certainty


def test_regression_rate_counts_what_recurs_and_slices_by_root_cause() -> None:
    earlier = RegressionEvidence(
        source="runs/1",
        recurs={"d-1": "file", "d-2": "seed", "d-3": "fresh", "d-4": None, "d-5": None},
        root_cause={"d-1": "rc-a", "d-2": "rc-a", "d-3": "rc-b", "d-4": "rc-b", "d-5": "rc-c"},
    )
    metric = compute(evidence(regression=earlier))["regression_rate"]
    assert (metric.value, metric.n) == (pytest.approx(0.6), 5)
    assert (metric.lower, metric.upper) == pytest.approx(exact(3, 5))
    assert metric.extra == {"file": 1, "seed": 1, "fresh": 1}
    assert {name: part.value for name, part in metric.slices["root_cause"].items()} == {"rc-a": 1.0, "rc-b": 0.5, "rc-c": 0.0}
    memorised = earlier.model_copy(update={"became": {"rc-a": "still there", "rc-b": "memorised", "rc-c": "fixed"}})
    assert compute(evidence(regression=memorised))["regression_rate"].extra == {"file": 1, "seed": 1, "fresh": 1, "memorised": 1}


def test_regression_rate_without_an_earlier_run_or_defects_says_why() -> None:
    assert compute(evidence())["regression_rate"].reason == "no earlier run was given"
    assert compute(evidence(regression_reason="the tag names no run"))["regression_rate"].reason == "the tag names no run"
    empty = compute(evidence(regression=RegressionEvidence(source="x", recurs={})))["regression_rate"]
    assert (empty.value, empty.reason) == (None, "the earlier run has no confirmed defect")


def test_accuracies_with_their_slices() -> None:
    clean = CleanEvidence(labels=(0, 0, 0, 1), correct=(True, True, False, True))
    tail = LongTailEvidence(labels=(0, 1, 1, 0), predicted=(0, 0, 1, -1), kinds=("fog", "fog", "night", "night"))
    metrics = compute(evidence(clean=clean, long_tail=tail), confidence=0.9)
    assert (metrics["clean_accuracy"].value, metrics["clean_accuracy"].n, metrics["clean_accuracy"].confidence) == (0.75, 4, 0.9)
    assert (metrics["clean_accuracy"].lower, metrics["clean_accuracy"].upper) == pytest.approx(exact(3, 4, 0.9))
    assert metrics["clean_accuracy"].slices["class"]["cat"].value == pytest.approx(2 / 3)
    assert metrics["long_tail_accuracy"].value == 0.5  # an output that is not finite is wrong
    assert {name: part.value for name, part in metrics["long_tail_accuracy"].slices["long_tail_kind"].items()} == {"fog": 0.5, "night": 0.5}


def test_empty_sets_have_no_accuracy() -> None:
    empty = evidence(clean=CleanEvidence(labels=(), correct=()), long_tail=LongTailEvidence(labels=(), predicted=()))
    for name in ("clean_accuracy", "long_tail_accuracy"):
        assert compute(empty)[name].value is None


def test_classes_of_one_name_stay_apart() -> None:
    given = evidence(classes=("cat", "cat"), clean=CleanEvidence(labels=(0, 1, 7), correct=(True, False, True)))
    slices = compute(given)["clean_accuracy"].slices["class"]
    assert {name: part.value for name, part in slices.items()} == {"cat (0)": 1.0, "cat (1)": 0.0, "7": 1.0}


def test_counts_are_missing_where_nothing_ran_and_zero_where_something_did() -> None:
    names = ("root_causes", "nonfinite_outputs", "flaky_findings")
    idle = compute(evidence())
    assert [idle[name].value for name in names] == [None] * 3
    assert (idle["executions"].value, idle["preflight_faults"].value) == (0.0, None)
    busy = compute(evidence(executions=5, root_causes=2, nonfinite_outputs=1, preflight_faults=3))
    assert [busy[name].value for name in names] == [2.0, 1.0, 0.0]
    assert (busy["executions"].value, busy["preflight_faults"].value) == (5.0, 3.0)


def test_a_probe_that_breaks_the_model_before_the_first_mutant_counts() -> None:
    early = compute(evidence(crashes=1, nonfinite_outputs=2))
    assert (early["crashes"].value, early["nonfinite_outputs"].value) == (1.0, 2.0)
    assert early["executions"].value == 0.0


def test_the_same_evidence_gives_the_same_bytes_and_no_interval_is_drawn_by_lot() -> None:
    seeds = tuple(judged(f"s{i}", i % 2, [("blur", 0.5, True, i % 3 == 0), ("noise", 0.5, True, i % 4 == 0)]) for i in range(60))
    given = evidence(judged=seeds, judging_mutants_per_seed=2)

    def text(of: Evidence) -> str:
        return json.dumps({name: metric.model_dump(mode="json") for name, metric in compute(of).items()})

    assert text(given) == text(Evidence.model_validate_json(given.model_dump_json()))
    assert text(given) == text(given.model_copy(update={"seed": 4}))


EARLY = tuple(
    judged(f"s{i}", i % 2, [("blur", 0.1 + i / 200, True, i % 5 == 0), ("noise", 0.4, True, i % 20 == 0)]).model_copy(
        update={"confidence": (0.95, 0.8)}
    )
    for i in range(120)
)
JUDGING = ("defect_rate", "mutant_failure_rate", "confident_error_rate", "missed_positive_rate", "robust_margin_p05")


def test_a_run_that_decides_early_has_sequences_in_the_blind_order_for_all_that_the_judging_arm_measures_and_for_nothing_else() -> None:
    clean = CleanEvidence(labels=(0, 1) * 50, correct=(True, False) * 50)
    given = evidence(judged=EARLY, judging_mutants_per_seed=2, positive=(0, 1), clean=clean)
    early = given.model_copy(update={"decide": "early"})
    plain, looked_at = compute(given), compute(early)
    assert looked_at["clean_accuracy"] == plain["clean_accuracy"]
    for name in JUDGING:
        assert looked_at[name].value == plain[name].value
        assert (looked_at[name].lower, looked_at[name].upper) != (plain[name].lower, plain[name].upper), name
    failing = np.array([any(seed.failed) for seed in EARLY], dtype=float)
    assert (looked_at["defect_rate"].lower, looked_at["defect_rate"].upper) == mean_sequence(failing, 0.95)
    assert (looked_at["mutant_failure_rate"].lower, looked_at["mutant_failure_rate"].upper) == mean_sequence(
        np.array([np.mean(seed.failed) for seed in EARLY]), 0.95
    )
    for name, part in {"cat": 0, "truck": 1}.items():
        sliced = looked_at["defect_rate"].slices["class"][name]
        assert (sliced.lower, sliced.upper) == mean_sequence(failing[part::2], 0.95)
    blur = looked_at["defect_rate"].slices["family"]["blur"]
    assert (blur.lower, blur.upper) == mean_sequence(np.array([seed.failed[0] for seed in EARLY], dtype=float), 0.95)
    # What came first was looked at first: the order is part of the evidence.
    turned = compute(early.model_copy(update={"judged": EARLY[::-1]}))["defect_rate"]
    assert (turned.lower, turned.upper) == mean_sequence(failing[::-1], 0.95)
    assert turned.upper != looked_at["defect_rate"].upper


def test_a_run_that_ends_as_planned_does_not_depend_on_the_order() -> None:
    given = evidence(judged=EARLY, judging_mutants_per_seed=2, positive=(0,))
    turned = compute(given.model_copy(update={"judged": EARLY[::-1]}))
    for name, metric in compute(given).items():
        assert (metric.value, metric.lower, metric.upper) == (turned[name].value, turned[name].lower, turned[name].upper), name


def test_the_robust_margin_has_a_value_and_an_interval_for_every_class_and_family() -> None:
    margin = compute(evidence(judged=EARLY, judging_mutants_per_seed=2))["robust_margin_p05"]
    assert set(margin.slices) == set(CATALOGUE["robust_margin_p05"].slices) == {"class", "family", "half"}
    # Of 60 cats the third smallest: blur fails at every tenth of them, 0.1, 0.15, 0.2 ...
    assert (margin.slices["class"]["cat"].value, margin.slices["class"]["cat"].n) == (pytest.approx(0.2), 60)
    assert margin.slices["family"]["noise"].value == 0.4
    for parts in margin.slices.values():
        for part in parts.values():
            assert part.value is not None
            assert (part.lower if part.lower is not None else 2) <= part.value <= (part.upper or -1)


def test_a_higher_confidence_widens_every_interval() -> None:
    seeds = tuple(judged(f"s{i}", 0, [("blur", i / 300, True, i % 3 == 0)]) for i in range(300))
    given = evidence(
        judged=seeds,
        judging_mutants_per_seed=1,
        search_executions=10,
        search_device_seconds=1.0,
        searched_seed_ids=tuple("abcdefgh"),
        defects=defects("a", "a", "b"),
    )
    low, high = compute(given, confidence=0.8), compute(given, confidence=0.99)
    for name in ("defect_rate", "mutant_failure_rate", "robust_margin_p05", "defect_density"):
        assert high[name].confidence == 0.99
        assert (high[name].lower or 0) <= (low[name].lower or 0)
        assert (high[name].upper or 0) > (low[name].upper or 0)


def test_a_large_run_is_computed_in_seconds() -> None:
    rng = np.random.default_rng(0)
    seeds = tuple(
        judged(f"s{i}", i % 100, [("blur", float(rng.random()), True, bool(rng.random() < 0.1)) for _ in range(8)]) for i in range(4000)
    )
    import time

    for decide in ("end", "early"):
        start = time.process_time()
        compute(evidence(classes=tuple(map(str, range(100))), judged=seeds, judging_mutants_per_seed=8, decide=decide))
        assert time.process_time() - start < 5


def test_outputs_that_are_not_finite_count_wherever_they_come_up() -> None:
    clean = CleanEvidence(labels=(0, 1, 1), correct=(True, False, False), nonfinite=2)
    tail = LongTailEvidence(labels=(0, 1, 0), predicted=(0, -1, 1))
    found = compute(evidence(executions=5, nonfinite_outputs=4, clean=clean, long_tail=tail))["nonfinite_outputs"]
    assert (found.value, found.n) == (7, 11)
    assert compute(evidence(executions=5, clean=clean))["nonfinite_outputs"].value == 2
    # What was seen before anything was fuzzed is seen; nothing seen before anything was fuzzed is no zero.
    assert compute(evidence(clean=clean))["nonfinite_outputs"].value == 2
    assert compute(evidence(clean=clean.model_copy(update={"nonfinite": 0})))["nonfinite_outputs"].value is None


def test_crashes_are_counted_and_no_zero_is_told_of_a_run_that_ended_early() -> None:
    assert [compute(evidence(executions=5, crashes=number))["crashes"].value for number in (0, 2)] == [0.0, 2.0]
    stopped = compute(evidence(executions=5, crashes=2, stopped_early="The worker died."))
    assert stopped["crashes"].value == 2.0
    stopped = compute(evidence(executions=5, stopped_early="The worker died."))
    assert stopped["crashes"].value is None
    assert "The worker died" in str(stopped["crashes"].reason)


def test_a_run_that_came_to_its_end_has_no_hang_and_of_another_nobody_can_tell() -> None:
    assert compute(evidence(executions=5))["hangs"].value == 0.0
    assert compute(evidence())["hangs"].value is None
    assert compute(evidence(executions=5, stopped_early="The worker gave no answer."))["hangs"].value is None
