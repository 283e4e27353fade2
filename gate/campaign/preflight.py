"""Checks before any fuzzing: is the model steady, does it fit the data, and is what it gets what it was trained on?

Each complaint says what was seen and what to change. A *fault* belongs to the model and counts in the metric ``preflight_faults``; a
*note* is for a person to read; what makes a campaign pointless is raised as an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gate.campaign.supervisor import Refused, Worker
from gate.config import InputSettings
from gate.errors import DataError, EvidenceError, InputShapeError
from gate.models.outputs import OutputKind, predictions, probabilities, recognise
from gate.result import PreflightCheck

__all__ = ["LEAST_SEEDS", "Preflight", "TooFewSeedsError", "predict_all", "run_preflight"]

LEAST_SEEDS = 10  # correctly classified seed inputs without which nothing can be said
PROBE = 32  # samples that the steadiness checks use
TOLERANCE = 1e-3  # in probability: far above what another batch size does to floats, far below what dropout does
PLAUSIBLE = 0.95  # clean accuracy below which other readings of the input are tried
BETTER_BY = 0.05  # accuracy by which another reading must win before it is mentioned
LOW = 0.5  # clean accuracy below which something must be wrong; another reading must do better than that, too
WHAT_IF_SAMPLES = 256
WHAT_IF_PARTS = 5  # that these are shown in, so that a reading which can't win any more is given up
# What no size or channel count of the input brings about: the model itself is at fault.
_BROKEN = ("AttributeError", "FileNotFoundError", "ImportError", "KeyError", "ModuleNotFoundError", "NameError", "OSError", "TypeError")
# What an exception says that an input of another size, channel count or layout could help against.
_OF_A_SHAPE = re.compile(r"\b(shapes?|sizes?|channels?|dim(ension)?s?|dimensional|height|width|resolution|[1-5]D|mat1)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Preflight:
    """What was found. N is the number of clean samples."""

    output_kind: OutputKind
    classes: tuple[str, ...]  # as given; numbered where none were
    checks: tuple[PreflightCheck, ...]
    probabilities: np.ndarray  # [N, C] float64, of all clean samples
    predicted: np.ndarray  # int64 [N]
    raw: np.ndarray  # float32 [N, K]: what the model answered
    deterministic: bool

    @property
    def faults(self) -> int:
        """How many checks the model failed."""
        return sum(check.status == "fault" for check in self.checks)

    @property
    def depends_on_batch(self) -> bool:
        """Whether an answer was seen to change with the sample's neighbours in the batch."""
        return any(check.name == "batch_independent" and check.status == "fault" for check in self.checks)


class TooFewSeedsError(EvidenceError):
    """Too few samples are classified correctly to start from; ``preflight`` is what the checks found all the same."""

    def __init__(self, preflight: Preflight) -> None:
        accuracy = preflight.checks[-1]
        super().__init__(accuracy.seen, where="data.seeds, input", hint=accuracy.advice)
        self.preflight = preflight


def predict_all(worker: Worker, x: np.ndarray, batch_size: int, **parameters: Any) -> np.ndarray:
    """Raw outputs float32 [N, K] of any number of samples, batch by batch, without touching coverage."""
    rows = []
    for start in range(0, len(x), batch_size):
        _, arrays = worker.call("forward", parameters, {"x": x[start : start + batch_size]})
        rows.append(arrays["raw"])
    return np.concatenate(rows)


def run_preflight(
    worker: Worker,
    x: np.ndarray,
    labels: np.ndarray,
    classes: Sequence[str],
    *,
    settings: InputSettings,
    declared_kind: str,
    training: Sequence[str],
    batch_size: int,
) -> Preflight:
    """Makes all checks.

    Args:
        worker: with the model loaded.
        x: [N, H, W, C] clean samples.
        labels: int64 [N].
        classes: names; their number is what the output must have. Empty: the output's columns decide, and numbers are the names.
        settings: how the input is read, for trying other readings.
        declared_kind: ``output.kind`` of the settings.
        training: names of the model's parts that are in training mode, as the worker reports them.
        batch_size: of the campaign.

    Raises:
        InputShapeError: the model refuses inputs of this shape (exit 2).
        ModelError: the output does not fit the classes, or the model raises something that no other size would help against (exit 3).
        DataError: labels outside the model's classes (exit 2).
        TooFewSeedsError: too few samples are classified correctly (exit 4).
    """
    checks = [_eval_mode(training)]
    probe = x[: min(PROBE, len(x))]
    first = _first_answer(worker, probe)
    raw = np.concatenate([first, predict_all(worker, x[len(probe) :], batch_size)]) if len(x) > len(probe) else first
    kind = recognise(raw, len(classes) or None, declared_kind)
    answers = probabilities(raw, kind)
    classes = tuple(classes) or tuple(str(number) for number in range(answers.shape[1]))
    if int(labels.max()) >= len(classes):
        raise DataError(
            f"The labels go up to {int(labels.max())}, and the model has {len(classes)} classes.",
            where="data.seeds",
            hint="Labels count from 0; give the data set that belongs to this model.",
        )
    checks.append(
        PreflightCheck(
            name="output",
            status="ok",
            seen=f"{len(classes)} classes; the output is read as {kind.replace('_', ' ')}"
            + ("" if declared_kind == "auto" else " (as set)"),
        )
    )
    steady, batch = _steadiness(worker, probe, kind)
    checks += [steady, batch]
    predicted = predictions(raw, kind)
    checks.append(_finite(predicted))
    accuracy = _accuracy(worker, x, labels, predicted, kind, settings, batch_size)
    found = Preflight(kind, classes, (*checks, accuracy), answers, predicted, raw, steady.status == "ok")
    if int((predicted == labels).sum()) < LEAST_SEEDS:
        raise TooFewSeedsError(found)
    return found


