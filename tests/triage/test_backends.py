"""Right answers on other numeric paths, alone and in company: planted weaknesses become defects with files, and a sound model has none."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
from known_model import CLASSES, NumpyWorker, images, reads_stripes
from saved_models import Stripes, load_parameters, save
from torch import Tensor, nn

from gate.campaign.supervisor import Refused, Worker
from gate.domains.image import picture
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.models.outputs import OutputKind
from gate.oracles.numeric_path import NumericPath
from gate.result import Defect
from gate.triage.allowance import Allowance
from gate.triage.backends import (
    ALONE,
    COMPANY,
    COMPARED,
    Compared,
    Input,
    compare,
    confirm,
    disagree_again,
    identity_of,
    is_backend,
    way_in_words,
    wrong_beside_negative,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = images(16)
RANGE = (0.0, 255.0)
DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, RANGE)
INPUTS = [Input(x, x, f"seed-{row}", int(y)) for row, (x, y) in enumerate(zip(X, Y, strict=True))]


class Overflows(nn.Module):
    """The stripes times ten thousand, which float16 can't hold, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.stripes = Stripes()
        self.wide = nn.Linear(4, 4, bias=False)
        self.wide.weight.data = 1e4 * torch.eye(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.wide(self.stripes(x)) / 1e4  # type: ignore[no-any-return]


class Outlier(nn.Module):
    """The stripes beside a feature that is huge and weighs nothing: it leaves the others no bits, and then a bias decides."""

    def __init__(self) -> None:
        super().__init__()
        self.stripes = Stripes()
        self.head = nn.Linear(5, 4)
        self.head.weight.data = torch.cat([torch.eye(4), torch.zeros(4, 1)], 1)
        self.head.bias.data = torch.tensor([3.0, 0.0, 0.0, 0.0])

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.stripes(x), torch.full((len(x), 1), 1e4)], 1))  # type: ignore[no-any-return]


