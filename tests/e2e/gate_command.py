"""The command as a user has it, and a finished run's folder as another program reads it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from junitparser import JUnitXml

__all__ = ["GATE", "Done", "Finished", "environment", "in_process", "run_gate"]

GATE = Path(sys.executable).with_name("gate")
RENDERINGS = ("result.json", "report.html", "junit.xml", "summary.md", "metrics.txt")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err

    def explains(self, *words: str) -> None:
        """Fails unless every word was said, without a traceback."""
        assert "Traceback" not in self.said, self.said
        for word in words:
            assert word in self.said, f"{word!r} is not in:\n{self.said}"


@dataclass(frozen=True)
class Finished:
    """The output folder of a run."""

    folder: Path

    @property
    def record(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
        return result

    @property
    def junit(self) -> JUnitXml:
        return JUnitXml.fromfile(str(self.folder / "junit.xml"))

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def is_whole(self) -> None:
        """Fails unless every rendering is there and readable."""
        for name in RENDERINGS:
            assert self.text(name), name
        assert self.junit.tests > 0
        assert self.text("metrics.txt").endswith("# EOF\n")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a user's shell, wide enough that no message is broken into lines."""
    return {**os.environ, "COLUMNS": "400", "NO_COLOR": "1", **(more or {})}


def run_gate(*arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 240) -> Done:
    """The console script in a process of its own."""
    done = subprocess.run(
        [str(GATE), *map(str, arguments)],
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def in_process(*arguments: str | Path) -> Done:
    """The console script's entry point in this process, which spares its start; environment and folder are this process's."""
    from gate.cli import main

    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())
