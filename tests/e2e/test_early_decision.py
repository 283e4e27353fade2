"""A campaign that ends as soon as all is settled, or at the first defect of a kind that ends it, and one that can't and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from candidates import Digits, save
from gate_command import Finished, in_process

EXECUTIONS = 1200

POLICY = """
version: 1
name: {name}
arms: {{judging: 0.5, random: 0.05, noise: 0.02, marks: 0.0}}
judging: {{mutants_per_seed: 4}}
decide: {decide}
abort_on: [{abort}]
rules:
  - {{id: no-crashes, metric: crashes, fail: "> 0"}}
  - {{id: finite, metric: nonfinite_outputs, fail: "> 0"}}
  - {{id: defect-rate, metric: defect_rate, fail: "> {limit}", confidence: 0.95, min_samples: 20}}
  - {{id: failures, metric: mutant_failure_rate, fail: "> 0.5"}}
  - {{id: enough, metric: executions, fail: "< 150"}}
"""

FAULTY = """
import torch
from torch import nn

class Breaks(nn.Module):
    def __init__(self, inner, above):
        super().__init__()
        self.inner, self.above = inner, above

    def forward(self, x):
        bright = x.mean(dim=(1, 2, 3)) > self.above
        return torch.where(bright[:, None], torch.full((), float("nan")), self.inner(x))

class Brittle(Breaks):
    def forward(self, x):
        steps = x * 16  # the digits have whole numbers of them
        changed = (steps - steps.round()).abs().amax(dim=(1, 2, 3)) > self.above
        raw = self.inner(x)
        return torch.where(changed[:, None], raw.roll(1, dims=1), raw)
"""

Run = Callable[..., Finished]


@pytest.fixture(scope="module")
def made(network: Any, place: Path) -> Callable[[str, float], Path]:
    """The network inside one of the faulty ones of ``FAULTY``, whose code travels with it."""
    code = place / "code"
    code.mkdir(exist_ok=True)
    (code / "early_models.py").write_text(FAULTY)

    def make(kind: str, above: float) -> Path:
        folder = place / f"{kind}-{above}"
        if not folder.exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.syspath_prepend(str(code))
                save(getattr(__import__("early_models"), kind)(network, above).eval(), folder, code=code / "early_models.py")
        return folder

    return make


@pytest.fixture(scope="module")
def worse(made: Callable[[str, float], Path]) -> Path:
    """Right about every clean picture, and wrong about most of what is changed in any way."""
    return made("Brittle", 0.1)


@pytest.fixture(scope="module")
def few(data: tuple[Digits, Digits], place: Path) -> Path:
    return Digits(data[1].x[:300], data[1].y[:300]).save(place / "few.npz")


@pytest.fixture(scope="module")
def run(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the gate, the same way only once."""
    known: dict[tuple[Any, ...], Finished] = {}
    place = tmp_path_factory.mktemp("early")

    def once(
        model: Path, *, decide: str = "early", limit: float = 0.4, abort: str = "", workers: int = 1, more: str = "", baseline: str = ""
    ) -> Finished:
        asked = (model, decide, limit, abort, workers, more, baseline)
        if asked not in known:
            folder = place / str(len(known))
            folder.mkdir()
            (folder / "policy.yaml").write_text(POLICY.format(name="early", decide=decide, limit=limit, abort=abort) + more)
            settings = f"workers: {workers}\nbatch_size: 64\ncoverage: {{criteria: [nbc]}}\n"
            (folder / "gate.yaml").write_text(settings + (f"baseline: {baseline}\n" if baseline else ""))
            done = in_process(
                "run", "--config", folder / "gate.yaml", "--model", model, "--seeds", few, "--policy", folder / "policy.yaml",
                "--executions", str(EXECUTIONS), "--out", folder / "out",
            )  # fmt: skip
            assert "Traceback" not in done.said, done.said
            known[asked] = Finished(folder / "out")
        return known[asked]

    return once


def events(finished: Finished, name: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in finished.text("events.jsonl").splitlines())
    return [line for line in lines if line["event"] == name]


def statuses(finished: Finished) -> dict[str, str]:
    return {rule["id"]: rule["status"] for rule in finished.record["rules"]}


