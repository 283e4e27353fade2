"""All renderings of a run into its folder."""

from __future__ import annotations

from pathlib import Path

from gate.report import html, json_record, junit, markdown, openmetrics
from gate.report.atomic import make_folder, write_text
from gate.result import Result

__all__ = ["FILES", "write"]

FILES = ("result.json", "report.html", "junit.xml", "summary.md", "metrics.txt")


def write(result: Result, folder: Path) -> tuple[Path, ...]:
    """Writes every rendering, each whole or not at all, and returns their paths in the order of ``FILES``.

    The record comes first: should a later file fail to be written, `gate report` can make it again from there.

    Args:
        result: the finished run.
        folder: the run folder; made where it is absent. The pictures of the defects are read from it.

    Raises:
        OutputError: the folder can't be written.
        GateError: the disk is full.
    """
    make_folder(folder)
    return (
        write_text(folder / "result.json", json_record.render(result)),
        write_text(folder / "report.html", html.render(result, folder)),
        write_text(folder / "junit.xml", junit.render(result, folder)),
        write_text(folder / "summary.md", markdown.render(result)),
        write_text(folder / "metrics.txt", openmetrics.render(result)),
    )
