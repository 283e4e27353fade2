"""A shortcut on real digits is the root cause that is read first, with defects that come back; a sound network has none."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.planted import Planted, plant, save
from gate.afterwards import replay_defect
from gate.config import Settings
from gate.corpus.trainable import trainable
from gate.domains.image import picture
from gate.domains.mark import lay
from gate.pipeline import run
from gate.result import Result
from gate.triage.identity import root_cause_id
from gate.triage.mark_defects import read_mark

POLICY = """
version: 1
name: marks
arms: {judging: 0.1, random: 0.02, noise: 0.02, probes: 0.02, marks: 0.5}
judging: {mutants_per_seed: 1}
rules:
  - {id: marks, metric: universal_mark_rate, fail: "> 0.6"}
"""


@pytest.fixture(scope="module")
def planted() -> Planted:
    return plant("mark", 0)


@pytest.fixture(scope="module")
def ran(planted: Planted, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    return gated(planted, tmp_path_factory.mktemp("marked"), POLICY)


def gated(planted: Planted, base: Path, policy: str, **more: str) -> tuple[Result, Path]:
    base.mkdir(exist_ok=True)
    model, seeds = save(planted, base)
    (base / "policy.yaml").write_text(policy)
    outcome = run(
        Settings.model_validate(
            {
                "model": str(model),
                "data": {"seeds": str(seeds)},
                "budget": {"executions": 800},
                "policy": str(base / "policy.yaml"),
                "coverage": {"criteria": ["nbc"]},
                "out": str(base / "run"),
                "publish": False,
                "device": "cpu",
                **more,
            }
        )
    )
    return outcome.result, outcome.folder


def test_the_shortcut_is_the_first_root_cause_and_names_its_class(ran: tuple[Result, Path], planted: Planted) -> None:
    result, _ = ran
    (target,), first = planted.cause.predicted, result.root_causes[0]
    assert (first.oracle, first.predicted, first.label, first.family) == ("universal_mark", target, None, "mark_patch")
    assert first.id == root_cause_id("universal_mark", "any class", result.class_name(target), "mark_patch")
    assert first.type == "shortcut"
    assert first.size == 8
    assert "changed_prediction" in {cause.oracle for cause in result.root_causes[1:]}
    assert result.universal_marks is not None
    mark = next(one for one in result.universal_marks.marks if (one.kind, one.label) == ("patch", target))
    share = "all inputs" if mark.moved == mark.inputs else f"{100 * mark.moved // mark.inputs}% of the inputs"
    assert first.title == f"a small patch makes {share} read as {target}"
    assert "mark" in (first.repair or "")
    assert first.explained >= 1


def test_its_defects_are_inputs_of_many_classes_with_the_mark_on_them(ran: tuple[Result, Path], planted: Planted) -> None:
    result, folder = ran
    (target,) = planted.cause.predicted
    found = [defect for defect in result.defects if defect.root_cause == result.root_causes[0].id]
    assert len({defect.label for defect in found}) == 8, "of nine other classes each comes once before any comes twice"
    for defect in found:
        assert (defect.arm, defect.predicted, defect.natural, defect.minimal) == ("marks", target, False, None)
        assert defect.label != defect.predicted
        assert "changed_prediction" in defect.also
        mark = read_mark(folder / defect.files["mark_data"], "patch", (8, 8, 1))
        assert mark is not None
        before, after = (picture.load(folder / defect.files[name]) for name in ("original_data", "mutant_data"))
        assert np.array_equal(lay(before[None], mark.weight, mark.picture)[0], after)
        assert json.loads((folder / "defects" / defect.id / "defect.json").read_text())["type"] == "shortcut"
        assert not trainable(defect)
    assert replay_defect(folder, found[0].id).lives
    assert (folder / "defects" / found[0].id / "test_defect.py").is_file()
    looked_into = [defect.attribution for defect in found if defect.attribution is not None]
    assert looked_into
    assert all(one.heat is not None and one.patched > 0 for one in looked_into)


def test_they_count_for_the_marks_and_in_no_figure_of_the_search(ran: tuple[Result, Path]) -> None:
    result, folder = ran
    found = {defect.id for defect in result.defects if defect.oracle == "universal_mark"}
    assert result.campaign is not None
    assert result.campaign.arms["marks"].defects == len(found)
    assert result.campaign.arms["marks"].findings >= len(found)
    evidence = json.loads((folder / "campaign" / "evidence.json").read_text())
    assert evidence["defects"]
    assert not found & {defect["id"] for defect in evidence["defects"]}


def test_a_sound_network_has_none_and_a_policy_can_switch_them_off(planted: Planted, tmp_path: Path) -> None:
    sound, _ = gated(dataclasses.replace(planted, module=planted.healthy), tmp_path / "sound", POLICY)
    assert sound.universal_marks is not None
    assert sound.universal_marks.marks
    assert not [cause for cause in sound.root_causes if cause.oracle == "universal_mark"]
    off, _ = gated(planted, tmp_path / "off", POLICY + "oracles: {universal_mark: false}\n")
    assert off.universal_marks is not None
    assert off.universal_marks.marks[0].shortcut
    assert not [defect for defect in off.defects if defect.oracle == "universal_mark"]
