"""A whole small run on a network whose weakness is known: what it finds, that the supervisor stays free of torch, and what comes after."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from known_model import CLASSES, TRAP, images, write_npz
from saved_models import Stripes, save

from gate.afterwards import evaluate_again, replay_defect, write_elsewhere
from gate.corpus.corpus_file import read_corpus
from gate.corpus.export import export
from gate.coverage.store import load
from gate.domains.image import picture
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import sample_ids
from gate.domains.image.limits import Domain
from gate.domains.image.recipe import recipe_from_json
from gate.errors import CoverageMapError, DataError, EvidenceError, OutputError
from gate.result import Result, Verdict

# Runs in a process of its own, so that what it has imported at the end is what the supervisor imports.
PROGRAM = """
import json, sys
from pathlib import Path
from gate.config import Settings
from gate.pipeline import run
settings = Settings.model_validate_json(Path(sys.argv[1]).read_text())
outcome = run(settings)
json.dump({"torch": "torch" in sys.modules, "code": outcome.result.exit_code}, sys.stdout)
"""


@dataclass(frozen=True)
class Run:
    """A finished run, its models and what its process said."""

    folder: Path
    result: Result
    said: dict[str, object]
    trapped: Path
    sound: Path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    base = tmp_path_factory.mktemp("small run")
    trapped, sound = save(Stripes(trap=TRAP).eval(), base / "trapped"), save(Stripes().eval(), base / "sound")
    arms = "arms: {judging: 0.3, random: 0.05, noise: 0.02, marks: 0.1, canaries: 0}"  # so that the search has its executions to the last
    (base / "policy.yaml").write_text(f"version: 1\nname: small\nextends: [baseline]\n{arms}\n")
    settings = {
        "policy": str(base / "policy.yaml"),
        "model": str(trapped),
        "classes": CLASSES,
        "data": {"seeds": str(write_npz(base / "seeds.npz"))},
        "budget": {"executions": 2000},
        "coverage": {"layers": ["hidden"], "criteria": ["kmnc", "nbc"]},
        "previous": "none",
        "device": "cpu",
        "batch_size": 64,
        "out": str(base / "run"),
    }
    (base / "settings.json").write_text(json.dumps(settings))
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(base / "settings.json")], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return Run(base / "run", Result.load(base / "run"), json.loads(ended.stdout.splitlines()[-1]), trapped, sound)


def test_the_supervisor_never_imports_torch(run: Run) -> None:
    assert run.said["torch"] is False


def test_the_guided_search_reaches_the_neuron_that_only_low_light_reaches(run: Run) -> None:
    assert run.result.campaign is not None
    found = [defect for defect in run.result.defects if defect.arm == "search"]
    assert len(found) >= 3
    assert run.result.triage is not None
    assert len(found) + run.result.triage.merged >= 5  # as they were found: minimised, some turn out to be the same
    for defect in run.result.defects:
        mutant = picture.load(run.folder / defect.files["mutant_data"])
        assert mutant.mean() / 255 < TRAP
        assert defect.predicted == (defect.label + 1) % 4
    seeds = images()[0]
    assert (seeds.reshape(len(seeds), -1).mean(axis=1) / 255 > TRAP).all()
    assert run.result.coverage["nbc"].by_layer["hidden"] > 0
    assert run.result.campaign.executions == 2000
    assert sum(arm.executions for arm in run.result.campaign.arms.values()) == 2000


def test_the_map_of_the_run_holds_what_the_record_says_and_belongs_to_its_model(run: Run) -> None:
    path = run.folder / "campaign/coverage.map"
    maps = load(path, model=run.result.candidate.digest, profile=None)
    assert set(maps) == set(run.result.coverage) == {"kmnc", "nbc"}
    for name, summary in run.result.coverage.items():
        assert (maps[name].covered, maps[name].total, maps[name].raw_value) == (summary.covered, summary.total, summary.raw_final)
        assert sum(place.items for place in summary.unreached) == (summary.total or 0) - summary.covered
    assert run.result.coverage["kmnc"].unreached[0].place == "hidden"
    with pytest.raises(CoverageMapError, match="another model"):
        load(path, model="sha256:another", profile=None)


def test_every_defect_of_the_record_is_described_on_disk_and_the_other_way_round(run: Run) -> None:
    on_disk = {path.parent.name: json.loads(path.read_text()) for path in run.folder.glob("defects/*/defect.json")}
    assert on_disk == {defect.id: json.loads(defect.model_dump_json()) for defect in run.result.defects}
    assert sum(cause.size for cause in run.result.root_causes) == len(run.result.defects)


def test_natural_mutants_of_the_corpus_replay(run: Run) -> None:
    stored = read_corpus(run.folder / "campaign" / "corpus.bin")
    seeds, labels = images()
    by_id = dict(zip(sample_ids(seeds, labels), seeds, strict=True))
    domain = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
    replayed = 0
    for mutant, seed, recipe in zip(
        stored.mutants(np.arange(len(stored.entries))), stored.entries.seed_ids, stored.entries.recipes, strict=True
    ):
        if all(step["operator"] in domain.natural for step in recipe):
            np.testing.assert_array_equal(domain.replay(by_id[seed], recipe_from_json(recipe)), mutant)
            replayed += 1
    assert replayed > 10


def test_a_defect_lives_on_its_model_and_is_gone_on_the_fixed_one(run: Run) -> None:
    defect = run.result.defects[0]
    here = replay_defect(run.folder, defect.id, device="cpu")
    assert here.lives
    text = "\n".join(here.lines)
    assert f"mutant     read as {CLASSES[(defect.label + 1) % 4]}" in text
    assert f"original   read as {CLASSES[defect.label]}" in text
    there = replay_defect(run.folder, defect.id[:9], model=str(run.sound), device="cpu", times=1)
    assert not there.lives
    assert "the defect is gone" in there.lines


def test_an_unknown_defect_is_named_with_the_nearest(run: Run) -> None:
    identity = run.result.defects[0].id
    with pytest.raises(DataError, match="has no defect") as caught:
        replay_defect(run.folder, identity[:-1] + ("0" if identity[-1] != "0" else "1"))
    assert identity in str(caught.value)
    for unclear in ("", "d-"):
        with pytest.raises(DataError):
            replay_defect(run.folder, unclear)


def test_the_same_policy_gives_the_same_judgement_again_and_another_its_own(run: Run) -> None:
    again = evaluate_again(run.folder, "baseline")
    assert (again.verdict, again.exit_code, again.metrics, again.rules) == (
        run.result.verdict,
        run.result.exit_code,
        run.result.metrics,
        run.result.rules,
    )
    strict = evaluate_again(run.folder, "strict")
    assert strict.policy is not None
    assert strict.policy.name == "strict"
    assert [rule.threshold for rule in strict.rules] != [rule.threshold for rule in again.rules]
    assert strict.defects == run.result.defects
    assert Result.load(run.folder) == run.result  # nothing was written


def _policy(path: Path, text: str) -> str:
    path.write_text(f"version: 1\nname: {path.stem}\nextends: [baseline]\n{text}\n")
    return str(path)


def test_rates_of_another_domain_are_missing_and_never_pass(run: Run, tmp_path: Path) -> None:
    wide = evaluate_again(run.folder, _policy(tmp_path / "wide.yaml", "domain: {geometry: {rotation: 90}}"))
    for name in ("defect_rate", "mutant_failure_rate", "robust_margin_p05"):
        assert wide.metrics[name].value is None
        assert "under another domain" in str(wide.metrics[name].reason)
    assert wide.verdict is not Verdict.PASS
    assert any("Judged again under policy wide" in reason for reason in wide.reasons)


def test_more_mutants_of_each_seed_input_than_the_run_made_are_missing_too(run: Run, tmp_path: Path) -> None:
    more = evaluate_again(run.folder, _policy(tmp_path / "more.yaml", "judging: {mutants_per_seed: 64}"))
    assert more.metrics["defect_rate"].value is None
    assert "asks for 64" in str(more.metrics["defect_rate"].reason)
    assert more.verdict is not Verdict.PASS


def test_fewer_mutants_are_the_first_ones_of_each_seed_input(run: Run, tmp_path: Path) -> None:
    few = evaluate_again(run.folder, _policy(tmp_path / "few.yaml", "judging: {mutants_per_seed: 2}"))
    evidence = json.loads((run.folder / "campaign" / "evidence.json").read_text())
    rows = [row for row in evidence["judged"] if any(row["valid"][:2])]
    failing = sum(any(f and v for f, v in zip(row["failed"][:2], row["valid"][:2], strict=True)) for row in rows)
    assert few.metrics["defect_rate"].n == len(rows)
    assert few.metrics["defect_rate"].value == pytest.approx(failing / len(rows))
    assert few.metrics["defect_rate"].value <= run.result.metrics["defect_rate"].value  # type: ignore[operator]


def test_a_judgement_can_be_written_elsewhere_with_its_pictures(run: Run, tmp_path: Path) -> None:
    strict = evaluate_again(run.folder, "strict", advisory=True)
    assert strict.exit_code in (0, 3)
    write_elsewhere(strict, run.folder, tmp_path / "out")
    assert Result.load(tmp_path / "out") == strict
    assert evaluate_again(tmp_path / "out", "strict").verdict == strict.verdict
    assert all((tmp_path / "out" / path).is_file() for defect in strict.defects for path in defect.files.values())
    with pytest.raises(OutputError, match="not empty"):
        write_elsewhere(strict, run.folder, tmp_path / "out")


def test_a_judgement_is_never_written_into_the_run(run: Run) -> None:
    for inside in (run.folder, run.folder / "defects" / "new"):
        with pytest.raises(OutputError, match="inside the run"):
            write_elsewhere(run.result, run.folder, inside)
    assert not (run.folder / "defects" / "new").exists()


def test_replay_opens_no_file_outside_of_the_run(run: Run, tmp_path: Path) -> None:
    write_elsewhere(run.result, run.folder, tmp_path / "out")
    record = json.loads((tmp_path / "out" / "result.json").read_text())
    record["defects"][0]["files"]["mutant_data"] = "../../../../../../etc/passwd"
    (tmp_path / "out" / "result.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match="lacks a file"):
        replay_defect(tmp_path / "out", record["defects"][0]["id"], device="cpu")


def test_a_run_without_evidence_can_not_be_judged(run: Run, tmp_path: Path) -> None:
    write_elsewhere(run.result, run.folder, tmp_path / "out")
    evidence = tmp_path / "out" / "campaign" / "evidence.json"
    evidence.write_text(evidence.read_text()[:-100])
    with pytest.raises(OutputError, match="damaged"):
        evaluate_again(tmp_path / "out", "baseline")
    evidence.unlink()
    with pytest.raises(EvidenceError) as caught:
        evaluate_again(tmp_path / "out", "baseline")
    assert caught.value.exit_code == 4


def test_the_defects_of_a_real_run_can_be_exported(run: Run, tmp_path: Path) -> None:
    written = export(run.result, run.folder, tmp_path / "out", half="all", load=picture.load)
    assert written.exported == sum(defect.arm == "search" for defect in run.result.defects)
    with np.load(tmp_path / "out" / "train.npz") as stored:
        assert stored["x"].shape[1:] == (8, 8, 1)
        assert (stored["x"].reshape(len(stored["x"]), -1).mean(axis=1) / 255 < TRAP).all()


def test_a_run_that_the_dark_breaks_is_no_pass(run: Run) -> None:
    assert run.result.verdict is not Verdict.PASS
    assert run.said["code"] == run.result.exit_code
