"""Real models, logged by MLflow in both formats on the real server, once for the whole session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from answering_server import Answering, answering_servers
from logged_models import Logged, log_models


@pytest.fixture(scope="session")
def logged(mlflow_server: str) -> Logged:
    return log_models(mlflow_server)


@pytest.fixture(scope="session")
def sqlite_store(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    """A store without a server, with the artifacts on disk."""
    folder = tmp_path_factory.mktemp("a store with spaces")
    return log_models(f"sqlite:///{folder}/mlflow.db", artifact_location=(folder / "artifacts").as_uri())


@pytest.fixture
def answering() -> Iterator[Answering]:
    with answering_servers() as start:
        yield start


@pytest.fixture
def stopwatch() -> Callable[[], float]:
    begin = time.monotonic()
    return lambda: time.monotonic() - begin


@pytest.fixture
def model_folder(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a local MLflow model folder of the given format, saved by MLflow itself."""

    def save(kind: str = "pickle") -> Path:
        import mlflow
        import numpy as np
        import torch

        folder = tmp_path / f"a {kind} módel"
        mlflow.pytorch.save_model(
            torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)).eval(),
            folder,
            serialization_format=kind,
            input_example=np.zeros((4, 1, 8, 8), np.float32),
            pip_requirements=["torch"],
        )
        return folder

    return save