class NeedsCompany(nn.Module):
    """Says the first class wherever all inputs of a batch are alike, as they are in a batch of one."""

    def __init__(self) -> None:
        super().__init__()
        self.stripes = Stripes()

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.stripes(x)
        alike = ((x - x.mean(0)).abs().amax() < 1e-3).to(scores.dtype)
        return scores + 100 * alike * torch.tensor([1.0, 0.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("worker")) as own:
        yield own


@pytest.fixture
def loaded(worker: Worker, tmp_path: Path) -> Callable[[nn.Module], Worker]:
    def load(module: nn.Module) -> Worker:
        worker.call("load", load_parameters(save(module.eval(), tmp_path / "model")))
        return worker

    return load


def compared(worker: Any, *, inputs: Sequence[Input] = INPUTS, calls: int = 10_000) -> tuple[Compared, Allowance]:
    allowance = Allowance(calls)
    return compare(worker, inputs, OutputKind.LOGITS, 8, allowance), allowance


def defects(worker: Any, done: Compared, folder: Path) -> list[Defect]:
    made = [confirm(worker, DOMAIN, INPUTS[one.row], one, CLASSES, folder, OutputKind.LOGITS, 2) for one in done.found]
    return [one for one in made if one is not None]


def test_a_sound_model_agrees_with_itself_in_every_way(loaded: Callable[[nn.Module], Worker]) -> None:
    done, allowance = compared(loaded(Stripes()))
    assert set(done.tallies) == {"batch_dependence", *(f"numeric_path:{path}" for path in NumericPath.PLAIN if path not in done.untaken)}
    assert set(done.untaken) <= {"channels_last"}
    assert done.found == []
    assert done.disagreeing == 0
    assert allowance.spent == COMPARED * len(INPUTS)


def test_scores_that_float16_cannot_hold_are_a_defect_of_each_seed_input(loaded: Callable[[nn.Module], Worker], tmp_path: Path) -> None:
    own = loaded(Overflows())
    done, _ = compared(own)
    assert {(one.oracle, one.way, one.predicted) for one in done.found} == {("numeric_path", "float16", -1)}
    assert done.tallies["numeric_path:float16"].tried == done.disagreeing == len(INPUTS) // 4, "a slow path is taken by a fourth"
    made = defects(own, done, tmp_path)
    assert len(made) == len(INPUTS) // 4
    for defect in made:
        assert (defect.arm, defect.oracle, defect.detail, defect.predicted) == ("paths", "numeric_path", "float16", None)
        assert (defect.family, defect.natural, defect.recipe, defect.confidence_after) == ("backend_float16", False, (), None)
        assert json.loads((tmp_path / "defects" / defect.id / "defect.json").read_text()) == defect.model_dump(mode="json")
        assert np.array_equal(picture.load(tmp_path / defect.files["mutant_data"]), X[int(defect.seed_id.removeprefix("seed-"))])
        for name in defect.files.values():
            assert (tmp_path / name).is_file()
    assert len({defect.root_cause for defect in made}) == len({int(Y[row]) for row in range(0, 16, 4)})
    assert is_backend(made[0])
    assert way_in_words(made[0].oracle, made[0].detail) == "when served in half precision (float16)"


def test_a_feature_that_leaves_the_others_no_bits_is_a_defect_with_eight_bits_only(
    loaded: Callable[[nn.Module], Worker], tmp_path: Path
) -> None:
    own = loaded(Outlier())
    done, _ = compared(own)
    assert {(one.oracle, one.way, one.predicted) for one in done.found} == {("numeric_path", "int8", 0)}
    assert {one.row for one in done.found} == set(np.flatnonzero(Y != 0))
    made = defects(own, done, tmp_path)
    assert len(made) == len(done.found)
    assert all(defect.confidence_before > 0.9 and defect.confidence_after > 0.5 for defect in made)  # type: ignore[operator]


def test_an_answer_that_needs_company_is_a_defect_alone(loaded: Callable[[nn.Module], Worker], tmp_path: Path) -> None:
    own = loaded(NeedsCompany())
    done, _ = compared(own)
    assert {(one.oracle, one.way, one.predicted) for one in done.found} == {("batch_dependence", ALONE, 0)}
    made = defects(own, done, tmp_path)
    assert {defect.family for defect in made} == {"backend_batch"}
    assert len(made) == int((Y != 0).sum())


class OtherAnswers(NumpyWorker):
    """Answers on numeric paths with a model of their own."""

    def __init__(self, model: Callable[[np.ndarray], np.ndarray], other: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        super().__init__(model)
        self.other = other

    def call(self, operation: str, parameters: Any = None, arrays: Any = None, *, timeout: float | None = None) -> Any:
        if operation != "numeric_path":
            return super().call(operation, parameters, arrays, timeout=timeout)
        self.calls.append((operation, dict(parameters), dict(arrays)))
        return ({"supported": False}, {}) if self.other is None else ({"supported": True}, {"raw": self.other(arrays["x"])})


def rolled(x: np.ndarray) -> np.ndarray:
    return np.roll(reads_stripes(x), 1, axis=1)


def test_a_class_that_changes_in_company_is_a_defect_in_company(tmp_path: Path) -> None:
    own = OtherAnswers(lambda x: reads_stripes(x) if len(x) == 1 else rolled(x))
    done, _ = compared(own)
    assert {one.way for one in done.found} == {COMPANY}
    assert done.disagreeing == len(INPUTS)
    made = defects(own, done, tmp_path)
    assert [defect.predicted for defect in made] == [(int(y) + 1) % 4 for y in Y[[one.row for one in done.found]]]


def test_what_agrees_by_itself_is_no_defect_and_leaves_no_files(tmp_path: Path) -> None:
    own = OtherAnswers(reads_stripes, lambda x: rolled(x) if len(x) > 1 else reads_stripes(x))
    done, _ = compared(own)
    assert done.disagreeing == len(INPUTS)
    assert defects(own, done, tmp_path) == []
    assert list((tmp_path / "defects").iterdir()) == []
    before = done.tallies["numeric_path:int8"].findings
    done.refute(next(one for one in done.found if one.way == "int8"))
    assert done.tallies["numeric_path:int8"].findings == before - 1


def test_an_undecided_answer_may_turn_where_bits_are_few_and_not_where_they_are_many() -> None:
    def near(x: np.ndarray) -> np.ndarray:
        return np.asarray(reads_stripes(x) / 100)  # a lead of some 0.02

    done, _ = compared(OtherAnswers(near, lambda x: np.roll(near(x), 1, axis=1)))
    assert {one.way for one in done.found} == {"channels_last", "float64"}


def test_an_input_that_is_read_wrongly_anyway_says_nothing_of_a_path() -> None:
    wrong = [Input(one.x, one.original, one.seed_id, (one.label + 2) % 4) for one in INPUTS]
    done, _ = compared(OtherAnswers(reads_stripes, rolled), inputs=wrong)
    assert done.found == []


@pytest.mark.parametrize(("calls", "ways"), [(0, 0), (16, 0), (32, 1), (64, 3), (16 * COMPARED - 1, 5), (16 * COMPARED, 6)])
def test_never_more_passes_than_allowed_and_what_is_left_out_is_named(calls: int, ways: int) -> None:
    own = OtherAnswers(reads_stripes, reads_stripes)
    done, allowance = compared(own, calls=calls)
    passes = sum(len(arrays["x"]) for _, _, arrays in own.calls)
    assert allowance.spent <= calls
    assert passes <= calls
    assert len(done.tallies) == ways
    assert calls < len(INPUTS) or len(done.tallies) + len(done.untaken) == 1 + len(NumericPath.PLAIN)
    assert all(why == "there was no budget for it" for why in done.untaken.values())


def test_a_seed_input_has_one_defect_for_each_way_and_wrong_class() -> None:
    done, _ = compared(OtherAnswers(reads_stripes, rolled))
    ids = {identity_of(INPUTS[one.row], one, CLASSES) for one in done.found}
    assert len(ids) == sum(len(NumericPath.sparsely(path, len(INPUTS))) for path in NumericPath.PLAIN) == 56
    again = Input(X[1], X[0], INPUTS[0].seed_id, INPUTS[0].label, ("a step",))
    assert identity_of(again, done.found[0], CLASSES) == identity_of(INPUTS[0], done.found[0], CLASSES)


def test_an_earlier_defect_comes_back_on_its_path_and_not_on_a_model_that_is_mended(
    loaded: Callable[[nn.Module], Worker], tmp_path: Path
) -> None:
    own = loaded(Overflows())
    made = defects(own, compared(own)[0], tmp_path)[:3]
    mutants = np.stack([picture.load(tmp_path / defect.files["mutant_data"]) for defect in made])

    def again(worker: Any) -> dict[str, bool]:
        return disagree_again(worker, made, mutants, OutputKind.LOGITS, RANGE)

    assert again(own) == {defect.id: True for defect in made}
    own.call("load", load_parameters(save(Stripes().eval(), tmp_path / "mended")))
    assert again(own) == {defect.id: False for defect in made}
    assert again(OtherAnswers(reads_stripes)) == {}, "a path that can't be taken says nothing"
    others = [defect.model_copy(update={"oracle": "changed_prediction"}) for defect in made]
    assert disagree_again(own, others, mutants, OutputKind.LOGITS, RANGE) == {}


def test_batch_dependence_comes_back_from_the_file_alone(loaded: Callable[[nn.Module], Worker], tmp_path: Path) -> None:
    own = loaded(NeedsCompany())
    made = defects(own, compared(own)[0], tmp_path)[:2]
    mutants = np.stack([picture.load(tmp_path / defect.files["mutant_data"]) for defect in made])
    assert {defect.detail for defect in made} == {ALONE}
    assert disagree_again(own, made, mutants, OutputKind.LOGITS, RANGE) == {defect.id: True for defect in made}


def raising_on(wrong: Callable[[np.ndarray], bool], read: Callable[[np.ndarray], np.ndarray] = reads_stripes) -> Any:
    """A model that raises on some batches."""

    def model(x: np.ndarray) -> np.ndarray:
        if wrong(x):
            raise Refused("ValueError: not this batch", where="the model")
        return read(x)

    return model


def test_a_model_that_raises_in_some_company_is_compared_in_parts(tmp_path: Path) -> None:
    own = OtherAnswers(raising_on(lambda x: len(x) > 2), rolled)
    done, allowance = compared(own)
    assert done.disagreeing == len(INPUTS)
    ran = sum(len(arrays["x"]) for operation, _, arrays in own.calls if operation == "forward")
    assert ran == len(INPUTS) * 2 + (8 + 4 + 4) * 2, "in company, alone, and in vain"
    assert allowance.spent == COMPARED * len(INPUTS) + (8 + 4 + 4) * 2


def test_a_model_that_raises_in_every_company_ends_the_comparison_and_not_the_run() -> None:
    many = [Input(x, x, f"seed-{row}", 0) for row, x in enumerate(np.repeat(X, 8, axis=0))]
    done, _ = compared(OtherAnswers(raising_on(lambda x: True)), inputs=many)
    assert done.found == []
    assert set(done.untaken) == {"batch_dependence", *NumericPath.PLAIN}
    assert all("raises" in why for why in done.untaken.values())


@pytest.mark.parametrize("dark", [True, False])
def test_a_model_that_raises_on_an_earlier_defect_or_on_its_company_ends_no_replay(dark: bool, tmp_path: Path) -> None:
    found = OtherAnswers(lambda x: reads_stripes(x) if len(x) == 1 else rolled(x))
    made = defects(found, compared(found)[0], tmp_path)[:3]
    mutants = np.stack([picture.load(tmp_path / defect.files["mutant_data"]) for defect in made])
    own: Any = NumpyWorker(raising_on(lambda x: bool(((x.reshape(len(x), -1).mean(axis=1) < 128) == dark).any())))
    again = disagree_again(own, made, mutants, OutputKind.LOGITS, RANGE)
    assert again == ({defect.id: False for defect in made} if dark else {}), "of a raised company nothing can be said"


def test_an_input_whose_negative_makes_the_model_raise_has_no_class_beside_it() -> None:
    own: Any = NumpyWorker(raising_on(lambda x: len(x) > 1))
    assert wrong_beside_negative(own, INPUTS[0], OutputKind.LOGITS, RANGE) is None
    turned: Any = NumpyWorker(lambda x: reads_stripes(x) if len(x) == 1 else rolled(x))
    assert wrong_beside_negative(turned, INPUTS[0], OutputKind.LOGITS, RANGE) == (INPUTS[0].label + 1) % 4
