"""Real candidates for the whole gate: scikit-learn's digits, one small network trained on them, and its saved forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CLASSES", "Digits", "Registered", "digits", "register", "save", "train"]

CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TRAINED_ON = 1200


@dataclass(frozen=True)
class Digits:
    """Real pictures of 8 by 8 pixels: x uint8 [N, 8, 8], y int64 [N]."""

    x: np.ndarray
    y: np.ndarray

    def save(self, path: Path, **more: np.ndarray) -> Path:
        np.savez(path, x=self.x, y=self.y, **more)
        return path


@dataclass(frozen=True)
class Registered:
    """Where the network is registered: version 1 is pickled, version 2 an exported program; both carry an alias."""

    url: str
    name: str
    model_ids: dict[str, str]  # by version
    run_ids: dict[str, str]


def digits() -> tuple[Digits, Digits]:
    """(training, test)."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x = np.rint(data.images * (255 / 16)).astype(np.uint8)
    y = data.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(x))
    first, rest = order[:TRAINED_ON], order[TRAINED_ON:]
    return Digits(x[first], y[first]), Digits(x[rest], y[rest])


def tensor(x: np.ndarray) -> Any:
    """float32 [N, 1, 8, 8] in 0..1."""
    import torch

    return torch.from_numpy(x).float().div(255).unsqueeze(1)


def train(data: Digits) -> Any:
    """A convolutional network of plain torch modules, so that any process can unpickle it; in evaluation mode."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10))
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    x, y = tensor(data.x), torch.from_numpy(data.y)
    for _ in range(10):
        for rows in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


def save(model: Any, folder: Path, kind: str = "pickle", *, shape: tuple[int, ...] = (1, 8, 8), code: Path | None = None) -> Path:
    """An MLflow model folder, saved by MLflow itself."""
    import mlflow

    mlflow.pytorch.save_model(
        model,
        folder,
        serialization_format=kind,
        input_example=None if code is not None else np.zeros((4, *shape), np.float32),
        pip_requirements=["torch"],
        code_paths=None if code is None else [str(code)],
    )
    return folder


def register(model: Any, tracking_uri: str, name: str, *, artifact_location: str | None = None, log: Callable[[], None]) -> Registered:
    """Logs and registers both formats as a user does; ``log`` may log more artifacts to the first run."""
    import mlflow
    import pytest

    model_ids, run_ids = {}, {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", tracking_uri)  # set_tracking_uri would outlast this call
        experiment = mlflow.create_experiment(f"training {name}", artifact_location=artifact_location)
        for version, kind in (("1", "pickle"), ("2", "pt2")):
            with mlflow.start_run(experiment_id=experiment) as run:
                info = mlflow.pytorch.log_model(
                    model,
                    name="model",
                    serialization_format=kind,
                    input_example=np.zeros((4, 1, 8, 8), np.float32),
                    pip_requirements=["torch"],
                    registered_model_name=name,
                )
                if version == "1":
                    log()
            model_ids[version], run_ids[version] = info.model_id, run.info.run_id
            mlflow.MlflowClient().set_registered_model_alias(name, {"1": "champion", "2": "candidate"}[version], version)
    return Registered(tracking_uri, name, model_ids, run_ids)
