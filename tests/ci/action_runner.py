"""Runs the steps of a composite GitHub action as a runner does, with real GITHUB_* files, and records the actions it would use.

Only what action.yml needs of the expression language is known; anything else is an error, so that a step can't be passed over silently.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

__all__ = ["ActionRun", "interrupt_when", "load_action", "run_action"]

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)


@dataclass
class ActionRun:
    """What became of the steps: the first failing exit code, outputs by step, uses with their inputs, summary text and log."""

    failed_with: int = 0
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    output_files: dict[str, str] = field(default_factory=dict)
    used: dict[str, dict[str, str]] = field(default_factory=dict)
    summary: str = ""
    log: str = ""
    action_outputs: dict[str, str] = field(default_factory=dict)


def load_action(path: Path) -> dict[str, Any]:
    """The action file as plain values."""
    loaded: dict[str, Any] = YAML(typ="safe").load(path)
    return loaded


def run_action(
    action: Mapping[str, Any],
    *,
    workspace: Path,
    inputs: Mapping[str, str],
    path: str,
    action_path: Path,
    signals: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> ActionRun:
    """Runs every step whose condition holds; ``signals`` is called with the process of the step that runs the gate."""
    unknown = set(inputs) - set(action["inputs"])
    assert not unknown, f"inputs that action.yml does not declare: {unknown}"
    values = {name: str(spec.get("default", "")) for name, spec in action["inputs"].items()} | dict(inputs)
    run = ActionRun()
    with tempfile.TemporaryDirectory(prefix="runner temp ") as temporary:
        for step in action["runs"]["steps"]:
            identity = step.get("id", step["name"])
            condition = step.get("if", "success()")
            if not _holds(condition, values, run):
                continue
            if "uses" in step:
                run.used[step["uses"]] = {key: _fill(str(value), values, run) for key, value in step.get("with", {}).items()}
                continue
            assert step["shell"] == "bash"
            output_file, summary_file, script = (Path(temporary) / f"{identity}.{kind}" for kind in ("output", "summary", "sh"))
            output_file.touch()
            summary_file.touch()
            script.write_text(step["run"], encoding="utf-8")
            process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
                cwd=workspace / _fill(step.get("working-directory", "."), values, run),
                env={
                    "PATH": path,
                    "HOME": temporary,
                    "RUNNER_TEMP": temporary,
                    "GITHUB_WORKSPACE": str(workspace),
                    "GITHUB_ACTION_PATH": str(action_path),
                    "GITHUB_OUTPUT": str(output_file),
                    "GITHUB_STEP_SUMMARY": str(summary_file),
                    "GITHUB_ENV": os.devnull,
                    **{key: _fill(str(value), values, run) for key, value in step.get("env", {}).items()},
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            if signals is not None and identity == "gate":
                signals(process)
            log, _ = process.communicate(timeout=60)
            run.log += log.decode("utf-8", "replace")
            run.output_files[identity] = output_file.read_text(encoding="utf-8")
            run.outputs[identity] = _parse_output_file(run.output_files[identity])
            run.summary += summary_file.read_text(encoding="utf-8")
            if process.returncode and not run.failed_with:
                run.failed_with = process.returncode
    run.action_outputs = {name: _fill(spec["value"], values, run) for name, spec in action["outputs"].items()}
    return run


def _parse_output_file(text: str) -> dict[str, str]:
    """GITHUB_OUTPUT's two forms: ``name=value`` and ``name<<mark`` with lines up to the mark. The last one of a name wins."""
    values: dict[str, str] = {}
    lines = text.split("\n")
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if heredoc >= 0 and (equals < 0 or heredoc < equals):
            name, mark = line.split("<<", 1)
            end = lines.index(mark, position)
            values[name] = "\n".join(lines[position:end])
            position = end + 1
        else:
            assert equals > 0, f"no output line: {line!r}"
            values[line[:equals]] = line[equals + 1 :]
    return values


def interrupt_when(ready: Path, number: signal.Signals) -> Callable[[subprocess.Popen[bytes]], None]:
    """Sends a signal to the step's own process only, as a runner does on cancel, once the file ``ready`` is there."""

    def send(process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + 20
        while not ready.exists():
            assert time.monotonic() < end, "the gate did not start"
            time.sleep(0.02)
        process.send_signal(number)

    return send


def _value(expression: str, inputs: Mapping[str, str], run: ActionRun) -> str:
    if match := re.fullmatch(r"(.+?) \|\| '([^']*)'", expression):
        return _value(match[1], inputs, run) or match[2]
    if match := re.fullmatch(r"inputs\.([a-z-]+)", expression):
        return inputs[match[1]]
    if match := re.fullmatch(r"steps\.([a-z-]+)\.outputs\.([a-z-]+)", expression):
        return run.outputs.get(match[1], {}).get(match[2], "")
    raise AssertionError(f"unknown expression {expression!r}")


def _fill(text: str, inputs: Mapping[str, str], run: ActionRun) -> str:
    return _EXPRESSION.sub(lambda match: _value(match[1], inputs, run), text)


def _holds(condition: str, inputs: Mapping[str, str], run: ActionRun) -> bool:
    whole = _EXPRESSION.fullmatch(condition)
    terms = [term.strip() for term in (whole[1] if whole else condition).split("&&")]
    # Without a status function in it, a condition implies success().
    if not any(term in ("always()", "success()") for term in terms):
        terms.insert(0, "success()")
    for term in terms:
        if term == "always()":
            continue
        if term == "success()":
            if run.failed_with:
                return False
        elif match := re.fullmatch(r"(\S+) != ''", term):
            if _value(match[1], inputs, run) == "":
                return False
        else:
            raise AssertionError(f"unknown condition {term!r}")
    return True
