"""Class names that attack whoever shows them, through the whole gate: every rendering stays well-formed and inert."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from candidates import Registered
from gate_command import Done, Finished, in_process
from playwright.sync_api import Browser

NAMES = [
    "<script>document.title='owned'</script>",
    "nul \0 and escape \x1b[31mred",
    "\n::error::owned",
    "a | pipe and `ticks` and ![x](http://127.0.0.1:9/x.png)",
    '=HYPERLINK("http://127.0.0.1:9","x")',
    "long " * 2000,
    "\u202eright to left",
    "../../../tmp/owned",
    "lone \ud800 surrogate \uffff",
    '"><img src=x onerror="document.title=1">]]>&amp;%0A::error::x',
]


@pytest.fixture(scope="module")
def hostile(registered: Registered, seeds: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Finished]:
    place = tmp_path_factory.mktemp("hostile")
    # JSON is YAML, escapes included.
    (place / "gate.yaml").write_text(f"classes: {json.dumps(NAMES)}\n", encoding="utf-8")
    done = in_process(
        *("run", "--config", place / "gate.yaml", "--model", f"models:/{registered.name}/1", "--tracking-uri", registered.url),
        *("--seeds", seeds, "--policy", "baseline", "--executions", "900", "--out", place / "out"),
    )
    return done, Finished(place / "out")


def test_the_run_is_an_ordinary_run(hostile: tuple[Done, Finished]) -> None:
    done, run = hostile
    assert done.code == 4, done.said  # 900 executions are too few for the policy
    run.is_whole()
    record = run.record
    assert len({*record["classes"]}) == 10
    assert record["metrics"]["clean_accuracy"]["value"] > 0.9
    assert len({defect["label"] for defect in record["defects"]}) > 3
    assert not [path for path in run.folder.rglob("*") if "owned" in path.name]
    assert "MLflow:  run" in done.out


def test_no_control_character_reaches_a_terminal_or_a_text_file(hostile: tuple[Done, Finished]) -> None:
    done, run = hostile
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.said)
    assert not any(line.startswith("::") for line in done.said.splitlines())
    for name in ("result.json", "report.html", "junit.xml", "summary.md", "metrics.txt", "events.jsonl"):
        text = (run.folder / name).read_bytes().decode("utf-8")  # strict: no surrogate
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]", text), name
        assert not any(line.lstrip().startswith("::error") for line in text.splitlines()), name


def test_junit_and_metrics_keep_their_form(hostile: tuple[Done, Finished]) -> None:
    _, run = hostile
    junit = run.junit
    names = [(case.classname, case.name) for suite in junit for case in suite]
    assert len(names) == len(set(names))
    assert all(len(name) < 1000 for pair in names for name in pair)
    sample = re.compile(r'[a-z_:][a-z0-9_:]*(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)*\})? [-+0-9.eE]+|# (TYPE|HELP|UNIT|EOF).*')
    for line in run.text("metrics.txt").splitlines():
        assert sample.fullmatch(line), line
    table = [line for line in run.text("summary.md").splitlines() if line.startswith("|")]
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in table]
    assert widths
    assert all(line.endswith("|") for line in table)
    assert "<script>" not in run.text("summary.md")


@pytest.mark.browser
def test_the_page_runs_nothing_and_loads_nothing(hostile: tuple[Done, Finished], browser: Browser) -> None:
    _, run = hostile
    seen: list[str] = []
    page = browser.new_page(viewport={"width": 390, "height": 800})
    try:
        page.on("request", lambda request: seen.append(request.url))
        page.on("console", lambda message: seen.append(message.text))
        page.on("dialog", lambda dialog: seen.append(dialog.message))
        page.goto((run.folder / "report.html").as_uri())
        page.wait_for_load_state("load")
        assert page.title() not in ("owned", "1")
        assert [url for url in seen if not url.startswith(("data:", "file:"))] == []
        assert page.locator("img[src=x]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    finally:
        page.close()


def test_exporting_replaying_and_rendering_again_stay_inside_their_folders(
    hostile: tuple[Done, Finished], tmp_path: Path, gate_run: Callable[..., Done]
) -> None:
    _, run = hostile
    done = in_process("corpus", "export", run.folder, "--half", "all", "--out", tmp_path / "export" / "set")
    assert done.code == 0, done.said
    assert [path.name for path in (tmp_path / "export").iterdir()] == ["set"]
    folders = {path.name for path in (tmp_path / "export" / "set" / "pictures").iterdir()}
    assert folders
    assert not any(set(name) & set('<>|`\n\0"=') for name in folders)
    # A spreadsheet must not take a cell for a formula.
    rows: list[Any] = (tmp_path / "export" / "set" / "defects.csv").read_text(encoding="utf-8").splitlines()
    assert not any(cell.lstrip('"').startswith(("=", "+", "@")) for row in rows for cell in row.split(","))
    done = in_process("replay", run.folder, run.record["defects"][0]["id"])
    assert done.code == 1, done.said
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.said)
    assert not any(line.startswith("::") for line in done.said.splitlines())
