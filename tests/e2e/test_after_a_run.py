"""What can be done with a finished run: judge it again, render it again, run a defect again, train on its defects."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from candidates import Digits, save, train
from gate_command import RENDERINGS, Done, Finished, in_process, run_gate
from PIL import Image


def test_judging_again_changes_the_verdict_and_leaves_the_run_alone(finished: Finished, failing: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()}
    done = run_gate("evaluate", finished.folder, "--policy", failing, "--out", tmp_path / "again")
    assert done.code == 1, done.said
    done.explains("FAIL", "under policy perfect", "no-defect")
    assert {path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()} == before
    again = Finished(tmp_path / "again")
    again.is_whole()
    record = again.record
    assert (record["verdict"], record["policy"]["name"], record["exit_code"]) == ("fail", "perfect", 1)
    assert record["metrics"] == finished.record["metrics"]
    assert record["campaign"] == finished.record["campaign"]
    # The copy is a run of its own: it can be judged, rendered and replayed like the first.
    assert in_process("evaluate", again.folder, "--policy", "smoke").code == 0
    assert in_process("report", again.folder).code == 0


def test_the_same_policy_gives_the_same_verdict(finished: Finished, tmp_path: Path) -> None:
    done = in_process("evaluate", finished.folder, "--policy", "smoke", "--out", tmp_path / "same")
    assert done.code == 0, done.said
    assert Finished(tmp_path / "same").record == finished.record


def test_advisory_exits_0_and_says_so_everywhere(finished: Finished, failing: Path, tmp_path: Path) -> None:
    done = in_process("evaluate", finished.folder, "--policy", failing, "--advisory", "--out", tmp_path / "advice")
    assert done.code == 0
    done.explains("FAIL", "(exit 0, advisory)")
    run = Finished(tmp_path / "advice")
    record = run.record
    assert (record["verdict"], record["exit_code"], record["advisory"]) == ("fail", 0, True)
    for name in ("report.html", "summary.md", "junit.xml", "metrics.txt"):
        assert "advisory" in run.text(name).lower(), name


def test_an_error_stays_an_error_in_an_advisory_run(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--model", tmp_path / "nowhere", "--advisory")
    assert done.code == 3
    assert Finished(tmp_path / "out").record["advisory"] is True
    # And a run that was never judged can't be judged again.
    done = in_process("evaluate", tmp_path / "out", "--policy", "smoke")
    assert done.code == 4
    done.explains("before there was any evidence")


def test_rendering_again_gives_the_same_reports(finished: Finished, tmp_path: Path) -> None:
    shutil.copytree(finished.folder, tmp_path / "run")
    for name in RENDERINGS[1:]:
        (tmp_path / "run" / name).unlink()
    done = in_process("report", tmp_path / "run")
    assert done.code == 0, done.said
    for name in RENDERINGS:
        assert (tmp_path / "run" / name).read_bytes() == (finished.folder / name).read_bytes(), name


def test_a_defect_lives_on_its_model(finished: Finished) -> None:
    defect = next(one for one in finished.record["defects"] if one["oracle"] == "changed_prediction")
    done = in_process("replay", finished.folder, defect["id"])
    assert done.code == 1, done.said
    names = finished.record["classes"]
    done.explains(defect["id"], f"read as {names[defect['label']]}", f"read as {names[defect['predicted']]}", "the defect lives")


def test_a_defect_is_gone_on_a_model_that_reads_it(finished: Finished, tmp_path: Path) -> None:
    from torch import nn

    defect = next(one for one in finished.record["defects"] if one["oracle"] == "changed_prediction")

    head = nn.Linear(64, 10)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    head.bias.data[defect["label"]] = 5.0
    constant = save(nn.Sequential(nn.Flatten(), head).eval(), tmp_path / "constant")
    done = in_process("replay", finished.folder, defect["id"][:6], "--model", constant)
    assert done.code == 0, done.said
    done.explains("the defect is gone")


def test_the_halves_of_the_export_are_disjoint_and_train(finished: Finished, tmp_path: Path) -> None:
    seeds: list[set[str]] = []
    count = 0
    for half in ("a", "b"):
        done = run_gate("corpus", "export", finished.folder, "--half", half, "--out", tmp_path / half)
        assert done.code == 0, done.said
        with np.load(tmp_path / half / "train.npz") as arrays:
            x, y = arrays["x"], arrays["y"]
        with (tmp_path / half / "defects.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(x) == len(y) == len(rows) == len(list((tmp_path / half / "pictures").rglob("*.png")))
        assert x.dtype == np.uint8
        for picture in (tmp_path / half / "pictures").rglob("*.png"):
            label = int(picture.parent.name.removeprefix("class-"))
            row = next(one for one in rows if one["id"] == picture.stem)
            assert int(row["label"]) == label
            assert any(np.array_equal(np.asarray(Image.open(picture).convert("L")), one[..., 0]) for one in x[y == label])
        seeds.append({row["seed_id"] for row in rows})
        count += len(rows)
    assert not seeds[0] & seeds[1]
    # The judging arm asks every model the same questions: what it found is for judging, never for training.
    assert count == len([defect for defect in finished.record["defects"] if defect["arm"] == "search"]) > 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["evaluate", "nowhere", "--policy", "smoke"], 2, ["nowhere", "No finished run"]),
        (["evaluate", "RUN", "--policy", "smok"], 2, ["smok", "smoke"]),
        (["evaluate", "RUN", "--policy", "smoke", "--out", "RUN"], 2, ["inside the run"]),
        (["report", "nowhere"], 2, ["nowhere"]),
        (["replay", "RUN", "d-nothing"], 2, ["d-nothing", "d-"]),
        (["replay", "RUN", ""], 2, ["no defect"]),
        (["corpus", "export", "RUN", "--out", "RUN"], 2, ["not empty"]),
        (["corpus", "export", "nowhere", "--out", "new"], 2, ["nowhere"]),
    ],
)
def test_mistakes_are_told(
    arguments: list[str], code: int, says: list[str], finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = in_process(*(str(finished.folder) if argument == "RUN" else argument for argument in arguments))
    assert done.code == code, done.said
    done.explains(*says)


def test_a_damaged_record_is_told_with_its_field(finished: Finished, tmp_path: Path) -> None:
    record = finished.record
    record["verdict"] = "perhaps"
    (tmp_path / "result.json").write_text(json.dumps(record))
    done = in_process("report", tmp_path)
    assert done.code == 2
    done.explains("verdict", str(tmp_path / "result.json"))
    (tmp_path / "result.json").write_text('{"verdict": ')
    assert in_process("report", tmp_path).code == 2


def test_a_second_run_in_a_folder_replaces_the_first_whole(
    model: Path, data: tuple[Digits, Digits], gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    candidate = tmp_path / "model"
    shutil.copytree(model, candidate)

    def on_disk() -> set[str]:
        return {path.name for path in (tmp_path / "out" / "defects").iterdir()}

    def once() -> Any:
        done = gate_run("--model", candidate, "--executions", "800")
        assert "ERROR" not in done.said
        record = Finished(tmp_path / "out").record
        assert {defect["id"] for defect in record["defects"]} == on_disk()
        lines = (tmp_path / "out" / "events.jsonl").read_text().splitlines()
        assert sum('"event": "verdict"' in line for line in lines) == 1
        return record

    one = once()
    found = on_disk()
    assert found
    (tmp_path / "out" / "defects" / "d-0123456789ab").mkdir()
    assert once()["defects"] == one["defects"]
    # Another model at the same path is another campaign: refused before it is loaded, and what is there stays.
    shutil.rmtree(candidate)
    save(train(Digits(data[0].x[:300], data[0].y[:300])), candidate)
    before = (tmp_path / "out" / "result.json").read_bytes()
    done = gate_run("--model", candidate, "--executions", "800")
    assert done.code == 2
    done.explains("holds a run of another campaign", "the model changed", "--out")
    assert (tmp_path / "out" / "result.json").read_bytes() == before
    Finished(tmp_path / "out").is_whole()
    replayed = in_process("replay", tmp_path / "out", one["defects"][0]["id"])
    assert replayed.code == 3
    replayed.explains("no longer the one that was tested", one["candidate"]["digest"], "--model")
    assert in_process("replay", tmp_path / "out", one["defects"][0]["id"], "--model", candidate).code in (0, 1)
    # An error in between loses no defect, and what the first run measured is not judged as if this one had measured it.
    shutil.rmtree(candidate)
    assert gate_run("--model", candidate, "--executions", "800").code == 3
    assert on_disk() == found
    assert in_process("evaluate", tmp_path / "out", "--policy", "smoke").code == 4
