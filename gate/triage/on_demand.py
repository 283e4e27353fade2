"""One defect explained after its run: which neurons, and where in the picture, in words and as files. The run itself stays as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings
from gate.domains.image.picture import viewable
from gate.errors import OutputError
from gate.models.outputs import OutputKind
from gate.result import Attribution
from gate.triage.attribute import Inside, Look
from gate.triage.heat import in_words, save_pictures

__all__ = ["attribution_lines", "look_again", "need_empty", "write_look"]

BATCH = 32  # inputs in one pass
SHOWN = 5  # neurons told of


def look_again(
    worker: Worker,
    original: np.ndarray,
    mutant: np.ndarray,
    *,
    label: int,
    predicted: int | None,
    coverage: CoverageSettings,
    kind: OutputKind,
) -> Look:
    """Neurons and heat of one defect, as a run with all the budget it wants would find them.

    Args:
        worker: has loaded the model.
        original, mutant: file values [H, W, C].
        label: class of the original.
        predicted: what this model reads the mutant as; None where its answer is not finite.
        coverage: which layers are watched and what a neuron is.
        kind: how to read the model's output.

    Raises:
        ConfigError: this model does not have the layers.
        WorkerError, ModelError: as the worker or the model failed.
    """
    asked = {"coverage": coverage.model_dump(mode="json"), "kind": str(kind)}
    watched, _ = worker.call("watch", asked, {"x": np.stack([original] * 3)})
    inside = Inside(worker, list(watched["layers"]), gradients=bool(watched["gradients"]), batch=BATCH)
    return inside.look(original, mutant, label=label, predicted=predicted)


def attribution_lines(attribution: Attribution) -> tuple[str, ...]:
    """Lines for a person. The names of layers are the model's own: whoever prints them makes them safe to show."""
    lines = [f"{'neurons' if row == 0 else '':10} {said}" for row, said in enumerate(_neurons(attribution))]
    heat = attribution.heat
    lines.append(f"{'heat':10} {in_words(heat) if heat is not None else attribution.heat_reason}")
    return tuple(lines)


def write_look(look: Look, original: np.ndarray, mutant: np.ndarray, value_range: tuple[float, float], out: Path) -> tuple[Path, ...]:
    """Writes ``attribution.json`` and, where there is heat, ``cam_before.png`` and ``cam.png``; returns the paths.

    Args:
        look: what was seen.
        original, mutant: file values [H, W, C].
        value_range: lowest and highest value of the files.
        out: a new or empty folder.

    Raises:
        OutputError: the folder is not empty or can't be written.
    """
    need_empty(out)
    try:
        if look.maps is not None:
            save_pictures(out, viewable(original, value_range), viewable(mutant, value_range), look.maps)
        (out / "attribution.json").write_text(look.attribution.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return tuple(sorted(out.iterdir()))
    except OSError as error:
        raise _unwritable(out, error) from error


def need_empty(out: Path) -> None:
    """Makes a folder, or finds it empty.

    Raises:
        OutputError: it is not empty or can't be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise OutputError("The output folder is not empty.", where=str(out), hint="Give a new folder with --out.")
    except OSError as error:
        raise _unwritable(out, error) from error


def _unwritable(out: Path, error: OSError) -> OutputError:
    said = f"The output folder can't be written: {error.strerror or error}."
    return OutputError(said, where=str(out), hint="Give another folder with --out.")


def _neurons(attribution: Attribution) -> list[str]:
    said = [
        f"{one.layer}[{one.neuron}]  effect {one.effect:.2f}" + ("; put back, it brings the right answer back" if one.restores else "")
        for one in attribution.neurons[:SHOWN]
    ]
    tried = f"({attribution.patched} of {attribution.of} tried)"
    return [*said[:-1], f"{said[-1]}  {tried}"] if said else [str(attribution.neurons_reason)]
