"""Earlier defects come back by their file, by their seed input, or by fresh mutants of their kind; each is told apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_model import CLASSES, NumpyWorker, images, reads_stripes

from gate.campaign.batch import Finding
from gate.campaign.loop import Seeds
from gate.campaign.supervisor import Refused
from gate.corpus.export import half_of
from gate.domains.image import picture
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import sample_ids
from gate.domains.image.limits import Domain
from gate.errors import DataError
from gate.models.outputs import OutputKind, probabilities
from gate.oracles import Switches
from gate.result import Minimal, ModelInfo, Result, Verdict
from gate.triage.confirm import Confirmer
from gate.triage.regression import FRESH_MUTANTS, read_earlier, replay_earlier
from gate.triage.verdicts import Recurrence, outcomes

X, Y = images(40)
IDS = sample_ids(X, Y)
DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
SEEDS = Seeds(X, Y, IDS, probabilities(reads_stripes(X), OutputKind.LOGITS))
Model = Callable[[np.ndarray], np.ndarray]


def wrong(x: np.ndarray) -> np.ndarray:
    return np.roll(reads_stripes(x), 1, axis=1)


@pytest.fixture
def earlier(tmp_path: Path) -> tuple[Result, Path]:
    """Two natural defects of patches (of a kind that the stripes survive) and one in which the model took part."""
    confirmer = Confirmer(NumpyWorker(wrong), DOMAIN, X, CLASSES, tmp_path, OutputKind.LOGITS, deterministic=True)
    for row, recipe in ((0, (DOMAIN.step("patch", 1.0, 1),)), (5, (DOMAIN.step("patch", 0.8, 2),)), (2, (DOMAIN.model_step("pgd", 3),))):
        natural = recipe[0].operator == "patch"
        mutant = DOMAIN.replay(X[row], recipe) if natural else np.clip(X[row].astype(int) + 5, 0, 255).astype(np.uint8)
        family = DOMAIN.family(recipe[0].operator)
        label = int(Y[row])
        found = Finding(
            "search", 0, 0, row, IDS[row], mutant, recipe, (family,), natural, "changed_prediction", label, (label + 1) % 4, 1.0, 1.0
        )
        assert confirmer.confirm(found)
    info = ModelInfo(uri="models:/m/1", resolved_uri="models:/m/1")
    result = Result(verdict=Verdict.FAIL, exit_code=1, reasons=("r",), candidate=info, classes=CLASSES, defects=tuple(confirmer.defects))
    return result, tmp_path


def replayed(earlier: tuple[Result, Path], model: Model, **options: Any) -> tuple[Recurrence, ...]:
    worker = options.pop("worker", NumpyWorker(model))
    arguments: dict[str, Any] = {
        "worker": worker,
        "domain": DOMAIN,
        "seeds": SEEDS,
        "classes": CLASSES,
        "output_kind": OutputKind.LOGITS,
        "batch_size": 3,
        "campaign_seed": 0,
        **options,
    }
    (earlier[1] / "result.json").write_text(earlier[0].to_json())
    x = arguments["seeds"].x
    return replay_earlier(read_earlier(earlier[1], picture.load, x.shape[1:], x.dtype), **arguments)


def why(earlier: tuple[Result, Path], model: Model, **options: Any) -> list[str | None]:
    return [one.why for one in replayed(earlier, model, **options)]


def only(*samples: np.ndarray, answer: Model = wrong) -> Model:
    """Gives ``answer`` for exactly these samples and is right about all others."""
    known = {sample.tobytes() for sample in samples}

    def model(x: np.ndarray) -> np.ndarray:
        hit = np.array([sample.tobytes() in known for sample in x])
        return np.where(hit[:, None], answer(x), reads_stripes(x))

    return model


def mutant(earlier: tuple[Result, Path], number: int) -> np.ndarray:
    return picture.load(earlier[1] / earlier[0].defects[number].files["mutant_data"])


def test_a_model_that_is_right_about_everything_has_none_back(earlier: tuple[Result, Path]) -> None:
    assert why(earlier, reads_stripes) == [None, None, None]


def test_the_file_alone_is_detected(earlier: tuple[Result, Path]) -> None:
    assert why(earlier, only(mutant(earlier, 1))) == [None, "file", None]
    assert why(earlier, only(mutant(earlier, 2))) == [None, None, "file"]


def test_any_wrong_class_and_no_finite_answer_count_as_the_file_failing(earlier: tuple[Result, Path]) -> None:
    for answer in (lambda x: np.roll(reads_stripes(x), 2, axis=1), lambda x: np.full((len(x), 4), np.nan, dtype=np.float32)):
        assert why(earlier, only(mutant(earlier, 0), answer=answer)) == ["file", None, None]


def test_the_seed_input_alone_is_detected(earlier: tuple[Result, Path]) -> None:
    assert why(earlier, only(X[5], X[2])) == [None, "seed", "seed"]


def test_fresh_mutants_alone_are_detected_for_natural_defects_only(earlier: tuple[Result, Path]) -> None:
    known = {sample.tobytes() for sample in [*X, *(mutant(earlier, number) for number in range(3))]}

    def memorised(x: np.ndarray) -> np.ndarray:
        """Right about everything it has seen, wrong about the rest."""
        hit = np.array([sample.tobytes() in known for sample in x])
        return np.where(hit[:, None], reads_stripes(x), wrong(x))

    assert why(earlier, memorised) == ["fresh", "fresh", None]


def test_fresh_mutants_are_of_the_same_class_kind_and_severity_from_the_other_half(earlier: tuple[Result, Path]) -> None:
    result, folder = earlier
    asked: list[np.ndarray] = []
    steps: list[tuple[str, float]] = []
    domain = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
    starts: list[bytes] = []
    step, replay = domain.step, domain.replay
    domain.step = lambda name, severity, draw: steps.append((name, severity)) or step(name, severity, draw)  # type: ignore[method-assign]
    domain.replay = lambda seed, recipe: starts.append(seed.tobytes()) or replay(seed, recipe)  # type: ignore[method-assign]
    replayed((result, folder), lambda x: asked.append(x) or reads_stripes(x), domain=domain)
    assert steps == [("patch", 1.0)] * FRESH_MUTANTS + [("patch", 0.8)] * FRESH_MUTANTS
    place = {sample.tobytes(): row for row, sample in enumerate(X)}
    for number, start in enumerate(starts):
        defect = result.defects[number // FRESH_MUTANTS]
        assert Y[place[start]] == defect.label
        assert half_of(IDS[place[start]]) != half_of(defect.seed_id)


def test_files_that_change_after_they_were_read_change_nothing(earlier: tuple[Result, Path]) -> None:
    result, folder = earlier
    (folder / "result.json").write_text(result.to_json())
    run = read_earlier(folder, picture.load, (8, 8, 1), np.dtype(np.uint8))
    model = only(mutant(earlier, 1))
    for defect in result.defects:
        (folder / defect.files["mutant_data"]).unlink()
    found = replay_earlier(
        run,
        worker=NumpyWorker(model),
        domain=DOMAIN,
        seeds=SEEDS,
        classes=CLASSES,
        output_kind=OutputKind.LOGITS,
        batch_size=3,
        campaign_seed=0,
    )
    assert [one.why for one in found] == [None, "file", None]


def test_it_repeats(earlier: tuple[Result, Path]) -> None:
    sent = []
    for _ in range(2):
        worker = NumpyWorker(reads_stripes)
        replayed(earlier, reads_stripes, worker=worker)
        sent.append([arrays["x"].tobytes() for _, _, arrays in worker.calls])
    assert sent[0] == sent[1]


def test_an_operator_that_the_policy_now_switches_off_has_no_fresh_mutants(earlier: tuple[Result, Path]) -> None:
    domain = ImageDomain(Domain.model_validate({"occlusion": {"patch": 0}}), (8, 8, 1), np.uint8, (0.0, 255.0))
    worker = NumpyWorker(reads_stripes)
    assert [one.why for one in replayed(earlier, reads_stripes, domain=domain, worker=worker)] == [None, None, None]
    assert sum(len(arrays["x"]) for _, _, arrays in worker.calls) == 6  # three files and three seed inputs


def test_a_run_without_defects_has_nothing_to_replay(earlier: tuple[Result, Path]) -> None:
    assert replayed((earlier[0].model_copy(update={"defects": ()}), earlier[1]), wrong) == ()


@pytest.mark.parametrize("classes", [CLASSES[:3], CLASSES[::-1], ("a", "b", "c", "d")])
def test_other_classes_are_refused(earlier: tuple[Result, Path], classes: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="other classes") as caught:
        replayed(earlier, reads_stripes, classes=classes)
    assert "--previous" in str(caught.value)


@pytest.mark.parametrize("x", [np.zeros((4, 16, 16, 1), np.uint8), np.zeros((4, 8, 8, 3), np.uint8), np.zeros((4, 8, 8, 1), np.float32)])
def test_other_inputs_are_refused_with_both_shapes(earlier: tuple[Result, Path], x: np.ndarray) -> None:
    seeds = Seeds(x, np.zeros(4, dtype=np.int64), ("a", "b", "c", "d"), np.zeros((4, 4)))
    with pytest.raises(DataError, match=r"uint8 \[8, 8, 1\]") as caught:
        replayed(earlier, reads_stripes, seeds=seeds)
    assert str(list(x.shape[1:])) in caught.value.what


def test_missing_files_and_files_from_elsewhere_are_refused(earlier: tuple[Result, Path]) -> None:
    result, folder = earlier
    picture.save(folder.parent / "elsewhere", X[0], (0.0, 255.0))
    for path in ("../elsewhere.png", "gone.png", "", "a/" * 3000, "b" * 5000, "c\0d"):
        defect = result.defects[0].model_copy(update={"files": {**result.defects[0].files, "mutant_data": path}})
        with pytest.raises(DataError, match="lacks a file"):
            replayed((result.model_copy(update={"defects": (defect,)}), folder), reads_stripes)


def test_all_three_are_told_of_every_defect(earlier: tuple[Result, Path]) -> None:
    by_file, by_seed, neither = replayed(earlier, only(mutant(earlier, 0), X[5]))
    assert (by_file.file, by_file.seed, by_seed.file, by_seed.seed) == (True, False, False, True)
    assert (neither.file, neither.seed, neither.fresh) == (False, False, ())
    assert len(by_file.fresh) == len(by_seed.fresh) == FRESH_MUTANTS
    assert not any(by_file.fresh)
    wrong_everywhere = replayed(earlier, wrong)
    assert [(one.file, one.seed, all(one.fresh)) for one in wrong_everywhere] == [(True, True, True)] * 3


@pytest.mark.parametrize("severity", [None, "1", [1], -1.0, 1e308])
def test_a_step_without_a_severity_that_can_be_true_leaves_no_fresh_mutants(earlier: tuple[Result, Path], severity: object) -> None:
    result, folder = earlier
    step = result.defects[0].recipe[0]
    for recipe in (({**step, "severity": severity},), (step, {**step, "severity": severity})):
        defect = result.defects[0].model_copy(update={"recipe": recipe})
        (one,) = replayed((result.model_copy(update={"defects": (defect,)}), folder), reads_stripes)
        assert one.fresh == ()


def test_fresh_mutants_of_a_minimised_defect_are_as_strong_as_it_was_found(earlier: tuple[Result, Path]) -> None:
    result, folder = earlier
    minimal = Minimal(
        found_recipe=({"operator": "patch", "severity": 0.9}, {"operator": "fog", "severity": 0.1}),
        found_severity=1.0,
        found_area=1.0,
        area=0.1,
        model_calls=5,
        complete=True,
    )
    weak = {**result.defects[0].recipe[0], "severity": 0.3}
    first = result.defects[0].model_copy(update={"minimal": minimal, "recipe": (weak,), "severity": 0.3})
    steps: list[tuple[str, float]] = []
    domain = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
    step = domain.step
    domain.step = lambda name, severity, draw: steps.append((name, severity)) or step(name, severity, draw)  # type: ignore[method-assign]
    replayed((result.model_copy(update={"defects": (first,)}), folder), reads_stripes, domain=domain)
    assert set(steps) == {("patch", 0.9)}


def test_a_file_that_the_model_raises_on_recurs_and_the_others_are_asked(earlier: tuple[Result, Path]) -> None:
    bad = mutant(earlier, 1).tobytes()

    class Raising(NumpyWorker):
        def call(self, operation: str, parameters: Any = None, arrays: Any = None, **more: Any) -> Any:
            if arrays is not None and any(one.tobytes() == bad for one in arrays["x"]):
                raise Refused("no such picture")
            return super().call(operation, parameters, arrays)

    found = replayed(earlier, reads_stripes, worker=Raising(reads_stripes))
    assert [one.why for one in found] == [None, "file", None]


def with_mark(earlier: tuple[Result, Path], *, file: bool = True) -> tuple[Result, Path]:
    """The first defect is one of a universal mark: a white square in the corner, which says "second"."""
    result, folder = earlier
    weight, shown = np.zeros((8, 8, 1), dtype=np.float32), np.full((8, 8, 1), 255, dtype=np.float32)
    weight[6:, :2] = 1
    (folder / "marks").mkdir()
    if file:
        np.savez_compressed(folder / "marks" / "patch-1.npz", weight=weight, picture=shown)
    first = result.defects[0]
    marked = {"oracle": "universal_mark", "predicted": 1, "family": "mark_patch", "natural": False, "arm": "marks"}
    first = first.model_copy(update={**marked, "files": {**first.files, "mark_data": "marks/patch-1.npz"}})
    return result.model_copy(update={"defects": (first, *result.defects[1:])}), folder


def led_by_the_mark(to: int) -> Model:
    def model(x: np.ndarray) -> np.ndarray:
        hit = (x[:, 6:, :2] == 255).all(axis=(1, 2, 3))
        return np.where(hit[:, None], 30 * np.eye(4, dtype=np.float32)[to], reads_stripes(x))

    return model


def test_a_mark_comes_back_on_other_inputs_where_they_are_read_as_its_class(earlier: tuple[Result, Path]) -> None:
    run = with_mark(earlier)
    back = replayed(run, led_by_the_mark(1))
    assert (back[0].why, back[0].fresh) == ("fresh", (True,) * FRESH_MUTANTS)
    assert replayed(run, reads_stripes)[0].fresh == (False,) * FRESH_MUTANTS
    assert replayed(run, led_by_the_mark(3))[0].fresh == (False,) * FRESH_MUTANTS, "another class is another root cause"
    assert outcomes(replayed(run, reads_stripes), "a")[run[0].defects[0].root_cause].word == "fixed"


def test_without_its_file_a_mark_is_asked_of_its_defects_files_alone_and_is_not_called_fixed(earlier: tuple[Result, Path]) -> None:
    run = with_mark(earlier, file=False)
    (one, *_) = replayed(run, reads_stripes)
    assert (one.why, one.fresh) == (None, ())
    assert outcomes([one], "a")[one.defect.root_cause].word == "unknown"
    (run[1] / "marks" / "patch-1.npz").write_bytes(b"PK no archive")
    assert replayed(run, led_by_the_mark(1))[0].fresh == ()
    np.savez(run[1] / "marks" / "patch-1.npz", weight=np.ones((3, 3, 1), np.float32), picture=np.ones((3, 3, 1), np.float32))
    assert replayed(run, led_by_the_mark(1))[0].fresh == ()


@pytest.mark.parametrize("oracle", ["confidence_collapse", "saturated"])
def test_a_complaint_that_keeps_the_class_is_looked_for_in_the_answer(earlier: tuple[Result, Path], oracle: str) -> None:
    result, folder = earlier
    first = result.defects[0].model_copy(update={"oracle": oracle, "predicted": result.defects[0].label, "natural": False})
    run = result.model_copy(update={"defects": (first,)}), folder

    def doubtful(x: np.ndarray) -> np.ndarray:
        return reads_stripes(x) * 1e-3 if oracle == "confidence_collapse" else np.asarray(reads_stripes(x) * np.float32(1e5))

    assert why(run, reads_stripes) == [None]
    assert why(run, only(mutant(run, 0), answer=doubtful)) == ["file"]
    lenient = Switches.model_validate({"confidence_collapse": {"on": False, "below": 1e-6}, "saturated": {"on": False, "above": 1e30}})
    assert why(run, only(mutant(run, 0), answer=doubtful), switches=lenient) == [None], "the policy's thresholds count"
