"""A campaign that ends before its budget says so where a person watches it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from gate.terminal.progress import Progress


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"why": "decided", "executions": 1234, "judged": 60}, "decided after 1,234 executions: all that the policy asks for is settled"),
        (
            {"why": "abort", "executions": 96, "defect": "d-0", "oracle": "crash"},
            "aborted after 96 executions: defect d-0 (crash) is of a kind",
        ),
    ],
)
def test_the_end_and_its_reason_are_said_at_once(event: dict[str, Any], expected: str) -> None:
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    with Progress(console) as shown:
        shown.observe({"event": "phase", "name": "fuzz"})
        shown.observe({"event": "ended", **event})
    assert isinstance(console.file, io.StringIO)
    assert expected in console.file.getvalue()


def test_what_a_policy_can_not_decide_is_said_before_the_campaign() -> None:
    text = io.StringIO()
    with Progress(Console(file=text, width=200)) as shown:
        shown.observe(
            {"event": "policy_doubt", "rule": "r", "text": "It can never hold.", "where": "p.yaml:5", "hint": "Move [bold]the[/] limit."}
        )
    assert "policy, p.yaml:5: r: It can never hold. Move [bold]the[/] limit." in text.getvalue()
