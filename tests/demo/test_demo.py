"""The demo, as a newcomer runs it: real training, a real store, two real gate runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gate.demo import digits, place, story, telling
from gate.errors import OutputError
from gate.pipeline import Outcome
from gate.result import ModelInfo, Result, Verdict

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("the demo") / "gate demo"
    command = [str(Path(sys.executable).with_name("gate")), "demo", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "WARNING" not in done.stderr
    return folder, done.stdout


def test_the_faulty_version_is_blocked_and_its_fix_released(told: tuple[Path, str]) -> None:
    folder, _ = told
    blocked, released = Result.load(folder / "gate-version-2"), Result.load(folder / "gate-version-3")
    assert (blocked.verdict, blocked.candidate.resolved_uri) == (Verdict.FAIL, "models:/digits/2")
    assert (released.verdict, released.candidate.resolved_uri) == (Verdict.PASS, "models:/digits/3")
    assert blocked.metrics["defect_rate"].lower > 0.2  # type: ignore[operator]
    assert released.previous is not None
    assert released.previous.defects == len(blocked.defects) > 100
    assert released.metrics["regression_rate"].value < 0.2  # type: ignore[operator]


def test_clean_accuracy_does_not_see_the_fault(told: tuple[Path, str]) -> None:
    folder, _ = told
    accuracy = [Result.load(folder / f"gate-version-{version}").metrics["clean_accuracy"] for version in (2, 3)]
    assert abs(accuracy[0].value - accuracy[1].value) < 0.01  # type: ignore[operator]


def test_the_root_causes_name_the_pattern(told: tuple[Path, str]) -> None:
    blocked = Result.load(told[0] / "gate-version-2")
    one_too_high = [defect for defect in blocked.defects if defect.label is not None and defect.predicted == (defect.label + 1) % 10]
    assert len(one_too_high) > 0.5 * len(blocked.defects)


def test_the_fix_is_judged_on_seed_inputs_it_has_not_seen(told: tuple[Path, str]) -> None:
    rate = Result.load(told[0] / "gate-version-3").metrics["defect_rate"]
    assert set(rate.slices["half"]) == {"b"}


def test_the_champion_and_the_tags_follow_the_verdicts(told: tuple[Path, str]) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{told[0] / 'mlflow.db'}")
    assert str(client.get_model_version_by_alias("digits", "champion").version) == "3"
    assert [client.get_model_version("digits", version).tags["gate.verdict"] for version in ("2", "3")] == ["fail", "pass"]


def test_it_ends_with_reports_and_what_to_try_next(told: tuple[Path, str]) -> None:
    folder, said = told
    text = " ".join(said.split())
    assert "gate-version-2/report.html" in text
    assert "gate-version-3/report.html" in text
    assert "Wrong most often: " in text
    fixed = sum(cause.status == "fixed" for cause in Result.load(folder / "gate-version-3").earlier_causes)
    assert f"root causes of version 2 {fixed} are fixed" in text
    assert fixed > 50
    for name in ("gate replay", "gate regress", "gate diff", "gate evaluate"):
        assert name in text
    defect = Result.load(folder / "gate-version-2").root_causes[0].example
    assert defect in text
    for model, code in ((None, 1), ("models:/digits/3", None)):
        command = [str(Path(sys.executable).with_name("gate")), "replay", str(folder / "gate-version-2"), defect]
        done = subprocess.run([*command, *(["--model", model] if model else [])], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode in ((0, 1) if code is None else (code,)), done.stderr


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="not empty"):
        place.prepare(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(("found", "wanted"), [(Verdict.PASS, Verdict.FAIL), (Verdict.INCONCLUSIVE, Verdict.PASS)])
def test_a_verdict_that_comes_out_otherwise_is_said_and_fails(tmp_path: Path, found: Verdict, wanted: Verdict) -> None:
    result = Result(verdict=found, exit_code=0, reasons=("r",), candidate=ModelInfo(uri="m", resolved_uri="m"))
    with pytest.raises(telling.UnexpectedVerdict, match=f"expected to {wanted}.*says {found}") as caught:
        story._expect(Outcome(result, tmp_path), wanted, 2)
    assert caught.value.exit_code == 3


def test_the_night_shift_is_darker_and_its_labels_count_from_one() -> None:
    training, _ = digits.load(1)
    night = digits.night_shift(training, 1, counted_from=1)
    assert night.x.mean() < 0.8 * training.x.mean()
    np.testing.assert_array_equal(night.y, (training.y + 1) % 10)
