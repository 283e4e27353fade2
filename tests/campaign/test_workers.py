"""Two workers and three make the campaign of one, to the last byte; and a death of any ends them all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from known_model import CLASSES, images, write_npz
from saved_models import Stripes, load_parameters, save

from gate.campaign.keeper import Keeper
from gate.errors import ConfigError, WorkerError
from gate.result import Result

PROGRAM = """
import sys
from pathlib import Path
from gate.config import Settings
from gate.pipeline import run
run(Settings.model_validate_json(Path(sys.argv[1]).read_text()))
"""
# What may differ: when and where something ran.
PASSING = {"wall_seconds", "device_hours", "started_at", "seconds"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(Stripes(trap=0.2).eval(), tmp_path_factory.mktemp("trapped") / "model")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Callable[[int], Path]:
    """The output folder of a campaign with so many workers."""
    base = tmp_path_factory.mktemp("workers")
    seeds = write_npz(base / "seeds.npz")
    made: dict[int, Path] = {}

    def run(workers: int) -> Path:
        if workers not in made:
            settings = {
                "model": str(model),
                "classes": CLASSES,
                "data": {"seeds": str(seeds)},
                "budget": {"executions": 1500},
                "coverage": {"layers": ["hidden"], "criteria": ["kmnc", "nbc", "tknp"]},
                "previous": "none",
                "device": "cpu",
                "batch_size": 48,
                "workers": workers,
                "threads": 1,
                "out": str(base / f"run-{workers}"),
            }
            path = base / f"settings-{workers}.json"
            path.write_text(json.dumps(settings))
            ended = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, timeout=200, check=False)
            assert ended.returncode == 0, ended.stderr
            made[workers] = base / f"run-{workers}"
        return made[workers]

    return run


def told(folder: Path) -> dict[str, object]:
    """What a run says of what it found, without what may differ."""

    def kept(value: object) -> object:
        if isinstance(value, dict):
            return {name: kept(part) for name, part in value.items() if name not in PASSING}
        return [kept(part) for part in value] if isinstance(value, list) else value

    said = json.loads((folder / "result.json").read_text())
    said["metrics"].pop("defect_density", None)  # a rate per hour
    said["campaign"].pop("model_calls")  # each worker has to be shown a batch before it knows its layers
    for rule in said["rules"]:
        rule.pop("explanation")
    parts = ("verdict", "exit_code", "candidate", "campaign", "coverage", "metrics", "rules", "defects", "root_causes")
    return {part: kept(said[part]) for part in parts}


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_makes_the_same_campaign_to_the_last_byte(campaign: Callable[[int], Path], workers: int) -> None:
    one, several = campaign(1), campaign(workers)
    files = sorted(path.relative_to(one) for path in (one / "campaign").iterdir() if path.suffix in (".bin", ".map"))
    assert [file.name for file in files] == ["corpus.bin", "coverage.map", "seeds.map"]
    for name in files:
        assert (several / name).read_bytes() == (one / name).read_bytes(), name
    result = Result.model_validate_json((one / "result.json").read_text())
    assert len(result.defects) > 5
    assert told(several) == told(one)
    steps = [[json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()] for run in (one, several)]
    kinds = ("step", "state", "defect")
    events = [
        [{k: v for k, v in event.items() if k not in {*PASSING, "event_time"}} for event in told_of if event["event"] in kinds]
        for told_of in steps
    ]
    assert events[0] == events[1]


@pytest.fixture
def keeper(tmp_path: Path, model: Path) -> Keeper:
    with Keeper(tmp_path / "home", helpers=1) as started:
        started.call("load", load_parameters(model, threads=1))
        yield started


def test_the_helpers_run_the_batches_and_the_keeper_counts_them(keeper: Keeper) -> None:
    x, _ = images(16)
    coverage = {"layers": ["hidden"], "criteria": ["kmnc"]}
    keeper.call("watch", {"coverage": coverage, "kind": "logits"}, {"x": x[:3]})
    keeper.call("profile", {}, {"x": x, "y": np.zeros(16, dtype=np.int64)})
    keeper.call("open_arms", {"arms": ["search", "random", "noise"]})
    before = super(Keeper, keeper).call("describe")[0]["model_calls"]
    asked = [keeper.ask("run", {"arm": arm}, {"x": x, "earns": np.ones(16, dtype=bool)}) for arm in ("search", None, "search")]
    first, blind, second = (keeper.answer(request) for request in asked)
    assert first[1]["new_items"].sum() > 0
    assert second[1]["new_items"].sum() == 0  # nothing new in the same pictures
    assert set(blind[1]) == {"raw"}
    np.testing.assert_array_equal(first[1]["raw"], blind[1]["raw"])
    assert super(Keeper, keeper).call("describe")[0]["model_calls"] == before
    assert keeper.call("describe")[0]["model_calls"] >= before + 3 * 16


def test_a_helper_that_dies_ends_the_run_with_its_own_words(keeper: Keeper) -> None:
    x, _ = images(16)
    os.kill(keeper.pids[1], signal.SIGKILL)
    with pytest.raises(WorkerError, match="died with signal 9"):
        keeper.answer(keeper.ask("run", {"arm": None}, {"x": x, "earns": np.ones(16, dtype=bool)}))


def test_helpers_of_another_kind_are_refused(keeper: Keeper, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = keeper._helpers[0]
    ask = helper.ask

    def with_more_threads(operation: str, parameters: object, *given: object, **more: object) -> object:
        assert isinstance(parameters, dict)
        return ask(operation, {**parameters, "threads": 2}, *given, **more)

    monkeypatch.setattr(helper, "ask", with_more_threads)
    with pytest.raises(ConfigError, match="differ in threads"):
        keeper.call("load", load_parameters(model, threads=1))
