"""A candidate beside the model in production, on the same inputs: a copy is no worse, a worse one breaches."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from candidates import Digits, save, train
from gate_command import Finished, in_process

from gate.domains.image.limits import Domain

COMPARED = ("defect_rate", "mutant_failure_rate", "confident_error_rate", "robust_margin_p05", "clean_accuracy", "long_tail_accuracy")
FAMILIES = ("geometry", "photometry", "blur", "noise", "weather", "compression", "occlusion")
RULES = """
  - {id: no-more-defects, metric: defect_rate, compare: {to: baseline, max_rise: 0.05}, confidence: 0.95}
  - {id: no-more-failures, metric: mutant_failure_rate, compare: {to: baseline, max_rise: 0.02}, confidence: 0.95}
  - {id: no-less-accuracy, metric: clean_accuracy, compare: {to: baseline, max_drop: 0.02}, confidence: 0.95}
  - {id: flips, metric: negative_flip_rate, fail: "> 0.05", confidence: 0.95}
"""
STRICT = """
  - {id: relative, metric: mutant_failure_rate, compare: {to: baseline, max_rise: 0.5, relative: true}, confidence: 0.9}
  - {id: classes, metric: clean_accuracy, compare: {to: baseline, max_drop: 0.9}, confidence: 0.9, slice: {by: class, worst: true}}
"""
TILTED = {"geometry": {"rotation": 40.0, "shear": 0.3}}  # the only changes: what the one model was trained with, and the other was not


def policy_file(path: Path, name: str, rules: str) -> Path:
    off = {family: dict.fromkeys(type(getattr(Domain(), family)).model_fields) for family in FAMILIES}
    domain = {family: {**none, **TILTED.get(family, {})} for family, none in off.items()}
    head = f"version: 1\nname: {name}\ndescription: For tests.\narms: {{judging: 0.4, random: 0.05, noise: 0.02}}\n"
    judging = f"judging: {{mutants_per_seed: 3}}\ndomain: {json.dumps(domain)}\n"
    path.write_text(f"{head}{judging}rules:\n{rules}", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tail(place: Path, data: tuple[Digits, Digits]) -> Path:
    """Dim digits, of two kinds."""
    _, test = data
    dim = Digits((test.x[:120] * 0.5).astype(np.uint8), test.y[:120])
    return dim.save(place / "tail.npz", kind=np.array(["dusk", "night"] * 60))


@pytest.fixture(scope="module")
def champion(place: Path, data: tuple[Digits, Digits]) -> Path:
    """The session's network, trained with tilted digits as well."""
    from scipy import ndimage

    random, plain = np.random.default_rng(0), data[0]
    tilted = [plain.x]
    for _ in range(3):
        angles = random.uniform(-35, 35, len(plain.x))
        turned = [ndimage.rotate(x, angle, reshape=False, order=1) for x, angle in zip(plain.x, angles, strict=True)]
        tilted.append(np.stack(turned))
    return save(train(Digits(np.concatenate(tilted), np.tile(plain.y, 4))), place / "champion")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, champion: Path, model: Path, seeds: Path, tail: Path) -> Callable[[str], Finished]:
    """A run of a copy of the model in production, and one of a model that was trained without augmentation."""
    base = tmp_path_factory.mktemp("beside")
    shutil.copytree(champion, base / "copy")
    policy = policy_file(base / "compared.yaml", "compared", RULES)
    done: dict[str, Finished] = {}

    def run(name: str) -> Finished:
        if name not in done:
            candidate = model if name == "worse" else base / "copy"
            options = ("--seeds", seeds, "--long-tail", tail, "--policy", policy, "--executions", "2000", "--out", base / name)
            ended = in_process("run", "--model", candidate, "--baseline", champion, *options)
            assert ended.code in (0, 1, 4), ended.said
            done[name] = Finished(base / name)
        return done[name]

    return run


def statuses(record: dict[str, Any]) -> dict[str, str]:
    return {rule["id"]: rule["status"] for rule in record["rules"]}


def test_a_copy_of_the_model_in_production_rises_nowhere_and_breaches_nothing(runs: Callable[[str], Finished]) -> None:
    record = runs("same").record
    for name in COMPARED:
        paired = record["metrics"][name]["paired"]
        assert paired["rise"] == 0.0, name
        assert paired["candidate"] == paired["baseline"]
        assert paired["lower"] <= 0.0 <= paired["upper"]
        parts = [part for by in record["metrics"][name]["slices"].values() for part in by.values()]
        assert all(part["paired"]["rise"] == 0.0 for part in parts if part["paired"])
    assert record["metrics"]["defect_rate"]["paired"]["new"] == 0.0
    assert record["metrics"]["negative_flip_rate"]["value"] == 0.0
    assert "fail" not in statuses(record).values()
    assert all(defect["known"] for defect in record["defects"] if defect["oracle"] == "changed_prediction")
    for cause in record["root_causes"]:
        assert cause["known"] == sum(bool(d["known"]) for d in record["defects"] if d["root_cause"] == cause["id"])


def test_a_worse_model_breaches_what_compares_it(runs: Callable[[str], Finished]) -> None:
    record = runs("worse").record
    paired = record["metrics"]["defect_rate"]["paired"]
    assert paired["lower"] > 0.05
    assert paired["new"] > paired["rise"] > 0.05
    assert statuses(record)["no-more-defects"] == statuses(record)["no-more-failures"] == "fail"
    assert record["verdict"] == "fail"
    assert record["metrics"]["negative_flip_rate"]["value"] > 0
    assert set(record["metrics"]["negative_flip_rate"]["extra"]) >= {"clean", "long_tail", "judging"}
    assert any(defect["known"] is False for defect in record["defects"])


def test_the_baselines_passes_are_counted_beside_the_campaign_and_not_in_it(
    runs: Callable[[str], Finished], data: tuple[Digits, Digits]
) -> None:
    record = runs("worse").record
    said, campaign = record["against_baseline"], record["campaign"]
    assert campaign["executions"] == 2000
    assert said["clean"] == len(data[1].x)
    assert said["long_tail"] == 120
    judged = campaign["arms"]["judging"]["executions"] // 3
    assert record["metrics"]["defect_rate"]["paired"]["n"] <= said["judged"] <= judged
    assert said["paired_reason"] is None
    assert said["executions"] >= said["clean"] + said["long_tail"] + said["asked"] + said["judged"]
    assert said["seconds"] > 0


def test_another_policy_compares_from_the_evidence_alone(runs: Callable[[str], Finished], tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(runs("worse").folder, folder)
    before = Finished(folder).record
    for path in folder.glob("campaign/*"):
        if path.name not in ("evidence.json", "reading.json"):
            path.unlink() if path.is_file() else shutil.rmtree(path)
    strict = policy_file(tmp_path / "strict.yaml", "strict", STRICT)
    done = in_process("evaluate", folder, "--policy", strict, "--out", tmp_path / "judged")
    assert done.code == 1, done.said
    after = Finished(tmp_path / "judged").record
    assert statuses(after)["relative"] == "fail"
    assert statuses(after)["classes"] == "pass"
    assert after["metrics"]["defect_rate"]["paired"] == before["metrics"]["defect_rate"]["paired"]
    evidence = json.loads((folder / "campaign" / "evidence.json").read_text(encoding="utf-8"))
    assert len(evidence["baseline"]["judged"]) == before["against_baseline"]["judged"]
