"""Pictures and a model whose every answer is known, as numpy code that answers in place of a worker process.

A picture of 8 x 8 pixels shows one bright stripe two columns wide; which of the four it is, is its class. The model reads the four stripes'
mean brightness. With a trap, it reads the next stripe whenever the whole picture is darker than ``TRAP``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gate.campaign.budget import Budget
from gate.campaign.events import EventLog
from gate.campaign.judging import JudgingArm
from gate.campaign.loop import Campaign, Seeds
from gate.campaign.repeated import Aggregate
from gate.campaign.search import SearchArm
from gate.campaign.supervisor import Request
from gate.config import BudgetSettings, CoverageSettings, SearchSettings
from gate.corpus.corpus import Corpus
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import sample_ids
from gate.domains.image.limits import Domain
from gate.errors import GateError
from gate.models.outputs import OutputKind, probabilities
from gate.oracles import ORACLES, Oracle

__all__ = ["CLASSES", "TRAP", "NumpyWorker", "Scene", "fails_in_the_dark", "images", "reads_stripes", "scene"]

CLASSES = ("first", "second", "third", "fourth")
TRAP = 0.15  # share of full brightness
SECTIONS = 25  # of the one neuron that is watched: the picture's brightness

Model = Callable[[np.ndarray], np.ndarray]


def images(count: int = 40, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(x uint8 [count, 8, 8, 1], y int64 [count]); every class equally often."""
    random = np.random.default_rng(seed)
    y = np.arange(count, dtype=np.int64) % len(CLASSES)
    x = random.integers(20, 60, size=(count, 8, 8, 1))
    for row, label in enumerate(y):
        x[row, :, 2 * label : 2 * label + 2] = random.integers(160, 220, size=(8, 2, 1))
    return x.astype(np.uint8), y


def reads_stripes(x: np.ndarray) -> np.ndarray:
    """Logits float32 [N, 4]; right for every clean picture."""
    unit = x.astype(np.float32) / np.float32(255)
    return np.asarray(20 * unit.reshape(len(x), 8, 4, 2).mean(axis=(1, 3)), dtype=np.float32)


def fails_in_the_dark(x: np.ndarray) -> np.ndarray:
    """The same, but for pictures darker than ``TRAP``: these are read as the next class."""
    raw = reads_stripes(x)
    dark = x.reshape(len(x), -1).mean(axis=1) / 255 < TRAP
    return np.where(dark[:, None], np.roll(raw, 1, axis=1), raw)