def _eval_mode(training: Sequence[str]) -> PreflightCheck:
    if not training:
        return PreflightCheck(name="eval_mode", status="ok", seen="the model was saved in evaluation mode")
    shown = ", ".join(training[:3]) + (f" and {len(training) - 3} more" if len(training) > 3 else "")
    return PreflightCheck(
        name="eval_mode",
        status="fault",
        seen=f"the model was saved in training mode ({shown}), so dropout and batch statistics may be active where it is used",
        advice="Call model.eval() before mlflow.pytorch.log_model, and register the model again.",
    )


def _first_answer(worker: Worker, probe: np.ndarray) -> np.ndarray:
    try:
        _, arrays = worker.call("forward", {}, {"x": probe})
    except Refused as error:
        kind, _, text = error.what.partition(":")
        if kind in _BROKEN or not _OF_A_SHAPE.search(text):
            raise
        fields, _ = worker.call("describe")
        wants = fields.get("first_layer")
        seen = f"{list(probe.shape[1:3])} pixels, {probe.shape[3]} channel{'s' if probe.shape[3] != 1 else ''}"
        raise InputShapeError(
            f"The model refuses an input made from {seen} (model input {fields.get('model_input')}); "
            + (f"its first layer is {wants}. " if wants else "")
            + f"It says: {error.what.splitlines()[0][:300]}",
            where="input.size, input.channels, input.layout",
            hint="Set input.size, input.channels and input.layout to what the model was trained on.",
        ) from error
    return arrays["raw"]


def _steadiness(worker: Worker, probe: np.ndarray, kind: OutputKind) -> tuple[PreflightCheck, PreflightCheck]:
    def answers(x: np.ndarray) -> np.ndarray:
        _, arrays = worker.call("forward", {}, {"x": x})
        return probabilities(arrays["raw"], kind)

    once = answers(probe)
    again = max(_distance(once, answers(probe)) for _ in range(3))
    deterministic = PreflightCheck(name="deterministic", status="ok", seen="the same batch gave the same answers four times")
    if again > 0:
        deterministic = PreflightCheck(
            name="deterministic",
            status="fault" if again > TOLERANCE else "note",
            seen=f"the same batch gave answers that differ by up to {again:.2g} in probability",
            advice="Look for dropout, sampling or batch statistics that are still active; call model.eval() before saving."
            if again > TOLERANCE
            else "Differences this small come from the device's arithmetic; findings are confirmed with a margin.",
        )
    if again > TOLERANCE:
        seen = "not decided, because the model is not deterministic"
        return deterministic, PreflightCheck(name="batch_independent", status="note", seen=seen)
    turned = _distance(once, answers(probe[::-1].copy())[::-1])
    alone = max(_distance(once[row : row + 1], answers(probe[row : row + 1])) for row in range(min(4, len(probe))))
    apart = max(turned, alone)
    if apart <= TOLERANCE:
        return deterministic, PreflightCheck(
            name="batch_independent",
            status="ok",
            seen="a sample's answer depends neither on its neighbours in the batch nor on their number",
        )
    return deterministic, PreflightCheck(
        name="batch_independent",
        status="fault",
        seen=f"a sample's answer changes by up to {apart:.2g} in probability with its neighbours in the batch or their number",
        advice="Look for batch normalisation in training mode, or an operation across the batch dimension.",
    )


