"""Writes an augmentation pipeline beside an exported training set: as Python, as the library's own description, and in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate.corpus.trainable import FailingOperator
from gate.domains.image.albumentations_adapter import pipeline
from gate.domains.image.augmentation import Augmentation, Transform, augmentation_of, change_in_words, limit_of
from gate.domains.image.limits import Domain

__all__ = ["AUGMENTED", "Planned", "plan", "write_augmentation"]

AUGMENTED = 0.75  # share of the pictures that are changed in one way

Planned = tuple[FailingOperator, Any, Augmentation]  # the operator, the policy's limit (None: switched off), what stands for it


def plan(operators: Sequence[FailingOperator], domain: Domain, shape: tuple[int, int, int]) -> tuple[Planned, ...]:
    """What stands for each operator, from no change up to the policy's limit, for pictures (H, W, C)."""
    planned = []
    for operator in operators:
        limit = limit_of(domain, operator.name)
        made = Augmentation((), "The policy switches it off.") if limit is None else augmentation_of(operator.name, limit, shape)
        planned.append((operator, limit, made))
    return tuple(planned)


def write_augmentation(out: Path, planned: Sequence[Planned], shape: tuple[int, int, int], value_range: tuple[float, float]) -> bool:
    """Writes ``augment.py`` and ``augment.json``; False, and nothing is written, where the library has an equal of no operator.

    One change is drawn for a picture, an operator in proportion to its defects: several at full strength would leave what the policy
    calls the same picture.

    Args:
        out: the export's folder.
        planned: as ``plan`` made it.
        shape: (H, W, C) of the pictures.
        value_range: lowest and highest value of a file.

    Raises:
        OSError: the files can't be written.
    """
    total = sum(operator.defects for operator, _, made in planned if made.transforms)
    if not total:
        return False
    weighed = [
        (transform, round(operator.defects / total / len(made.transforms), 6))
        for operator, _, made in planned
        for transform in made.transforms
    ]
    _, described = pipeline(weighed, AUGMENTED)
    (out / "augment.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    (out / "augment.py").write_text(_python(planned, total, shape, value_range), encoding="utf-8")
    return True


def _python(planned: Sequence[Planned], total: int, shape: tuple[int, int, int], value_range: tuple[float, float]) -> str:
    low, high = value_range
    lines = [
        '"""Augmentation that covers the changes under which the network failed, up to the limits of the policy.',
        "",
        f"For pictures {list(shape)} whose values run from {low:g} to {high:g}. Needs albumentations (2.0.8) and NumPy.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "import albumentations as A",
        "import numpy as np",
        "",
        f"LOW, HIGH = {low!r}, {high!r}  # values of the files",
        "",
        "",
        "def augmentation() -> A.Compose:",
        '    """One change in three of four pictures; of uint8 pictures, or float32 ones between 0 and 1. A new draw at every call."""',
        "    changes = [",
    ]
    for operator, limit, made in planned:
        if made.transforms:
            said = f"pictures {change_in_words(operator.name, limit)}"
            lines.append(f"        # {operator.name}: {said}; of {operator.defects} {'defect' if operator.defects == 1 else 'defects'}")
        else:
            lines.append(f"        # {operator.name}: left out. {made.remark}")
        if made.transforms and made.remark:
            lines.append(f"        # {made.remark}")
        weight = operator.defects / total / max(1, len(made.transforms))
        lines += [f"        {_call(transform, weight)}," for transform in made.transforms]
    lines += [
        "    ]",
        f"    return A.Compose([A.OneOf(changes, p={AUGMENTED})], strict=True)",
        "",
        "",
        "def augmented(picture: np.ndarray, changes: A.Compose) -> np.ndarray:",
        '    """The picture [H, W, C], changed; like it in shape, dtype and range of values."""',
        "    if picture.dtype == np.uint8:",
        '        return changes(image=picture)["image"].reshape(picture.shape)',
        "    unit = ((picture - LOW) / (HIGH - LOW)).astype(np.float32)",
        '    changed = changes(image=unit)["image"].reshape(picture.shape)',
        "    return (changed * (HIGH - LOW) + LOW).astype(picture.dtype)",
        "",
    ]
    return "\n".join(lines)


def _call(transform: Transform, weight: float) -> str:
    arguments = ", ".join(f"{name}={_literal(value)}" for name, value in transform.arguments.items())
    return f"A.{transform.name}({arguments + ', ' if arguments else ''}p={round(weight, 6)!r})"


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"({', '.join(map(_literal, value))})" if len(value) > 1 else f"({_literal(value[0])},)"
    return repr(value)
