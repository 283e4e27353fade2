"""What the worker does for the supervisor: holds the model, the coverage maps and the device. Exists only in the worker process.

Each ``do_…`` method is one request: it takes tensors by name and JSON parameters, and returns JSON fields and tensors by name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gate.campaign.ascent import ascend
from gate.campaign.attacks import attack
from gate.campaign.wire import Arrays
from gate.config import CoverageSettings, InputSettings
from gate.coverage import criteria_from
from gate.coverage.items import NeuronCriterion
from gate.coverage.layers import choose_layers, list_layers
from gate.coverage.output import OutputCoverage
from gate.coverage.profile import Profile
from gate.coverage.recorder import Recorder
from gate.coverage.store import packed
from gate.coverage.suite import Suite
from gate.coverage.survey import Survey
from gate.coverage.unreached import unreached
from gate.domains.image.preprocess import Preprocess
from gate.errors import ConfigError, ModelError
from gate.models.differentiable import Differentiable, to_logits
from gate.models.head import FeatureTap, find_head
from gate.models.load import load_module, training_modules
from gate.models.outputs import OutputKind, check
from gate.models.select import Key, choose_key, pick
from gate.models.trace import trace

__all__ = ["Session"]

Answer = tuple[dict[str, Any], Arrays]


class ModelRaised(Exception):
    """The model's own code raised an exception; the text is its."""