@pytest.mark.parametrize("name", ["model", "worse"])
def test_a_clear_case_ends_early_with_the_verdict_that_it_would_have_had(name: str, run: Run, request: pytest.FixtureRequest) -> None:
    candidate = request.getfixturevalue(name)
    early, end = run(candidate), run(candidate, decide="end")
    early.is_whole()
    assert early.record["verdict"] == end.record["verdict"] == {"model": "pass", "worse": "fail"}[name]
    assert statuses(early) == statuses(end)
    assert end.record["early"] is None
    assert end.record["campaign"]["executions"] == EXECUTIONS
    campaign, said = early.record["campaign"], early.record["early"]
    assert campaign["stop_reason"] == "decided"
    assert campaign["executions"] < 0.7 * EXECUTIONS
    assert said["stopped"]
    assert said["executions"] == campaign["executions"]
    assert said["of"] == EXECUTIONS
    assert said["looks"] == len(events(early, "look")) >= 1
    assert said["open_rules"] == []
    assert events(early, "look")[-1]["open"] == []
    assert "all that its policy asks for was settled" in early.text("summary.md")


def test_a_borderline_case_uses_all_its_budget_and_says_what_stayed_open(run: Run, model: Path) -> None:
    rate = run(model, decide="end").record["metrics"]["defect_rate"]["value"]
    assert rate > 0
    record = run(model, limit=round(rate, 4)).record
    assert record["campaign"]["stop_reason"] == "executions"
    assert record["campaign"]["executions"] == EXECUTIONS
    assert record["verdict"] == "inconclusive"
    assert not record["early"]["stopped"]
    assert record["early"]["open_rules"] == ["defect-rate"]
    looks = [look["executions"] for look in events(run(model, limit=round(rate, 4)), "look")]
    assert len(looks) == record["early"]["looks"] >= 5
    assert all(later >= 1.1 * earlier for earlier, later in pairwise(looks))  # so that they stay cheap


def test_any_number_of_workers_ends_at_the_same_step(run: Run, worse: Path) -> None:
    one, two = run(worse), run(worse, workers=2)
    for name in ("executions", "stop_reason"):
        assert one.record["campaign"][name] == two.record["campaign"][name]
    looks = [[{key: look[key] for key in ("number", "open", "executions", "judged")} for look in events(of, "look")] for of in (one, two)]
    assert looks[0] == looks[1]
    assert (one.folder / "campaign" / "corpus.bin").read_bytes() == (two.folder / "campaign" / "corpus.bin").read_bytes()


def test_judged_again_by_a_policy_that_decides_at_the_end_it_keeps_the_intervals_that_allow_for_looking(
    run: Run, model: Path, tmp_path: Path
) -> None:
    early = run(model)
    (tmp_path / "end.yaml").write_text(POLICY.format(name="end", decide="end", limit=0.4, abort=""))
    done = in_process("evaluate", early.folder, "--policy", tmp_path / "end.yaml", "--out", tmp_path / "out")
    assert done.code == 0, done.said
    before, after = (record["metrics"]["defect_rate"] for record in (early.record, Finished(tmp_path / "out").record))
    assert before == after


@pytest.mark.slow
def test_a_comparison_with_the_baseline_is_settled_while_the_campaign_runs(run: Run, model: Path, worse: Path) -> None:
    rule = "  - {id: no-worse, metric: mutant_failure_rate, compare: {to: baseline, max_rise: 0.15}, confidence: 0.95}\n"
    same, other = run(model, more=rule, baseline=str(model)), run(worse, more=rule, baseline=str(model))
    assert (statuses(same)["no-worse"], statuses(other)["no-worse"]) == ("pass", "fail")
    for finished in (same, other):
        assert finished.record["campaign"]["stop_reason"] == "decided"
        assert finished.record["campaign"]["executions"] < EXECUTIONS


@pytest.mark.parametrize("share", [0.42, 0.9])
def test_the_first_defect_of_a_kind_that_is_named_ends_the_campaign(share: float, run: Run, made: Callable[[str, float], Path]) -> None:
    """Above 0.42 of full brightness some mutants break the model; above 0.9 only probes do."""
    finished = run(made("Breaks", share), decide="end", abort="crashes, nonfinite_outputs")
    finished.is_whole()
    record = finished.record
    assert record["campaign"]["stop_reason"] == "abort"
    assert record["verdict"] == "fail"
    assert statuses(finished)["finite"] == "fail"
    assert record["campaign"]["executions"] < 200
    assert any(defect["oracle"] == "non_finite" for defect in record["defects"])
    assert events(finished, "ended")[0]["why"] == "abort"
    assert "Aborted after" in finished.text("summary.md")
    assert record["early"] is None
