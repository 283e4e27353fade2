"""A candidate that is right as tested and wrong as served, beside the model that is in production."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from candidates import Registered, save
from gate_command import Done, Finished, in_process


@pytest.fixture(scope="module")
def network_of_large_scores(network: Any) -> Any:
    """The network with some of its filters gone, and with scores times a hundred thousand in between, which float16 can't hold."""
    from torch import eye, nn, no_grad

    damaged = copy.deepcopy(network)
    up, down = (nn.Linear(10, 10, bias=False) for _ in range(2))
    with no_grad():
        damaged[2].weight[::3] = 0
        up.weight.copy_(eye(10) * 1e5)
        down.weight.copy_(eye(10) * 1e-5)
    return nn.Sequential(damaged, up, down).eval()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, network_of_large_scores: Any, seeds: Path, registered: Registered) -> Finished:
    """One run with a baseline from the registry."""
    base = tmp_path_factory.mktemp("served")
    model = save(network_of_large_scores, base / "model")
    options = ("--model", model, "--seeds", seeds, "--policy", "smoke", "--executions", "4000", "--out", base / "out", "--no-publish")
    done = in_process("run", *options, "--baseline", f"models:/{registered.name}@champion", "--tracking-uri", registered.url)
    assert done.code in (0, 1), done.said
    return Finished(base / "out")


def backend_defects(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [defect for defect in record["defects"] if defect["arm"] == "paths"]


def test_what_overflows_in_float16_is_a_defect_that_says_how_the_model_must_not_be_served(ran: Finished) -> None:
    record = ran.record
    paths, found = record["paths"], backend_defects(record)
    inputs = paths["seeds"] + paths["mutants"]
    assert paths["mutants"] > 0
    assert inputs > 10
    tried = paths["ways"]["numeric_path:float16"]["tried"]
    assert 4 <= tried <= -(-inputs // 4)  # it is slow on a CPU, and each finding is confirmed twice
    assert paths["ways"]["numeric_path:float16"] == {"tried": tried, "findings": tried, "worst": 1.0}
    assert paths["disagreeing"] == tried
    for way in ("batch_dependence", "numeric_path:float64", "numeric_path:bfloat16", "numeric_path:int8"):
        assert paths["ways"][way]["findings"] == 0
    assert len(found) >= 2
    assert {(defect["oracle"], defect["detail"], defect["type"], defect["predicted"]) for defect in found} == {
        ("numeric_path", "float16", "backend", None)
    }
    causes = {cause["id"]: cause for cause in record["root_causes"]}
    assert all(causes[defect["root_cause"]]["title"].endswith("when served in half precision (float16)") for defect in found)
    for defect in found:
        assert json.loads(ran.text(f"defects/{defect['id']}/defect.json")) == defect


def test_these_defects_count_as_disagreements_and_not_as_finds_of_the_search(ran: Finished) -> None:
    record = ran.record
    arms, metrics = record["campaign"]["arms"], record["metrics"]
    assert arms["paths"]["executions"] == 0
    assert arms["paths"]["defects"] == len(backend_defects(record))
    assert record["campaign"]["executions"] == 4000
    assert arms["paths"]["model_calls"] == record["paths"]["model_calls"] <= 0.2 * record["triage"]["allowed"]
    assert record["triage"]["spent"] <= record["triage"]["allowed"]
    assert metrics["backend_disagreements"]["value"] >= record["paths"]["disagreeing"]
    searched = [defect for defect in record["defects"] if defect["arm"] == "search"]
    assert metrics["defects_per_1k_executions"]["value"] == pytest.approx(1000 * len(searched) / arms["search"]["executions"], rel=0.5)


def test_the_baseline_is_asked_about_every_defect_and_what_it_reads_rightly_is_new_with_this_candidate(ran: Finished) -> None:
    record = ran.record
    said = record["against_baseline"]
    assert said["reason"] is None
    assert record["baseline"]["digest"].startswith("sha256:")
    assert said["asked"] == len(record["defects"])
    right = [defect for defect in record["defects"] if defect["baseline"] == defect["label"] != defect["predicted"]]
    new = [defect for defect in record["defects"] if "baseline_disagreement" in defect["also"]]
    assert {defect["id"] for defect in new} <= {defect["id"] for defect in right}
    assert said["brought_in"] == len(new) > len(backend_defects(record)), "filters are gone: some classes are lost, too"
    assert all("baseline_disagreement" in defect["also"] for defect in backend_defects(record)), "the baseline can be served in float16"
    assert said["same"] == sum(defect["baseline"] == defect["predicted"] is not None for defect in record["defects"])
    sure = record["probes"]["oracles"]["unjustified_confidence"]
    assert sure["baseline"] == said["sure_of_nothing"]
    assert 0 <= sure["baseline"] <= sure["tried"]


def test_replayed_it_is_run_as_it_was_found_and_is_gone_on_the_baseline(ran: Finished, model: Path) -> None:
    identity = backend_defects(ran.record)[0]["id"]
    lives = in_process("replay", ran.folder, identity)
    assert lives.code == 1, lives.said
    assert "no finite output when served in half precision (float16)" in lives.said
    gone = in_process("replay", ran.folder, identity, "--model", model)
    assert gone.code == 0, gone.said


def test_in_the_next_run_it_recurs_on_the_same_model_and_not_on_a_mended_one(
    ran: Finished, network_of_large_scores: Any, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    found = {defect["id"] for defect in backend_defects(ran.record)}
    gate_run("--previous", ran.folder)
    assert not found & set(Finished(tmp_path / "out").record["previous"]["recurring"])
    again = save(network_of_large_scores, tmp_path / "again")
    gate_run("--model", again, "--previous", ran.folder, "--out", tmp_path / "second")
    assert found <= set(Finished(tmp_path / "second").record["previous"]["recurring"])


def test_they_are_nothing_to_train_with(ran: Finished, tmp_path: Path) -> None:
    done = in_process("corpus", "export", ran.folder, "--half", "all", "--out", tmp_path / "export")
    assert done.code == 0, done.said
    exported = (tmp_path / "export" / "defects.csv").read_text(encoding="utf-8")
    assert not any(defect["id"] in exported for defect in backend_defects(ran.record))


def test_a_baseline_of_other_classes_is_not_compared_and_the_run_goes_on(
    gate_run: Callable[..., Done], network: Any, tmp_path: Path
) -> None:
    from torch import nn

    done = gate_run("--baseline", save(nn.Sequential(network, nn.Linear(10, 4)).eval(), tmp_path / "four"), "--executions", "600")
    assert done.code in (0, 1), done.said
    record = Finished(tmp_path / "out").record
    assert "4 classes apart, and the candidate 10" in record["against_baseline"]["reason"]
    assert record["baseline"]["digest"] is not None
    assert all(defect["baseline"] is None for defect in record["defects"])


def test_a_baseline_that_ends_its_process_costs_the_candidate_nothing(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "data").mkdir(parents=True)
    (broken / "data" / "model.pth").write_bytes(b"no model")
    flavour = "flavors:\n  pytorch:\n    model_data: data\n    pytorch_version: 2.14.1\n    pickle_module_name: cloudpickle\n"
    (broken / "MLmodel").write_text(flavour, encoding="utf-8")
    done = gate_run("--baseline", broken, "--executions", "600")
    assert done.code in (0, 1), done.said
    record = Finished(tmp_path / "out").record
    assert record["against_baseline"]["reason"]
    assert record["against_baseline"]["asked"] == 0