class Session:
    """Owns the model and everything on the device."""

    def __init__(self) -> None:
        self._module: nn.Module | None = None
        self._device = torch.device("cpu")
        self._model_calls = 0
        self._key: Key = None
        self._key_chosen = False
        self._recorder: Recorder | None = None
        self._survey: Survey | None = None
        self._tap: FeatureTap | None = None
        self._base: Suite | None = None
        self._profile = Profile()
        self._arms: dict[str, Suite] = {}

    # The model.

    def do_load(
        self,
        _: Arrays,
        *,
        folder: str,
        description: Mapping[str, Any],
        device: str,
        reading: Mapping[str, Any],
        value_range: Sequence[float],
        channels: int,
        output_key: Key,
        classes: int | None,
        seed: int,
    ) -> Answer:
        """Loads the model onto the device; an earlier one and all that was learnt of it is forgotten."""
        vars(self).update(vars(Session()))
        self._device = _device(device)
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        self._module = load_module(Path(folder), dict(description), self._device)
        self._value_range = (float(value_range[0]), float(value_range[1]))
        self._channels = channels
        self._preprocess = self._reader(reading)
        self._wanted_key, self._classes = output_key, classes
        return {
            "training": training_modules(self._module),
            "parameters": sum(parameter.numel() for parameter in self._module.parameters()),
            "fingerprint": {
                "torch": torch.__version__,
                "device": str(self._device) if self._device.type == "cpu" else torch.cuda.get_device_name(self._device),
                "threads": torch.get_num_threads(),
                "python": sys.version.split()[0],
            },
        }, {}

    def do_describe(self, _: Arrays) -> Answer:
        """What the model wants, for messages; and what it was asked so far."""
        assert self._module is not None
        first = next((m for m in self._module.modules() if isinstance(m, nn.Linear | nn.modules.conv._ConvNd)), None)
        return {
            "first_layer": None if first is None else repr(first),
            "model_input": getattr(self, "_last_input", None),
            "model_calls": self._model_calls,
        }, {}

    def do_forward(self, arrays: Arrays, *, reading: Mapping[str, Any] | None = None) -> Answer:
        """Raw outputs of a batch, without touching coverage; ``reading`` replaces the input settings for this batch."""
        preprocess = self._preprocess if reading is None else self._reader(reading)
        with torch.no_grad():
            raw = self._answer(self._on_device(arrays["x"]), preprocess)
        return {}, {"raw": _numpy(raw)}

    def do_features(self, arrays: Arrays) -> Answer:
        """Penultimate features of a batch: what goes into the classifier head."""
        assert self._module is not None
        x = self._on_device(arrays["x"])
        with torch.no_grad():
            if self._tap is None:
                raw = self._answer(x, self._preprocess)
                head = find_head(self._module, trace(self._module, self._preprocess(x)), raw.shape[1])
                if head is None:
                    raise ModelError("The model has no classifier head whose input could be compared.", where="the model")
                self._tap = FeatureTap(self._module, head)
            with self._tap.recording():
                self._answer(x, self._preprocess)
        return {"head": self._tap.head}, {"features": self._tap.features.cpu().numpy()}

    # Choosing layers.

    def do_layers(self, arrays: Arrays, *, coverage: Mapping[str, Any]) -> Answer:
        """Every layer of the model, and which of them these settings would watch."""
        assert self._module is not None
        x = self._on_device(arrays["x"])
        with torch.no_grad():
            outputs = self._answer(x, self._preprocess).shape[1]
            self._survey = Survey(self._module, self._preprocess(x), outputs, CoverageSettings.model_validate(_tuples(coverage)))
        return self._survey.described(), {}

    def do_layer_ranges(self, arrays: Arrays) -> Answer:
        """What the neurons of every layer have put out so far, this batch included."""
        assert self._survey is not None
        with torch.no_grad(), self._survey.recorder.recording():
            self._answer(self._on_device(arrays["x"]), self._preprocess)
        self._survey.take()
        return {"ranges": self._survey.ranges()}, {}

    # Coverage.

    def do_watch(self, arrays: Arrays, *, coverage: Mapping[str, Any], kind: str) -> Answer:
        """Chooses the layers on a small batch, registers the hooks once, and makes the criteria."""
        assert self._module is not None
        settings = CoverageSettings.model_validate(_tuples(coverage))
        x = self._on_device(arrays["x"])
        self._kind = OutputKind(kind)
        with torch.no_grad():
            inputs = self._preprocess(x)
            outputs = self._answer(x, self._preprocess).shape[1]
        layers = choose_layers(list_layers(self._module, inputs, outputs, neuron=settings.neuron), settings.layers)
        self._recorder = Recorder(self._module, layers)
        self._base = Suite(criteria_from(settings), settings.guide)
        self._profile = Profile()
        return {
            "layers": {layer.name: layer.neurons for layer in layers},
            "gradients": self._has_gradients(x),
            "steerable": bool(_steering(self._base)),
        }, {}

    def do_profile(self, arrays: Arrays) -> Answer:
        """Shows the criteria a batch of clean samples and their classes."""
        assert self._base is not None
        acts, _ = self._recorded(self._on_device(arrays["x"]))
        batch = self._base.batch(acts)
        self._profile.take(batch)
        with _measurable():
            self._base.fit(batch, self._on_device(arrays["y"]))
        return {}, {}

    def do_cover_seeds(self, arrays: Arrays) -> Answer:
        """Counts a batch of seed inputs into the map that every arm starts from."""
        assert self._base is not None
        acts, raw = self._recorded(self._on_device(arrays["x"]))
        with _measurable():
            self._base.update(acts, self._logits(raw))
        return {}, {}

    def do_open_arms(self, _: Arrays, *, arms: Sequence[str]) -> Answer:
        """Gives each arm its own map, starting from the seeds' coverage."""
        assert self._base is not None
        assert self._recorder is not None
        self._arms = {arm: self._base.copy() for arm in arms}
        self._arms["search"].estimate_discovery()
        profile = self._profile.layers()
        return {
            "coverage": {name: criterion.value for name, criterion in self._base.criteria.items()},
            "layers": [
                {"name": layer.name, "type": layer.type, "neurons": layer.neurons, "head": layer.head, **asdict(profile[layer.name])}
                for layer in self._recorder.layers
            ],
        }, {}

    def do_run(self, arrays: Arrays, *, arm: str | None) -> Answer:
        """One batch in one pass: raw outputs and, for an arm with a map, the coverage that its valid samples add."""
        x = self._on_device(arrays["x"])
        if arm is None:
            with torch.no_grad():
                return {}, {"raw": _numpy(self._answer(x, self._preprocess))}
        acts, raw = self._recorded(x)
        earns = torch.from_numpy(arrays["earns"])  # stays on the CPU, see gate.coverage.base.split
        suite = self._arms[arm]
        added = suite.update_each(acts, self._logits(raw), earns=earns)
        found = suite.discovery()
        return (
            {
                "valid": {name: criterion.value for name, criterion in suite.criteria.items()},
                "raw": {name: criterion.raw_value for name, criterion in suite.criteria.items()},
                "discovery": {name: None if estimate is None else asdict(estimate) for name, estimate in found.items()},
            },
            {
                "raw": _numpy(raw),
                "new_items": _numpy(suite.together(added)),
                "added": _numpy(torch.stack([added[name].to(torch.float64) for name in suite.criteria], 1)),
            },
        )

    def do_coverage(self, _: Arrays) -> Answer:
        """What the search arm has covered, by criterion and layer, and what it has not reached."""
        return {
            "criteria": {
                name: {
                    "covered": criterion.covered,
                    "total": criterion.total,
                    "by_layer": criterion.by_layer(),
                    "by_class": criterion.by_class() if isinstance(criterion, OutputCoverage) else [],
                    "nonfinite": criterion.nonfinite,
                    "unreached": unreached(criterion),
                }
                for name, criterion in self._arms["search"].criteria.items()
            }
        }, {}

    def do_coverage_state(self, _: Arrays) -> Answer:
        """The search arm's maps, as a file holds them."""
        described, arrays = packed(self._arms["search"].criteria)
        return {"criteria": described}, arrays

    # Mutants that need the model.

    def do_mutate(self, arrays: Arrays, *, operator: str, bound: float, steps: int, seed: int) -> Answer:
        """Mutants of a batch within an L-infinity bound (a share of the value range), in the file dtype.

        fgsm and pgd push towards another class than ``labels``; coverage_gradient pushes neurons towards items not yet covered.
        """
        assert self._module is not None
        x = self._on_device(arrays["x"]).to(torch.float32)
        low, high = self._value_range
        epsilon = bound * (high - low)
        if operator == "coverage_gradient":
            assert self._recorder is not None
            mutants = ascend(
                lambda values: self._run_module(values, self._preprocess),
                self._recorder,
                _steering(self._arms["search"]),
                x,
                epsilon=epsilon,
                bounds=(low, high),
                steps=steps,
                seed=seed,
            )
        else:
            labels = torch.from_numpy(arrays["labels"]).to(self._device)
            model = Differentiable(self._module, self._kind, self._key, self._preprocess)
            mutants = attack(operator, model, x, labels, epsilon=epsilon, bounds=(low, high), steps=steps, seed=seed, device=self._device)
        self._model_calls += 3 * steps * len(x)
        values = mutants.clamp(low, high).cpu().numpy()
        dtype = arrays["x"].dtype
        return {}, {"x": np.rint(values).astype(dtype) if dtype == np.uint8 else values.astype(dtype)}

    # Inside.

    def _reader(self, reading: Mapping[str, Any]) -> Preprocess:
        # A reading that is only tried out may be one that a person could not write, so it is built field by field.
        settings = InputSettings.model_validate(_tuples(reading))
        return Preprocess(settings, self._value_range, self._channels).to(self._device)

    def _on_device(self, x: np.ndarray) -> Tensor:
        return torch.from_numpy(x).to(self._device, non_blocking=True)

    def _run_module(self, x: Tensor, preprocess: nn.Module) -> Any:
        assert self._module is not None
        inputs = preprocess(x)
        self._last_input = f"{list(inputs.shape)} {str(inputs.dtype).removeprefix('torch.')}"
        try:
            return self._module(inputs)
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"The device's memory is too small for a batch of {len(x)}.", where=str(self._device), hint="Set a smaller batch_size."
            ) from error
        except ModelError:  # of the hooks that record the layers
            raise
        except Exception as error:  # the model may raise anything
            raise ModelRaised(f"{type(error).__name__}: {error}") from error

    def _answer(self, x: Tensor, preprocess: nn.Module) -> Tensor:
        """The chosen output of one forward pass, float32 [N, K]."""
        output = self._run_module(x, preprocess)
        self._model_calls += len(x)
        if not self._key_chosen:
            self._key = choose_key(output, self._wanted_key, samples=len(x), classes=self._classes)
            self._key_chosen = True
        raw = pick(output, self._key)
        if raw.is_floating_point():
            raw = raw.to(torch.float32)
        checked = check(raw.detach().cpu().numpy(), len(x), self._classes)
        return raw.reshape(checked.shape)

    def _logits(self, raw: Tensor) -> Tensor:
        """float64 [N, C]: softmax gives the probabilities that the supervisor reads out of the same outputs, ties included."""
        return to_logits(raw.to(torch.float64), self._kind)

    def _recorded(self, x: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        assert self._recorder is not None
        with torch.no_grad(), self._recorder.recording():
            raw = self._answer(x, self._preprocess)
        return self._recorder.activations(), raw

    def _has_gradients(self, x: Tensor) -> bool:
        """Whether the model's answer depends on its input in a way that autograd can follow."""
        assert self._module is not None
        values = x.to(torch.float32).requires_grad_(True)
        try:
            logits = Differentiable(self._module, self._kind, self._key, self._preprocess)(values)
            (gradient,) = torch.autograd.grad(logits.sum(), values, allow_unused=True)
        except RuntimeError as error:
            print(f"no gradients: {error}", file=sys.stderr)
            return False
        self._model_calls += 3 * len(x)
        return gradient is not None and bool(torch.isfinite(gradient).all())


@contextmanager
def _measurable() -> Iterator[None]:
    """Inside, what a criterion refuses is a fault of the settings or the profile set: afterwards everything is known to fit."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(
            f"Coverage can't be measured so: {error}.",
            where="coverage",
            hint="Take other criteria (coverage.criteria) or layers (coverage.layers), or another profile set (data.profile).",
        ) from error


def _steering(suite: Suite) -> list[NeuronCriterion]:
    """The guiding criteria that can say which way a neuron has to move."""
    return [one for name in suite.guide if isinstance(one := suite.criteria[name], NeuronCriterion)]


def _device(wanted: str) -> torch.device:
    available = torch.cuda.is_available()
    if wanted == "auto":
        return torch.device("cuda" if available else "cpu")
    device = torch.device(wanted)
    if device.type == "cuda" and (not available or (device.index or 0) >= torch.cuda.device_count()):
        count = torch.cuda.device_count() if available else 0
        raise ConfigError(
            f"The device {wanted} was asked for, and torch sees {count} CUDA device{'s' if count != 1 else ''}"
            + (f" (CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']})" if "CUDA_VISIBLE_DEVICES" in os.environ else "")
            + ".",
            where="device",
            hint="Use --device auto or cpu, or a machine with a GPU and a CUDA build of torch.",
        )
    return device


def _numpy(raw: Tensor) -> np.ndarray:
    result: np.ndarray = raw.detach().cpu().numpy()
    return result


def _tuples(value: Any) -> Any:
    """JSON lists become tuples: the settings take no list where a tuple is declared."""
    if isinstance(value, Mapping):
        return {key: _tuples(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return value