def _finite(predicted: np.ndarray) -> PreflightCheck:
    broken = int((predicted < 0).sum())
    if not broken:
        return PreflightCheck(name="finite", status="ok", seen=f"the outputs of all {len(predicted)} clean samples are finite")
    return PreflightCheck(
        name="finite",
        status="fault",
        seen=f"the output of {broken} of {len(predicted)} clean samples holds NaN or infinity",
        advice="Look for divisions, logarithms and half precision that overflow; such a sample is no seed input.",
    )


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference; NaN in the same place is no difference, NaN in one of them is the largest."""
    difference = np.abs(a - b)
    one_sided = np.isnan(a) != np.isnan(b)
    difference[np.isnan(difference)] = 0.0
    difference[one_sided] = 1.0
    return float(difference.max(initial=0.0))


def _accuracy(
    worker: Worker,
    x: np.ndarray,
    labels: np.ndarray,
    predicted: np.ndarray,
    kind: OutputKind,
    settings: InputSettings,
    batch_size: int,
) -> PreflightCheck:
    correct = predicted == labels
    accuracy = float(correct.mean())
    seen = f"{int(correct.sum())} of {len(labels)} clean samples are classified correctly ({accuracy:.1%})"
    better = _what_if(worker, x, labels, correct, kind, settings, batch_size) if accuracy < PLAUSIBLE else None
    if int(correct.sum()) < LEAST_SEEDS:
        likely = "Likely causes: normalisation (input.scale, mean, std), channel order (input.order), the order of the classes."
        if accuracy >= LOW:
            likely = f"Give more samples: the set has {len(labels)}."
        least = f"{seen}; at least {LEAST_SEEDS} are needed to start from." + (f" {better}" if better else "")
        return PreflightCheck(name="clean_accuracy", status="note", seen=least, advice=likely)
    if better:
        return PreflightCheck(
            name="clean_accuracy", status="note", seen=f"{seen}. {better}", advice="Compare the input settings with the training code."
        )
    if accuracy < LOW:
        return PreflightCheck(
            name="clean_accuracy",
            status="note",
            seen=seen,
            advice="That is low: compare normalisation, channel order and class order with the training code.",
        )
    return PreflightCheck(name="clean_accuracy", status="ok", seen=seen)


def _what_if(
    worker: Worker,
    x: np.ndarray,
    labels: np.ndarray,
    correct: np.ndarray,
    kind: OutputKind,
    settings: InputSettings,
    batch_size: int,
) -> str | None:
    """A sentence about the other reading of the input that works clearly best, if one does.

    A reading is given up once it could not win with all the rest right. What the settings' reading gets wrong comes first, for there
    another reading has to show that it is better.
    """
    rows = np.linspace(0, len(x) - 1, min(len(x), WHAT_IF_SAMPLES)).astype(int)
    base = float(correct[rows].mean())
    rows = rows[np.argsort(correct[rows], kind="stable")]
    part = min(batch_size, -(-len(rows) // WHAT_IF_PARTS))
    best: tuple[float, str] = (max(base + BETTER_BY, LOW), "")
    for said, change in _readings(settings, x.shape[3]):
        other = settings.model_copy(update=change)
        right, done = 0, 0
        try:
            while done < len(rows) and (right + len(rows) - done) / len(rows) > best[0]:
                some = rows[done : done + part]
                raw = predict_all(worker, x[some], part, reading=other.model_dump(mode="json"))
                right, done = right + int((predictions(raw, kind) == labels[some]).sum()), done + len(some)
        except Refused:
            continue  # the model can't take this reading, which is one answer to whether it fits better
        if done == len(rows) and right / len(rows) > best[0]:
            best = (right / len(rows), said)
    return f"With {best[1]} it would be {best[0]:.1%}." if best[1] else None


def _readings(settings: InputSettings, channels: int) -> list[tuple[str, dict[str, Any]]]:
    imagenet = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    plain = {"mean": (0.0,), "std": (1.0,)}
    readings: list[tuple[str, dict[str, Any]]] = [
        ("input.scale [0, 1], mean 0, std 1", {"scale": (0.0, 1.0), **plain}),
        ("input.scale [-1, 1], mean 0, std 1", {"scale": (-1.0, 1.0), **plain}),
        ("input.scale [0, 255], mean 0, std 1", {"scale": (0.0, 255.0), **plain}),
        ("input.scale [1, 0], that is with dark and bright exchanged", {"scale": (1.0, 0.0), **plain}),
    ]
    if channels == 3:
        other = "bgr" if settings.order == "rgb" else "rgb"
        readings.append((f"input.order {other}", {"order": other}))
        readings.append(("input.scale [0, 1] and the ImageNet mean and std", {"scale": (0.0, 1.0), **imagenet}))
        readings.append(("the ImageNet mean and std in order " + other, {"scale": (0.0, 1.0), "order": other, **imagenet}))
    return readings
