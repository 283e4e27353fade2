"""One trained network for the whole session, registered on a real MLflow server and saved in folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from candidates import Digits, Registered, digits, register, save, train
from gate_command import Done, Finished, in_process


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message is broken into lines, whatever terminal the tests run in."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture(scope="session")
def data() -> tuple[Digits, Digits]:
    return digits()


@pytest.fixture(scope="session")
def network(data: tuple[Digits, Digits]) -> Any:
    return train(data[0])


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that many tests read and none changes."""
    return tmp_path_factory.mktemp("digits")


@pytest.fixture(scope="session")
def seeds(place: Path, data: tuple[Digits, Digits]) -> Path:
    return data[1].save(place / "seeds.npz")


@pytest.fixture(scope="session")
def model(place: Path, network: Any) -> Path:
    """The network in a local folder, pickled."""
    return save(network, place / "model")


@pytest.fixture(scope="session")
def registered(mlflow_server: str, network: Any, seeds: Path) -> Registered:
    """On the server; the first version's run also holds the seeds."""
    import mlflow

    return register(network, mlflow_server, "digits e2e", log=lambda: mlflow.log_artifact(str(seeds), "data"))


@pytest.fixture(scope="session")
def limits(place: Path) -> Callable[[str, str], Path]:
    """Writes a policy file by name: small arms for small budgets, and the rules given as YAML."""

    def write(name: str, rules: str) -> Path:
        path = place / f"{name}.yaml"
        head = f"version: 1\nname: {name}\ndescription: For tests.\narms: {{judging: 0.4, random: 0.05, noise: 0.02}}\n"
        path.write_text(f"{head}judging: {{mutants_per_seed: 3}}\nrules:\n{rules}", encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def failing(limits: Callable[[str, str], Path]) -> Path:
    """A policy that no model of this world keeps."""
    return limits("perfect", '  - {id: no-defect, metric: defect_rate, fail: ">= 0"}\n')


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, model: Path, seeds: Path) -> Finished:
    """A run of 2,000 executions under the policy smoke, with defects; not to be changed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    done = in_process("run", "--model", model, "--seeds", seeds, "--policy", "smoke", "--executions", "2000", "--out", folder)
    assert done.code == 0, done.said
    return Finished(folder)


@pytest.fixture
def gate_run(model: Path, seeds: Path, tmp_path: Path) -> Callable[..., Done]:
    """``gate run`` in this process on the session's model and seeds into ``tmp_path / "out"``; later options win."""

    def run(*arguments: str | Path) -> Done:
        base: list[str | Path] = ["--model", model, "--seeds", seeds, "--policy", "smoke", "--executions", "100"]
        return in_process("run", *base, "--out", tmp_path / "out", *arguments)

    return run


@pytest.fixture(scope="session")
def long_tail(place: Path, data: tuple[Digits, Digits]) -> Path:
    """The test pictures as a bad camera sees them: darker, noisier, shifted; each kind is a slice."""
    random = np.random.default_rng(5)
    clean = data[1]
    dark = np.rint(clean.x * 0.25).astype(np.uint8)
    grainy = np.clip(clean.x + random.normal(0, 70, clean.x.shape), 0, 255).astype(np.uint8)
    shifted = np.roll(clean.x, 2, axis=2)
    kinds = np.repeat(np.array(["dark", "grainy", "shifted"]), len(clean.y))
    tail = Digits(np.concatenate([dark, grainy, shifted]), np.tile(clean.y, 3))
    return tail.save(place / "long-tail.npz", kind=kinds)
