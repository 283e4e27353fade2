"""Models logged by MLflow itself in both formats, as a user logs them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

NAME = "digits"


@dataclass(frozen=True)
class Logged:
    """Where the models are: version 1 is pickled, version 2 an exported program."""

    url: str
    name: str
    model_ids: dict[str, str]  # by version
    run_ids: dict[str, str]


def log_models(tracking_uri: str, name: str = NAME, artifact_location: str | None = None) -> Logged:
    import mlflow
    import numpy as np
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10)).eval()
    example = np.zeros((4, 1, 8, 8), np.float32)
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
                    input_example=example,
                    pip_requirements=["torch"],
                    registered_model_name=name,
                )
                mlflow.log_text("a,b\n", "data/table.csv")
            model_ids[version], run_ids[version] = info.model_id, run.info.run_id
        mlflow.MlflowClient().set_registered_model_alias(name, "champion", "1")
    return Logged(tracking_uri, name, model_ids, run_ids)
