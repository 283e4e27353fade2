"""``gate doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gate.diagnosis import Diagnosis
    from gate.result import Result

__all__ = ["command"]

_LIKELY, _POSSIBLE = 0.6, 0.3  # weights from which a cause is called so


@click.command(name="doctor", help="Say why the coverage of a finished run does not rise, from what the run recorded. Runs nothing.")
@click.option("--run", "folder", type=click.Path(path_type=Path), metavar="RUN", help="Output folder of the run.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON (gate.doctor/1).")
def command(folder: Path | None, as_json: bool) -> None:
    """Prints how the coverage of each criterion went, and the causes with the most telling first."""
    if folder is None:
        raise click.UsageError("Say which run to look at: gate doctor --run RUN, the output folder of a `gate run`.")
    from gate.diagnosis import diagnose, read_run

    facts = read_run(folder)
    found = diagnose(facts)
    if as_json:
        import json

        click.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=True, allow_nan=False))
    else:
        _show(facts.result, found, folder)


def _show(result: Result, found: Diagnosis, folder: Path) -> None:
    from gate.report.text import visible

    def say(text: str) -> None:
        click.echo(visible(text, 2000, isolate=False))

    search = result.campaign.arms.get("search") if result.campaign is not None else None
    say(f"run      {folder}: {search.executions if search is not None else 0:,} search executions, verdict {result.verdict}")
    for course in found.courses:
        say(f"{course.criterion:<8} {course.said}")
    if found.rises:
        say("Coverage does rise." + (" What may hold it back, or makes it say less:" if found.causes else ""))
    elif found.causes:
        say("Why coverage does not rise, the most telling first:")
    else:
        say("Nothing in the record explains it. See `gate layers` for what is watched, and the report for what was never reached.")
    for number, cause in enumerate(found.causes, start=1):
        sure = "likely" if cause.weight >= _LIKELY else "possible" if cause.weight >= _POSSIBLE else "minor"
        say(f"{number}. {cause.what} [{sure}]")
        say(f"   seen: {cause.evidence}")
        say(f"   do:   {cause.advice}")
