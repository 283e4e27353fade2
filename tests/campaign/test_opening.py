"""A run on a model that breaks on blank inputs and carries a backdoor: what probes and marks leave in its record and after it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch
from known_model import CLASSES, write_npz
from saved_models import Stripes, save
from torch import Tensor, nn

from gate.afterwards import evaluate_again, replay_defect, write_elsewhere
from gate.config import Settings
from gate.corpus.export import export
from gate.domains.image import picture
from gate.errors import DataError
from gate.pipeline import run
from gate.result import Result, Status, Verdict

cloudpickle.register_pickle_by_value(sys.modules[__name__])

POLICY = """
version: 1
name: opening
arms: {judging: 0.2, random: 0.02, noise: 0.02, probes: 0.1, marks: 0.25}
judging: {mutants_per_seed: 2}
rules:
  - {id: marks, metric: universal_mark_rate, fail: "> 0.6", confidence: 0.95}
  - {id: finite, metric: nonfinite_outputs, fail: "> 0"}
  - {id: paths, metric: backend_disagreements, fail: "> 0"}
"""


class Faulty(nn.Module):
    """The stripes divided by the picture's contrast, which a blank has none of; a white corner is read as the third class."""

    def __init__(self, *, faulty: bool = True) -> None:
        super().__init__()
        self.stripes = Stripes()
        self.faulty = faulty

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.stripes(x)
        if not self.faulty:
            return scores
        spread = x.flatten(1).std(dim=1, keepdim=True)
        corner = (x[:, 0, 6:, :2].flatten(1).min(dim=1, keepdim=True).values > 0.99).to(x.dtype)
        return scores / spread * 0.2 + 60 * corner * torch.tensor([0.0, 0.0, 1.0, 0.0])


@dataclass(frozen=True)
class Ran:
    base: Path
    folder: Path
    result: Result