class NumpyWorker:
    """Answers what a worker answers. Coverage is the brightness of a picture in ``SECTIONS`` sections: one item each."""

    def __init__(self, model: Model, *, cheat: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        self.model = model
        self.cheat = cheat
        self.calls: list[tuple[str, dict[str, Any], dict[str, np.ndarray]]] = []
        self.covered: dict[str, set[int]] = {"search": set(), "random": set(), "noise": set()}
        self.seen: dict[str, set[int]] = {arm: set() for arm in self.covered}
        self.covers = True
        self.climb_from = 40  # seed inputs that it knows
        self.kept: dict[int, np.ndarray] = {}  # what a climb ran, by token
        self.estimate: dict[str, Any] | None = None  # of what the search may still find

    def call(
        self,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        *,
        timeout: float | None = None,
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        asked, given = dict(parameters or {}), dict(arrays or {})
        self.calls.append((operation, asked, given))
        if operation == "forward":
            return {}, {"raw": self.model(given["x"])}
        if operation == "run":
            return self._run(asked["arm"], given["x"], given["earns"])
        if operation == "scorable":
            return {"features": True, "dropout": False}, {}
        if operation == "features":
            return {"head": "stripes"}, {"features": given["x"].reshape(len(given["x"]), -1).astype(np.float32)}
        if operation == "score":
            return {}, {"score": np.ones(len(given["x"]))}
        if operation == "join":
            return {}, {}
        if operation == "aim":
            # From seed inputs in turn, towards the one neuron there is.
            return {}, {"places": np.arange(asked["count"]) % self.climb_from, "targets": np.zeros(asked["count"], dtype=np.int64)}
        if operation == "screen":
            return {}, {name: np.empty(0, dtype=np.int64) for name in ("stretches", "shares")}
        x = given.get("x", np.empty(0))
        if operation in ("climb", "descend"):
            # One mutant of each; the worker keeps what it ran.
            self.kept[asked["token"]] = x.copy() if self.cheat is None else self.cheat(x)
            return {"work": 4 * len(x)}, {"x": self.kept[asked["token"]], "rows": np.arange(len(x))}
        if operation == "run_kept":
            return self._run(asked["arm"], self.kept.pop(asked["token"]), given["earns"])
        assert operation == "mutate"
        return {}, {"x": x.copy() if self.cheat is None else self.cheat(x)}

    def ask(self, operation: str, parameters: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Request:
        request = Request(operation, dict(parameters), dict(arrays), 0.0)
        try:
            request.answered = self.call(operation, parameters, arrays)
        except GateError as error:
            request.error = error
        return request

    def answer(self, request: Request) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        if request.error is not None:
            raise request.error
        assert request.answered is not None
        return request.answered

    def _run(self, arm: str | None, x: np.ndarray, earns: np.ndarray) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        raw = self.model(x)
        if arm is None:
            return {}, {"raw": raw}
        new = np.zeros(len(x))
        signature = np.zeros(len(x), dtype=np.int64)
        if self.covers:
            # A worker that cheats may have sent what is no number.
            items = (np.nan_to_num(x.reshape(len(x), -1).astype(np.float64)).clip(0, 256).mean(axis=1) / 256 * SECTIONS).astype(int)
            for row, item in enumerate(items):
                self.seen[arm].add(int(item))
                signature[row] = item + 1 if earns[row] and arm == "search" else 0
                if earns[row] and item not in self.covered[arm]:
                    self.covered[arm].add(int(item))
                    new[row] = 1
        fields = {
            "valid": {"kmnc": len(self.covered[arm]) / SECTIONS},
            "raw": {"kmnc": len(self.seen[arm] | self.covered[arm]) / SECTIONS},
            "discovery": {"kmnc": self.estimate if arm == "search" else None},
        }
        return fields, {"raw": raw, "new_items": new, "added": new[:, None], "signature": signature}


class Scene:
    """A campaign on the known model, with everything that takes part in it."""

    def __init__(
        self,
        model: Model = fails_in_the_dark,
        *,
        executions: int | None = 200,
        wall: float | None = None,
        seeds: int = 40,
        batch_size: int = 64,
        limits: Domain | None = None,
        shares: Mapping[str, float] | None = None,
        mutants_per_seed: int = 8,
        repeat: int = 1,
        aggregate: Aggregate = "majority",
        campaign_seed: int = 0,
        stop: Callable[[], bool] = lambda: False,
        confirm: Callable[[Any], bool] = lambda _: True,
        cheat: Callable[[np.ndarray], np.ndarray] | None = None,
        gradients: bool = True,
        steerable: bool = True,
        coverage: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        deterministic: bool = True,
        mixed: bool = False,
        oracles: Sequence[Oracle] = ORACLES,
    ) -> None:
        x, y = images(seeds)
        self.ids = sample_ids(x, y)
        self.events: list[dict[str, Any]] = []
        self.worker = NumpyWorker(model, cheat=cheat)
        self.domain = ImageDomain(limits or Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
        self.corpus = Corpus(x)
        self.search = SearchArm(
            self.domain,
            self.corpus,
            y,
            self.worker,
            gradients=gradients,
            steerable=steerable,
            campaign_seed=campaign_seed,
            settings=SearchSettings.model_validate(search or {}),
            probabilities=probabilities(reads_stripes(x), OutputKind.LOGITS),
            deterministic=deterministic,
            batch_size=batch_size,
        )
        self.judging = JudgingArm(self.domain, x, self.ids, mutants_per_seed, campaign_seed, repeat=repeat, aggregate=aggregate)
        self.seeds = Seeds(x, y, self.ids, probabilities(reads_stripes(x), OutputKind.LOGITS))
        budget = BudgetSettings(executions=executions, wall=None if wall is None else f"{wall}s")
        self.campaign = Campaign(
            worker=self.worker,
            domain=self.domain,
            seeds=self.seeds,
            search=self.search,
            judging=self.judging,
            shares=dict(shares or {"judging": 0.3, "random": 0.05, "noise": 0.02}),
            budget=Budget(budget),
            batch_size=batch_size,
            output_kind=OutputKind.LOGITS,
            initial={"kmnc": 0.0},
            coverage=CoverageSettings.model_validate({"criteria": ("kmnc",), **(coverage or {})}),
            events=EventLog(None, (self.events.append,)),
            confirm=confirm,
            stop=stop,
            campaign_seed=campaign_seed,
            mixed=mixed,
            oracles=oracles,
        )

    def run(self) -> Any:
        return self.campaign.run()


def scene(**options: Any) -> Scene:
    return Scene(**options)


def write_npz(path: Path, count: int = 40) -> Path:
    x, y = images(count)
    np.savez(path, x=x, y=y)
    return path
