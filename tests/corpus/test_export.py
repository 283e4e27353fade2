"""The training set that a run's defects make: one half of the seed inputs, right labels, and no name decides where files go."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.corpus.export import export, half_of
from gate.domains.image import picture
from gate.errors import DataError, OutputError
from gate.result import Defect, ModelInfo, Result, Verdict

HOSTILE = (
    "../../../escape",
    "/etc/passwd",
    "..",
    ".",
    "",
    " ",
    "a/b",
    "nul\x00",
    "line\nbreak",
    "lone\ud800",
    "x" * 10_000,
    "𝔄" * 64,
    "class-0",
    "Same",
    "same",
    "=HYPERLINK()",
    "plain name",
    "猫",
)


def make_run(folder: Path, count: int = 12, classes: tuple[str, ...] = ("zero", "one", "two"), **changes: Any) -> Result:
    defects = []
    random = np.random.default_rng(0)
    for number in range(count):
        identity = f"d-{number:012x}"
        base = folder / "defects" / identity
        base.mkdir(parents=True)
        sample = random.integers(0, 256, size=(8, 8, 1), dtype=np.uint8)
        picture.save(base / "mutant", sample, (0.0, 255.0))
        fields = {
            "id": identity,
            "arm": "search",
            "seed_id": f"s-{number // 2:012x}",
            "label": number % len(classes),
            "predicted": (number + 1) % len(classes),
            "confidence_before": 0.9,
            "confidence_after": 0.8,
            "oracle": "changed_prediction",
            "operator": "fog",
            "family": "photometry+weather",
            "families": ("photometry", "weather"),
            "natural": True,
            "severity": 0.7,
            "recipe": ({"operator": "gamma"}, {"operator": "fog"}),
            "root_cause": "rc-000000000000",
            "files": {"mutant": f"defects/{identity}/mutant.png", "mutant_data": f"defects/{identity}/mutant.png"},
        }
        defects.append(Defect.model_validate({**fields, **changes}))
    info = ModelInfo(uri="models:/m/1", resolved_uri="models:/m/1")
    return Result(verdict=Verdict.FAIL, exit_code=1, reasons=("r",), candidate=info, classes=classes, defects=tuple(defects))


def ids_in(out: Path) -> list[str]:
    with (out / "defects.csv").open(newline="") as file:
        return [row["id"] for row in csv.DictReader(file)]


def test_the_halves_are_disjoint_whole_and_split_by_seed_input(tmp_path: Path) -> None:
    result = make_run(tmp_path / "run")
    by_half = {
        half: ids_in(export(result, tmp_path / "run", tmp_path / half, half=half, load=picture.load).folder) for half in ("a", "b", "all")
    }
    assert by_half["a"]
    assert by_half["b"]
    assert sorted(by_half["a"] + by_half["b"]) == sorted(by_half["all"]) == [defect.id for defect in result.defects]
    for defect in result.defects:
        assert defect.id in by_half[half_of(defect.seed_id)]
    written = export(result, tmp_path / "run", tmp_path / "again", half="a", load=picture.load)
    assert (written.exported, written.held_out) == (len(by_half["a"]), len(by_half["b"]))


def test_a_seed_input_stays_in_its_half_for_ever() -> None:
    assert [half_of(f"s-{number}") for number in range(12)] == list("aabaaaaaabaa")
    halves = [half_of(f"s-{number:012x}") for number in range(4000)]
    assert 0.46 < halves.count("a") / 4000 < 0.54


def test_the_training_set_holds_the_files_bytes_under_their_true_labels(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    result = make_run(run)
    export(result, run, out, half="all", load=picture.load)
    with np.load(out / "train.npz", allow_pickle=False) as stored:
        x, y = stored["x"], stored["y"]
    assert y.tolist() == [defect.label for defect in result.defects]
    for row, defect in enumerate(result.defects):
        np.testing.assert_array_equal(x[row], picture.load(run / defect.files["mutant_data"]))
        shown = out / "pictures" / result.classes[defect.label] / f"{defect.id}.png"
        assert shown.read_bytes() == (run / defect.files["mutant"]).read_bytes()
    with (out / "defects.csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["label"], first["predicted"], first["operators"]) == ("0", "1", "gamma+fog")


def test_class_names_choose_no_path_and_no_two_classes_share_a_folder(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "deep" / "er" / "out"
    result = make_run(run, count=len(HOSTILE), classes=HOSTILE)
    export(result, run, out, half="all", load=picture.load)
    folders = {path.name for path in (out / "pictures").iterdir()}
    assert len(folders) == len(HOSTILE)
    assert {"plain name", "猫"} <= folders
    assert all(name.startswith("class-") for name in folders - {"plain name", "猫"})
    written = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(run)]
    assert all(path.is_relative_to(out) for path in written)
    for label, defect in enumerate(result.defects):
        assert len(list((out / "pictures").rglob(f"{defect.id}.png"))) == 1, label


def test_an_empty_half_is_an_error_that_leaves_nothing_behind(tmp_path: Path) -> None:
    result = make_run(tmp_path / "run", count=2)
    other = "b" if half_of(result.defects[0].seed_id) == "a" else "a"
    with pytest.raises(DataError, match=f"no defect of half '{other}'") as caught:
        export(result, tmp_path / "run", tmp_path / "out", half=other, load=picture.load)
    assert "other half" in str(caught.value)
    assert not (tmp_path / "out").exists()
    empty = result.model_copy(update={"defects": ()})
    with pytest.raises(DataError, match="no defect to train with"):
        export(empty, tmp_path / "run", tmp_path / "out", half="all", load=picture.load)


def test_outputs_that_are_not_finite_are_no_training_matter(tmp_path: Path) -> None:
    result = make_run(tmp_path / "run", predicted=None, confidence_after=None, oracle="non_finite")
    with pytest.raises(DataError, match="no defect to train with"):
        export(result, tmp_path / "run", tmp_path / "out", half="all", load=picture.load)


def test_mutants_of_the_judging_arm_are_never_exported(tmp_path: Path) -> None:
    result = make_run(tmp_path / "run")
    defects = tuple(d.model_copy(update={"arm": "judging"}) if n % 3 == 0 else d for n, d in enumerate(result.defects))
    written = export(result.model_copy(update={"defects": defects}), tmp_path / "run", tmp_path / "out", half="all", load=picture.load)
    assert written.exported == sum(d.arm == "search" for d in defects) < len(defects)
    assert set(ids_in(tmp_path / "out")) == {d.id for d in defects if d.arm == "search"}


def test_a_defects_id_chooses_no_path(tmp_path: Path) -> None:
    result = make_run(tmp_path / "run")
    first = result.defects[0].model_copy(update={"id": "../../../pwn"})
    edited = result.model_copy(update={"defects": (first, *result.defects[1:])})
    with pytest.raises(DataError, match="can't be a file's name"):
        export(edited, tmp_path / "run", tmp_path / "deep" / "out", half="all", load=picture.load)
    assert not list(tmp_path.rglob("pwn*"))


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    result = make_run(tmp_path / "run")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(OutputError, match="not empty"):
        export(result, tmp_path / "run", tmp_path / "out", half="all", load=picture.load)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
    with pytest.raises(OutputError):
        export(result, tmp_path / "run", tmp_path / "out" / "mine.txt", half="all", load=picture.load)


@pytest.mark.parametrize("files", [{}, {"mutant": "x.png", "mutant_data": "gone.png"}])
def test_missing_files_are_named(tmp_path: Path, files: dict[str, str]) -> None:
    result = make_run(tmp_path / "run", files=files)
    with pytest.raises(DataError, match=r"lacks a file of its defect d-0000"):
        export(result, tmp_path / "run", tmp_path / "out", half="all", load=picture.load)


def test_files_outside_of_the_run_are_not_taken(tmp_path: Path) -> None:
    picture.save(tmp_path / "private", np.zeros((8, 8, 1), np.uint8), (0.0, 255.0))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "link.png").symlink_to(tmp_path / "private.png")
    for path in ("../private.png", str(tmp_path / "private.png"), "link.png"):
        result = make_run(tmp_path / f"run{abs(hash(path))}", count=1, files={"mutant": path, "mutant_data": path})
        with pytest.raises(DataError, match="lacks a file"):
            export(result, tmp_path / "run", tmp_path / "out", half="all", load=picture.load)


def test_no_cell_of_the_table_is_a_formula(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = make_run(run, count=4)
    formulas = ("=HYPERLINK(1)", "+1", "-1", "@SUM(1)")
    edited = tuple(one.model_copy(update={"root_cause": text}) for one, text in zip(result.defects, formulas, strict=True))
    export(result.model_copy(update={"defects": edited}), run, tmp_path / "out", half="all", load=picture.load)
    with (tmp_path / "out" / "defects.csv").open(encoding="utf-8", newline="") as file:
        assert {row["root_cause"] for row in csv.DictReader(file)} == {f"'{text}" for text in formulas}
