"""The progress display tells when a campaign freezes, waits and goes on."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

from gate.terminal.progress import Progress


def said(tell: Callable[[Progress], None]) -> str:
    out = io.StringIO()
    with Progress(console=Console(file=out, width=200)) as progress:
        tell(progress)
    return out.getvalue()


def test_a_change_of_state_is_told_with_its_reason() -> None:
    def tell(progress: Progress) -> None:
        for state, reason in (("active", "the campaign began"), ("frozen", "nothing new was covered"), ("paused", "until a file is gone")):
            progress.observe({"event": "state", "state": state, "executions": 1234, "reason": reason})

    text = said(tell)
    assert "frozen after 1,234 executions: nothing new was covered" in text
    assert "paused after 1,234 executions: until a file is gone" in text
    assert "the campaign began" not in text
