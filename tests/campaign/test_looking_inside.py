"""The worker's own answers about where a defect comes from: real processes, every kind of output, every pass counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from known_model import images
from saved_models import Saying, Stripes, load_parameters, save
from torch import nn

from gate.campaign.attribution_work import heat_work, patch_work
from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings
from gate.errors import ModelError
from gate.triage.attribute import Inside

X, _ = images(8)
CLEAN, DARK = X[0], (X[0] * 0.3).astype(np.uint8)  # of the first class; the trap has it read as the next


def watching(worker: Worker, module: nn.Module, folder: Path, *, kind: str = "logits", classes: int = 4) -> Inside:
    worker.call("load", load_parameters(save(module, folder), classes=classes))
    settings = CoverageSettings().model_dump(mode="json")
    fields, _ = worker.call("watch", {"coverage": settings, "kind": kind}, {"x": X[:3]})
    return Inside(worker, list(fields["layers"]), gradients=fields["gradients"], batch=4)


def calls(worker: Worker) -> int:
    return int(worker.call("describe")[0]["model_calls"])


def test_the_trap_is_found_and_every_pass_is_counted(worker: Worker, tmp_path: Path) -> None:
    inside = watching(worker, Stripes(trap=0.15).eval(), tmp_path / "model")
    before = calls(worker)
    look = inside.look(CLEAN, DARK, label=0, predicted=1, grid=4)
    found = look.attribution
    assert (found.neurons[0].layer, found.neurons[0].neuron) == ("hidden", 4)  # the neuron that only low light reaches
    assert found.neurons[0].restores
    assert (found.patched, found.of) == (5, 5)
    assert found.heat is not None
    assert found.heat.method == "occlusion"  # nothing in it sees places
    assert look.maps is not None
    assert look.maps.shape == (2, 4, 4)
    assert calls(worker) - before == found.model_calls <= heat_work(4) + patch_work(5)
    again = inside.look(CLEAN, DARK, label=0, predicted=1, grid=4)
    assert again.attribution.neurons == found.neurons
    assert np.array_equal(again.maps, look.maps)


@pytest.mark.parametrize("kind", ["probabilities", "log_probabilities", "sigmoid", "sigmoid_logit"])
def test_every_kind_of_output_is_read_as_logits(worker: Worker, tmp_path: Path, kind: str) -> None:
    single = kind.startswith("sigmoid")
    inside = watching(worker, Saying(kind).eval(), tmp_path / "model", kind=kind, classes=2 if single else 4)
    other = X[1]  # of the second class: stands in for a mutant
    look = inside.look(CLEAN, other, label=0, predicted=1, grid=4)
    assert look.attribution.neurons_reason is None
    assert {one.neuron for one in look.attribution.neurons[:2]} <= {0, 1}  # the two stripes that changed
    assert look.attribution.neurons[0].effect > 0.3
    assert look.attribution.heat is not None


def test_a_map_of_another_arm_is_left_alone(worker: Worker, tmp_path: Path) -> None:
    inside = watching(worker, Stripes(trap=0.15).eval(), tmp_path / "model")
    worker.call("profile", {}, {"x": X, "y": np.arange(8) % 4})
    worker.call("cover_seeds", {}, {"x": X})
    worker.call("open_arms", {"arms": ["search"]})
    before = worker.call("coverage")[0]
    plain = worker.call("forward", {}, {"x": X})[1]["raw"]
    inside.look(CLEAN, DARK, label=0, predicted=1, grid=4)
    assert worker.call("coverage")[0] == before
    assert np.array_equal(worker.call("forward", {}, {"x": X})[1]["raw"], plain)


class Jumpy(nn.Module):
    """Refuses any batch larger than three."""

    def __init__(self) -> None:
        super().__init__()
        self.stripes = Stripes(trap=0.15)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) > 3:
            raise ValueError("too many")
        found: torch.Tensor = self.stripes(x)
        return found


def test_a_model_that_refuses_is_a_reason(worker: Worker, tmp_path: Path) -> None:
    import sys

    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    inside = watching(worker, Jumpy().eval(), tmp_path / "model")
    look = inside.look(CLEAN, DARK, label=0, predicted=1, grid=4)
    assert look.maps is None
    assert look.attribution.heat_reason == "ValueError: too many"
    assert look.attribution.neurons_reason == "ValueError: too many"
    assert look.attribution.model_calls == heat_work(4) + patch_work(128)
    # And the worker goes on.
    assert worker.call("forward", {}, {"x": X[:2]})[1]["raw"].shape == (2, 4)


def test_what_torch_refuses_is_a_property_of_the_model(worker: Worker, tmp_path: Path) -> None:
    from gate.campaign.looking import looking_inside

    with pytest.raises(ModelError, match="can't be looked into: RuntimeError: no graph"), looking_inside():
        raise RuntimeError("no graph")
