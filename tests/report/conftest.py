"""A real browser for the page, and what it must not do there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_visit import Visit
from playwright.sync_api import Browser
from sample import hostile_run, make_run

from gate.report import write
from gate.result import Verdict

RUNS: dict[str, dict[str, Any]] = {
    "pass without defects": {"verdict": Verdict.PASS, "defects": 0},
    "fail with photographs": {"verdict": Verdict.FAIL, "defects": 9, "photographs": True, "faults": True, "false_coverage": True},
    "fail with a shortcut": {"verdict": Verdict.FAIL, "defects": 9, "shortcut": True},
    "fail with 300 defects": {"verdict": Verdict.FAIL, "defects": 300},
    "inconclusive, advisory, partial": {"verdict": Verdict.INCONCLUSIVE, "defects": 3, "advisory": True, "partial": True},
    "error before any campaign": {"verdict": Verdict.ERROR},
}


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A fresh page that remembers console messages, errors, dialogs and requests."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    made = Visit(context.new_page())
    made.page.on("console", lambda message: made.complaints.append(f"console {message.type}: {message.text}"))
    made.page.on("pageerror", lambda error: made.complaints.append(f"error: {error}"))
    made.page.on("dialog", lambda dialog: (made.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    made.page.on("request", lambda request: made.requests.append(request.url))
    yield made
    context.close()


@pytest.fixture(scope="session")
def run_named(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a written run by name (``RUNS`` or ``hostile``), made once and not to be changed."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("run")
            write(hostile_run(made[name]) if name == "hostile" else make_run(made[name], **RUNS[name]), made[name])
        return made[name]

    return folder
