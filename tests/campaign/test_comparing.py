"""``gate compare-strategies`` on a small model: what it runs, what it writes, what it refuses."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from known_model import TRAP, write_npz
from saved_models import Stripes, save

from gate.cli.compare_strategies import command
from gate.comparison import FILES, LARGEST, compare, ways_of
from gate.config import Settings
from gate.errors import ConfigError, EvidenceError, GateError, OutputError, UsageError


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("comparing")
    save(Stripes(trap=TRAP).eval(), base / "model")
    write_npz(base / "seeds.npz", 24)
    return base


def settings(place: Path, **changes: Any) -> Settings:
    said = {"model": str(place / "model"), "data": {"seeds": str(place / "seeds.npz")}, "device": "cpu", "batch_size": 32, "seed": 7}
    return Settings.model_validate({**said, **changes})


@pytest.fixture(scope="module")
def measured(place: Path) -> tuple[Result, Path]:
    out = place / "out"
    options = ["--strategies", "uniform,recency", "--executions", "150", "--repeats", "2", "--device", "cpu", "--batch-size", "32"]
    given = ["--model", str(place / "model"), "--seeds", str(place / "seeds.npz"), "--seed", "7", "--out", str(out)]
    return CliRunner().invoke(command, [*given, *options], standalone_mode=False), out


def test_every_way_is_run_with_the_same_seeds_in_turning_order_and_all_executions_search(measured: tuple[Result, Path]) -> None:
    ran, out = measured
    assert ran.exception is None, ran.output
    assert ran.return_value == 0
    folders = sorted((out / "runs").iterdir())
    assert [folder.name for folder in folders] == ["recency-1", "recency-2", "uniform-1", "uniform-2"]
    started = {}
    for folder in folders:
        result = json.loads((folder / "result.json").read_text())
        assert {arm: said["executions"] for arm, said in result["campaign"]["arms"].items() if said["executions"]} == {"search": 150}
        assert result["campaign"]["seed"] == 7 + int(folder.name[-1]) - 1
        started[folder.name] = (folder / "events.jsonl").stat().st_mtime_ns
    assert sorted(started, key=lambda name: started[name]) == ["uniform-1", "recency-1", "recency-2", "uniform-2"]


def test_the_json_holds_the_traces_that_the_differences_come_from(measured: tuple[Result, Path]) -> None:
    _, out = measured
    said = json.loads((out / FILES[0]).read_text())
    assert said["schema"] == "gate.comparison/1"
    assert (said["reference"], said["ways"], said["repeats"]) == ("uniform", ["uniform", "recency"], 2)
    assert {(trace["way"], trace["repeat"]) for trace in said["traces"]} == {(way, n) for way in ("uniform", "recency") for n in (1, 2)}
    for trace in said["traces"]:
        assert trace["work"][0] == 0
        assert trace["work"] == sorted(trace["work"])
        assert trace["work"][-1] >= 150
        assert trace["kmnc"] == sorted(trace["kmnc"])
        result = json.loads((out / "runs" / f"{trace['way']}-{trace['repeat']}" / "result.json").read_text())
        assert trace["kmnc"][0] == result["coverage"]["kmnc"]["initial"]
        assert trace["kmnc"][-1] == pytest.approx(result["coverage"]["kmnc"]["final"], abs=1e-6)
        assert trace["work"][-1] == result["campaign"]["arms"]["search"]["model_calls"]
        assert trace["defects"][-1] == result["campaign"]["arms"]["search"]["defects"]
    assert said["work"] == min(trace["work"][-1] for trace in said["traces"])
    assert {row["measure"] for row in said["differences"]} == {"kmnc", "nbc", "defects"}
    # Two repeats never show anything.
    assert {row["shown"] for row in said["differences"]} == {"no difference shown"}


def test_the_page_is_whole_in_itself_and_says_no_more_than_was_shown(measured: tuple[Result, Path]) -> None:
    ran, out = measured
    page = (out / FILES[1]).read_text()
    HTMLParser().feed(page)
    assert not re.search(r"""(src|href)=|url\(|@import|<script""", page)
    assert "default-src 'none'" in page
    lines = re.findall(r'<poly(?:line|gon) class="[^"]+" points="([^"]*)"', page)
    assert len(lines) == 12
    assert all(re.fullmatch(r"(\d+(\.\d+)?,\d+(\.\d+)? ?)+", points) for points in lines)
    assert page.count("no difference shown") == 3
    assert "Fewer than 5 repeats show no difference" in page
    assert "prefers-color-scheme: dark" in page
    assert "verdict" in page
    assert ran.output.count("no difference shown") == 3


@pytest.mark.parametrize(
    ("strategies", "operators", "wrong"),
    [
        ((), (), "needs 2 to"),
        (("uniform",), (), "needs 2 to"),
        (("uniform", "uniform"), (), "stands twice"),
        (("uniform", "luck"), (), "'luck' is not among mixture, coverage"),
        ((), ("even", "odd"), "'odd' is not among"),
        (("mixture", "coverage", "diversity", "uncertainty", "uniform"), ("even", "adaptive"), f"2 to {LARGEST}"),
    ],
)
def test_what_can_not_be_compared_is_refused(strategies: tuple[str, ...], operators: tuple[str, ...], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        ways_of(Settings(), strategies, operators)


def test_ways_are_named_by_what_differs() -> None:
    given = Settings.model_validate({"search": {"strategy": "recency", "operators": "even"}})
    assert [(way.name, way.strategy, way.operators) for way in ways_of(given, (), ("even", "adaptive"))] == [
        ("even", "recency", "even"),
        ("adaptive", "recency", "adaptive"),
    ]
    assert [way.name for way in ways_of(given, ("uniform", "mixture"), ("even",))] == ["uniform, even", "mixture, even"]
    assert [way.operators for way in ways_of(given, ("uniform", "mixture"), ())] == ["even", "even"]


def test_a_folder_that_holds_something_and_a_model_that_can_not_be_run_are_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("something")
    ways = ways_of(Settings(), ("uniform", "recency"), ())
    with pytest.raises(OutputError, match="not empty"):
        compare(settings(place), ways, executions=10, repeats=1, out=tmp_path)
    with pytest.raises(GateError, match="could not be run") as raised:
        compare(settings(place, model=str(tmp_path)), ways, executions=10, repeats=1, out=tmp_path / "new")
    assert raised.value.exit_code == 3
    data = {"seeds": str(tmp_path / "missing.npz")}
    with pytest.raises(UsageError, match="There is no such file") as misused:
        compare(settings(place, data=data), ways, executions=10, repeats=1, out=tmp_path / "other")
    assert misused.value.exit_code == 2


@pytest.mark.slow
def test_when_it_is_stopped_what_is_complete_counts_and_nothing_is_nothing(place: Path, tmp_path: Path) -> None:
    ways = ways_of(Settings(), ("uniform", "recency"), ())
    said: list[str] = []
    found = compare(settings(place), ways, executions=40, repeats=3, out=tmp_path / "some", say=said.append, stop=lambda: len(said) == 3)
    assert (found.repeats, found.asked) == (1, 3)
    assert any("Stopped early: 1 of 3" in note for note in found.notes)
    with pytest.raises(EvidenceError, match="No repeat is complete"):
        compare(settings(place), ways, executions=40, repeats=1, out=tmp_path / "none", stop=lambda: True)
