"""A model whose answers change from run to run, or with the batch: said first, flaky and no defect, and no release.

Two kinds: dropout left on, which draws anew each time, and batch statistics, by which an input's answer depends on its company.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from candidates import Digits, save, tensor
from gate_command import Finished, in_process

from gate.policy.load import shipped_policies

KINDS = ("dropout", "batch statistics")


def with_dropout(network: Any) -> Any:
    """Dropout before the last layer, on at any time, as ``nn.functional.dropout`` with its default is."""
    from torch import nn

    model = copy.deepcopy(network)
    model[-1] = nn.Sequential(nn.Dropout(0.6).train(), model[-1])
    return model


def with_batch_statistics(network: Any, data: Digits) -> Any:
    """Normalisation by the batch's own statistics, which the layers behind it have seen in training, too."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    body = copy.deepcopy(network)
    model = nn.Sequential(nn.BatchNorm2d(1, affine=False, track_running_stats=False), body)
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    x, y = tensor(data.x), torch.from_numpy(data.y)
    for _ in range(3):
        for rows in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model


@pytest.fixture(scope="module")
def runs(network: Any, data: tuple[Digits, Digits], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    place = tmp_path_factory.mktemp("case-18")
    seeds = Digits(data[1].x[:200], data[1].y[:200]).save(place / "seeds.npz")
    models = {"dropout": with_dropout(network), "batch statistics": with_batch_statistics(network, data[0])}
    found = {}
    for kind, model in models.items():
        folder = place / f"model of {kind}"
        save(model, folder)
        out = place / f"out of {kind}"
        done = in_process("run", "--model", folder, "--seeds", seeds, "--policy", "smoke", "--executions", "200", "--out", out)
        assert done.code == 1, done.said
        found[kind] = Finished(out)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_preflight_finds_it_and_it_is_said_first_everywhere(runs: dict[str, Finished], kind: str) -> None:
    record = runs[kind].record
    faults = {check["name"] for check in record["preflight"] if check["status"] == "fault"}
    assert {"dropout": "deterministic", "batch statistics": "batch_independent"}[kind] in faults
    assert "preflight" in record["reasons"][0]
    runs[kind].is_whole()
    page = runs[kind].text("report.html")
    first = page[page.index('id="faults-title"') : page.index("<h2>Why</h2>")]
    assert {"dropout": "same batch gave answers that differ", "batch statistics": "batch"}[kind] in first
    assert page.index("<main") < page.index('id="faults-title"') < page.index('id="numbers-title"')
    summary = runs[kind].text("summary.md")
    assert "preflight" in summary
    assert all(summary.index("preflight") <= summary.index(rule["id"]) for rule in record["rules"] if rule["id"] in summary)


def test_findings_that_do_not_come_back_are_flaky_and_kept_and_no_defects(runs: dict[str, Finished]) -> None:
    record = runs["dropout"].record
    assert record["metrics"]["flaky_findings"]["value"] > 0
    assert record["quarantine"]
    identities = {defect["id"].removeprefix("d-") for defect in record["defects"] if defect["oracle"] == "changed_prediction"}
    for finding in record["quarantine"]:
        assert len(finding["seen"]) > 1 or finding["id"].removeprefix("f-") not in identities
        assert sum(finding["seen"].values()) == 10
        for path in finding["files"].values():
            assert (runs["dropout"].folder / path).is_file()


def test_what_became_a_defect_came_back_ten_times(runs: dict[str, Finished]) -> None:
    """Alone, a defect of the model with batch statistics is as repeatable as any: it is its own company."""
    for kind in KINDS:
        for defect in runs[kind].record["defects"]:
            assert defect["oracle"] != "flaky"
            assert (runs[kind].folder / defect["files"]["mutant"]).is_file()


@pytest.mark.parametrize("kind", KINDS)
def test_it_fails_under_every_shipped_policy_but_classic(runs: dict[str, Finished], kind: str, tmp_path: Path) -> None:
    verdicts = {}
    for name in shipped_policies():
        done = in_process("evaluate", runs[kind].folder, "--policy", name, "--out", tmp_path / name)
        record = Finished(tmp_path / name).record
        verdicts[name] = record["verdict"]
        preflight = [rule for rule in record["rules"] if rule["metric"] == "preflight_faults"]
        assert [rule["status"] for rule in preflight] == ([] if name == "classic" else ["fail"]), done.said
    assert {name for name, verdict in verdicts.items() if verdict != "fail"} <= {"classic"}
