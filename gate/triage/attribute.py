"""Which neurons and which part of the picture defects come from, as far as there is budget. The work itself is done in the worker.

Each root cause gets one defect attributed before any gets two, the gravest root cause first. Where everything is not affordable, fewer
neurons are tried, and then fewer defects; both follow from model work alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gate.campaign.attribution_work import heat_work, patch_work
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.errors import ModelError
from gate.result import Attribution, Defect, NeuronEffect
from gate.triage.allowance import Allowance
from gate.triage.backends import is_backend
from gate.triage.defect_files import write_description
from gate.triage.feature_space import by_turns
from gate.triage.heat import compare, save_pictures

__all__ = ["GRIDS", "NEURONS", "Attributing", "Inside", "Look", "not_to_be_run"]

NEURONS = (8, 128)  # tried for one defect, at least and at most
GRIDS = (4, 8)  # squares along each side that occlusion covers, at least and at most
_SHARE = 0.9  # of what is left of the allowance
_SAID = 300  # characters of an error that the record keeps
_NO_ANSWER = ("crash", "timeout")
_COLUMNS = ("layers", "neurons", "effects", "restores")


@dataclass(frozen=True)
class Look:
    """What was seen of one defect."""

    attribution: Attribution
    maps: np.ndarray | None  # float32 [2, h, w]: heat of the seed input and of the mutant
    heat_calls: int  # forward-equivalents of ``attribution.model_calls`` that the heat took


class Inside:
    """Looks inside a model, in a worker that watches its layers.

    Args:
        worker: has the model and has been told what to watch.
        layers: the watched ones, in order.
        gradients: whether the model has usable ones.
        batch: inputs in one pass.
    """

    def __init__(self, worker: Worker, layers: Sequence[str], *, gradients: bool, batch: int) -> None:
        self._worker = worker
        self._layers = tuple(layers)
        self._gradients = gradients
        self._batch = batch

    def look(
        self,
        original: np.ndarray,
        mutant: np.ndarray,
        *,
        label: int,
        predicted: int | None,
        neurons: int = NEURONS[1],
        grid: int = GRIDS[1],
    ) -> Look:
        """Heat and neurons of one mutant.

        Args:
            original, mutant: file values [H, W, C].
            label: class of the original.
            predicted: what the mutant is read as; None where that answer is not finite.
            neurons: most that may be tried.
            grid: squares along each side that occlusion covers.

        Raises:
            WorkerError, BudgetSpent, Interrupted: as the worker was asked.
        """
        pair = np.stack([original, mutant])
        found = Attribution()
        maps = None
        if predicted is None:
            found = found.model_copy(update={"heat_reason": "the answer to the mutant is not finite, so it comes from no place"})
        else:
            try:
                found, maps = self._heat(found, pair, [label, predicted], grid)
            except ModelError as error:
                found = found.model_copy(update={"heat_reason": _said(error), "model_calls": heat_work(grid)})
        heat_calls = found.model_calls
        try:
            found = self._neurons(found, pair, label, neurons)
        except ModelError as error:
            # How far it came is not known: it counts as all that it could have taken.
            found = found.model_copy(update={"neurons_reason": _said(error), "model_calls": heat_calls + patch_work(neurons)})
        return Look(found, maps, heat_calls)

    def _heat(self, found: Attribution, pair: np.ndarray, classes: list[int], grid: int) -> tuple[Attribution, np.ndarray | None]:
        asked = {"classes": classes, "grid": grid, "batch": self._batch, "gradients": self._gradients}
        said, arrays = self._worker.call("heat", asked, {"x": pair})
        work = found.model_calls + int(said["work"])
        if said["method"] is None:
            return found.model_copy(update={"heat_reason": "no part of the picture speaks for the answers", "model_calls": work}), None
        heat = compare(said["method"], said["layer"], arrays["maps"], pair[0], pair[1])
        return found.model_copy(update={"heat": heat, "model_calls": work}), arrays["maps"]

    def _neurons(self, found: Attribution, pair: np.ndarray, label: int, most: int) -> Attribution:
        asked = {"label": label, "most": most, "batch": self._batch, "gradients": self._gradients}
        said, arrays = self._worker.call("patch", asked, {"x": pair})
        effects = tuple(
            NeuronEffect(layer=self._layers[layer], neuron=neuron, effect=effect, restores=restores)
            for layer, neuron, effect, restores in zip(*(arrays[name].tolist() for name in _COLUMNS), strict=True)
        )
        changed = {"neurons": effects, "patched": said["tried"], "of": said["of"], "neurons_reason": _why(said, effects)}
        return found.model_copy(update={**changed, "model_calls": found.model_calls + int(said["work"])})


class Attributing:
    """The defects of a run, attributed one after the other. Lives in the supervisor.

    Args:
        inside: of the model.
        domain: reads samples, and shows them.
        folder: the run folder.
        allowance: what it may take.
        per_root_cause: defects of each root cause.
    """

    def __init__(self, inside: Inside, domain: InputDomain, folder: Path, allowance: Allowance, per_root_cause: int) -> None:
        self._inside = inside
        self._domain = domain
        self._folder = folder
        self._allowance = allowance
        self._per_root_cause = per_root_cause
        self._heat_calls = heat_work(GRIDS[0])  # what the last heat maps took; before the first, the most that they may
        self.reason: str | None = "the budget ended"  # why not all were attributed; None: all were

    def run(self, defects: list[Defect]) -> None:
        """Fills in ``attribution``, ``neurons`` and the pictures of heat, in place; each folder says the same when its defect is done.

        Raises:
            WorkerError, BudgetSpent, Interrupted: as the worker was asked; what was attributed until then stays.
        """
        places = {defect.id: row for row, defect in enumerate(defects)}
        chosen = by_turns(defects, len(defects), self._per_root_cause)
        for done, defect in enumerate(chosen):
            reason = not_to_be_run(defect)
            if reason is not None:
                self._note(defects, places[defect.id], Attribution(neurons_reason=reason, heat_reason=reason), None)
                continue
            fair = int(_SHARE * self._allowance.left) // (len(chosen) - done)
            neurons = min(max(fair - self._heat_calls - patch_work(0), NEURONS[0]), NEURONS[1])
            grid = min(max(math.isqrt(fair // 4), GRIDS[0]), GRIDS[1])
            # The plan may hope for what heat took the last time; the allowance must stand the most that it can take.
            if self._allowance.left < heat_work(grid) + patch_work(neurons):
                neurons, grid = NEURONS[0], GRIDS[0]
            if self._allowance.left < heat_work(grid) + patch_work(neurons):
                self.reason = (
                    "the time for explaining was up" if self._allowance.late else "the share of the budget for explaining was spent"
                )
                return
            look = self._look(defect, neurons, grid)
            self._allowance.book(look.attribution.model_calls)
            self._note(defects, places[defect.id], look.attribution, look.maps)
        self.reason = None if self._per_root_cause else "none were asked for (triage.per_root_cause: 0)"

    def _look(self, defect: Defect, neurons: int, grid: int) -> Look:
        assert defect.label is not None
        original, mutant = (self._domain.load(self._folder / defect.files[name]) for name in ("original_data", "mutant_data"))
        look = self._inside.look(original, mutant, label=defect.label, predicted=defect.predicted, neurons=neurons, grid=grid)
        if look.heat_calls:
            self._heat_calls = look.heat_calls
        return look

    def _note(self, defects: list[Defect], row: int, attribution: Attribution, maps: np.ndarray | None) -> None:
        defect = defects[row]
        files = dict(defect.files)
        if maps is not None:
            base = f"defects/{defect.id}"
            before, after = (
                self._domain.picture(self._domain.load(self._folder / files[name])) for name in ("original_data", "mutant_data")
            )
            save_pictures(self._folder / base, before, after, maps)
            files |= {"cam_before": f"{base}/cam_before.png", "cam": f"{base}/cam.png"}
        names = tuple(f"{one.layer}[{one.neuron}]" for one in attribution.neurons)
        defects[row] = defect.model_copy(update={"attribution": attribution, "neurons": names, "files": files})
        write_description(self._folder, defects[row])


def not_to_be_run(defect: Defect) -> str | None:
    """Why a defect can't be looked into."""
    if defect.label is None:
        return "a probe has no seed input to compare it with"
    if defect.oracle in _NO_ANSWER:
        return "the model gives no answer to the mutant"
    if is_backend(defect):
        return "it is how the model is run that changes the answer, not the input"
    return None


def _why(said: dict[str, object], effects: tuple[NeuronEffect, ...]) -> str | None:
    if said["reason"] is not None:
        return str(said["reason"])
    if not effects:
        return f"none of the {said['tried']} neurons that were tried brings the answer back alone"
    return None


def _said(error: ModelError) -> str:
    return (error.what.splitlines() or [""])[0][:_SAID] or "the model failed"
