"""``gate replay --explain``: any defect, also one that the run had no budget for, and any model; the run stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from candidates import save
from gate_command import Finished, in_process
from PIL import Image

from gate.result import Attribution


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_defect_is_explained_in_words_and_in_files_and_the_run_stays(finished: Finished, tmp_path: Path) -> None:
    before = files_of(finished.folder)
    defect = next(one for one in finished.record["defects"] if one["oracle"] == "changed_prediction")
    done = in_process("replay", finished.folder, defect["id"], "--explain", "--out", tmp_path / "why")
    assert done.code == 1, done.said
    done.explains("neurons", "effect", "tried)", "heat", "of the heat lies on the change", "by Grad-CAM++", "the defect lives")
    assert files_of(finished.folder) == before
    assert sorted(path.name for path in (tmp_path / "why").iterdir()) == ["attribution.json", "cam.png", "cam_before.png"]
    found = Attribution.model_validate_json((tmp_path / "why" / "attribution.json").read_text())
    assert found.neurons
    assert found.neurons[0].effect > 0.1
    assert np.asarray(Image.open(tmp_path / "why" / "cam.png")).shape == (96, 96, 3)
    # A second time the folder is no longer empty.
    done = in_process("replay", finished.folder, defect["id"], "--explain", "--out", tmp_path / "why")
    assert done.code != 1
    done.explains("not empty")


def test_what_the_run_attributed_is_found_again(finished: Finished) -> None:
    attributed = [one for one in finished.record["defects"] if one["attribution"] and one["attribution"]["neurons"]]
    assert attributed
    defect = max(attributed, key=lambda one: one["attribution"]["neurons"][0]["effect"])
    done = in_process("replay", finished.folder, defect["id"], "--explain")
    strongest = defect["attribution"]["neurons"][0]
    done.explains(f"{strongest['layer']}[{strongest['neuron']}]  effect {strongest['effect']:.2f}")


def test_another_model_is_explained_too(finished: Finished, network: Any, tmp_path: Path) -> None:
    import copy

    import torch

    other = copy.deepcopy(network)
    with torch.no_grad():
        other[-1].weight.mul_(1.5)
        other[-1].bias.mul_(1.5)  # so that every class stays, and the defect lives
    folder = save(other, tmp_path / "other")
    defect = next(one for one in finished.record["defects"] if one["oracle"] == "changed_prediction")
    done = in_process("replay", finished.folder, defect["id"], "--explain", "--model", folder)
    assert done.code == 1, done.said
    done.explains("neurons", "heat")


def test_a_model_that_answers_rightly_has_nothing_explained(finished: Finished, network: Any, tmp_path: Path) -> None:
    import copy

    import torch

    defect = next(one for one in finished.record["defects"] if one["oracle"] == "changed_prediction" and one["label"] is not None)
    right = copy.deepcopy(network)
    with torch.no_grad():
        right[-1].bias[defect["label"]] += 1000.0
    folder = save(right, tmp_path / "right")
    done = in_process("replay", finished.folder, defect["id"], "--explain", "--model", folder, "--out", tmp_path / "why")
    assert done.code == 0, done.said
    done.explains("nothing to explain", "the defect is gone")
    assert "effect" not in done.said
    assert not list((tmp_path / "why").iterdir())


def test_a_folder_without_an_explanation_is_a_usage_error(finished: Finished, tmp_path: Path) -> None:
    done = in_process("replay", finished.folder, finished.record["defects"][0]["id"], "--out", tmp_path / "why")
    assert done.code == 2
    done.explains("--explain")


def test_the_record_says_what_was_explained_and_agrees_with_the_folders(finished: Finished) -> None:
    record = finished.record
    triage = record["triage"]
    attributed = [one for one in record["defects"] if one["attribution"] is not None]
    assert triage["attributed"] == len(attributed) > 0
    assert triage["spent"] <= triage["allowed"]
    assert set(triage["not_explained"]) == {one["root_cause"] for one in record["defects"]} - {one["root_cause"] for one in attributed}
    for one in attributed:
        assert one["neurons"] == [f"{row['layer']}[{row['neuron']}]" for row in one["attribution"]["neurons"]]
        assert (one["attribution"]["heat"] is None) == ("cam" not in one["files"])
        written = json.loads((finished.folder / "defects" / one["id"] / "defect.json").read_text())
        assert written["attribution"] == one["attribution"]
        assert all((finished.folder / path).is_file() for path in one["files"].values())
