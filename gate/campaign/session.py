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

from gate.campaign.ascent_options import Ascent
from gate.campaign.attacks import attack
from gate.campaign.attribution_work import SIGHT_PASSES
from gate.campaign.canary_faults import Planted
from gate.campaign.climber import Climber, steering
from gate.campaign.descender import Descender
from gate.campaign.descent_options import Descent
from gate.campaign.forward import Forward, ModelRaised
from gate.campaign.halving import Halving
from gate.campaign.heat_maps import Sight, find_sight, heat_maps
from gate.campaign.looking import looking_inside
from gate.campaign.mark_steps import climb
from gate.campaign.numeric_paths import run_on_path
from gate.campaign.patching import patch
from gate.campaign.scores import agreement, dropout_variance, gradient_norms, has_dropout
from gate.campaign.staging import Staging
from gate.campaign.wire import Arrays
from gate.config import CoverageSettings, InputSettings
from gate.coverage import criteria_from
from gate.coverage.hits import hits_of_each
from gate.coverage.layers import choose_layers, list_layers
from gate.coverage.map_file import MapContents
from gate.coverage.output import OutputCoverage
from gate.coverage.profile import Profile
from gate.coverage.recorder import Recorder
from gate.coverage.signing import Signatures
from gate.coverage.store import packed, restored
from gate.coverage.suite import Suite
from gate.coverage.survey import Survey
from gate.coverage.unreached import unreached
from gate.domains.image.preprocess import Preprocess
from gate.errors import ConfigError, ModelError
from gate.models.differentiable import Differentiable, to_logits
from gate.models.head import FeatureTap, find_head
from gate.models.load import load_module, training_modules
from gate.models.outputs import OutputKind
from gate.models.select import Key
from gate.models.trace import trace

__all__ = ["Session"]

Answer = tuple[dict[str, Any], Arrays]


