"""Metrics beside the baseline's: values worked out by hand, what is known and what is new, and reasons where nothing can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gate.metrics import Evidence, compute
from gate.metrics.evidence import BaselineEvidence, BaselineSeed, CleanEvidence, JudgedSeed, LongTailEvidence
from gate.metrics.intervals import exact_quantile
from gate.metrics.reweighting import reweighted_mean
from gate.metrics.sequences import mean_sequence
from gate.result import Metric, Paired

COMPARED = ("defect_rate", "mutant_failure_rate", "confident_error_rate", "missed_positive_rate", "robust_margin_p05")


def candidate(name: str, label: int, slots: str, *, families: tuple[str, ...] = ("blur", "blur", "noise", "noise")) -> JudgedSeed:
    """Slot by slot: ``.`` right, ``x`` surely wrong, ``?`` unsurely wrong, ``!`` not finite, ``-`` not valid."""
    return JudgedSeed(
        seed_id=name,
        label=label,
        operators=families,
        families=families,
        severities=(0.2, 0.4, 0.6, 0.8),
        valid=tuple(slot != "-" for slot in slots),
        failed=tuple(slot in "x?!" for slot in slots),
        predicted=tuple(_predicted(label, slot) for slot in slots),
        confidence=tuple(_sure(slot) for slot in slots),
    )


def beside(label: int, slots: str) -> BaselineSeed:
    """The same of the baseline."""
    return BaselineSeed(
        failed=tuple(slot in "x?!" for slot in slots),
        predicted=tuple(_predicted(label, slot) for slot in slots),
        confidence=tuple(_sure(slot) for slot in slots),
    )


def _predicted(label: int, slot: str) -> int:
    return -1 if slot in "!-" else label if slot == "." else 1 - label


def _sure(slot: str) -> float:
    return {".": 0.99, "x": 0.95, "?": 0.6}.get(slot, 0.0)


SEEDS = {  # candidate, baseline
    "a": (0, "xx..", "x..."),  # one known, one new
    "b": (0, "....", "...x"),  # the baseline alone
    "c": (1, "?..-", "x..-"),  # known, though less sure
    "d": (1, "..!.", "...."),  # new
    "e": (0, "x...", "?..."),  # known; surely wrong only now
    "f": (0, "....", None),  # the baseline misreads the seed input: no pair
}


def evidence(**more: Any) -> Evidence:
    given: dict[str, Any] = {
        "seed": 3,
        "classes": ("cat", "truck"),
        "positive": (0,),
        "judging_mutants_per_seed": 4,
        "judged": tuple(candidate(name, label, ours) for name, (label, ours, _) in SEEDS.items()),
        "baseline": BaselineEvidence(judged={name: beside(label, said) for name, (label, _, said) in SEEDS.items() if said is not None}),
        "executions": 24,
    }
    return Evidence(**{**given, **more})


def paired(metric: Metric) -> Paired:
    assert metric.paired is not None, metric.paired_reason
    return metric.paired


def test_a_rate_rises_by_what_the_candidate_fails_more_on_the_same_seed_inputs() -> None:
    metric = compute(evidence())["defect_rate"]
    found = paired(metric)
    # of a to e the candidate fails a, c, d, e and the baseline a, b, c, e
    assert (found.n, found.candidate, found.baseline, found.rise) == (5, 0.8, 0.8, 0.0)
    assert (found.lower, found.upper) == pytest.approx(reweighted_mean(np.array([0.0, -1, 0, 1, 0]), 0.95, support=(-1.0, 1.0)))
    assert found.relative == 0
    assert found.confidence == 0.95
    assert metric.value == pytest.approx(4 / 6), "the metric itself is over all seed inputs that were judged"


def test_new_are_the_failures_that_the_baseline_does_not_have_on_the_same_mutant() -> None:
    metrics = compute(evidence())
    # a has a second failure, and d one, which the baseline lacks
    assert paired(metrics["defect_rate"]).new == 0.4
    assert paired(metrics["defect_rate"]).new_upper == pytest.approx(reweighted_mean(np.array([1.0, 0, 0, 1, 0]), 0.95)[1])
    assert paired(metrics["mutant_failure_rate"]).new == pytest.approx((1 / 4 + 1 / 4) / 5)


def test_a_mean_is_compared_by_seed_input_whatever_its_number_of_valid_mutants() -> None:
    found = paired(compute(evidence())["mutant_failure_rate"])
    ours, theirs = np.array([1 / 2, 0, 1 / 3, 1 / 4, 1 / 4]), np.array([1 / 4, 1 / 4, 1 / 3, 0, 1 / 4])
    assert found.candidate == pytest.approx(ours.mean())
    assert found.baseline == pytest.approx(theirs.mean())
    assert (found.lower, found.upper) == pytest.approx(reweighted_mean(ours - theirs, 0.95, support=(-1.0, 1.0)))
    assert found.relative == pytest.approx(ours.mean() / theirs.mean() - 1)
    assert found.relative_lower is not None
    assert found.relative_lower < found.relative


def test_each_metric_knows_a_failure_by_its_own_measure() -> None:
    metrics = compute(evidence())
    sure = paired(metrics["confident_error_rate"])
    # surely wrong: the candidate on a and e; the baseline on a (slot 0), b and c. New: a's second, and e's, which the baseline doubts.
    assert (sure.candidate, sure.baseline, sure.new) == (0.4, pytest.approx(0.6), 0.4)
    missed = paired(metrics["missed_positive_rate"])
    assert (missed.n, missed.candidate, missed.baseline, missed.new) == (3, pytest.approx(2 / 3), 1.0, pytest.approx(1 / 3))


def test_margins_are_compared_by_percentiles_whose_intervals_hold_together() -> None:
    found = paired(compute(evidence())["robust_margin_p05"])
    ours, theirs = np.array([0.2, 1, 0.2, 0.6, 0.2]), np.array([0.2, 0.8, 0.2, 1, 0.2])
    mine, yours = (exact_quantile(values, 5, 0.975, support=(0.0, 1.0)) for values in (ours, theirs))
    assert (found.candidate, found.baseline, found.rise) == (0.2, 0.2, 0.0)
    assert (found.lower, found.upper) == (mine[0] - yours[1], mine[1] - yours[0])
    assert found.new == 0.4, "of a the weakest failure is known"


def test_the_two_intervals_of_a_margin_share_the_error() -> None:
    random = np.random.default_rng(4)
    severities, fails = random.random((2, 300)).round(3), random.random((2, 300)) < 0.5
    rows = [
        JudgedSeed(
            seed_id=str(seed),
            label=0,
            operators=("blur", "noise"),
            families=("blur", "noise"),
            severities=tuple(severities[:, seed].tolist()),
            valid=(True, True),
            failed=(bool(fails[0, seed]), False),
            predicted=(int(fails[0, seed]), 0),
            confidence=(0.9, 0.9),
        )
        for seed in range(300)
    ]
    said = {
        str(seed): BaselineSeed(failed=(False, bool(fails[1, seed])), predicted=(0, int(fails[1, seed])), confidence=(0.9, 0.9))
        for seed in range(300)
    }
    given = evidence(judged=tuple(rows), judging_mutants_per_seed=2, baseline=BaselineEvidence(judged=said))
    found = paired(compute(given)["robust_margin_p05"])
    ours, theirs = (exact_quantile(np.where(fails[i], severities[i], 1.0), 5, 0.975, support=(0.0, 1.0)) for i in (0, 1))
    assert (found.lower, found.upper) == (ours[0] - theirs[1], ours[1] - theirs[0])
    assert ours != exact_quantile(np.where(fails[0], severities[0], 1.0), 5, 0.95, support=(0.0, 1.0))


def test_slices_are_compared_in_themselves() -> None:
    metrics = compute(evidence())
    by_class = metrics["defect_rate"].slices["class"]
    assert {name: (paired(part).n, paired(part).candidate, paired(part).baseline) for name, part in by_class.items()} == {
        "cat": (3, pytest.approx(2 / 3), 1.0),
        "truck": (2, 1.0, 0.5),
    }
    by_family = metrics["defect_rate"].slices["family"]
    # noise: the candidate fails on d, the baseline on b
    assert (paired(by_family["noise"]).candidate, paired(by_family["noise"]).baseline, paired(by_family["noise"]).new) == (0.2, 0.2, 0.2)
    assert paired(by_family["blur"]).new == 0.2
    halves = metrics["mutant_failure_rate"].slices["half"]
    assert sum(paired(part).n for part in halves.values() if part.paired) == 5


def test_a_slice_without_a_pair_says_so() -> None:
    said = {name: beside(label, theirs) for name, (label, _, theirs) in SEEDS.items() if theirs is not None and label == 0}
    slices = compute(evidence(baseline=BaselineEvidence(judged=said)))["defect_rate"].slices["class"]
    assert slices["cat"].paired is not None
    assert slices["cat"].paired_reason is None
    assert slices["truck"].paired is None
    assert "no pair" in (slices["truck"].paired_reason or "")


def test_a_policy_that_judges_by_fewer_mutants_takes_the_first_slots_of_the_baseline_too() -> None:
    columns = ("operators", "families", "severities", "valid", "failed", "predicted", "confidence")
    fewer = tuple(one.model_copy(update={name: getattr(one, name)[:2] for name in columns}) for one in evidence().judged)
    found = paired(compute(evidence(judged=fewer, judging_mutants_per_seed=2))["defect_rate"])
    assert (found.candidate, found.baseline, found.new) == (pytest.approx(0.6), pytest.approx(0.6), pytest.approx(0.2))


def test_intervals_hold_at_any_time_where_the_campaign_may_stop_early() -> None:
    metrics = compute(evidence(decide="early"))
    found = paired(metrics["defect_rate"])
    assert (found.lower, found.upper) == pytest.approx(mean_sequence(np.array([0.0, -1, 0, 1, 0]), 0.95, support=(-1.0, 1.0)))
    assert (found.new_lower, found.new_upper) == pytest.approx(mean_sequence(np.array([1.0, 0, 0, 1, 0]), 0.95))
    margins = paired(metrics["robust_margin_p05"])
    at_the_end = paired(compute(evidence())["robust_margin_p05"])
    assert margins.rise == at_the_end.rise
    assert margins.lower is not None
    assert at_the_end.lower is not None
    assert margins.lower <= at_the_end.lower


def test_the_level_is_the_one_that_was_asked_for() -> None:
    wide, narrow = (paired(compute(evidence(), confidence=level)["defect_rate"]) for level in (0.99, 0.8))
    assert (wide.confidence, narrow.confidence) == (0.99, 0.8)
    assert wide.lower is not None
    assert narrow.lower is not None
    assert wide.lower < narrow.lower


def test_without_a_failure_of_the_baseline_there_is_no_relative_rise_and_an_end_that_nothing_bounds_is_left_open() -> None:
    said = {name: beside(label, "....") for name, (label, *_) in SEEDS.items()}
    found = paired(compute(evidence(baseline=BaselineEvidence(judged=said)))["defect_rate"])
    assert found.baseline == 0
    assert (found.relative, found.relative_lower, found.relative_upper) == (None, None, None)
    margins = paired(compute(evidence())["robust_margin_p05"])
    assert margins.relative == 0
    assert margins.relative_upper is None, "with so few seed inputs the baseline's margin may be 0"


LABELS = (0, 0, 1, 1, 1)
ACCURACIES = {
    "clean": CleanEvidence(labels=LABELS, correct=(True, False, True, False, False)),
    "long_tail": LongTailEvidence(labels=LABELS, predicted=(0, 1, 1, 0, -1), kinds=("fog", "fog", "dusk", "dusk", "dusk")),
    "baseline": BaselineEvidence(correct=(True, True, False, False, True), long_tail=(0, 0, 0, 0, 1)),
}


@pytest.mark.parametrize("name", ["clean_accuracy", "long_tail_accuracy"])
def test_an_accuracy_drops_by_what_flips_and_what_both_misread_counts_as_right(name: str) -> None:
    metric = compute(evidence(**ACCURACIES))[name]
    found = paired(metric)
    assert (found.n, found.candidate, found.baseline, found.rise) == (5, 0.4, 0.6, pytest.approx(-0.2))
    assert (found.lower, found.upper) == pytest.approx(reweighted_mean(np.array([0.0, -1, 1, 0, -1]), 0.95, support=(-1.0, 1.0)))
    assert found.new == pytest.approx(0.6)
    trucks = paired(metric.slices["class"]["truck"])
    assert (trucks.n, trucks.candidate, trucks.baseline, trucks.new) == (
        3,
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
        pytest.approx(2 / 3),
    )


def test_kinds_of_the_long_tail_set_are_compared() -> None:
    kinds = compute(evidence(**ACCURACIES))["long_tail_accuracy"].slices["long_tail_kind"]
    assert {name: (paired(part).n, paired(part).rise) for name, part in kinds.items()} == {"fog": (2, -0.5), "dusk": (3, 0.0)}


def test_accuracies_are_measured_before_anything_is_decided_so_that_deciding_early_does_not_widen_them() -> None:
    early, late = (paired(compute(evidence(**ACCURACIES, decide=decide))["clean_accuracy"]) for decide in ("early", "end"))
    assert early == late


@pytest.mark.parametrize(
    ("given", "name", "value", "new"),
    [
        ({"crashes": 7, "baseline": {"crash_defects": 2, "known_crashes": 2}}, "crashes", 7, 0),
        ({"crashes": 7, "baseline": {"crash_defects": 2, "known_crashes": 1}}, "crashes", 7, 6),
        ({"crashes": 1, "baseline": {"crash_defects": 2, "known_crashes": 1}}, "crashes", 1, 1),
        ({"crashes": 0, "baseline": {}}, "crashes", 0, 0),
        ({"nonfinite_outputs": 3, "baseline": {"nonfinite_defects": 3, "known_nonfinite": 0}}, "nonfinite_outputs", 3, 3),
    ],
)
def test_of_counts_what_the_baseline_has_too_is_known_and_there_is_no_interval(
    given: dict[str, Any], name: str, value: int, new: int
) -> None:
    found = paired(compute(evidence(**{**given, "baseline": BaselineEvidence(**given["baseline"])}))[name])
    assert (found.candidate, found.baseline, found.rise, found.new, found.n) == (value, value - new, new, new, value)
    assert (found.lower, found.upper, found.confidence) == (None, None, None)


def test_samples_that_neither_model_answers_are_known() -> None:
    given = {
        "clean": CleanEvidence(labels=LABELS, correct=(True, True, True, False, False), nonfinite=2),
        "long_tail": LongTailEvidence(labels=(0, 1, 1), predicted=(-1, -1, 1)),
        "baseline": BaselineEvidence(correct=(True,) * 5, long_tail=(-1, 1, -1), nonfinite=1),
    }
    found = paired(compute(evidence(**given))["nonfinite_outputs"])
    assert (found.candidate, found.new) == (4, 2)


def test_what_nobody_asked_about_is_not_said_to_be_new() -> None:
    metric = compute(evidence(crashes=7, baseline=BaselineEvidence()))["crashes"]
    assert metric.paired is None
    assert "not asked" in (metric.paired_reason or "")


def test_without_a_baseline_there_is_nothing_to_explain() -> None:
    metrics = compute(evidence(baseline=None))
    assert all(metric.paired is None and metric.paired_reason is None for metric in metrics.values())


def test_a_baseline_that_could_not_be_used_leaves_its_reason_with_metrics_and_slices() -> None:
    metrics = compute(evidence(baseline=None, baseline_reason="it is gone", **{k: v for k, v in ACCURACIES.items() if k != "baseline"}))
    for name in (*COMPARED, "clean_accuracy", "long_tail_accuracy", "crashes"):
        assert metrics[name].paired_reason == "it is gone", name
    assert metrics["defect_rate"].slices["class"]["cat"].paired_reason == "it is gone"
    assert metrics["executions"].paired_reason is None


def test_what_is_missing_of_the_baseline_is_said_where_it_matters() -> None:
    said = BaselineEvidence(correct=(True,) * 5, reason="the budget ended")
    metrics = compute(evidence(**{**ACCURACIES, "baseline": said}))
    assert paired(metrics["clean_accuracy"]).n == 5
    assert metrics["clean_accuracy"].paired_reason is None
    assert metrics["long_tail_accuracy"].paired_reason == metrics["defect_rate"].paired_reason == "the budget ended"


@pytest.mark.parametrize("decide", ["end", "early"])
@pytest.mark.parametrize("fails", ["....", "xxxx", "----", "!!!!"])
@pytest.mark.parametrize("theirs", ["....", "xxxx", "!!!!"])
def test_nothing_divides_by_zero_with_one_sample_all_failures_or_none(decide: Any, fails: str, theirs: str) -> None:
    given = evidence(judged=(candidate("a", 0, fails),), baseline=BaselineEvidence(judged={"a": beside(0, theirs)}), decide=decide)
    for name in COMPARED:
        metric = compute(given)[name]
        assert (metric.paired is None) == (fails == "----")
        assert metric.paired is None or -1 <= paired(metric).rise <= 1
