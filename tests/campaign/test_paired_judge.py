"""The baseline on the candidate's inputs: the same bytes, each once, and nothing that goes wrong with it is the candidate's fault."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from known_model import CLASSES, NumpyWorker, Scene, fails_in_the_dark, images, reads_stripes

from gate import baseline
from gate.baseline import Baseline, BaselineModel
from gate.baseline_reading import need_a_reader
from gate.campaign.budget import Budget, BudgetSpent
from gate.campaign.deadline import Interrupted
from gate.campaign.judging import JudgingArm
from gate.campaign.supervisor import Refused
from gate.config import BudgetSettings, Settings
from gate.domains.image.image_set import ImageSet
from gate.errors import ConfigError, WorkerError
from gate.models.outputs import OutputKind
from gate.paired import PairedJudge, note_known
from gate.triage.allowance import Allowance


def image_set(x: np.ndarray, y: np.ndarray, ids: tuple[str, ...]) -> ImageSet:
    return ImageSet(x, y, None, tuple(map(str, range(len(x)))), CLASSES, (0.0, 255.0), "here", "sha256:0", 0, ids)


def misreads_third_class(x: np.ndarray) -> np.ndarray:
    raw = reads_stripes(x)
    third = raw.argmax(axis=1) == 2
    return np.where(third[:, None], np.roll(raw, 1, axis=1), raw)


class World:
    """A campaign on the known model that is over, and a baseline that answers in place of a worker."""

    def __init__(self, patch: pytest.MonkeyPatch, model: Callable[[np.ndarray], np.ndarray] = reads_stripes, **scene: Any) -> None:
        self.scene = Scene(**{"executions": 400, **scene})
        self.scene.run()
        self.worker = NumpyWorker(model)
        self.started = self.ended = 0
        self.trouble: Exception | None = None
        world = self

        @contextmanager
        def worker_of(*_: Any) -> Any:
            if world.trouble is not None:
                raise world.trouble
            world.started += 1
            yield Baseline(world.worker, OutputKind.LOGITS)
            world.ended += 1

        patch.setattr(baseline, "baseline_worker", worker_of)
        seeds = self.scene.seeds
        self.clean = image_set(seeds.x, seeds.labels, seeds.ids)
        x, y = images(12, seed=9)
        self.tail = image_set(x, y, tuple(map(str, range(12))))
        self.work: Any = SimpleNamespace(
            settings=Settings.model_validate({"seed": 0, "batch_size": 64}),
            seeds=seeds,
            judging=self.scene.judging,
            classes=CLASSES,
            budget=Budget(BudgetSettings()),
            deadline=SimpleNamespace(begin=lambda _: None),
            seconds_per_sample=0.001,
            against_baseline=None,
            baseline_evidence=None,
            baseline_reason=None,
            confirmer=None,
            campaign=None,
        )
        self.model = BaselineModel(self.work, (0.0, 255.0))

    def judge(self, predicted: np.ndarray | None = None) -> PairedJudge:
        seen = self.clean.y if predicted is None else predicted
        return PairedJudge(self.work, self.scene.domain, self.model, self.clean, seen, self.tail)

    def asked(self) -> list[np.ndarray]:
        return [given["x"] for operation, _, given in self.worker.calls if operation == "forward"]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def judged_bytes(scene: Scene) -> list[bytes]:
    """Of every valid mutant that the candidate was judged on, in the order in which it saw them."""
    found = []
    for operation, asked, given in scene.worker.calls:
        if operation == "run" and asked["arm"] is None:
            found += [mutant.tobytes() for mutant, earns in zip(given["x"], given["earns"], strict=True) if earns]
    return found


def test_the_baseline_sees_every_byte_that_the_candidate_was_judged_on(world: World) -> None:
    world.judge().update()
    mutants = [sample.tobytes() for x in world.asked() for sample in x][len(world.clean) + len(world.tail) :]
    assert mutants == judged_bytes(world.scene)
    assert len(mutants) > 50
    assert np.array_equal(np.concatenate(world.asked())[: len(world.clean)], world.clean.x)


def test_what_it_answered_stands_beside_the_candidates_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, fails_in_the_dark)
    world.judge().update()
    evidence = world.work.baseline_evidence
    assert all(evidence.correct)
    assert evidence.long_tail == tuple(world.tail.y.tolist())
    rows = world.scene.judging.rows
    assert set(evidence.judged) == {world.scene.seeds.ids[row.seed] for row in rows}
    for row in rows:  # the candidate is the same model
        beside = evidence.judged[world.scene.seeds.ids[row.seed]]
        assert beside.failed == row.failed
        assert [p for p, valid in zip(beside.predicted, row.valid, strict=True) if valid] == [
            p for p, valid in zip(row.predicted, row.valid, strict=True) if valid
        ]
        assert [c for c, valid in zip(beside.confidence, row.valid, strict=True) if valid] == pytest.approx(
            [c for c, valid in zip(row.confidence, row.valid, strict=True) if valid]
        )
    assert any(any(row.failed) for row in rows), "there are failures to compare"


def test_seed_inputs_that_the_baseline_misreads_are_left_out_of_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, misreads_third_class)
    world.judge().update()
    evidence, seeds = world.work.baseline_evidence, world.scene.seeds
    assert evidence.correct == tuple((world.clean.y != 2).tolist())
    judged = {seeds.ids[row.seed]: int(seeds.labels[row.seed]) for row in world.scene.judging.rows}
    assert set(evidence.judged) == {identity for identity, label in judged.items() if label != 2}
    assert 2 in judged.values()


def test_positions_are_those_of_the_seed_inputs_where_the_candidate_misreads_clean_samples(world: World) -> None:
    """The clean set has samples before and between the seed inputs that are no seed inputs."""
    seeds = world.scene.seeds
    x, y = images(3, seed=77)
    world.clean = image_set(np.concatenate([x, seeds.x]), np.concatenate([y, seeds.labels]), (*"abc", *seeds.ids))
    world.worker.model = misreads_third_class
    predicted = np.concatenate([(y + 1) % 4, seeds.labels])
    world.judge(predicted).update()
    evidence = world.work.baseline_evidence
    assert len(evidence.correct) == 43
    labels = dict(zip(seeds.ids, seeds.labels.tolist(), strict=True))
    assert evidence.judged
    assert all(labels[identity] != 2 for identity in evidence.judged)


def test_asking_again_and_again_gives_the_evidence_of_asking_once(monkeypatch: pytest.MonkeyPatch) -> None:
    once = World(monkeypatch)
    once.judge().update()
    again = World(monkeypatch)
    arm, whole = again.scene.judging, list(again.scene.judging._taken)
    judge = again.judge()
    for count in range(len(whole) + 1):
        arm._taken[:] = whole[:count]
        judge.update()
        judge.update()
    assert again.work.baseline_evidence == once.work.baseline_evidence
    assert sum(map(len, again.asked())) == sum(map(len, once.asked())), "nothing was run twice"
    assert again.started == 1


def test_the_worker_is_started_once_and_ends_with_the_model(world: World) -> None:
    judge = world.judge()
    judge.update()
    with world.model.asked() as opened:
        assert opened.worker is world.worker
    world.model.close()
    assert (world.started, world.ended) == (1, 1)
    assert not world.model.running
    world.model.close()
    assert world.ended == 1


def test_every_pass_is_counted_and_none_is_the_candidates(world: World) -> None:
    before = {arm: count.model_calls for arm, count in world.scene.campaign.outcome.counts.items()}
    world.judge().update()
    said = world.work.against_baseline
    first = min(baseline.FIRST, len(world.scene.seeds.x))  # by which it is seen what the outputs are
    assert said.executions == sum(map(len, world.asked())) + first
    assert (said.clean, said.long_tail, said.judged) == (40, 12, len(world.scene.judging.rows))
    assert {arm: count.model_calls for arm, count in world.scene.campaign.outcome.counts.items()} == before


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (ConfigError("The baseline tells 3 classes apart, and the candidate 4.", where="baseline"), "3 classes apart"),
        (WorkerError("The worker died with signal 9 during 'load'.", where="worker"), "signal 9"),
        (Refused("None of the 40 outputs is finite, so the model answers nothing.\nmore", where="model"), "answers nothing"),
    ],
)
def test_a_baseline_that_cannot_be_used_leaves_the_comparison_out_with_a_reason(world: World, trouble: Exception, words: str) -> None:
    world.trouble = trouble
    judge = world.judge()
    judge.update()
    judge.update()
    assert world.work.baseline_evidence is None
    assert words in world.work.baseline_reason
    assert "\n" not in world.work.baseline_reason
    assert words in world.work.against_baseline.paired_reason
    assert judge.expected_seconds == 0, "nothing is kept back for it any more"


@pytest.mark.parametrize(
    "model",
    [lambda x: np.roll(reads_stripes(x), 1, axis=1), lambda x: np.tile(np.float32([5, 0, 0, 0]), (len(x), 1))],
    ids=["other class order", "one answer to everything"],
)
def test_a_baseline_that_only_guesses_is_compared_with_nothing(
    monkeypatch: pytest.MonkeyPatch, model: Callable[[np.ndarray], np.ndarray]
) -> None:
    world = World(monkeypatch, model)
    judge = world.judge()
    judge.update()
    assert world.work.baseline_evidence is None, "else what it gets wrong would excuse the candidate"
    assert "no more than guessing" in world.work.baseline_reason
    assert judge.expected_seconds == 0


@pytest.mark.parametrize(("right", "samples", "classes"), [(450, 1000, 10), (20, 1000, 1000), (17, 40, 4), (1, 2, 10), (0, 0, 10)])
def test_a_poor_baseline_that_surely_reads_something_is_compared_with(right: int, samples: int, classes: int) -> None:
    need_a_reader(right, samples, classes)


@pytest.mark.parametrize(("right", "samples", "classes"), [(0, 1000, 10), (110, 1000, 10), (12, 40, 4), (470, 1000, 2), (3, 1000, 1000)])
def test_a_baseline_that_may_be_guessing_is_not(right: int, samples: int, classes: int) -> None:
    with pytest.raises(ConfigError, match="no more than guessing"):
        need_a_reader(right, samples, classes)


def test_a_baseline_that_raises_on_every_mutant_keeps_what_it_answered_before(world: World) -> None:
    calls = iter(range(1000))

    def raises(x: np.ndarray) -> np.ndarray:
        if next(calls) >= 2:  # after the clean set and the long-tail set
            raise Refused("ValueError: what is that?", where="the model")
        return reads_stripes(x)

    world.worker.model = raises
    world.judge().update()
    evidence = world.work.baseline_evidence
    assert all(evidence.correct)
    assert len(evidence.long_tail) == 12
    assert "in a row" in evidence.reason


def test_an_exception_and_an_answer_that_is_not_finite_count_as_failures_of_the_baseline(world: World) -> None:
    clean = {sample.tobytes() for sample in (*world.clean.x, *world.tail.x)}

    def broken(x: np.ndarray) -> np.ndarray:
        strange = np.array([sample.tobytes() not in clean for sample in x])
        if len(x) > 1 and strange.any() and x[0].sum() % 5 == 0:
            raise Refused("ValueError: together", where="the model")
        return np.where(strange[:, None], np.nan, reads_stripes(x)).astype(np.float32)

    world.worker.model = broken
    world.judge().update()
    judged, seeds = world.work.baseline_evidence.judged, world.scene.seeds
    failures = 0
    for row in world.scene.judging.rows:
        beside = judged[seeds.ids[row.seed]]
        for slot, valid in enumerate(row.valid):
            unchanged = world.scene.judging.made(row.seed, slot)[0].tobytes() in clean
            assert beside.failed[slot] == (valid and not unchanged)
            assert not beside.failed[slot] or (beside.predicted[slot], beside.confidence[slot]) == (-1, 0.0)
            failures += beside.failed[slot]
    assert failures > 50


def test_a_mutant_is_asked_as_often_as_the_candidate_and_fails_by_the_same_aggregate(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    plain = world.scene.judging
    answers = iter(range(1000))

    def unsteady(x: np.ndarray) -> np.ndarray:
        """Every third answer to a mutant is wrong."""
        raw = reads_stripes(x)
        return np.roll(raw, 1, axis=1) if next(answers) % 3 == 2 and not np.array_equal(x, world.clean.x) else raw

    world.worker.model = unsteady
    for aggregate in ("any", "majority", "all"):
        arm = JudgingArm(world.scene.domain, world.scene.seeds.x, world.scene.ids, 8, 0, repeat=3, aggregate=aggregate)
        arm._taken = plain._taken
        world.work.judging, world.work.baseline_evidence = arm, None
        world.worker.calls.clear()
        answers = iter(range(1, 1000))  # after the clean set and the long-tail set the first answer to a mutant is number 3
        world.judge().update()
        mutants = sum(map(len, world.asked())) - 52
        assert mutants == 3 * sum(sum(row.valid) for row in plain.rows)
        fails = [any(one.failed) for one in world.work.baseline_evidence.judged.values()]
        assert all(fails) if aggregate == "any" else fails.count(True) <= len(fails) // 4


def late(world: World, left: list[float]) -> None:
    """The wall budget leaves these seconds, one after the other, each time it is asked."""
    world.work.budget = SimpleNamespace(wall_left=lambda reserve: left.pop(0) if len(left) > 1 else left[0], kept_for_pairing=0.0)


def test_without_time_no_worker_is_started(world: World) -> None:
    late(world, [3.0])
    world.judge().update()
    assert world.started == 0
    assert world.work.baseline_evidence is None
    assert "the budget ended" in world.work.baseline_reason


def test_what_there_is_no_time_for_is_left_out_from_the_end_of_the_blind_order_and_can_be_made_up_for(world: World) -> None:
    late(world, [60.0, 60.0, 60.0, 60.0, 0.0])
    judge = world.judge()
    judge.update()
    part = world.work.baseline_evidence
    order = [world.scene.seeds.ids[row.seed] for row in world.scene.judging.rows]
    assert 0 < len(part.judged) < len(order)
    assert list(part.judged) == order[: len(part.judged)]
    assert "the budget ended" in part.reason
    late(world, [60.0])
    judge.update()
    assert list(world.work.baseline_evidence.judged) == order
    assert world.work.baseline_evidence.reason is None


def test_time_is_kept_for_the_baseline_within_a_wall_budget_and_no_more_than_a_part_of_it(world: World) -> None:
    budget = Budget(BudgetSettings.model_validate({"wall": "100s"}))
    without = budget.reserve
    judge = world.judge()
    budget.pairing = lambda: judge.expected_seconds
    samples = 52 + 8 * len(world.scene.judging.rows)
    assert budget.reserve - without == pytest.approx(baseline.START_SECONDS + 0.001 * samples)
    world.work.seconds_per_sample = 10.0
    assert budget.reserve - without == pytest.approx(30.0)
    judge.update()
    assert budget.reserve == pytest.approx(without), "once it is done nothing is kept"


def test_somebody_who_says_stop_is_heard_and_what_was_done_is_kept(world: World) -> None:
    calls = iter(range(100))

    def stopped(x: np.ndarray) -> np.ndarray:
        if next(calls) >= 2:
            raise Interrupted("The run was interrupted.", hint="Again.")
        return reads_stripes(x)

    world.worker.model = stopped
    with pytest.raises(Interrupted):
        world.judge().update()
    assert all(world.work.baseline_evidence.correct)
    assert "interrupted" in world.work.baseline_evidence.reason


def test_where_it_was_never_asked_the_reason_is_known_all_the_same(world: World) -> None:
    world.judge().leave_out("the budget ended")
    assert world.work.baseline_evidence is None
    assert "the budget ended" in world.work.baseline_reason
    assert world.work.against_baseline.paired_reason == "the budget ended"


def test_a_budget_that_ends_while_the_worker_starts_may_be_tried_again(world: World) -> None:
    world.trouble = BudgetSpent("The budget ended while the baseline was loaded.", where="budget")
    judge = world.judge()
    judge.update()
    assert world.work.baseline_evidence is None
    world.trouble = None
    judge.update()
    assert all(world.work.baseline_evidence.correct)


def defects(*known: tuple[str, bool | None]) -> Any:
    return SimpleNamespace(defects=[SimpleNamespace(oracle=oracle, known=one) for oracle, one in known])


def test_defects_that_are_counted_one_by_one_are_known_only_where_all_of_the_kind_were_asked_about(world: World, tmp_path: Path) -> None:
    world.work.allowance = Allowance(1000)
    world.judge().update()
    world.work.confirmer = defects(
        ("crash", True), ("crash", False), ("non_finite", True), ("non_finite", None), ("changed_prediction", True)
    )
    note_known(world.work)
    said = world.work.baseline_evidence
    assert (said.crash_defects, said.known_crashes) == (2, 1)
    assert (said.nonfinite_defects, said.known_nonfinite) == (0, 0)


def test_findings_that_nobody_had_time_to_confirm_are_not_known(world: World) -> None:
    world.judge().update()
    world.work.confirmer = defects(("crash", True), ("non_finite", True))
    world.work.campaign = world.scene.campaign
    world.scene.campaign.outcome.unconfirmed = 2
    note_known(world.work)
    said = world.work.baseline_evidence
    assert (said.crash_defects, said.nonfinite_defects) == (0, 0)
    world.scene.campaign.outcome.unconfirmed = 0
    note_known(world.work)
    said = world.work.baseline_evidence
    assert (said.crash_defects, said.nonfinite_defects) == (1, 1)
