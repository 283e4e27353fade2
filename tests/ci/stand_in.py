"""A stand-in for the ``gate`` command: it records its arguments and leaves an output folder of a chosen verdict.

The CI files are glue around a command; what they do with every exit code, with missing files and with signals is tested against a
command whose answers are chosen. That the real command takes the options is tested in ``test_documentation.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["install_stand_in"]

_SCRIPT = """#!{python}
import json, os, pathlib, signal, sys, time

folder = pathlib.Path({folder!r})
arguments = sys.argv[1:]
(folder / "arguments.json").write_text(json.dumps(arguments))
(folder / "stdin").write_bytes(sys.stdin.buffer.read())
code = int((folder / "code").read_text())
out = pathlib.Path(next(a.removeprefix("--out=") for a in arguments if a.startswith("--out=")))
print((folder / "says").read_text())

if (folder / "waits").exists():
    def stop(number, frame):
        (folder / "signal").write_text(signal.Signals(number).name)
        raise SystemExit(write(4))
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop) if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN else None


def write(code):
    verdict = {{0: "pass", 1: "fail", 3: "error", 4: "inconclusive"}}.get(code)
    if verdict is None or (folder / "writes-nothing").exists():
        return code
    out.mkdir(parents=True, exist_ok=True)
    (out / "result.json").write_text(json.dumps({{"schema": "gate.result/1", "verdict": verdict, "exit_code": code}}))
    (out / "report.html").write_text("<!doctype html><title>report</title>")
    (out / "junit.xml").write_text("<testsuites/>")
    (out / "metrics.txt").write_text("# EOF\\n")
    (out / "summary.md").write_text((folder / "summary").read_text())
    return code


if (folder / "waits").exists():
    (folder / "ready").touch()
    time.sleep(30)
sys.exit(write(code))
"""


def install_stand_in(
    folder: Path, *, code: int, summary: str = "# Gate\n", says: str = "", waits: bool = False, writes: bool = True
) -> str:
    """Puts the command into ``folder`` and returns a PATH that starts with it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "code").write_text(str(code))
    (folder / "summary").write_text(summary)
    (folder / "says").write_text(says)
    if waits:
        (folder / "waits").touch()
    if not writes:
        (folder / "writes-nothing").touch()
    command = folder / "gate"
    command.write_text(_SCRIPT.format(python=sys.executable, folder=str(folder)))
    command.chmod(0o755)
    return f"{folder}:/usr/local/bin:/usr/bin:/bin"
