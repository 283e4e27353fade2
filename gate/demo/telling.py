"""How a demo talks, and how it runs the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from gate.config import load
from gate.demo.place import Place
from gate.errors import GateError
from gate.pipeline import Outcome, run
from gate.report.opening_words import mixed_up
from gate.terminal.progress import Progress
from gate.terminal.verdict import show_verdict

__all__ = ["UnexpectedVerdict", "run_gate", "say", "show_causes", "show_next"]


class UnexpectedVerdict(GateError):
    """A verdict came out otherwise than the story needs: exit 3."""


def say(console: Console, number: str, title: str, text: str) -> None:
    """A heading and what is about to happen; a text that is a command is not wrapped."""
    console.print()
    console.print(Rule(Text(f"{number}. {title}", style="bold"), align="left"))
    console.print(Text(text), soft_wrap=text.startswith("gate "))


def run_gate(place: Place, options: Mapping[str, Any], title: str, stop: Callable[[], bool], console: Console) -> Outcome:
    """Runs the gate with the demo's settings and these beside them, and shows the verdict.

    Raises:
        KeyboardInterrupt: somebody stopped it.
    """
    settings = load(place.settings, environment={}, command_line=options).settings
    with Progress(Console(stderr=True), title=title) as progress:
        outcome = run(settings, observers=(progress.observe,), stop=stop)
    show_verdict(outcome, console)
    if outcome.result.partial:
        raise KeyboardInterrupt
    return outcome


def show_causes(outcome: Outcome, console: Console) -> None:
    """How many defects there are, which classes are taken for one another, and the gravest root causes."""
    result = outcome.result
    numbers = ((len(result.defects), "defect"), (len(result.root_causes), "root cause"))
    console.print(Text(f"  {' with '.join(f'{number} {word}' if number == 1 else f'{number} {word}s' for number, word in numbers)}."))
    pairs = mixed_up(result)
    if pairs:
        console.print(Text(f"  {pairs}"), soft_wrap=True)
    console.print(Text("  The root causes to repair first:"))
    for cause in result.root_causes[:5]:
        console.print(Text(f"    {cause.size:3d} x {cause.title}"))


def show_next(commands: list[tuple[str, str]], console: Console) -> None:
    """What to open or to type next: (what it is, a path or a command)."""
    for title, command in commands:
        console.print(Text.assemble(f"  {title}:\n    ", (command, "bold")), soft_wrap=True)
