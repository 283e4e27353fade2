"""Where a demo keeps its things: a folder with an MLflow store of its own, into which models are registered."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gate.errors import OutputError
from gate.registry.connection import session

__all__ = ["Place", "prepare"]

_MARK = ".gate-demo"


@dataclass(frozen=True)
class Place:
    """A demo's folder."""

    folder: Path

    @property
    def store(self) -> str:
        """The address of its MLflow store."""
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    @property
    def settings(self) -> Path:
        """The settings file of its gate runs."""
        return self.folder / "gate.yaml"

    def register(self, name: str, version: int, model: Any, example: np.ndarray, *, run_name: str, metrics: Mapping[str, float]) -> None:
        """Logs a torch module as an exported program and registers it.

        Args:
            name: of the registered model, which is also the experiment.
            version: the number that it must get.
            model: in evaluation mode.
            example: inputs as the model takes them, more than one, so that other batch sizes work, too.
            run_name: of the MLflow run that it is logged in.
            metrics: of that run.

        Raises:
            OutputError: the store gave it another version.
        """
        import mlflow

        # MLflow prints its successes to standard error past its own log levels.
        with session(self.store, create=True), contextlib.redirect_stderr(io.StringIO()):
            mlflow.set_tracking_uri(self.store)
            if mlflow.get_experiment_by_name(name) is None:
                mlflow.create_experiment(name, artifact_location=(self.folder / "artifacts").as_uri())
            mlflow.set_experiment(name)
            with mlflow.start_run(run_name=run_name):
                mlflow.log_metrics(dict(metrics))
                logged = mlflow.pytorch.log_model(
                    model, name="model", registered_model_name=name, input_example=example, serialization_format="pt2"
                )
        if str(logged.registered_model_version) != str(version):
            raise OutputError(f"The registry made version {logged.registered_model_version} where {version} was due.", where=self.store)


def prepare(folder: Path) -> Place:
    """The folder, empty: a new one, an empty one, or an earlier demo's, which is then replaced.

    Raises:
        OutputError: it holds something else, or can't be written.
    """
    folder = folder.resolve()
    try:
        if folder.exists() and any(folder.iterdir()):
            if not (folder / _MARK).is_file():
                raise OutputError("The folder is not empty and holds no demo.", where=str(folder), hint="Give another folder with --out.")
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARK).write_text("Made by `gate demo`, which replaces this folder when it runs again.\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"The folder can't be written: {error.strerror or error}.", where=str(folder), hint="Give --out.") from error
    return Place(folder)
