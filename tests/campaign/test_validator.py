"""A validator model: what it takes for something else is no valid mutant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_model import CLASSES, NumpyWorker, fails_in_the_dark, images, reads_stripes, write_npz
from saved_models import Stripes, save
from torch import nn

from gate.campaign.supervisor import Refused
from gate.campaign.validator import Validator
from gate.config import Settings
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.models.outputs import OutputKind
from gate.pipeline import run
from gate.result import Result, Verdict


def asked(model: Any, batch_size: int = 16) -> Validator:
    return Validator(NumpyWorker(model), OutputKind.LOGITS, batch_size)  # type: ignore[arg-type]


def test_the_validators_own_answer_to_the_seed_input_is_what_a_mutant_is_held_to() -> None:
    x, _ = images(20)
    dark = (x * 0.3).astype(np.uint8)
    assert asked(reads_stripes)(dark, x).all()
    assert not asked(fails_in_the_dark)(dark, x).any()
    # It is wrong about the seed input as well: then it says nothing against a mutant that it sees the same way.
    assert asked(lambda x: np.roll(reads_stripes(x), 1, axis=1))(dark, x).all()


def test_no_answer_is_no_consent() -> None:
    x, _ = images(20)
    nothing = np.full((len(x), len(CLASSES)), np.nan, dtype=np.float32)
    assert not asked(lambda x: nothing[: len(x)], batch_size=8)(x, x).any()


def test_a_seed_input_is_asked_about_once() -> None:
    x, _ = images(6)
    validator = asked(reads_stripes, batch_size=4)
    seeds = x[[0, 1, 0, 2, 1, 0]]
    assert validator(seeds, seeds).all()
    assert validator.calls == 6 + 3
    assert validator(seeds, seeds).all()
    assert validator.calls == 6 + 3 + 6


def test_only_mutants_within_the_limits_are_shown_to_it() -> None:
    x, _ = images(12)
    validator = asked(fails_in_the_dark)
    domain = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0), validator)
    mutants = np.concatenate([x[:4], (x[4:8] * 0.4).astype(np.uint8), np.full_like(x[8:], 90)])
    steps = [domain.step("brightness", 0.5, row) for row in range(12)]
    codes = domain.check(mutants, x, [(one,) for one in steps])
    names = [None if code < 0 else domain.reasons[code] for code in codes]
    assert names == [None] * 4 + ["validator"] * 4 + ["contrast"] * 4
    assert validator.calls == 8 + 8


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("models")
    made = {"trapped": save(Stripes(trap=0.24).eval(), base / "trapped"), "sound": save(Stripes().eval(), base / "sound")}
    return {**made, "seeds": write_npz(base / "seeds.npz")}


def result_with(models: dict[str, Path], out: Path, validator: str | None, **given: Any) -> Result:
    settings = {
        "model": str(models["trapped"]),
        "classes": CLASSES,
        "data": {"seeds": str(models["seeds"])},
        "budget": {"executions": 1_500},
        "coverage": {"layers": ("hidden",), "criteria": ("kmnc",)},
        "previous": "none",
        "device": "cpu",
        "batch_size": 64,
        "out": str(out),
        "validator": None if validator is None else str(models[validator]),
        **given,
    }
    return run(Settings.model_validate(settings)).result


def test_what_the_validator_does_not_recognise_either_is_no_defect(models: dict[str, Path], tmp_path: Path) -> None:
    sound = result_with(models, tmp_path / "sound", "sound")
    trapped = result_with(models, tmp_path / "trapped", "trapped")
    assert sound.campaign is not None
    assert trapped.campaign is not None
    assert any(defect.arm == "search" for defect in sound.defects)
    # The same model as the candidate: whatever changes the one's answer changes the other's.
    assert [defect for defect in trapped.defects if defect.arm in ("search", "judging")] == []
    assert sum(reasons.get("validator", 0) for reasons in trapped.campaign.invalid.values()) > 0
    assert trapped.campaign.validator is not None
    assert trapped.campaign.validator.digest == trapped.candidate.digest
    # Each mutant within the limits, and each seed input that had one.
    noise = trapped.campaign.arms["noise"].executions
    assert 0 < trapped.campaign.validator_calls <= trapped.campaign.executions - noise + 40
    assert trapped.campaign.valid_fraction is not None
    assert sound.campaign.valid_fraction is not None
    assert trapped.campaign.valid_fraction < sound.campaign.valid_fraction


def test_without_one_nothing_is_asked(models: dict[str, Path], tmp_path: Path) -> None:
    result = result_with(models, tmp_path / "run", None)
    assert result.campaign is not None
    assert (result.campaign.validator, result.campaign.validator_calls) == (None, 0)


def test_a_validator_with_other_classes_is_refused(models: dict[str, Path], tmp_path: Path) -> None:
    from preflight_models import Answering

    models = {**models, "other": save(Answering("five classes").eval(), tmp_path / "other")}
    result = result_with(models, tmp_path / "run", "other")
    assert result.verdict is Verdict.ERROR
    assert result.exit_code == 2
    assert "The validator tells" in " ".join(result.reasons)


def test_a_validator_that_can_not_take_the_pictures_is_no_fault_of_the_candidate(models: dict[str, Path], tmp_path: Path) -> None:
    other = nn.Sequential(nn.Flatten(), nn.Linear(17, len(CLASSES)))
    result = result_with({**models, "other": save(other.eval(), tmp_path / "other")}, tmp_path / "run", "other")
    assert (result.verdict, result.exit_code) == (Verdict.ERROR, 2)
    assert "It can't take the seed inputs. (validator)" in " ".join(result.reasons)


def test_what_the_validator_raises_later_on_is_said_to_be_its_own() -> None:
    def raises(x: np.ndarray) -> np.ndarray:
        raise Refused("ValueError: too bright", where="the model, in the worker")

    x, _ = images(4)
    with pytest.raises(Refused) as raised:
        asked(raises)(x, x)
    assert (raised.value.what, raised.value.where) == ("The validator: ValueError: too bright", "validator, the model, in the worker")


def test_a_validator_that_is_not_there_is_named(models: dict[str, Path], tmp_path: Path) -> None:
    result = result_with({**models, "missing": tmp_path / "missing"}, tmp_path / "run", "missing")
    assert (result.verdict, result.exit_code) == (Verdict.ERROR, 3)
    assert "The validator: There is no such model folder." in " ".join(result.reasons)