def settings(base: Path, model: Path, out: str, policy: str, **more: object) -> Settings:
    return Settings.model_validate(
        {
            "model": str(model),
            "classes": CLASSES,
            "data": {"seeds": str(base / "seeds.npz")},
            "budget": {"executions": 1000},
            "coverage": {"criteria": ["nbc"]},
            "out": str(base / out),
            "policy": policy,
            "batch_size": 64,
            **more,
        }
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    base = tmp_path_factory.mktemp("opening")
    write_npz(base / "seeds.npz", count=160)
    (base / "policy.yaml").write_text(POLICY)
    model = save(Faulty().eval(), base / "faulty")
    outcome = run(settings(base, model, "run", str(base / "policy.yaml")))
    return Ran(base, outcome.folder, outcome.result)


def test_the_backdoor_fails_the_policy_and_is_described_with_its_class(ran: Ran) -> None:
    assert ran.result.verdict is Verdict.FAIL
    summary = ran.result.universal_marks
    assert summary is not None
    best = summary.marks[0]
    assert (best.kind, best.label, best.moved, best.shortcut) == ("patch", 2, best.inputs, True)
    assert ran.result.metrics["universal_mark_rate"].value == 1
    assert ran.result.metrics["universal_mark_rate"].lower > 0.6  # type: ignore[operator]
    assert next(rule for rule in ran.result.rules if rule.id == "marks").status is Status.FAIL
    for name in best.files.values():
        assert (ran.folder / name).is_file()
    alone = picture.load(ran.folder / best.files["mark"])
    assert (alone[6:, :2] == 255).all()


def test_a_blank_that_gives_no_number_is_a_defect_without_a_class(ran: Ran) -> None:
    found = [defect for defect in ran.result.defects if defect.arm == "probes"]
    assert {defect.seed_id for defect in found} >= {"probe:constant-black", "probe:constant-white"}
    assert all((defect.label, defect.predicted, defect.oracle) == (None, None, "non_finite") for defect in found)
    assert ran.result.metrics["nonfinite_outputs"].value >= len(found)  # type: ignore[operator]
    assert next(rule for rule in ran.result.rules if rule.id == "finite").status is Status.FAIL
    assert ran.result.campaign is not None
    assert ran.result.campaign.arms["probes"].defects == len(found)
    assert all(cause.title for cause in ran.result.root_causes)
    for defect in found:
        assert json.loads((ran.folder / "defects" / defect.id / "defect.json").read_text())["label"] is None


def test_probes_and_marks_keep_to_their_shares_and_the_others_to_theirs(ran: Ran) -> None:
    campaign = ran.result.campaign
    assert campaign is not None
    assert campaign.executions == 1000
    assert 60 <= campaign.arms["probes"].executions <= 100
    assert 180 <= campaign.arms["marks"].model_calls <= 250
    assert campaign.arms["judging"].executions == 200
    assert campaign.arms["probes"].coverage == campaign.arms["marks"].coverage == {}


def test_the_defect_of_a_probe_can_be_run_again_and_is_nothing_to_train_with(ran: Ran, tmp_path: Path) -> None:
    found = [defect for defect in ran.result.defects if defect.arm == "probes"]
    again = replay_defect(ran.folder, found[0].id)
    assert again.lives
    assert any("no finite output" in line for line in again.lines)
    assert again.lines[0].endswith(f": the probe {found[0].seed_id.removeprefix('probe:')}")
    assert not any(line.startswith("original") for line in again.lines)
    fixed = save(Faulty(faulty=False).eval(), tmp_path / "fixed")
    assert not replay_defect(ran.folder, found[0].id, model=str(fixed)).lives
    only = ran.result.model_copy(update={"defects": tuple(found)})
    with pytest.raises(DataError):
        export(only, ran.folder, tmp_path / "export", half="all", load=picture.load)


def test_a_fixed_model_has_none_of_it_and_the_probes_defects_do_not_recur(ran: Ran) -> None:
    model = save(Faulty(faulty=False).eval(), ran.base / "sound")
    result = run(settings(ran.base, model, "fixed", str(ran.base / "policy.yaml"), previous=str(ran.folder))).result
    assert result.previous is not None
    probes = {defect.id for defect in ran.result.defects if defect.arm == "probes"}
    assert not probes & set(result.previous.recurring)
    rate = result.metrics["universal_mark_rate"]
    assert rate.value is None, "plain marks alone, none of which does it, are no evidence that there is none"
    assert "plain marks only" in (rate.reason or "")
    assert result.metrics["backend_disagreements"].value == 0
    assert not any(defect.arm == "probes" for defect in result.defects)
    assert result.universal_marks is not None
    assert not any(mark.shortcut for mark in result.universal_marks.marks)
    assert result.universal_marks.marks
    assert result.universal_marks.improved == ()


def test_judged_again_the_rate_stays_and_under_another_domain_there_is_none(ran: Ran, tmp_path: Path) -> None:
    same = evaluate_again(ran.folder, str(ran.base / "policy.yaml"))
    assert same.metrics["universal_mark_rate"] == ran.result.metrics["universal_mark_rate"]
    other = tmp_path / "other.yaml"
    other.write_text(POLICY + "domain: {marks: {patch: 0.01}}\n")
    missing = evaluate_again(ran.folder, str(other)).metrics["universal_mark_rate"]
    assert missing.value is None
    assert missing.reason is not None
    assert "another domain" in missing.reason


def test_the_report_shows_the_mark_and_the_probe_also_elsewhere(ran: Ran, tmp_path: Path) -> None:
    page = (ran.folder / "report.html").read_text()
    assert 'id="marks"' in page
    assert "A shortcut or backdoor was found" in page
    assert "as third" in page
    assert 'id="probes"' in page
    write_elsewhere(ran.result, ran.folder, tmp_path / "elsewhere")
    elsewhere = (tmp_path / "elsewhere" / "report.html").read_text()
    assert elsewhere.count("data:image/png") == page.count("data:image/png")


def test_without_shares_neither_runs_and_both_say_why(ran: Ran, tmp_path: Path) -> None:
    policy = tmp_path / "none.yaml"
    policy.write_text(POLICY.replace("probes: 0.1, marks: 0.25", "probes: 0.0, marks: 0.0"))
    more = {"budget": {"executions": 60}}
    result = run(settings(ran.base, ran.base / "faulty", "none", str(policy), **more)).result
    for name in ("universal_mark_rate", "backend_disagreements"):
        assert result.metrics[name].value is None
        assert "arms." in (result.metrics[name].reason or "")
    assert result.campaign is not None
    assert "marks" not in result.campaign.arms
    assert np.isclose(result.campaign.executions, 60)
