"""A smaller corpus covers exactly the same, is written only if it does, and can be given to the next run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from known_model import CLASSES, write_npz
from saved_models import Stripes, save

from gate.cli.corpus import command
from gate.config import Settings
from gate.corpus.corpus_file import read_corpus
from gate.coverage.store import load
from gate.errors import CoverageMapError, DataError, GateError, ModelError, OutputError
from gate.minimising import minimise
from gate.pipeline import run
from gate.result import Result, Verdict


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("to minimise")
    settings = {
        "model": str(save(Stripes().eval(), base / "model")),
        "classes": CLASSES,
        "data": {"seeds": str(write_npz(base / "seeds.npz"))},
        "coverage": {"layers": ("hidden",), "criteria": ("kmnc", "tknp", "nlc"), "guide": ("kmnc", "tknp")},
        "search": {"strategy": "uniform"},
        "budget": {"executions": 500},
        "previous": "none",
        "device": "cpu",
        "batch_size": 32,
        "out": str(base / "run"),
    }
    result = run(Settings.model_validate(settings)).result
    assert result.verdict is not Verdict.ERROR, result.reasons
    return base / "run"


def test_the_smaller_corpus_covers_the_same_with_fewer_entries(finished: Path, tmp_path: Path) -> None:
    done = minimise(finished, tmp_path / "small.bin", seconds=20, device="cpu", batch_size=32)
    before, after = read_corpus(finished / "campaign" / "corpus.bin"), read_corpus(tmp_path / "small.bin")
    assert done.before == len(before.current)
    assert done.least <= done.after == len(after.entries) < done.before
    assert done.bytes_after < done.bytes_before
    assert done.left_out == ("nlc",)
    # All that the search covered beyond the seed inputs, entries cover: nothing else earns.
    seeds = load(finished / "campaign" / "seeds.map", model=None, profile=None)
    whole = load(finished / "campaign" / "coverage.map", model=None, profile=None)
    assert done.items == {name: whole[name].covered - seeds[name].covered for name in ("kmnc", "tknp")}
    assert done.items["kmnc"] > 20
    # Every entry was there before, with its data.
    known = {(entry, x.tobytes()) for entry, x in zip(before.entries.seed_ids, before.mutants(np.arange(len(before.entries))), strict=True)}
    assert {(entry, x.tobytes()) for entry, x in zip(after.entries.seed_ids, after.mutants(after.current), strict=True)} <= known
    again = minimise(finished, tmp_path / "again.bin", seconds=20, device="cpu", batch_size=32)
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "small.bin").read_bytes()
    assert again.model_calls == done.model_calls > 0


def test_the_next_run_starts_from_the_smaller_corpus(finished: Path, tmp_path: Path) -> None:
    done = minimise(finished, tmp_path / "small.bin", seconds=0.001, device="cpu", batch_size=32)
    assert done.rounds == 0
    settings = json.loads((finished / "campaign" / "identity.json").read_text())["settings"]
    settings |= {"out": str(tmp_path / "next"), "corpus": str(tmp_path / "small.bin"), "budget": {"executions": 400}, "policy": "baseline"}
    result = run(Settings.model_validate_json(json.dumps(settings))).result
    assert result.campaign is not None
    assert result.campaign.reused is not None
    assert result.campaign.reused.used == done.after
    for name in ("kmnc", "tknp"):
        assert result.coverage[name].final >= Result.load(finished).coverage[name].final


def test_the_commands_say_what_there_is_and_what_became_of_it(finished: Path, tmp_path: Path) -> None:
    options = ["minimize", str(finished), "--out", str(tmp_path / "small.bin"), "--time", "5s", "--device", "cpu", "--batch-size", "32"]
    done = CliRunner().invoke(command, options, catch_exceptions=False)
    assert done.exit_code == 0
    lines = {line.split()[0]: line for line in done.output.splitlines()}
    assert set(lines) == {"entries", "items", "left", "bytes", "work", "written"}
    shown = CliRunner().invoke(command, ["show", str(tmp_path / "small.bin")], catch_exceptions=False)
    after = len(read_corpus(tmp_path / "small.bin").entries)
    assert f"entries    {after:,} from" in shown.output
    assert f"{after:,} after" in lines["entries"]
    with (tmp_path / "small.bin").open("ab") as file:
        file.write(b"\0\0\0")
    torn = CliRunner().invoke(command, ["show", str(tmp_path / "small.bin")], catch_exceptions=False)
    assert "its last 3 bytes are not whole" in torn.output
    wrong = CliRunner().invoke(command, [*options[:-6], "--time", "soon"])
    assert wrong.exit_code == 2


def damaged(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_what_can_not_be_minimised_is_said(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"kept")
    cases: list[tuple[type[GateError], str, Any]] = [
        (CoverageMapError, "can't be read", lambda run: (run / "campaign" / "seeds.map").unlink()),
        (DataError, "no corpus", lambda run: (run / "campaign" / "corpus.bin").unlink()),
        (DataError, "refused", lambda run: (run / "campaign" / "corpus.bin").write_bytes(b"PK")),
        (OutputError, "how it measured", lambda run: (run / "campaign" / "identity.json").write_text("[")),
    ]
    with pytest.raises(OutputError, match="exists"):
        minimise(finished, tmp_path / "there", seconds=1)
    assert (tmp_path / "there").read_bytes() == b"kept"
    for kind, message, damage in cases:
        run = damaged(finished, tmp_path)
        damage(run)
        with pytest.raises(kind, match=message):
            minimise(run, tmp_path / "small.bin", seconds=1, device="cpu")
        assert not (tmp_path / "small.bin").exists()
        shutil.rmtree(run)


def test_a_model_that_covers_something_else_when_asked_again_leaves_no_file(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gate.campaign.supervisor import Worker

    original, asked = Worker.call, []

    def call(self: Worker, operation: str, *arguments: Any, **options: Any) -> Any:
        fields, arrays = original(self, operation, *arguments, **options)
        if operation == "items":
            asked.append(operation)
            if len(asked) > len(range(0, len(read_corpus(finished / "campaign" / "corpus.bin").current), 32)):
                arrays = {name: hits[:, 1:] for name, hits in arrays.items()}
        return fields, arrays

    monkeypatch.setattr(Worker, "call", call)
    with pytest.raises(ModelError, match="Asked again"):
        minimise(finished, tmp_path / "small.bin", seconds=1, device="cpu", batch_size=32)
    assert not (tmp_path / "small.bin").exists()
