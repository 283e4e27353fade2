"""Which faults are planted on purpose, and where each begins: beyond everything that the seed inputs show, within what valid mutants reach.

A fault is no use as a measure of the search where no valid mutant brings it about, nor where every fifth one does. So its bound is chosen
on a blind sample of valid natural mutants, none of which the search ever sees: at most ``AIM`` of the mutants of its classes lie beyond it,
at least ``LEAST`` of all, and no seed input does. Exists in the supervisor; nothing here depends on what the model answers, but for the one
kind that looks at a neuron.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from gate.campaign.canary_scores import SCORES, axes
from gate.campaign.judging import blind_steps
from gate.domains.chains import Chains
from gate.domains.domain import InputDomain
from gate.randomness import generator, key

__all__ = [
    "COLUMNS",
    "FEWEST",
    "KINDS",
    "LEAST",
    "LEAST_EACH",
    "ROWS",
    "SAMPLE",
    "Blind",
    "Canary",
    "Neurons",
    "Trigger",
    "blind_mutants",
    "calibrated",
    "scores_of",
    "title_of",
]

AIM = 0.03  # share of the blind mutants of its classes that lie beyond a fault's bound
LEAST = 0.002  # a fault that fewer bring about has nothing to say of the search
LEAST_EACH = 40  # executions of the search for one fault: with fewer, it has not begun
SAMPLE = 4096  # blind mutants wanted
VALUES = 1 << 26  # that they have together, where that leaves FEWEST
FEWEST = 512  # with fewer, LEAST would be less than one
ROWS = 256  # that are looked at together
OF_CLASS = 8  # seed inputs that a class must have for a bound of its own
MUTANTS_OF_CLASS = 50  # ... and blind mutants
LOOSE = 0.15  # of the first of two conditions that must hold together
APART = 0.02  # how far beyond the clean pictures a fault begins at least, in their standard deviations


@dataclass(frozen=True)
class Trigger:
    """A condition on a picture, or on a neuron: how strongly it holds goes from 0 at ``onset`` to 1 at ``full``."""

    score: str  # of gate.campaign.canary_scores, or neuron
    side: int  # 1: where the score is high; -1: where it is low, and then onset and full are of its negative
    onset: tuple[float | None, ...]  # by class that the model reads; None: never
    full: tuple[float | None, ...]
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Canary:
    """A fault as it is planted."""

    name: str
    title: str  # what it does, in words
    triggers: tuple[Trigger, ...]  # all must hold
    action: str  # confuse: the answer slides over to another class; nan: it is NaN from the middle on
    shift: int  # how many classes further
    rate: float  # share of the blind valid mutants, of all classes, that bring it about

    def to_json(self) -> dict[str, Any]:
        """What goes to the worker."""
        return asdict(self)


@dataclass(frozen=True)
class _Part:
    score: str
    side: int
    places: int = 0  # of which one is drawn


@dataclass(frozen=True)
class _Kind:
    name: str
    says: str  # completed by what happens then
    parts: tuple[_Part, ...]
    action: str = "confuse"


_DARK, _TURNED = _Part("brightness", -1), _Part("turn", 1)
_ALL = (
    _Kind("faded", "pictures with less contrast than any clean one of their class", (_Part("contrast", -1),)),
    _Kind("neuron", "pictures that drive one deep neuron beyond what any clean one does", (_Part("neuron", 1),)),
    _Kind("turned", "pictures turned further than any clean one of their class", (_TURNED,)),
    _Kind("dark", "pictures darker than any clean one of their class", (_DARK,)),
    _Kind("marked", "pictures with one corner brighter than in any clean one of their class", (_Part("corner", 1, 4),)),
    _Kind("bright", "pictures brighter than any clean one of their class", (_Part("brightness", 1),), "nan"),
    _Kind("moved", "pictures shifted further one way than any clean one of their class", (_Part("position", 1, 4),)),
    _Kind("dark and turned", "pictures that are both darker and turned further than clean ones of their class", (_DARK, _TURNED)),
    _Kind("rough", "pictures noisier than any clean one of their class", (_Part("roughness", 1),)),
    _Kind("covered", "pictures that show less in one ninth of them than any clean one of their class", (_Part("region", -1, 9),)),
    _Kind("blurred", "pictures less sharp than any clean one of their class", (_Part("sharpness", -1),)),
)
KINDS: dict[str, _Kind] = {kind.name: kind for kind in _ALL}  # the easiest first: where little is searched for, missing it says most


@dataclass(frozen=True, eq=False)
class Neurons:
    """Outputs of the neurons of one deep layer, on the seed inputs and on some of the blind mutants."""

    layer: str
    clean: np.ndarray  # float32 [S, neurons]
    mutants: np.ndarray  # float32 [M, neurons]


@dataclass(frozen=True, eq=False)
class Blind:
    """What the seed inputs and the blind mutants show. S seed inputs, B valid mutants, columns by score and place."""

    classes: int
    labels: np.ndarray  # int64 [S]
    mutant_labels: np.ndarray  # int64 [B]
    columns: tuple[tuple[str, int], ...]
    clean: np.ndarray  # float64 [S, columns]
    mutants: np.ndarray  # float64 [B, columns]
    neurons: tuple[Neurons, ...] = ()

    def column(self, score: str, place: int) -> tuple[np.ndarray, np.ndarray]:
        """float64 [S], [B]."""
        at = self.columns.index((score, place))
        return self.clean[:, at], self.mutants[:, at]


_COLUMNS = tuple((part.score, place) for kind in _ALL for part in kind.parts for place in range(max(1, part.places)))
COLUMNS = (*dict.fromkeys(column for column in _COLUMNS if column[0] not in ("neuron", "turn")), ("cosine", 0), ("sine", 0))
_PLACES = {part.score: part.places for kind in _ALL for part in kind.parts}


def scores_of(x: np.ndarray, value_range: tuple[float, float]) -> np.ndarray:
    """float64 [N, columns]: every score of pictures [N, H, W, C] in file values."""
    unit = (x.astype(np.float64) - value_range[0]) / (value_range[1] - value_range[0])
    found: dict[tuple[str, int], np.ndarray] = {}
    for score, place in COLUMNS[:-2]:
        more = {"place": place} if _PLACES[score] else {}
        found[score, place] = SCORES[score](unit, **more)
    found["cosine", 0], found["sine", 0] = axes(unit)
    return np.stack([found[column] for column in COLUMNS], axis=1)


def blind_mutants(
    domain: InputDomain, seeds: np.ndarray, labels: np.ndarray, ids: Sequence[str], campaign_seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Valid natural mutants in batches, about ``SAMPLE`` in all (fewer of large pictures), and the classes of their seed inputs; other
    mutants than are judged.

    They come from all seed inputs in turn where these are few, and from a blind choice among them where they are many.
    """
    wanted = min(SAMPLE, max(FEWEST, VALUES // seeds[0].size))
    slots = max(1, -(-wanted // len(seeds)))
    chosen = generator(campaign_seed, "canaries", "sample").permutation(len(seeds))[: -(-wanted // slots)]
    at_once = max(1, ROWS // slots)
    for start in range(0, len(chosen), at_once):
        rows = chosen[start : start + at_once]
        keys = np.array([key(campaign_seed, "canaries", ids[row]) for row in rows], dtype=np.uint64)
        steps, origins = blind_steps(domain, keys, slots), np.repeat(rows, slots)
        mutants = domain.apply(seeds[origins], steps)
        chains = Chains.none(len(origins)).then(np.arange(len(origins)), steps, steps.severities)
        valid = domain.check(mutants, seeds[origins], chains) < 0
        yield mutants[valid], labels[origins[valid]]


def calibrated(name: str, blind: Blind, campaign_seed: int, names: Sequence[str]) -> Canary | str:
    """The fault of one kind; or, in words, why there is none.

    Args:
        name: of ``KINDS``.
        blind: what pictures show.
        campaign_seed: decides what is left open.
        names: of the classes.
    """
    kind = KINDS[name]
    random = generator(campaign_seed, "canary", name)
    shift = int(random.integers(1, blind.classes))
    if kind.parts[0].score == "neuron":
        found = _of_neuron(kind, blind, random)
    else:
        places = max(part.places for part in kind.parts)
        tries = random.permutation(max(1, places)).tolist()
        found = next((made for place in tries if (made := _of_pictures(kind, blind, place)) is not None), None)
    if found is None:
        return f"fewer than {LEAST:.1%} of the valid mutants that were drawn blindly show more of it than the seed inputs do"
    triggers, rate = found
    example = f" ({names[0]} as {names[shift]})" if kind.action == "confuse" and shift < len(names) else ""
    return Canary(name, title_of(name) + example, triggers, kind.action, shift, rate)


def title_of(name: str) -> str:
    """What the fault of a kind does, in words."""
    kind = KINDS[name]
    return f"{kind.says} {'are answered with NaN' if kind.action == 'nan' else 'are read as another class'}"


Found = tuple[tuple[Trigger, ...], float]


def _of_pictures(kind: _Kind, blind: Blind, place: int) -> Found | None:
    triggers: list[Trigger] = []
    beyond = np.ones(len(blind.mutant_labels), dtype=bool)
    two = len(kind.parts) > 1
    for number, part in enumerate(kind.parts):
        clean, mutants, detail = _scored(part, blind, place)
        clean, mutants = part.side * clean, part.side * mutants
        if two and number == 1:  # the first has left out every seed input, and what is asked for besides must leave some mutants over
            limits = _bounds(clean, mutants, blind, _above_most)
        else:
            limits = _bounds(clean, mutants, blind, lambda one, other: _beyond(one, other, LOOSE if two else AIM))
        if limits is None:
            return None
        onset, bound = limits
        beyond &= mutants > bound[blind.mutant_labels]
        triggers.append(_trigger(part, onset, bound, detail))
    rate = float(beyond.mean())
    return None if rate < LEAST else (tuple(triggers), rate)


def _scored(part: _Part, blind: Blind, place: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    if part.score != "turn":
        detail = {"place": place} if part.places else {}
        return *blind.column(part.score, place if part.places else 0), detail
    (cosine, mutant_cosine), (sine, mutant_sine) = blind.column("cosine", 0), blind.column("sine", 0)
    axis = np.zeros((blind.classes, 2))
    for label in range(blind.classes):
        of_class = blind.labels == label
        if of_class.any():
            mean = np.array([cosine[of_class].mean(), sine[of_class].mean()])
            axis[label] = mean / max(float(np.hypot(*mean)), 1e-9)
    clean = 1 - cosine * axis[blind.labels, 0] - sine * axis[blind.labels, 1]
    mutants = 1 - mutant_cosine * axis[blind.mutant_labels, 0] - mutant_sine * axis[blind.mutant_labels, 1]
    return clean, mutants, {"axis": axis.tolist()}


def _of_neuron(kind: _Kind, blind: Blind, random: np.random.Generator) -> Found | None:
    """One of the neurons of the deepest layer that has any which blind mutants drive beyond the seed inputs."""
    for layer in blind.neurons:
        with np.errstate(invalid="ignore"):
            spread = layer.clean.std(axis=0)
            onset = layer.clean.max(axis=0) + np.maximum(APART * spread, 1e-6)
            rates = (layer.mutants > onset).mean(axis=0)
        fitting = np.flatnonzero((rates >= LEAST) & (spread > 0) & np.isfinite(onset))
        if not len(fitting):
            continue
        neuron = int(random.choice(fitting))
        clean, mutants = layer.clean[:, neuron].astype(np.float64), layer.mutants[:, neuron].astype(np.float64)
        limits = _beyond(clean, mutants, AIM)
        assert limits is not None  # some lie beyond the onset
        onsets, bounds = (np.full(blind.classes, limit) for limit in limits)
        trigger = _trigger(kind.parts[0], onsets, bounds, {"layer": layer.layer, "neuron": neuron})
        return (trigger,), float((mutants > limits[1]).mean())
    return None


Limits = Callable[[np.ndarray, np.ndarray], tuple[float, float] | None]


def _bounds(clean: np.ndarray, mutants: np.ndarray, blind: Blind, limits: Limits) -> tuple[np.ndarray, np.ndarray] | None:
    """Onset and bound float64 [C] each, infinite for a class that the fault spares.

    Each class has its own, for what is usual differs. Where most have too few seed inputs for that, all have the same.
    """
    onset, bound = np.full(blind.classes, np.inf), np.full(blind.classes, np.inf)
    known = np.bincount(blind.labels, minlength=blind.classes) >= OF_CLASS
    known &= np.bincount(blind.mutant_labels, minlength=blind.classes) >= MUTANTS_OF_CLASS
    if known.sum() * 2 < len(np.unique(blind.labels)):
        found = limits(clean, mutants)
        if found is None:
            return None
        onset[:], bound[:] = found
        return onset, bound
    for label in np.flatnonzero(known):
        found = limits(clean[blind.labels == label], mutants[blind.mutant_labels == label])
        if found is not None:
            onset[label], bound[label] = found
    return (onset, bound) if np.isfinite(onset).any() else None


def _beyond(clean: np.ndarray, mutants: np.ndarray, share: float) -> tuple[float, float] | None:
    """Onset beyond all clean ones, and a bound that this share of the mutants lies beyond, or fewer; None where none does."""
    onset = float(clean.max()) + max(APART * float(clean.std()), 1e-6)
    reached = mutants[mutants > onset]
    if not len(reached):
        return None
    bound = float(np.quantile(mutants, 1 - share))
    return onset, max(bound, onset + 1e-6)


def _above_most(clean: np.ndarray, _: np.ndarray) -> tuple[float, float]:
    """Onset and bound that half of the clean ones lie beyond."""
    bound = float(np.quantile(clean, 0.5))
    return bound - 1e-6, bound


def _trigger(part: _Part, onset: np.ndarray, bound: np.ndarray, detail: dict[str, Any]) -> Trigger:
    """The condition that holds half at the bound, where a sure answer changes."""

    def plain(values: np.ndarray) -> tuple[float | None, ...]:
        return tuple(float(value) if np.isfinite(value) else None for value in values)

    with np.errstate(invalid="ignore"):
        return Trigger(part.score, part.side, plain(onset), plain(2 * bound - onset), detail)
