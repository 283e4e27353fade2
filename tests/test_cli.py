"""The command itself: help at once, mistakes told with the nearest name, settings shown with where they came from."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gate.cli import main

GATE = Path(sys.executable).with_name("gate")
HEAVY = ("torch", "torchvision", "mlflow", "numpy", "pydantic", "albumentations", "cv2", "foolbox", "rich", "ruamel", "jinja2", "scipy")


def _gate(*arguments: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(GATE), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["corpus", "export", "--help"],
        ["layers", "--help"],
        ["doctor", "--help"],
        ["nonsense"],
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    script = f"""
import sys
from gate.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print("LOADED", *sorted({{name.split(".")[0] for name in sys.modules}} & set({HEAVY!r})))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # A misspelled command is looked up among the known ones, which needs a module that reads YAML.
    allowed = {"ruamel"} if arguments == ["nonsense"] else set()
    loaded = set(done.stdout.splitlines()[-1].removeprefix("LOADED").split())
    assert loaded <= allowed, loaded


def test_help_names_every_command_and_the_exit_codes() -> None:
    done = _gate("--help")
    assert done.returncode == 0
    for name in ("run", "demo", "evaluate", "report", "replay", "layers", "doctor", "corpus", "policy"):
        assert f"\n  {name} " in done.stdout
    assert "0 pass, 1 fail, 2 usage" in done.stdout


def test_every_command_answers_help() -> None:
    from gate.cli import cli

    for name in cli.list_commands(None):  # type: ignore[arg-type]
        command = cli.get_command(None, name)  # type: ignore[arg-type,attr-defined]
        assert command is not None
        assert command.name == name
        assert command.help or command.callback.__doc__


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rnu"], "Did you mean 'run'?"),
        (["run", "--sede", "3"], "--seed"),
        (["run", "--executions", "many"], "not a valid integer"),
        (["run", "stray"], "unexpected extra argument"),
        (["evaluate"], "Missing argument"),
        (["doctor"], "gate doctor --run RUN"),
        (["layers"], "No model is given."),
        (["policy", "chekc"], "chekc"),
        (["corpus"], "export"),
    ],
)
def test_a_mistake_in_the_command_is_exit_2_and_told(arguments: list[str], says: str) -> None:
    done = _gate(*arguments)
    assert done.returncode == 2
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("arguments", "says"), [([], "No model is given."), (["--model", "m"], "No seeds are given.")])
def test_what_a_run_needs_is_asked_for(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = _gate("run", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "what to do:" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_setting_is_shown_with_where_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("policy: strict\nbudget: {wall: 5m}\nclasses: ['[red]a', 'b']\n", encoding="utf-8")
    done = _gate("run", "--show-config", "--seed", "4", cwd=tmp_path, env={"GATE_BATCH_SIZE": "16"})
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines() if line.strip()}
    assert rows["seed"] == "4 command line"
    assert rows["batch_size"] == "16 GATE_BATCH_SIZE"
    assert rows["policy"] == "strict gate.yaml:1"
    assert rows["budget.wall"] == "300.0 gate.yaml:2"
    assert rows["device"] == "auto default"
    assert rows["model"] == "- default"
    assert "[red]a" in rows["classes"]
    assert not (tmp_path / "gate-out").exists()


def test_a_long_value_is_shown_to_its_end_on_any_terminal() -> None:
    path = "/".join(f"folder-{number}[/b]" for number in range(100))
    done = _gate("run", "--show-config", "--seeds", path, env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    folded = "".join(line[25:].split("command line")[0].strip() for line in done.stdout.splitlines())
    assert path in folded


def test_an_error_in_the_gate_itself_is_exit_3_and_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from gate import config
    from gate.cli import main

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("an oversight")

    monkeypatch.setattr(config, "load", broken)
    with pytest.raises(SystemExit) as ended:
        main(["run"])
    assert ended.value.code == 3
    shown = capsys.readouterr().err
    assert "an oversight" in shown
    assert "a bug in the gate" in shown


def test_a_reader_that_closes_the_pipe_early_sees_no_traceback() -> None:
    done = subprocess.run(f"'{GATE}' policy show strict | head -n 1", shell=True, capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_an_error_shows_the_words_of_others_line_by_line_and_inert(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gate import cli
    from gate.errors import WorkerError

    def failing(**_: object) -> None:
        raise WorkerError("it said \x1b[2J\n::error::owned", where="a\x07b", hint="look", details="last \x1b]0;owned\x07\nwords")

    monkeypatch.setattr(cli.cli, "main", failing)
    with pytest.raises(SystemExit) as caught:
        cli.main([])
    assert caught.value.code == 3
    said = capsys.readouterr().err
    assert said.splitlines() == [
        "gate: error: it said \\x1b[2J\\n::error::owned",
        "  where: a\\x07b",
        "  what to do: look",
        "    | last \\x1b]0;owned\\x07",
        "    | words",
    ]


def test_a_full_disk_is_no_bug_of_the_gate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "defects/\x1b[31m.png")

    monkeypatch.setattr("gate.cli.cli.main", full)
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    said = capsys.readouterr().err
    assert ended.value.code == 3
    assert "No space left on device" in said
    assert "what to do" in said
    assert "Traceback" not in said
    assert "\x1b" not in said
