"""The gate's attack operators beside plain PGD, as a table: ``python -m benchmarks.adversarial`` (or ``make bench-adversarial``).

Both get the same L-infinity bound, seed inputs and work: a forward pass of one sample is one, a backward pass two, and the execution of a
mutant counts on either side. What counts is a mutant in the file's dtype, within the bound, that the model misclassifies;
distinct by seed input and wrong class. Exit 1 where the gate finds fewer than PGD.

* ``pgd``: foolbox's LinfPGD on all seed inputs, round after round from new random starts, each round in an order of its own; with
  foolbox's own 40 steps, and with the 10 that the gate's operator of this name takes.
* ``attacks``: the search as it is before coverage has stalled, with fgsm, pgd and deepfool_linf for operators and nothing else.
* ``descents``: the same after coverage has stalled.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.guidance import Arena
from benchmarks.guidance_subjects import SUBJECTS, GuidanceSubject
from benchmarks.pairs import Median, median
from gate.campaign.batch import Batch, Outcome
from gate.campaign.payoff import Objective
from gate.campaign.search import SearchArm
from gate.config import InputSettings, SearchSettings
from gate.corpus.corpus import Corpus
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.domains.image.preprocess import Preprocess
from gate.models.differentiable import Differentiable
from gate.models.load import load_module
from gate.models.outputs import OutputKind, predictions, probabilities
from gate.randomness import generator, integer

__all__ = ["main"]

BOUNDS = "0.03,0.1"  # shares of the value range
WORK = 10_000
PGD = {"pgd, 40 steps": 40, "pgd, 10 steps": 10}
WAYS = (*PGD, "attacks", "descents")


def _domain(arena: Arena, bound: float) -> ImageDomain:
    """The attacks with an L-infinity bound, and no other operator."""
    limits = Domain()
    off = {
        family: dict.fromkeys(type(getattr(limits, family)).model_fields)
        for family in ("geometry", "photometry", "blur", "noise", "weather", "compression", "occlusion", "coverage_gradient")
    }
    attacks = {"fgsm": bound, "pgd": bound, "deepfool_linf": bound, "deepfool": None, "carlini_wagner": None, "boundary": None}
    return ImageDomain(Domain.model_validate({**off, "adversarial": attacks}), arena.x.shape[1:], np.uint8, (0.0, 255.0))


def _model(subject: GuidanceSubject, device: torch.device) -> Differentiable:
    module = load_module(subject.folder, {"format": "pickle", "model_file": "data/model.pth"}, device)
    reading = InputSettings.model_validate({key: tuple(value) for key, value in subject.reading.items()})
    return Differentiable(module, OutputKind.LOGITS, before=Preprocess(reading, (0.0, 255.0), subject.x.shape[3]).to(device))


def plain(arena: Arena, model: Differentiable, device: torch.device, campaign_seed: int, work: int, bound: float, steps: int) -> int:
    """Distinct misclassifications that foolbox's PGD finds for so much work."""
    from foolbox.attacks.projected_gradient_descent import LinfProjectedGradientDescentAttack
    from foolbox.criteria import Misclassification
    from foolbox.models.pytorch import PyTorchModel

    batch = 128
    epsilon = float(int(bound * 255))
    # Of 40 steps foolbox's own length of a step, else one that reaches every corner of the bound.
    usual = LinfProjectedGradientDescentAttack()
    attack = usual if steps == usual.steps else LinfProjectedGradientDescentAttack(steps=steps, rel_stepsize=2.5 / steps)
    found: set[tuple[int, int]] = set()
    spent, rounds = 0, 0
    while True:
        order = generator(campaign_seed, "pgd", rounds).permutation(len(arena.x))
        rounds += 1
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            rows = rows[: (work - spent) // (3 * steps + 1)]
            if not len(rows):
                return len(found)
            torch.manual_seed(integer(campaign_seed, "pgd", rounds, start) % 2**63)
            x, labels = torch.from_numpy(arena.x[rows]).to(device).to(torch.float32), torch.from_numpy(arena.y[rows]).to(device)
            made = attack.run(PyTorchModel(model, bounds=(0, 255), device=device), x, Misclassification(labels), epsilon=epsilon)
            mutants = made.detach().round().clamp(0, 255).cpu().numpy().astype(np.uint8)
            predicted = predictions(arena.worker.call("forward", {}, {"x": mutants})[1]["raw"], OutputKind.LOGITS)
            spent += (3 * steps + 1) * len(rows)
            found.update((int(row), int(said)) for row, said in zip(rows, predicted, strict=True) if said != arena.y[row])


def searched(arena: Arena, campaign_seed: int, work: int, bound: float, objective: Objective) -> int:
    """Distinct misclassifications that the search finds for so much work."""
    domain = _domain(arena, bound)
    arm = SearchArm(
        domain,
        Corpus(arena.x),
        arena.y,
        arena.worker,  # type: ignore[arg-type]
        gradients=arena.gradients,
        steerable=arena.steerable,
        campaign_seed=campaign_seed,
        settings=SearchSettings(),
        probabilities=arena.probabilities,
        deterministic=True,
        batch_size=128,
    )
    arm.objective = objective
    begun, found, step = arena.worker.model_calls, set[tuple[int, int]](), 0
    while True:
        batch = arm.propose(step, 128)
        outcome = _run(arena, batch)
        spent = arena.worker.model_calls - begun
        if spent > work:  # what is beyond the budget does not count
            return len(found)
        new = np.zeros(len(batch.x), dtype=bool)
        for row in np.flatnonzero((outcome.complaint >= 0) & batch.valid).tolist():
            key = int(batch.seeds[row]), int(outcome.predicted[row])
            new[row] = key not in found
            found.add(key)
        arm.take(batch, outcome, new)
        step += 1


def _run(arena: Arena, batch: Batch) -> Outcome:
    if batch.kept is None:
        _, made = arena.worker.call("run", {"arm": batch.arm}, {"x": batch.x, "earns": batch.valid})
    else:
        _, made = arena.worker.call("run_kept", {"arm": batch.arm, "token": batch.kept}, {"earns": batch.valid})
    predicted = predictions(made["raw"], OutputKind.LOGITS)
    complaint = np.where(predicted != arena.y[batch.seeds], 0, -1)
    return Outcome(probabilities(made["raw"], OutputKind.LOGITS), predicted, complaint, made["new_items"])


def main() -> None:
    """Measures and prints."""
    given = argparse.ArgumentParser(
        prog="python -m benchmarks.adversarial", description="The gate's attacks beside plain PGD, at equal work."
    )
    given.add_argument("--subjects", default="digits,fashion", help=f"of {', '.join(SUBJECTS)}; separated by commas")
    given.add_argument("--seeds", type=int, default=5)
    given.add_argument("--work", type=int, default=WORK, help="forward-equivalents of each")
    given.add_argument("--bounds", default=BOUNDS, help="shares of the value range; separated by commas")
    given.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "fuzzgate-guidance")
    given.add_argument("--device", default="cpu")
    asked = given.parse_args()
    table = Table("model", "bound", "seed inputs", *WAYS, "attacks / pgd", "descents / pgd")
    worst = np.inf
    for name in asked.subjects.split(","):
        for bound in map(float, asked.bounds.split(",")):
            row, ratios = _row(SUBJECTS[name](asked.cache), asked.seeds, asked.work, bound, asked.device)
            table.add_row(*row)
            worst = min(worst, ratios.value)
    console = Console(width=160)
    console.print(f"{asked.work:,} forward-equivalents each, {asked.seeds} seeds; ratios to the better of the two PGDs")
    console.print(table)
    sys.exit(worst < 1.0)


def _row(subject: GuidanceSubject, seeds: int, work: int, bound: float, device: str) -> tuple[tuple[str, ...], Median]:
    counts: dict[str, list[int]] = {way: [] for way in WAYS}
    place = torch.device(device)
    model = _model(subject, place)
    inputs = 0
    for seed in range(seeds):
        for way in WAYS:
            arena = Arena(subject, "kmnc", device)
            inputs = len(arena.x)
            if way in PGD:
                counts[way].append(plain(arena, model, place, seed, work, bound, PGD[way]))
            else:
                counts[way].append(searched(arena, seed, work, bound, "coverage" if way == "attacks" else "defects"))
    best = [max(1, *both) for both in zip(*(counts[way] for way in PGD), strict=True)]
    ratios = {way: median([one / rival for one, rival in zip(counts[way], best, strict=True)]) for way in ("attacks", "descents")}
    shown = [str(int(np.median(counts[way]))) for way in WAYS]
    return (subject.name, str(bound), str(inputs), *shown, str(ratios["attacks"]), str(ratios["descents"])), ratios["descents"]


if __name__ == "__main__":
    main()
