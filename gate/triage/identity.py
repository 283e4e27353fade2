"""Identities that mean the same in every run: of defects and of root causes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = ["NON_FINITE", "class_name", "defect_id", "outcome_of", "root_cause_id"]

NON_FINITE = "non-finite"  # stands for the class where an answer has none: also where the model raised, as the oracle tells them apart


def _short(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def defect_id(seed_id: str, oracle: str, outcome: str, families: tuple[str, ...]) -> str:
    """Of a distinct defect: seed input, oracle, predicted class or fault, and the sorted families of its recipe, whatever arm found it."""
    return "d-" + _short(seed_id, oracle, outcome, *families)


def root_cause_id(oracle: str, true_class: str, outcome: str, family: str) -> str:
    """Of a root cause: oracle, name of the true class, name of the predicted class or fault, family. Survives releases."""
    return "rc-" + _short(oracle, true_class, outcome, family)


def outcome_of(predicted: int | None, classes: Sequence[str]) -> str:
    """What an input came to, as identities name it: the predicted class, or the fault where there is none."""
    return NON_FINITE if predicted is None else class_name(predicted, classes)


def class_name(index: int, classes: Sequence[str]) -> str:
    """The name of a class, or its number where it has none."""
    return classes[index] if index < len(classes) else str(index)
