"""The output folder belongs to one campaign, and its events can be read line by line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gate.campaign.events import EventLog
from gate.campaign.run_folder import RunFolder
from gate.errors import OutputError

IDENTITY = {"model": "models:/digits/2", "seed": 0}


def test_a_new_an_empty_and_an_own_folder_are_taken(tmp_path: Path) -> None:
    for path in (tmp_path / "new" / "deep", tmp_path / "with space\nand line", tmp_path / "ünï"):
        assert RunFolder.prepare(path, IDENTITY).campaign.is_dir()
        (path / "result.json").write_text("{}")
        RunFolder.prepare(path, IDENTITY)
        assert (path / "result.json").read_text() == "{}"
    (tmp_path / "empty").mkdir()
    RunFolder.prepare(tmp_path / "empty", IDENTITY)


def test_what_an_earlier_run_measured_is_gone_once_another_starts(tmp_path: Path) -> None:
    folder = RunFolder.prepare(tmp_path / "run", IDENTITY)
    (folder.campaign / "evidence.json").write_text("{}")
    RunFolder.prepare(tmp_path / "run", IDENTITY)
    assert not (folder.campaign / "evidence.json").exists()


def test_other_peoples_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(OutputError, match="holds no run") as caught:
        RunFolder.prepare(tmp_path, IDENTITY)
    assert caught.value.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(OutputError, match="is a file"):
        RunFolder.prepare(tmp_path / "thesis.tex", IDENTITY)


@pytest.mark.parametrize("damage", [None, b"\xff\xfe", b""])
def test_a_run_of_another_campaign_is_not_overwritten(tmp_path: Path, damage: bytes | None) -> None:
    folder = RunFolder.prepare(tmp_path / "run", IDENTITY)
    (folder.campaign / "evidence.json").write_text("{}")
    if damage is not None:
        (folder.campaign / "identity.json").write_bytes(damage)
    with pytest.raises(OutputError, match="another campaign"):
        RunFolder.prepare(tmp_path / "run", {**IDENTITY, "seed": 1})
    assert (folder.campaign / "evidence.json").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o500)
    with pytest.raises(OutputError, match="can't be written"):
        RunFolder.prepare(tmp_path / "run", IDENTITY)


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="can't be written"):
        RunFolder.prepare(tmp_path / "file" / "run", IDENTITY)


def test_events_are_lines_of_json_at_once_on_disk_and_shown_to_observers(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    log = EventLog(tmp_path / "events.jsonl", (seen.append,))
    log.emit("step", executions=3, text="two\nlines \ud800")
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines()
    assert len(lines) == 1
    event = json.loads(lines[0])
    assert (event["event"], event["executions"], event["text"]) == ("step", 3, "two\nlines \ud800")
    log.close()
    log.emit("verdict")
    log.close()
    assert [event["event"] for event in seen] == ["step", "verdict"]
    EventLog(tmp_path / "events.jsonl").emit("again")
    assert len((tmp_path / "events.jsonl").read_bytes().splitlines()) == 2
