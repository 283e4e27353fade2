"""What flips from right to wrong: the mean of its parts, its slices, and an interval that holds."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from gate.metrics import Evidence, compute
from gate.metrics.compute import measure
from gate.metrics.evidence import BaselineEvidence, BaselineSeed, CleanEvidence, JudgedSeed, LongTailEvidence
from gate.metrics.reweighting import reweighted_mean

LABELS = (0, 0, 0, 0, 1, 1, 1, 1)


def judged(name: str, label: int, failed: tuple[bool, ...], families: tuple[str, ...] = ("blur", "noise")) -> JudgedSeed:
    return JudgedSeed(
        seed_id=name,
        label=label,
        operators=families,
        families=families,
        severities=(0.5,) * len(failed),
        valid=(True,) * len(failed),
        failed=failed,
        predicted=tuple(1 - label if one else label for one in failed),
        confidence=(0.9,) * len(failed),
    )


def beside(label: int, failed: tuple[bool, ...]) -> BaselineSeed:
    return BaselineSeed(failed=failed, predicted=tuple(1 - label if one else label for one in failed), confidence=(0.9,) * len(failed))


def evidence(**more: Any) -> Evidence:
    given: dict[str, Any] = {
        "seed": 1,
        "classes": ("cat", "truck"),
        "clean": CleanEvidence(labels=LABELS, correct=(True, True, True, False, True, True, False, False)),
        "long_tail": LongTailEvidence(labels=(0, 0, 1, 1), predicted=(1, 0, 0, -1), kinds=("fog", "fog", "fog", "dusk")),
        "judged": (judged("a", 0, (True, False)), judged("b", 0, (False, False)), judged("c", 1, (True, True))),
        "judging_mutants_per_seed": 2,
        "baseline": BaselineEvidence(
            correct=(True, True, False, True, True, True, True, False),
            long_tail=(0, 0, 0, 1),
            judged={"a": beside(0, (False, True)), "b": beside(0, (True, False)), "c": beside(1, (True, False))},
        ),
    }
    return Evidence(**{**given, **more})


def test_it_is_the_mean_of_the_shares_that_flip_among_clean_long_tail_and_judged_samples() -> None:
    metric = compute(evidence())["negative_flip_rate"]
    # clean: the fourth cat and the third truck, of eight; long-tail: the first and the last of four; judged: a half, none, and half of c
    assert metric.extra == {"clean": 2 / 8, "long_tail": 2 / 4, "judging": pytest.approx(1 / 3)}
    assert metric.value == pytest.approx((2 / 8 + 2 / 4 + 1 / 3) / 3)
    assert metric.n == 8 + 4, "judged seed inputs are clean samples, too"
    assert metric.lower is not None
    assert metric.upper is not None
    assert 0 <= metric.lower < (metric.value or 0) < metric.upper <= 1


def test_without_a_long_tail_set_it_has_two_parts() -> None:
    metric = compute(evidence(long_tail=None))["negative_flip_rate"]
    assert set(metric.extra) == {"clean", "judging"}
    assert (metric.value, metric.n) == (pytest.approx((2 / 8 + 1 / 3) / 2), 8)


def test_of_one_part_the_interval_is_its_own_and_of_several_it_is_narrower_than_their_mean() -> None:
    metric = compute(evidence())["negative_flip_rate"]
    fog = metric.slices["long_tail_kind"]["fog"]
    assert (fog.lower, fog.upper) == pytest.approx(reweighted_mean(np.array([1.0, 0, 0]), 0.95))
    parts = [np.array([1.0, 1, 0, 0, 0, 0, 0, 0]), np.array([1.0, 1, 0, 0]), np.array([0.5, 0, 0.5])]
    ends = [reweighted_mean(part, 0.95) for part in parts]
    above = [upper - float(part.mean()) for (_, upper), part in zip(ends, parts, strict=True)]
    assert metric.value is not None
    assert metric.upper == pytest.approx(metric.value + np.sqrt(np.square(above).sum()) / 3)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"judged": (), "judged_reason": "under another domain"}, "another domain"),
        ({"judged": ()}, "no judged seed input"),
        ({"long_tail": None, "long_tail_reason": "the budget ended before the long-tail set was compared"}, "long-tail set was compared"),
    ],
)
def test_a_rate_of_fewer_parts_would_be_another_rate(more: dict[str, Any], words: str) -> None:
    metric = compute(evidence(**more))["negative_flip_rate"]
    assert metric.value is None
    assert words in (metric.reason or "")


def test_a_part_that_the_baseline_was_not_run_on_is_missed() -> None:
    given = evidence().baseline
    assert given is not None
    for update in ({"long_tail": ()}, {"judged": {}}, {"correct": ()}):
        metric = compute(evidence(baseline=given.model_copy(update={**update, "reason": "there was no time"})))["negative_flip_rate"]
        assert (metric.value, metric.reason) == (None, "there was no time")


def test_it_is_sliced_by_class_family_and_kind() -> None:
    slices = compute(evidence())["negative_flip_rate"].slices
    by_class = {name: part.value for name, part in slices["class"].items()}
    assert by_class == {"cat": pytest.approx((1 / 4 + 1 / 2 + 1 / 4) / 3), "truck": pytest.approx((1 / 4 + 1 / 2 + 1 / 2) / 3)}
    assert {name: (part.value, part.n) for name, part in slices["family"].items()} == {
        "blur": (pytest.approx(1 / 3), 3),
        "noise": (pytest.approx(1 / 3), 3),
    }
    kinds = slices["long_tail_kind"]
    assert {name: (part.value, part.n) for name, part in kinds.items()} == {"fog": (pytest.approx(1 / 3), 3), "dusk": (1.0, 1)}


def test_more_mutants_of_the_same_kind_do_not_move_it() -> None:
    few = compute(evidence())["negative_flip_rate"].value
    given = evidence()
    assert given.baseline is not None
    more = tuple(one.model_copy(update={"seed_id": f"{one.seed_id}-{copy}"}) for copy in range(5) for one in given.judged)
    said = {f"{name}-{copy}": one for copy in range(5) for name, one in given.baseline.judged.items()}
    assert compute(evidence(judged=more, baseline=given.baseline.model_copy(update={"judged": said})))[
        "negative_flip_rate"
    ].value == pytest.approx(few)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"baseline": None}, "no baseline was given"),
        ({"baseline": None, "baseline_reason": "it tells 3 classes apart"}, "3 classes"),
        ({"baseline": BaselineEvidence(reason="the budget ended")}, "the budget ended"),
    ],
)
def test_without_the_baselines_answers_it_is_missing_and_says_why(more: dict[str, Any], words: str) -> None:
    metric = compute(evidence(**more))["negative_flip_rate"]
    assert metric.value is None
    assert words in (metric.reason or "")


def test_a_model_that_never_flips_has_an_upper_end_all_the_same() -> None:
    same = BaselineEvidence(correct=(True,) * 8, long_tail=(0, 0, 1, 1), judged={"a": beside(0, (True, False))})
    given = evidence(
        clean=CleanEvidence(labels=LABELS, correct=(True,) * 8),
        long_tail=LongTailEvidence(labels=(0, 0, 1, 1), predicted=(0, 0, 1, 1)),
        judged=(judged("a", 0, (True, False)),),
        baseline=same,
    )
    metric = compute(given)["negative_flip_rate"]
    assert (metric.value, metric.lower) == (0.0, 0.0)
    assert metric.upper is not None
    assert metric.upper > 0.3, "ten samples say little"


def drawn(random: np.random.Generator, decide: Literal["end", "early"]) -> tuple[Evidence, float]:
    """A run, and the rate that it estimates. Seed inputs differ in how often their mutants flip, and a misread one is not judged."""
    clean_rate, tail_rate, shape = 0.03, 0.1, (0.3, 4.0)
    labels = (0,) * 150
    flips = random.random(150) < clean_rate
    tail = random.random(40) < tail_rate
    rows, said = [], {}
    for place in np.flatnonzero(~flips)[:60].tolist():
        failed = tuple((random.random(4) < random.beta(*shape)).tolist())
        rows.append(judged(str(place), 0, failed, ("blur",) * 4))
        said[str(place)] = beside(0, (False,) * 4)
    given = Evidence(
        seed=0,
        classes=("cat", "truck"),
        clean=CleanEvidence(labels=labels, correct=tuple((~flips).tolist())),
        long_tail=LongTailEvidence(labels=(0,) * 40, predicted=tuple(tail.astype(int).tolist())),
        judged=tuple(rows),
        judging_mutants_per_seed=4,
        baseline=BaselineEvidence(correct=(True,) * 150, long_tail=(0,) * 40, judged=said),
        decide=decide,
    )
    return given, (clean_rate + tail_rate + shape[0] / sum(shape)) / 3


@pytest.mark.parametrize("decide", ["end", "early"])
def test_the_interval_holds_in_at_least_94_of_100_trials(decide: Literal["end", "early"]) -> None:
    trials = 400 if decide == "end" else 60
    held = 0
    for trial in range(trials):
        given, truth = drawn(np.random.default_rng(trial), decide)
        metric = measure("negative_flip_rate", given, 0.95)
        assert metric.lower is not None
        assert metric.upper is not None
        held += metric.lower <= truth <= metric.upper
    assert held >= 0.94 * trials


def test_flips_are_put_beside_the_mistakes_that_the_baseline_makes_on_the_same_samples() -> None:
    metrics = compute(evidence())
    # clean: two of eight; long-tail: the last two of four are wrong; judged: the second of a, the first of b and the first of c
    mistakes = (2 / 8 + 1 / 4 + 1 / 2) / 3
    found = metrics["flips_per_mistake"]
    assert found.extra == {"baseline_mistakes": pytest.approx(mistakes)}
    rate = metrics["negative_flip_rate"].value
    assert rate is not None
    assert found.value == pytest.approx(rate / mistakes)
    assert found.lower is None


def test_a_baseline_without_a_mistake_gives_nothing_to_divide_by() -> None:
    perfect = BaselineEvidence(
        correct=(True,) * 8,
        long_tail=(0, 0, 1, 1),
        judged={name: beside(label, (False, False)) for name, label in (("a", 0), ("b", 0), ("c", 1))},
    )
    found = compute(evidence(baseline=perfect))["flips_per_mistake"]
    assert found.value is None
    assert found.reason == "the baseline makes no mistake on the samples that both were run on"


def test_without_a_baseline_there_are_no_flips_per_mistake_either() -> None:
    found = compute(evidence(baseline=None))["flips_per_mistake"]
    assert (found.value, found.reason) == (None, "no baseline was given")
