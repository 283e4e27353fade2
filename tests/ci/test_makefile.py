"""The Makefile against a stand-in interpreter: a real installation takes minutes and is what `.ci/run` does on every change."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_INTERPRETER = """#!/bin/sh
# python3 -m venv FOLDER makes an environment whose every command writes down how it was called.
echo "python3 $*" >> "{log}"
[ "$1 $2" = "-m venv" ] || exit 0
mkdir -p "$3/bin"
for name in python gate ruff mypy lint-imports mkdocs; do
    printf '#!/bin/sh\\necho "%s $*" >> "{log}"\\n[ ! -e "{log}.fail-$(basename $0)" ]\\n' "$name" > "$3/bin/$name"
    chmod +x "$3/bin/$name"
done
"""


class Clone:
    """A copy of what make reads, in a folder with a space in its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a clone"
        (self.folder / ".ci").mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", ".ci/run", ".ci/system-packages"):
            shutil.copy2(ROOT / name, self.folder / name)
        self.log = folder / "log"
        self.commands = folder / "commands"
        self.commands.mkdir()
        self.add("python3", _INTERPRETER.format(log=self.log))
        self.add("chromium", "#!/bin/sh\n")

    def add(self, name: str, text: str) -> None:
        (self.commands / name).write_text(text)
        (self.commands / name).chmod(0o755)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        environment = {"PATH": f"{self.commands}{os.pathsep}/usr/bin:/bin", "HOME": str(self.folder)}
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()

    def installations(self) -> list[str]:
        return [call for call in self.calls() if " install " in call]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_demo_sets_up_once_and_again_when_the_requirements_change(clone: Clone) -> None:
    assert clone.run("make", "demo").returncode == 0
    assert len(clone.installations()) == 1
    assert clone.calls()[-1] == "gate demo"

    assert clone.run("make", "demo").returncode == 0
    assert clone.calls() == ["gate demo"]

    later = (clone.folder / ".venv" / ".ready-to-run").stat().st_mtime + 5
    os.utime(clone.folder / "pyproject.toml", (later, later))
    clone.run("make", "demo")
    assert len(clone.installations()) == 1


def test_the_imagenet_demo_installs_its_extra_once(clone: Clone) -> None:
    assert clone.run("make", "demo-imagenet").returncode == 0
    (installation,) = clone.installations()
    assert ".[imagenet]" in installation
    assert clone.calls()[-1] == "gate demo imagenet"
    assert clone.run("make", "demo-imagenet").returncode == 0
    assert clone.calls() == ["gate demo imagenet"]


def test_test_checks_style_types_imports_and_docs_then_runs_pytest_last(clone: Clone) -> None:
    assert clone.run("make", "test").returncode == 0
    assert any("[test,docs]" in call for call in clone.installations())
    calls = [call for call in clone.calls() if not call.startswith(("python3", "python -m pip"))]
    assert [call.split(" --site-dir")[0] for call in calls] == [
        "ruff check .",
        "ruff format --check .",
        "mypy ",
        "lint-imports ",
        "mkdocs build --strict --quiet",
        "python -m pytest -m not slow",
    ]
    assert not (clone.folder / "site").exists()


@pytest.mark.parametrize("tool", ["ruff", "mypy", "lint-imports", "mkdocs", "python"])
def test_test_fails_when_one_of_them_fails(clone: Clone, tool: str) -> None:
    assert clone.run("make", "test").returncode == 0
    (clone.log.parent / f"log.fail-{tool}").touch()
    assert clone.run("make", "test").returncode != 0
    assert clone.run("bash", ".ci/run").returncode != 0


def test_ci_runs_make_test_from_any_folder(clone: Clone) -> None:
    done = clone.run("sh", "-c", f"cd / && bash '{clone.folder}/.ci/run'")
    assert done.returncode == 0, done.stderr
    assert clone.calls()[-1].startswith("python -m pytest")


def test_an_environment_that_could_not_be_made_is_not_left_half_done(clone: Clone) -> None:
    clone.add("python3", '#!/bin/sh\n[ "$1 $2" = "-m venv" ] || exit 0\nmkdir -p "$3/bin"; touch "$3/bin/python"; exit 1\n')
    assert clone.run("make", "demo").returncode != 0
    assert not (clone.folder / ".venv").exists()


def test_an_old_python_is_refused_with_the_version_that_is_needed(clone: Clone) -> None:
    clone.add("python3", f'#!/bin/sh\n[ "$1" = -c ] || exit 1\nexec {sys.executable} -c "import sys; sys.version_info = (3, 10); $2"\n')
    done = clone.run("make", "demo")
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr


@pytest.mark.parametrize(("what", "package"), [("chromium", "chromium"), ("python", "python3-venv")])
def test_a_missing_system_package_is_installed_by_root_and_named_to_others(clone: Clone, what: str, package: str) -> None:
    (clone.commands / "chromium").unlink()
    clone.add("python3", "#!/bin/sh\nexit 1\n")
    clone.add("apt-get", f'#!/bin/sh\necho "apt-get $*" >> "{clone.log}"\n')
    for name in ("bash", "cat", "env"):
        (clone.commands / name).symlink_to(str(shutil.which(name)))
    for user, code in (("0", 0), ("1000", 1)):
        clone.add("id", f"#!/bin/sh\necho {user}\n")
        clone.log.write_text("")
        done = subprocess.run(
            ["/bin/bash", ".ci/system-packages", what],
            cwd=clone.folder,
            env={"PATH": str(clone.commands)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        installed = [call for call in clone.calls() if " install " in call]
        assert bool(installed) is (user == "0")
        assert package in (installed[0] if installed else done.stderr)


def test_the_readme_without_make_does_what_make_does(clone: Clone) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for target, first, steps in (("demo", "gate demo", 1), ("test", "mkdocs build", 6)):
        assert clone.run("make", target).returncode == 0
        block = next(block for block in re.findall(r"```console\n(.*?)```", readme, re.DOTALL) if "-m venv" in block and first in block)
        by_hand = clone.log.parent / f"{target}.sh"
        by_hand.write_text("set -e\n" + re.sub(r"^\$ ", "", block, flags=re.MULTILINE))
        made = [_plain(call) for call in clone.calls() if not call.startswith(("python3", "python -m pip"))]
        shutil.rmtree(clone.folder / ".venv")
        done = clone.run("bash", str(by_hand))
        assert done.returncode == 0, done.stderr
        typed = [_plain(call) for call in clone.calls() if not call.startswith(("python3", "python -m pip"))]
        assert typed == made
        assert len(typed) == steps
        extras = {call.split("install ")[1].removeprefix("-e ") for call in clone.installations()}
        assert extras == ({"."} if target == "demo" else {".[test,docs]"})
        shutil.rmtree(clone.folder / ".venv")


def _plain(call: str) -> str:
    return re.sub(r" --quiet| --site-dir \S+", "", call).strip()