class Session:
    """Owns the model and everything on the device."""

    def __init__(self) -> None:
        self._module: nn.Module | None = None
        self._device = torch.device("cpu")
        self._recorder: Recorder | None = None
        self._survey: Survey | None = None
        self._tap: FeatureTap | None = None
        self._base: Suite | None = None
        self._profile = Profile()
        self._arms: dict[str, Suite] = {}
        self._signatures = Signatures({})
        self._sight: Sight | None = None
        self._unplanted: dict[str, Any] | None = None  # all of this as it was before a fault was planted

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
        amp: str = "off",
        compiled: bool = False,
        threads: int | None = None,
        turn: int = 0,
    ) -> Answer:
        """Loads the model onto the device; an earlier one and all that was learnt of it is forgotten.

        Workers take the CUDA devices in ``turn``, where none is named. ``threads`` is how many threads torch uses on the CPU.
        """
        vars(self).update(vars(Session()))
        self._device = _device(device, turn)
        if threads is not None:
            torch.set_num_threads(threads)
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        self._module = load_module(Path(folder), dict(description), self._device)
        self._value_range = (float(value_range[0]), float(value_range[1]))
        self._channels = channels
        self._preprocess = self._reader(reading)
        self._forward = Forward(self._module, self._device, key=output_key, classes=classes, amp=amp, compiled=compiled)
        self._staging = Staging(self._device)
        return {
            "training": training_modules(self._module),
            "parameters": sum(parameter.numel() for parameter in self._module.parameters()),
            "fingerprint": {
                "torch": torch.__version__,
                "device": str(self._device) if self._device.type == "cpu" else torch.cuda.get_device_name(self._device),
                "threads": torch.get_num_threads(),
                "python": sys.version.split()[0],
                "amp": amp,
            },
        }, {}

    def do_describe(self, _: Arrays) -> Answer:
        """What the model wants, for messages; and what it was asked so far."""
        assert self._module is not None
        first = next((m for m in self._module.modules() if isinstance(m, nn.Linear | nn.modules.conv._ConvNd)), None)
        return {
            "first_layer": None if first is None else repr(first),
            "model_input": self._forward.last_input,
            "model_calls": self._forward.model_calls,
            **self._forward.state(),
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
            tap = self._feature_tap(x)
            if tap is None:
                raise ModelError("The model has no classifier head whose input could be compared.", where="the model")
            features = torch.cat(self._forward.in_parts(len(x), lambda rows: self._features(x[rows])))
        return {"head": tap.head}, {"features": features.cpu().numpy()}

    # Scores of corpus entries, see gate.campaign.scores.

    def do_scorable(self, arrays: Arrays) -> Answer:
        """Whether the model has penultimate features, and dropout that can be switched on."""
        assert self._module is not None
        with torch.no_grad():
            features = self._feature_tap(self._on_device(arrays["x"])) is not None
        return {"features": features, "dropout": has_dropout(self._module)}, {}

    def do_score(self, arrays: Arrays, *, score: str, passes: int, seed: int) -> Answer:
        """One score float64 [N] of each input: gradient (towards uncovered items), variance (with dropout), replays (that agree)."""
        assert self._module is not None
        assert self._recorder is not None
        module, recorder, x = self._module, self._recorder, self._on_device(arrays["x"])
        if score == "gradient":
            values, criteria = x.to(torch.float32), steering(self._arms["search"])

            def norms(rows: slice) -> Tensor:
                return gradient_norms(lambda part: self._run_module(part, self._preprocess), recorder, criteria, values[rows])

            found = torch.cat(self._forward.with_gradients(len(x), norms))
            self._forward.model_calls += 3 * len(x)
        else:

            def answer() -> Tensor:
                with torch.no_grad():
                    return self._logits(self._answer(x, self._preprocess))

            if score == "variance":
                found = dropout_variance(lambda: answer().softmax(1), module, passes=passes, seed=seed, device=self._device)
            else:
                found = agreement(answer, replays=passes)
        return {}, {"score": _numpy(found)}

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
        x = self._on_device(arrays["x"])
        self._forward.in_parts(len(x), lambda rows: self._look(x[rows]))
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
        self._climber = Climber(self._recorder, self._forward, self._preprocess)
        self._descender = Descender(self._recorder, self._forward, self._preprocess, self._kind)
        self._forward.watched_by(self._recorder, x, self._preprocess)
        self._base = Suite(criteria_from(settings), settings.guide)
        self._profile = Profile()
        return {
            "layers": {layer.name: layer.neurons for layer in layers},
            "gradients": self._forward.has_gradients(x, self._preprocess, self._kind),
            "steerable": bool(steering(self._base)),
        }, {}

    def do_profile(self, arrays: Arrays) -> Answer:
        """Shows the criteria a batch of clean samples and their classes."""
        assert self._base is not None
        acts, raw = self._recorded(self._on_device(arrays["x"]))
        self._forward.kept.keep(arrays["x"], acts, raw)
        batch = self._base.batch(acts)
        self._profile.take(batch)
        with _measurable():
            self._base.fit(batch, self._on_device(arrays["y"]))
        return {}, {}

    def do_cover_seeds(self, arrays: Arrays) -> Answer:
        """Counts a batch of seed inputs into the map that every arm starts from."""
        assert self._base is not None
        acts, raw = self._forward.kept.find(arrays["x"]) or self._recorded(self._on_device(arrays["x"]))
        with _measurable():
            self._base.update(acts, self._logits(raw))
        self._climber.note_seeds(acts)
        return {}, {}

    def do_open_arms(self, _: Arrays, *, arms: Sequence[str]) -> Answer:
        """Gives each arm its own map, starting from the seeds' coverage."""
        assert self._base is not None
        assert self._recorder is not None
        self._forward.kept.clear()
        self._arms = {arm: self._base.copy() for arm in arms}
        self._arms["search"].estimate_discovery()
        self._signatures = Signatures({name: self._base.criteria[name] for name in self._base.guide})
        profile = self._profile.layers()
        return {
            "coverage": {name: criterion.value for name, criterion in self._base.criteria.items()},
            "layers": [
                {"name": layer.name, "type": layer.type, "neurons": layer.neurons, "head": layer.head, **asdict(profile[layer.name])}
                for layer in self._recorder.layers
            ],
        }, {}

    def do_run(self, arrays: Arrays, *, arm: str | None, part: bool = False) -> Answer:
        """One batch in one pass: raw outputs and, for an arm with a map, the coverage that its valid samples add.

        With ``part`` it is some of the rows of a batch that made the model raise.
        """
        x = self._on_device(arrays["x"])
        if arm is None:
            with torch.no_grad():
                return {}, {"raw": _numpy(self._answer(x, self._preprocess))}
        try:
            acts, raw = self._recorded(x)
        except ModelRaised:
            if arm == "search" and not part:
                self._climber.note_missed()
            raise
        return self._counted(arm, acts, raw, arrays["earns"], part=part)

    def do_missed(self, _: Arrays) -> Answer:
        """Notes a batch of the search that made the model raise in another worker."""
        self._climber.note_missed()
        return {}, {}

    def do_run_kept(self, arrays: Arrays, *, arm: str, token: int) -> Answer:
        """The same for the mutants of a climb (or, where the token is negative, of a descent), whose passes were kept: no model call."""
        made = self._descender if token < 0 else self._climber
        return self._counted(arm, *made.held.hand_out(token), arrays["earns"])

    def _counted(self, arm: str, acts: dict[str, Tensor], raw: Tensor, earning: np.ndarray, *, part: bool = False) -> Answer:
        earns = torch.from_numpy(earning)  # stays on the CPU, see gate.coverage.base.split
        suite = self._arms[arm]
        if arm == "search" and not part:
            self._climber.note_run(acts)
        batch = suite.batch(acts, self._logits(raw))
        added = suite.update_each(batch, earns=earns)
        found = suite.discovery()
        # Only the search has entries that a mutant could stand for.
        signed = np.where(earning, _numpy(self._signatures.of(batch)), 0) if arm == "search" else np.zeros(len(earning), dtype=np.int64)
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
                "signature": signed,
            },
        )

    def do_record(self, arrays: Arrays) -> Answer:
        """The first half of ``run``, for another worker to count: raw outputs, and activations [N, all watched neurons] by layer."""
        acts, raw = self._recorded(self._on_device(arrays["x"]))
        assert self._recorder is not None
        return {}, {"raw": _numpy(raw), "acts": _numpy(torch.cat([acts[layer.name] for layer in self._recorder.layers], 1))}

    def do_count(self, arrays: Arrays, *, arm: str, part: bool = False) -> Answer:
        """The second half of ``run``: what another worker recorded, counted into an arm's map."""
        assert self._recorder is not None
        layers = self._recorder.layers
        parts = torch.split(self._on_device(arrays["acts"]), [layer.neurons for layer in layers], 1)
        acts = {layer.name: part.contiguous() for layer, part in zip(layers, parts, strict=True)}
        return self._counted(arm, acts, self._on_device(arrays["raw"]), arrays["earns"], part=part)

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

    def do_restore(self, arrays: Arrays, *, criteria: Mapping[str, Any]) -> Answer:
        """Takes the criteria out of a map instead of those that ``watch`` made."""
        assert self._base is not None
        self._base = Suite(restored(MapContents("", "", criteria, arrays), "coverage map"), self._base.guide)
        return {}, {}

    def do_items(self, arrays: Arrays) -> Answer:
        """What each sample covers beyond the map: by criterion sample and item (of a pattern: its code), int64 [2, H]. Counts nothing."""
        assert self._base is not None
        acts, raw = self._recorded(self._on_device(arrays["x"]))
        return {}, {name: _numpy(torch.stack(hits)) for name, hits in hits_of_each(self._base, acts, self._logits(raw)).items()}

    # Mutants that need the model.

    def do_mutate(self, arrays: Arrays, *, operator: str, bound: float, steps: int, seed: int) -> Answer:
        """Mutants of a batch, in the file dtype; ``bound`` is a share of the value range.

        They push towards another class than ``labels``, see gate/campaign/attacks.py. boundary needs ``starts``, inputs of other classes
        in the shape of ``x``.
        """
        assert self._module is not None
        x = self._on_device(arrays["x"]).to(torch.float32)
        low, high = self._value_range
        epsilon = bound * (high - low)
        labels = torch.from_numpy(arrays["labels"]).to(self._device)
        model = Differentiable(self._module, self._kind, self._forward.key, self._preprocess)
        starts = self._on_device(arrays["starts"]).to(torch.float32) if "starts" in arrays else None
        common: dict[str, Any] = {"epsilon": epsilon, "bounds": (low, high), "steps": steps, "device": self._device}
        common["whole"] = arrays["x"].dtype == np.uint8

        def attacked(rows: slice) -> tuple[Tensor, int]:
            begin = None if starts is None else starts[rows]
            return attack(operator, model, x[rows], labels[rows], seed=seed + rows.start, starts=begin, **common)

        made = self._forward.with_gradients(len(x), attacked)
        parts, calls = [part for part, _ in made], sum(spent for _, spent in made)
        mutants = torch.cat(parts)
        self._forward.model_calls += calls
        values = mutants.clamp(low, high).cpu().numpy()
        dtype = arrays["x"].dtype
        return {}, {"x": np.rint(values).astype(dtype) if dtype == np.uint8 else values.astype(dtype)}

    def do_join(self, arrays: Arrays) -> Answer:
        """Which inputs of the last batches may be climbed from, int64 [F, 3]; see ``Climber.join``."""
        self._climber.join(torch.from_numpy(arrays["fresh"]))
        return {}, {}

    def do_aim(self, _: Arrays, *, count: int, seed: int, together: bool = False) -> Answer:
        """Which inputs to climb from, and which neuron each towards; see ``Climber.aim``."""
        places, targets = self._climber.aim(self._arms["search"], count, seed, together=together)
        return {}, {"places": _numpy(places), "targets": _numpy(targets)}

    def do_screen(self, arrays: Arrays, *, count: int, shares: Sequence[float]) -> Answer:
        """Which natural mutants are expected to cover something, of those between known ones; see ``Climber.screen``."""
        ends, most = (torch.from_numpy(arrays[name]) for name in ("ends", "most"))
        stretches, places = self._climber.screen(self._arms["search"], ends, most, shares, count)
        return {}, {"stretches": _numpy(stretches), "shares": _numpy(places)}

    def do_climb(self, arrays: Arrays, *, token: int, bound: float, seed: int, ascent: Mapping[str, Any]) -> Answer:
        """Mutants within an L-infinity bound (a share of the value range) of ``x``, which reach for items that nothing has covered yet."""
        low, high = self._value_range
        mutants, rows, work = self._climber.climb(
            self._arms["search"],
            self._on_device(arrays["x"]),
            torch.from_numpy(arrays["targets"]),
            token=token,
            ascent=Ascent(**_tuples(ascent)),
            epsilon=bound * (high - low),
            bounds=(low, high),
            whole=arrays["x"].dtype == np.uint8,
            seed=seed,
        )
        return {"work": work}, {"x": _numpy(mutants).astype(arrays["x"].dtype), "rows": _numpy(rows)}

    def do_descend(self, arrays: Arrays, *, token: int, bound: float, descent: Mapping[str, Any]) -> Answer:
        """Mutants within an L-infinity bound (a share of the value range) of ``x``, on the way from ``labels`` to classes ``targets``."""
        low, high = self._value_range
        mutants, rows, work = self._descender.descend(
            self._on_device(arrays["x"]),
            torch.from_numpy(arrays["labels"]),
            torch.from_numpy(arrays["targets"]),
            token=token,
            descent=Descent(**_tuples(descent)),
            epsilon=bound * (high - low),
            bounds=(low, high),
            whole=arrays["x"].dtype == np.uint8,
        )
        return {"work": work}, {"x": _numpy(mutants).astype(arrays["x"].dtype), "rows": _numpy(rows)}

    # Faults planted on purpose, see gate.campaign.canary_faults.

    def do_plant(self, _: Arrays, *, canary: Mapping[str, Any]) -> Answer:
        """Plants a fault until ``unplant``: meanwhile the search has a map of its own, which starts from the seeds' coverage."""
        assert self._module is not None
        assert self._recorder is not None
        assert self._base is not None
        assert self._unplanted is None
        how: dict[str, Any] = {"key": self._forward.key, "kind": self._kind, "preprocess": self._preprocess}
        module = Planted(self._module, canary, **how, value_range=self._value_range, layers=self._recorder.layers)
        self._unplanted = dict(vars(self))
        self._module, self._forward = module, self._forward.around(module)
        self._climber = self._climber.fresh(self._forward)
        self._descender = Descender(self._recorder, self._forward, self._preprocess, self._kind)
        self._arms = {"search": self._base.copy()}
        self._arms["search"].estimate_discovery()
        return {}, {}

    def do_unplant(self, _: Arrays) -> Answer:
        """Takes the fault out; everything is as it was before, but for the count of model calls."""
        assert isinstance(self._module, Planted)
        assert self._unplanted is not None
        planted, spent = self._module, self._forward.model_calls
        vars(self).update({**self._unplanted, "_unplanted": None})
        planted.close()
        self._forward.model_calls += spent
        return {}, {}

    def do_sound(self, arrays: Arrays) -> Answer:
        """Raw outputs of a batch as ``forward`` gives them, without the planted fault."""
        assert self._unplanted is not None
        with torch.no_grad():
            return {}, {"raw": _numpy(self._unplanted["_forward"].answer(self._on_device(arrays["x"]), self._preprocess))}

    # Probes and marks.

    def do_numeric_path(self, arrays: Arrays, *, path: str) -> Answer:
        """Raw outputs of a batch in another precision or memory layout, where the model and the device can take it."""
        assert self._module is not None
        module, x = self._module, self._on_device(arrays["x"])
        in_parts = Halving(self._device, self._forward.kept.clear).parts  # a path takes more memory, which the search's batches don't
        try:
            parts = in_parts(len(x), lambda rows: run_on_path(path, module, self._preprocess, x[rows], self._forward.key))
        except ModelError as error:
            print(f"no answer on the numeric path {path}: {error.what}", file=sys.stderr)
            parts = [None]
        raw = [part for part in parts if part is not None]
        if len(raw) < len(parts):
            return {"supported": False}, {}
        self._forward.model_calls += len(x)
        return {"supported": True}, {"raw": _numpy(torch.cat(raw))}

    def do_patch(self, arrays: Arrays, *, label: int, most: int, batch: int, gradients: bool) -> Answer:
        """The neurons that bring a mutant's answer back: ``x`` [2, ...] is its seed input and it; see ``gate.campaign.patching``."""
        assert self._module is not None
        assert self._recorder is not None
        before, in_parts = self._forward.model_calls, Halving(self._device, self._forward.kept.clear).parts
        how: dict[str, Any] = {"label": label, "most": most, "batch": batch, "gradients": gradients}
        with looking_inside():
            found = patch(self._module, self._recorder.layers, self._explained, in_parts, self._on_device(arrays["x"]), **how)
        said = {"tried": found.tried, "of": found.of, "reason": found.reason}
        named = {name: _numpy(getattr(found, name)) for name in ("layers", "neurons", "effects", "restores")}
        return {**said, "work": self._forward.model_calls - before}, named

    def do_heat(self, arrays: Arrays, *, classes: Sequence[int], grid: int, batch: int, gradients: bool) -> Answer:
        """Where in each picture ``x`` [N, ...] the answer for a class comes from; see ``gate.campaign.heat_maps``."""
        assert self._module is not None
        before, x = self._forward.model_calls, self._on_device(arrays["x"])
        if self._sight is None:
            with torch.no_grad(), looking_inside():
                outputs = self._answer(x, self._preprocess).shape[1]
                self._sight = find_sight(self._module, self._preprocess(x), outputs)
            self._forward.model_calls += SIGHT_PASSES * len(x)
        wanted = torch.tensor(classes, device=self._device)
        in_parts = Halving(self._device, self._forward.kept.clear).parts
        how: dict[str, Any] = {"gradients": gradients, "grid": grid, "batch": batch}
        with looking_inside():
            found = heat_maps(self._module, self._sight, self._explained, in_parts, x, wanted, **how)
        work = self._forward.model_calls - before
        if found is None:
            return {"method": None, "layer": None, "work": work}, {}
        return {"method": found.method, "layer": found.layer, "work": work}, {"maps": _numpy(found.maps)}

    def do_climb_marks(self, arrays: Arrays, *, steps: int) -> Answer:
        """Moves marks ``pictures`` [M, ...] within ``weights`` towards ``targets`` [M], each on all inputs ``x`` [B, ...] at once."""
        assert self._module is not None
        given = {name: torch.from_numpy(values).to(self._device) for name, values in arrays.items()}
        model = Differentiable(self._module, self._kind, self._forward.key, self._preprocess)
        # Marks are many samples each, and what the device can take of them says nothing of the search's batches.
        in_parts, inputs_in_parts = (Halving(self._device, self._forward.kept.clear).parts for _ in range(2))
        found = climb(model, **given, steps=steps, bounds=self._value_range, in_parts=in_parts, inputs_in_parts=inputs_in_parts)
        self._forward.model_calls += 3 * steps * len(given["x"]) * len(given["targets"])
        return {}, {"pictures": _numpy(found.pictures), "scores": _numpy(found.scores), "moved": _numpy(found.moved)}

    # Inside.

    def _reader(self, reading: Mapping[str, Any]) -> Preprocess:
        # A reading that is only tried out may be one that a person could not write, so it is built field by field.
        settings = InputSettings.model_validate(_tuples(reading))
        return Preprocess(settings, self._value_range, self._channels).to(self._device)

    def _on_device(self, x: np.ndarray) -> Tensor:
        return self._staging.take(x)

    def _run_module(self, x: Tensor, preprocess: nn.Module) -> Any:
        """What the model returns, in one pass, with a graph where gradients are on; see ``Forward.run``."""
        return self._forward.run(x, preprocess)

    def _answer(self, x: Tensor, preprocess: nn.Module) -> Tensor:
        """The chosen output, float32 [N, K]; see ``Forward.answer``. Where hooks look on, ``Forward.in_parts`` and ``once`` do."""
        return self._forward.answer(x, preprocess)

    def _explained(self, x: Tensor) -> Tensor:
        """Logits float64 [N, C] the exact way, in one pass, with a graph where gradients are on; a backward pass is counted as it comes."""
        logits = self._logits(self._forward.once(x, self._preprocess))
        if logits.requires_grad:
            logits.register_hook(self._went_back)  # type: ignore[no-untyped-call]
        return logits

    def _went_back(self, gradient: Tensor) -> None:
        self._forward.model_calls += 2 * len(gradient)

    def _logits(self, raw: Tensor) -> Tensor:
        """float64 [N, C]: softmax gives the probabilities that the supervisor reads out of the same outputs, ties included."""
        return to_logits(raw.to(torch.float64), self._kind)

    def _recorded(self, x: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Activations and raw outputs as the search runs the model; see ``Forward.recorded``."""
        assert self._recorder is not None
        return self._forward.recorded(x, self._preprocess, self._recorder)

    def _feature_tap(self, x: Tensor) -> FeatureTap | None:
        """The tap on the classifier head, found on a small batch the first time; None where there is no head."""
        assert self._module is not None
        if self._tap is None:
            module, few = self._module, x[:2]
            outputs = self._answer(few, self._preprocess).shape[1]
            calls = self._forward.in_parts(len(few), lambda rows: trace(module, self._preprocess(few[rows])))
            head = find_head(module, calls[0], outputs)
            self._tap = None if head is None else FeatureTap(self._module, head)
        return self._tap

    def _features(self, x: Tensor) -> Tensor:
        """float32 [N, F], in one pass."""
        assert self._tap is not None
        with self._tap.recording():
            self._forward.once(x, self._preprocess)
        return self._tap.features

    def _look(self, x: Tensor) -> None:
        """Shows the survey a batch, in one pass."""
        assert self._survey is not None
        with torch.no_grad(), self._survey.recorder.recording():
            self._forward.once(x, self._preprocess)
        self._survey.take()


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


def _device(wanted: str, turn: int = 0) -> torch.device:
    available = torch.cuda.is_available()
    if available and wanted in ("auto", "cuda"):
        return torch.device("cuda", turn % torch.cuda.device_count())
    if wanted == "auto":
        return torch.device("cpu")
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
