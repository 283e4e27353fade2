"""The networks of the power benchmark on disk: trained once, with what common practice sees of them, and saved as MLflow model folders."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import nn

from benchmarks.common_practice import Practice, measure
from benchmarks.faulty import BAND, MEMORISED, faulty, memorised
from benchmarks.healthy import Data, accuracy, architecture_of, digits, healthy
from benchmarks.planted import MLMODEL

__all__ = ["CHAMPION", "HEALTHY", "VERSION", "Case", "Facts", "Models", "cases", "half_of_seed"]

VERSION = 1  # of what is trained; a change of it trains everything again
HEALTHY = "healthy"
CHAMPION = 100  # seed of the healthy network that is the baseline, and is not among those that are judged
FRESH = 101  # the first training seed of the half that figures come from; odd ones below were looked at while limits were chosen
CHOSEN_ON = range(0, 20, 2)  # seeds of the healthy networks whose accuracy says what a faulty one must reach


@dataclass(frozen=True)
class Case:
    """One network: a kind, or healthy, and a seed."""

    kind: str
    seed: int

    @property
    def half(self) -> str:
        """``tune`` (limits may be chosen on it) or ``test`` (figures come from it)."""
        return half_of_seed(self.seed)


@dataclass(frozen=True)
class Facts:
    """What is known of a network without the gate."""

    architecture: str
    attempt: int
    practice: Practice


def half_of_seed(seed: int) -> str:
    """Even seeds tune, odd ones test."""
    return "test" if seed % 2 else "tune"


def cases(healthy_seeds: int, faulty_seeds: int, half: str, kinds: tuple[str, ...]) -> Iterator[Case]:
    """Every network of a half (``tune``, ``test`` or ``all``), so that what is done first says something of every kind.

    Half of each number are of the tuning half (0, 2, 4 …) and half of the other (101, 103 …).
    """
    for step in range(0, max(healthy_seeds, faulty_seeds), 2):
        for seed in (step, FRESH + step):
            if half not in ("all", half_of_seed(seed)):
                continue
            for kind in kinds:
                if step < (healthy_seeds if kind == HEALTHY else faulty_seeds):
                    yield Case(kind, seed)


class Models:
    """Trains what is asked for and is not there yet.

    Args:
        folder: of the cache; a folder for the version and data is made in it.
        name: of the data, ``digits`` or ``fashion``.
        data: the pictures.
        chosen_on: seeds of the healthy networks whose mean accuracy, by architecture, the faulty ones must nearly reach.
        fixes: names the runs that memorised fixes are made from; those of other runs are other networks.
    """

    def __init__(
        self, folder: Path, name: str = "digits", data: Data | None = None, *, chosen_on: range = CHOSEN_ON, fixes: str = ""
    ) -> None:
        self.data = data or digits()
        self.folder = folder / f"power-{name}-{VERSION}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._chosen_on = chosen_on
        self._fixes = fixes

    @property
    def seeds(self) -> Path:
        """The pictures that every run of the gate starts from, as .npz."""
        path = self.folder / "seeds.npz"
        if not path.exists():
            pictures = (self.data.test_x[:, 0] * 255).round().to(torch.uint8).numpy()
            with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".npz", delete=False) as file:
                np.savez_compressed(file, x=pictures, y=self.data.test_y.numpy())
            Path(file.name).replace(path)
        return path

    def place(self, case: Case) -> Path:
        """The model folder of a case, there or not."""
        name = f"{case.kind} {self._fixes}" if case.kind == MEMORISED else case.kind
        return self.folder / name.strip().replace(" ", "-").lower() / str(case.seed)

    def earlier(self, broken: Case) -> Path:
        """The folder of the run on a faulty network that its memorised fix is made from, there or not."""
        return self.folder / "runs" / self._fixes / f"{broken.kind.replace(' ', '-').lower()}-{broken.seed}"

    def known(self, case: Case) -> Facts | None:
        """What is known of a network; None where it is not there."""
        try:
            told: dict[str, Any] = json.loads((self.place(case) / "facts.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        seen = told["practice"]
        practice = Practice(seen["accuracy"], tuple(seen["recall"]), tuple(seen["corrupted"]), seen["pgd"])
        return Facts(told["architecture"], told["attempt"], practice)

    def mean(self, architecture: str) -> float:
        """Clean accuracy of healthy networks of an architecture, of the half that limits are chosen on; trains them where not there."""
        own = [seed for seed in self._chosen_on if architecture_of(seed) == architecture]
        return float(np.mean([self.ready(Case(HEALTHY, seed)).practice.accuracy for seed in own]))

    def ready(self, case: Case) -> Facts:
        """Trains and saves the network unless it is there.

        Raises:
            RuntimeError: none could be made that reads clean pictures well enough.
            ValueError: it is made from a run's record (``save_fix``).
        """
        known = self.known(case)
        if known is not None:
            return known
        if case.kind == MEMORISED:
            raise ValueError("a memorised fix is made from the record of an earlier run")
        if case.kind == HEALTHY:
            with torch.random.fork_rng():
                return self._save(case, healthy(case.seed, self.data), 0)
        made = faulty(case.kind, case.seed, self.mean(architecture_of(case.seed)), self.data)
        return self._save(case, made.module, made.attempt)

    def save_fix(self, case: Case, broken: Case, export: Path) -> Facts:
        """Trains the memorised fix of a faulty network on ``train.npz`` of an export, and saves it.

        Raises:
            RuntimeError: it reads clean pictures too badly.
        """
        module = torch.load(self.place(broken) / "data" / "model.pth", weights_only=False)
        with np.load(export / "train.npz") as arrays:
            x = torch.from_numpy(arrays["x"][..., 0]).float().div(255).unsqueeze(1)
            y = torch.from_numpy(arrays["y"])
        with torch.random.fork_rng():
            fixed = memorised(module, x, y, case.seed, self.data)
        reached, least = accuracy(fixed, self.data), self.mean(architecture_of(case.seed)) - BAND
        if reached < least:
            raise RuntimeError(f"{case.kind}, seed {case.seed}: clean accuracy {reached:.3f}, wanted from {least:.3f} on")
        return self._save(case, fixed, 0)

    def _save(self, case: Case, module: nn.Module, attempt: int) -> Facts:
        facts = Facts(architecture_of(case.seed), attempt, measure(module.eval(), self.data))
        place = self.place(case)
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=place.parent, prefix=".new-"))
        (made / "data").mkdir()
        torch.save(module, made / "data" / "model.pth", pickle_module=cloudpickle)
        (made / "data" / "pickle_module_info.txt").write_text("cloudpickle")
        (made / "MLmodel").write_text(MLMODEL)
        (made / "facts.json").write_text(json.dumps(asdict(facts)), encoding="utf-8")
        try:
            os.rename(made, place)  # noqa: PTH104 - refuses to replace a folder that is not empty
        except OSError:
            shutil.rmtree(made)  # somebody else was faster, with the same result
        return facts
