"""The output folder belongs to one campaign, and its events can be read line by line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gate.campaign.events import EventLog
from gate.campaign.run_folder import AnotherCampaignError, RunFolder
from gate.errors import OutputError

IDENTITY = {"model": "models:/digits/2", "seed": 0}


def test_a_new_an_empty_and_an_own_folder_are_taken(tmp_path: Path) -> None:
    for path in (tmp_path / "new" / "deep", tmp_path / "with space\nand line", tmp_path / "ünï"):
        assert RunFolder.prepare(path, IDENTITY).campaign.is_dir()
        (path / "notes.txt").write_text("mine")
        RunFolder.prepare(path, IDENTITY)
        assert (path / "notes.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    RunFolder.prepare(tmp_path / "empty", IDENTITY)


def test_what_an_earlier_run_measured_is_gone_once_another_starts(tmp_path: Path) -> None:
    folder = RunFolder.prepare(tmp_path / "run", IDENTITY)
    (folder.campaign / "evidence.json").write_text("{}")
    RunFolder.prepare(tmp_path / "run", IDENTITY)
    assert not (folder.campaign / "evidence.json").exists()


RECORD = ("result.json", "junit.xml", "report.html", "summary.md", "metrics.txt", "events.jsonl", "campaign/evidence.json")
CONTENT = {"model": ["models:/digits/2", "sha256:aa"], "seeds set": "sha256:bb"}


def finished(path: Path) -> RunFolder:
    folder = RunFolder.prepare(path, IDENTITY)
    folder.settle(CONTENT)
    for name in RECORD:
        (path / name).write_text("the first run's")
    return folder


def visible(path: Path) -> set[str]:
    return {p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file() and not any(part[0] == "." for part in p.parts[-2:])}


def test_no_verdict_of_an_earlier_run_stands_while_another_runs(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    RunFolder.prepare(tmp_path / "run", IDENTITY)
    assert visible(tmp_path / "run") == {"campaign/identity.json"}
    # That one was killed; the next goes on.
    folder = RunFolder.prepare(tmp_path / "run", IDENTITY)
    folder.settle(CONTENT)
    assert [path.name for path in folder.campaign.iterdir()] == ["identity.json"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": ["models:/digits/3", "sha256:aa"]}, "model"),
        ({"model": ["models:/digits/2", "sha256:ab"]}, "model"),
        ({"seeds set": "sha256:bc"}, "seeds set"),
        ({"long tail set": "sha256:dd"}, "long tail set"),
    ],
)
def test_the_same_names_with_other_content_are_another_campaign_and_leave_everything_as_it_was(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    finished(tmp_path / "run")
    before = {name: (tmp_path / "run" / name).read_bytes() for name in visible(tmp_path / "run")}
    folder = RunFolder.prepare(tmp_path / "run", IDENTITY)
    EventLog(folder.path / "events.jsonl").emit("phase", name="fetch")
    with pytest.raises(AnotherCampaignError, match=f"meanwhile the {named} changed") as caught:
        folder.settle({**CONTENT, **change})
    assert caught.value.exit_code == 2
    assert {name: (tmp_path / "run" / name).read_bytes() for name in visible(tmp_path / "run")} == before
    assert not (tmp_path / "run" / "campaign" / ".earlier").exists()


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


def test_flaky_findings_of_an_earlier_run_go_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    folder = RunFolder.prepare(tmp_path / "out", {})
    folder.drop_other_flaky(set())  # there may be none
    for name in ("f-0123456789ab", "f-ba9876543210", "notes"):
        (folder.path / "quarantine" / name).mkdir(parents=True)
    folder.drop_other_flaky({"f-ba9876543210"})
    assert {path.name for path in (folder.path / "quarantine").iterdir()} == {"f-ba9876543210", "notes"}
