"""What a model's raw numbers mean: logits, probabilities, log-probabilities or one sigmoid; and the predictions they stand for.

Needs numpy only: the supervisor judges raw outputs without torch. A row with NaN or an infinite value is "not finite": its
probabilities are NaN and its prediction is -1.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.errors import ConfigError, ModelError

__all__ = ["OutputKind", "check", "class_count", "finite", "predictions", "probabilities", "recognise"]

Floats = npt.NDArray[np.floating[Any]]

TOLERANCE = 1e-2  # how far a row may be from a sum of 1: half precision over a thousand classes is off by some thousandths


class OutputKind(StrEnum):
    """How to read a row of K numbers."""

    LOGITS = "logits"  # softmax gives the probabilities
    PROBABILITIES = "probabilities"  # in 0..1, a row sums to 1
    LOG_PROBABILITIES = "log_probabilities"  # their natural logarithms
    SIGMOID = "sigmoid"  # one number: the probability of class 1
    SIGMOID_LOGIT = "sigmoid_logit"  # one number, whose sigmoid is the probability of class 1


_SINGLE = (OutputKind.SIGMOID, OutputKind.SIGMOID_LOGIT)


def check(raw: npt.NDArray[Any], samples: int, classes: int | None) -> Floats:
    """``raw`` as [samples, K], if it can be the answer for that many samples and classes.

    Args:
        raw: [samples, classes], floating; for two classes (or an unknown number) also [samples, 1] or [samples].

    Raises:
        ModelError: another shape, number of classes or dtype; both are named.
    """
    wanted = [samples, "classes" if classes is None else classes]
    expected = f"[{', '.join(map(str, wanted))}]" + (f" or [{samples}, 1]" if classes == 2 else "")
    if not np.issubdtype(raw.dtype, np.floating):
        raise ModelError(
            f"The model's output is {raw.dtype} {list(raw.shape)}; expected floating numbers {expected}.",
            where="the model's output",
            hint="Return scores for every class (logits or probabilities), not class numbers.",
        )
    if raw.ndim == 1 and len(raw) == samples and classes in (None, 2):
        raw = raw[:, None]
    if raw.ndim != 2 or len(raw) != samples or raw.shape[1] < 1 or (classes is not None and _class_count(raw.shape[1]) != classes):
        raise ModelError(
            f"The model's output has the shape {list(raw.shape)}; expected {expected}.",
            where="the model's output",
            hint="Check that `classes` lists as many names as the model has outputs, and that the right output is chosen (output.key).",
        )
    return raw


def recognise(raw: npt.NDArray[Any], classes: int | None = None, declared: str = "auto") -> OutputKind:
    """Decides once, on a batch of clean samples, how every later row is read.

    Args:
        raw: float [N, K] or [N].
        classes: number of classes, if known.
        declared: ``output.kind`` of the settings; checked against the values.

    Raises:
        ModelError: wrong shape or dtype, or no row is finite, so that nothing can be recognised.
        ConfigError: the values can't be of the declared kind.
    """
    rows = check(raw, len(raw), classes)
    rows = rows[finite(rows)].astype(np.float64)
    if not len(rows):
        raise ModelError(
            f"None of the {len(raw)} outputs is finite, so the model answers nothing.",
            where="the model's output",
            hint="Look for a wrong normalisation (input.scale, input.mean, input.std) or a broken training.",
        )
    in_unit = bool(((rows >= 0) & (rows <= 1)).all())
    if rows.shape[1] == 1:
        found = OutputKind.SIGMOID if in_unit else OutputKind.SIGMOID_LOGIT
        if declared in ("auto", "sigmoid"):
            return found
        raise _declared_wrong(declared, "the model has a single output, which must be read as sigmoid")
    sums_to_one = bool((np.abs(rows.sum(1) - 1) <= TOLERANCE).all())
    with np.errstate(over="ignore"):
        is_log = bool((rows <= TOLERANCE).all()) and bool((np.abs(np.exp(rows).sum(1) - 1) <= TOLERANCE).all())
    if declared == "sigmoid":
        raise _declared_wrong(declared, f"the model has {rows.shape[1]} outputs a sample, a sigmoid has one")
    if declared == "probabilities" and not (in_unit and sums_to_one):
        raise _declared_wrong(
            declared, f"values run from {rows.min():.4g} to {rows.max():.4g} and rows sum to about {rows.sum(1).mean():.4g}"
        )
    if declared == "log_probabilities" and not is_log:
        raise _declared_wrong(declared, f"values run from {rows.min():.4g} to {rows.max():.4g}, and their exponentials do not sum to 1")
    if declared != "auto":
        return OutputKind(declared)
    if in_unit and sums_to_one:
        return OutputKind.PROBABILITIES
    return OutputKind.LOG_PROBABILITIES if is_log else OutputKind.LOGITS


def class_count(raw: npt.NDArray[Any]) -> int:
    """How many classes [N, K] numbers stand for: K, or two where K is 1."""
    return _class_count(raw.shape[1])


def finite(raw: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """bool [N]: rows of [N, K] without NaN and infinite values."""
    return np.asarray(np.isfinite(raw).all(axis=1), dtype=np.bool_)


def probabilities(raw: npt.NDArray[Any], kind: OutputKind | str) -> npt.NDArray[np.float64]:
    """float64 [N, C] in the order of the classes; a row that is not finite is NaN throughout.

    Args:
        raw: float [N, K].
        kind: as ``recognise`` gave it. Of a single output, ``sigmoid`` means values in 0..1 and nothing else.
    """
    kind = OutputKind(kind)
    usable = finite(raw)
    values = np.where(usable[:, None], raw, 0).astype(np.float64)
    if kind in _SINGLE:
        single = values[:, 0]
        # The sigmoid as a ratio of exponentials that never overflow.
        small = np.exp(-np.abs(single))
        high = np.where(single >= 0, 1, small) / (1 + small) if kind is OutputKind.SIGMOID_LOGIT else single
        low = np.where(single >= 0, small, 1) / (1 + small) if kind is OutputKind.SIGMOID_LOGIT else 1 - single
        result = np.stack([low, high], axis=1)
    elif kind is OutputKind.PROBABILITIES:
        result = values
    elif kind is OutputKind.LOG_PROBABILITIES:
        result = np.exp(np.minimum(values, TOLERANCE))
    else:
        result = np.exp(values - values.max(axis=1, keepdims=True))
        result /= result.sum(axis=1, keepdims=True)
    return np.where(usable[:, None], result, np.nan)


def predictions(raw: npt.NDArray[Any], kind: OutputKind | str) -> npt.NDArray[np.int64]:
    """int64 [N]: the class with the highest score, the lowest number among equals; -1 where the row is not finite.

    Taken from the raw numbers, so that scores which differ are never made equal by rounding in a softmax.

    Args:
        raw: float [N, K].
    """
    kind = OutputKind(kind)
    if kind in _SINGLE:
        chosen = (raw[:, 0] > (0.5 if kind is OutputKind.SIGMOID else 0.0)).astype(np.int64)
    else:
        chosen = raw.argmax(axis=1).astype(np.int64)
    return np.where(finite(raw), chosen, -1)


def _class_count(columns: int) -> int:
    return 2 if columns == 1 else columns


def _declared_wrong(declared: str, seen: str) -> ConfigError:
    return ConfigError(
        f"The model's outputs are no {declared}: {seen}.",
        where=f"output.kind: {declared}",
        hint="Set output.kind to auto, or to what the model returns.",
    )
