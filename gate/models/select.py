"""Which tensor of a model's answer is the one to judge, where the answer is a dict, a tuple or an object."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from gate.errors import ConfigError, ModelError
from gate.strict_yaml import nearest

__all__ = ["Key", "choose_key", "first_tensor", "pick", "select"]

Key = str | int | None
"""A dict's key or an object's field, a position in a tuple or list, or None: the answer itself is the tensor."""


def select(output: Any, key: Key, *, samples: int, classes: int | None) -> Tensor:
    """The tensor to judge: ``pick(output, choose_key(output, key, ...))``. Raises what the two raise."""
    return pick(output, choose_key(output, key, samples=samples, classes=classes))


def choose_key(output: Any, key: Key, *, samples: int, classes: int | None) -> Key:
    """Decides once, on a first batch, which part of every later answer is judged.

    Args:
        output: what the model returned.
        key: ``output.key`` of the settings, or None to find the part that alone looks like the answer: a floating tensor [samples,
            classes] (with two classes also [samples, 1] or [samples]; any two-dimensional one where the number of classes is unknown).
        samples: batch size.
        classes: number of classes, if known.

    Raises:
        ConfigError: the key does not exist, or several parts fit.
        ModelError: no part fits.
    """
    if isinstance(output, Tensor):
        if key is not None:
            raise ConfigError(
                "The model returns one tensor, not several outputs.",
                where=f"output.key: {key}",
                hint="Remove output.key from the settings.",
            )
        return None
    parts = _parts(output)
    if parts is None:
        raise ModelError(
            f"The model returns a {type(output).__name__}, which holds no tensors the gate can find.",
            where="the model's output",
            hint="Return a tensor, or a dict, tuple, list or dataclass of tensors.",
        )
    if key is not None:
        return _existing(parts, key)
    seen: set[int] = set()
    fitting = []
    for name, part in parts.items():
        if isinstance(part, Tensor) and _fits(part, samples, classes) and id(part) not in seen:
            seen.add(id(part))
            fitting.append(name)
    wanted = f"[{samples}, {'classes' if classes is None else classes}]"
    if not fitting:
        raise ModelError(
            f"None of the model's outputs has the shape {wanted}: {_described(parts)}.",
            where="the model's output",
            hint="Check the class list; if one of these is the answer, set output.key to it.",
        )
    if len(fitting) > 1:
        names = ", ".join(map(repr, fitting))
        raise ConfigError(
            f"Several of the model's outputs have the shape {wanted}: {names}.",
            where="output.key",
            hint=f"Set output.key to the one to judge, for example `output: {{key: {fitting[0]}}}`.",
        )
    return fitting[0]


def pick(output: Any, key: Key) -> Tensor:
    """The part of an answer that ``choose_key`` decided on.

    Raises:
        ModelError: this answer is built otherwise than the one the key was chosen on.
    """
    part = output if key is None else (_parts(output) or {}).get(key)
    if not isinstance(part, Tensor):
        what = "a tensor" if key is None else f"a tensor under {key!r}"
        raise ModelError(
            f"The model returned a {type(output).__name__} without {what}, unlike before.",
            where="the model's output",
            hint="Outputs must have the same structure for every batch.",
        )
    return part


def first_tensor(output: Any) -> Tensor | None:
    """The first tensor of an answer, looking into tuples, lists, dicts and dataclasses in their order, or None."""
    if isinstance(output, Tensor):
        return output
    for part in (_parts(output) or {}).values():
        found = first_tensor(part)
        if found is not None:
            return found
    return None


def _parts(output: Any) -> dict[str | int, Any] | None:
    if isinstance(output, Mapping):  # includes the output classes of transformers
        return {key if isinstance(key, (str, int)) else str(key): value for key, value in output.items()}
    if isinstance(output, (tuple, list)):
        return dict(enumerate(output))
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    return None


def _existing(parts: dict[str | int, Any], key: str | int) -> str | int:
    if key not in parts:
        close = nearest(str(key), map(str, parts))
        raise ConfigError(
            f"The model's output has no {key!r}; it has {_described(parts)}.",
            where=f"output.key: {key}",
            hint=f"Did you mean {close!r}?" if close else "Set output.key to one of these.",
        )
    if not isinstance(parts[key], Tensor):
        raise ConfigError(
            f"The output {key!r} is a {type(parts[key]).__name__}, not a tensor.",
            where=f"output.key: {key}",
            hint=f"Choose among {_described(parts)}.",
        )
    return key


def _fits(part: Tensor, samples: int, classes: int | None) -> bool:
    shape = tuple(part.shape)
    if not part.is_floating_point() or not shape or shape[0] != samples:
        return False
    if classes is None:
        return len(shape) == 2
    return shape == (samples, classes) or (classes == 2 and shape in ((samples, 1), (samples,)))


def _described(parts: dict[str | int, Any]) -> str:
    listed = [f"{key!r}: {list(part.shape) if isinstance(part, Tensor) else type(part).__name__}" for key, part in parts.items()]
    return ", ".join(listed[:20]) or "nothing"
