"""One mutant in the forms that minimising tries: fewer steps, milder ones, a smaller stored change.

Natural steps are made again from (operator, severity, draw), so a form with milder ones is just what the campaign would have made at that
severity. What the model helped to make, and what was spliced, can't be made again: its result is kept as a change of the picture that the
natural steps make, which can be laid on another one, weakened, or taken back in places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gate.campaign.batch import families_of
from gate.domains.domain import InputDomain
from gate.result import Defect
from gate.triage.simpler import Simplicity, simplicity

__all__ = ["Form", "Forms", "Stored"]


@dataclass(frozen=True, eq=False)
class Stored:
    """The result of a step that can't be made again."""

    step: Any
    change: np.ndarray  # [H, W, C] float32: what is added; of a step that lays values over the picture, these values
    where: np.ndarray  # bool [H, W]: positions that it changes
    lays: bool  # whether it lays values over the picture, as splicing does, instead of adding to it


@dataclass(frozen=True, eq=False)
class Form:
    """A mutant and how it is made. ``key`` says how simple it is."""

    steps: tuple[Any, ...]  # natural, in their order
    stored: Stored | None  # comes after them
    parent: np.ndarray  # [H, W, C]: what the natural steps make of the seed input
    mutant: np.ndarray  # [H, W, C]
    key: Simplicity
    digest: bytes  # of the mutant alone

    @property
    def recipe(self) -> tuple[Any, ...]:
        """All its steps."""
        return self.steps if self.stored is None else (*self.steps, self.stored.step)


class Forms:
    """Makes the forms of one defect's mutant.

    Args:
        domain: makes steps and applies them.
        seed: [H, W, C] the seed input.
    """

    def __init__(self, domain: InputDomain, seed: np.ndarray) -> None:
        self._domain = domain
        self._seed = seed

    def found(self, defect: Defect, mutant: np.ndarray) -> Form | None:
        """The form in which the campaign found it; None where its recipe does not make this mutant.

        Args:
            defect: with its recipe.
            mutant: [H, W, C] from its file.
        """
        kinds = [str(step["operator"]) in self._domain.natural for step in defect.recipe]
        if not kinds or not all(kinds[:-1]):
            return None
        natural = defect.recipe if kinds[-1] else defect.recipe[:-1]
        steps = tuple(self._domain.step(str(one["operator"]), float(one["severity"]), int(one["draw"])) for one in natural)
        parent = self._domain.replay(self._seed, steps)
        if kinds[-1]:
            form = self._form(steps, None, parent)
            return form if np.array_equal(form.mutant, mutant) else None
        last = defect.recipe[-1]
        operator = str(last["operator"])
        lays = operator in self._domain.splicing
        if not lays and operator not in self._domain.model_bounds:
            return None
        where = (mutant != parent).any(axis=-1)
        change = mutant.astype(np.float32) - (np.float32(0) if lays else parent.astype(np.float32))
        # A change of floats, added again, may end in other last digits: the form that was found is the one in the file.
        return self._of(steps, Stored(_Kept(dict(last)), change, where, lays), parent, mutant)

    def fewer(self, form: Form) -> list[Form]:
        """With one step less, or with one step alone; the simplest first, none twice."""
        count = len(form.recipe)
        if count < 2:
            return []
        kept = {tuple(place for place in range(count) if place != left) for left in range(count)} | {(place,) for place in range(count)}
        made = []
        for places in sorted(kept):
            steps = tuple(form.steps[place] for place in places if place < len(form.steps))
            stored = form.stored if count - 1 in places and form.stored is not None else None
            made.append(self._form(steps, stored, self._domain.replay(self._seed, steps)))
        return sorted(made, key=lambda one: one.key)

    def milder(self, form: Form, place: int, severity: float) -> Form:
        """With one natural step at another severity of the same draw."""
        old = form.steps[place]
        steps = (*form.steps[:place], self._domain.step(old.operator, severity, old.draw), *form.steps[place + 1 :])
        return self._form(steps, form.stored, self._domain.replay(self._seed, steps))

    def weaker(self, form: Form, share: float) -> Form:
        """With this share of the stored change, toward the picture below it."""
        assert form.stored is not None
        return self._form(form.steps, replace(form.stored, change=form.stored.change * np.float32(share)), form.parent)

    def without(self, form: Form, places: np.ndarray) -> Form:
        """With the stored change taken back at some places, bool [H, W]."""
        assert form.stored is not None
        return self._form(form.steps, replace(form.stored, where=form.stored.where & ~places), form.parent)

    def part(self, form: Form, places: np.ndarray) -> Form:
        """The seed input, changed at some places, bool [H, W], as the form changes it. Its recipe is told as the form's."""
        return self._of(form.steps, form.stored, form.parent, np.where(places[..., None], form.mutant, self._seed))

    def _form(self, steps: tuple[Any, ...], stored: Stored | None, parent: np.ndarray) -> Form:
        return self._of(steps, stored, parent, parent if stored is None else self._laid(stored, parent))

    def _of(self, steps: tuple[Any, ...], stored: Stored | None, parent: np.ndarray, mutant: np.ndarray) -> Form:
        recipe: Sequence[Any] = steps if stored is None else (*steps, stored.step)
        families = families_of(tuple(recipe), self._domain.family)
        key = simplicity([step.to_json() for step in recipe], families, int(stored is not None), mutant, self._seed)
        return Form(steps, stored, parent, mutant, key, hashlib.sha256(mutant.tobytes()).digest())

    def _laid(self, stored: Stored, parent: np.ndarray) -> np.ndarray:
        places = stored.where[..., None]
        if stored.lays:
            return np.where(places, stored.change.astype(parent.dtype), parent)
        change = np.where(places, stored.change, np.float32(0))
        if parent.dtype.kind == "u":
            change = np.trunc(change)  # toward the picture below
        made = parent.astype(np.float32) + change
        bounded: np.ndarray = self._domain.bound(made[None], parent[None], stored.step.operator)[0]
        return bounded


@dataclass(frozen=True)
class _Kept:
    """A stored step as the record holds it."""

    data: dict[str, Any]

    @property
    def operator(self) -> str:
        return str(self.data["operator"])

    @property
    def severity(self) -> float:
        return float(self.data["severity"])

    def to_json(self) -> dict[str, Any]:
        return dict(self.data)
