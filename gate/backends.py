"""After the campaign: do right answers stay right where the model is served in another way? See gate.triage.backends.

Whether answers depend on the batch comes first: it takes two passes an input, so it is asked of several times as many inputs as the paths.
Where preflight has seen already that they do, all is spent on it as far as inputs go, for every other answer is doubtful then, and seed
inputs whose clean answer leads least come first, with their mutants: they are the likeliest to turn.

Takes at most ``PART`` of what explaining may spend.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from gate.campaign.arms import ArmCount
from gate.campaign.preflight import Preflight
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.oracles.numeric_path import NumericPath
from gate.randomness import generator
from gate.result import PathsSummary, PathTally
from gate.triage.allowance import Allowance
from gate.triage.backends import (
    COMPANY,
    COMPARED,
    Compared,
    Disagreement,
    Input,
    compare,
    confirm,
    identity_of,
    passes_of,
    wrong_beside_negative,
)
from gate.triage.confirm import REPLAYS
from gate.work import Work

__all__ = ["PART", "compare_paths"]

PART = 0.2  # of the allowance, at most
SEEDS = 64  # taken to the paths
MUTANTS = 64
IN_COMPANY = 4  # times as many are answered alone and in company
BESIDE = 2  # forward passes that takes
FIRST = 1 / 3  # of what comparing may spend, for that; all of it where preflight saw a dependence
FEWEST = 4  # inputs below which a comparison says too little
ROUNDING = 24  # forward passes by which the inputs on the slow paths may exceed their share
AGAIN = 1 / 3  # of what may be spent, kept for running inputs again whose answers changed
EXAMPLES = 3  # defects of one root cause; the others are counted
COMPILING = 20_000  # forward-equivalents that compiling counts as
COMPILE_SECONDS = 60.0  # that it may well take


def compare_paths(work: Work, worker: Worker, domain: InputDomain, preflight: Preflight) -> None:
    """Compares a sample of seed inputs and mutants on all numeric paths, alone and in company, and notes defects in ``work``.

    Raises:
        BudgetSpent, Interrupted: what was done until then is in ``work``.
        WorkerError, ModelError: as the worker or the model failed.
    """
    assert work.allowance is not None
    assert work.campaign is not None
    asked, started = work.policy.policy.oracles, work.budget.seconds
    if not (asked.numeric_path.on or asked.batch_dependence.on):
        work.paths = PathsSummary(reason="the policy switches both oracles off (oracles.numeric_path, oracles.batch_dependence)")
        return
    part = Allowance(min(int(PART * work.allowance.calls), work.allowance.left), within=work.allowance)
    spend = int(part.calls * (1 - AGAIN)) - ROUNDING
    if not preflight.deterministic:
        work.paths = PathsSummary(reason="two answers were not compared, because the model is not deterministic")
        return
    if spend < FEWEST * COMPARED:
        work.paths = PathsSummary(
            reason=f"triage's share of the budget pays for fewer than {FEWEST} inputs; a larger one would pay for more"
        )
        return
    company, count = _shares(spend, asked.batch_dependence.on, asked.numeric_path.on, preflight.depends_on_batch)
    inputs = _inputs(work, max(company, count), undecided_first=preflight.depends_on_batch)
    done, arm = Compared(), work.campaign.outcome.counts.setdefault("paths", ArmCount())
    paths = [*NumericPath.PLAIN, *(["compiled"] if _compiles(work, part) else [])] if asked.numeric_path.on else []

    def look(some: list[Input], paths: list[str], alone: bool) -> None:
        known = len(done.found)
        kind, size = preflight.output_kind, work.settings.batch_size
        prices = {"compiled": COMPILING}
        compare(worker, some, kind, size, part, paths=paths, alone=alone, prices=prices, begin=work.deadline.begin, done=done)
        _confirm(work, worker, domain, preflight, inputs, done, done.found[known:], part)

    try:
        if company:
            look(inputs[:company], [], alone=True)
        if count:
            look(inputs[:count], paths, alone=False)
        elif paths:
            done.untaken.update(dict.fromkeys(paths, "the budget went into how answers depend on the batch"))
    finally:
        arm.model_calls, arm.findings = part.spent, len(done.found)
        arm.seconds = work.budget.seconds - started
        if paths and "compiled" not in paths:
            done.untaken["compiled"] = "compiling would take more than its share of the budget"
        mutants = sum(bool(one.recipe) for one in inputs)
        work.paths = PathsSummary(
            seeds=len(inputs) - mutants,
            mutants=mutants,
            disagreeing=done.disagreeing,
            model_calls=part.spent,
            ways={name: PathTally(tried=one.tried, findings=one.findings, worst=one.worst) for name, one in done.tallies.items()},
            untaken=done.untaken,
        )
        work.events.emit("paths", inputs=len(inputs), disagreeing=done.disagreeing, defects=arm.defects, untaken=list(done.untaken))


def _compiles(work: Work, part: Allowance) -> bool:
    wall = work.budget.settings.wall
    time = wall is None or PART * work.settings.triage.share * wall >= COMPILE_SECONDS
    return time and part.calls >= 2 * COMPILING


def _shares(spend: int, batch: bool, paths: bool, dependent: bool) -> tuple[int, int]:
    """(inputs to answer alone and in company, inputs to take to the paths as well) for ``spend`` forward passes."""
    most, price = SEEDS + MUTANTS, COMPARED - (BESIDE - 1)  # in a batch once more, and on the paths
    if not batch:
        return 0, min(most, spend // price)
    if not paths or dependent:
        company = min(IN_COMPANY * most, spend // BESIDE)
        count = (spend - BESIDE * company) // price
        return company, min(most, count) if paths and count >= FEWEST else 0
    # A small budget pays for as many of both.
    count = min(most, max(int(spend * (1 - FIRST)) // price, min(FEWEST, spend // (BESIDE + price))))
    return min(IN_COMPANY * most, (spend - price * count) // BESIDE), count


def _inputs(work: Work, count: int, undecided_first: bool = False) -> list[Input]:
    """``count`` inputs, every other one a valid mutant of the judging arm that was read rightly, as far as there are such.

    Drawn at random; with ``undecided_first`` those of the seed inputs whose two greatest probabilities are closest.
    """
    assert work.seeds is not None
    assert work.judging is not None
    seeds, judging = work.seeds, work.judging
    random = generator(work.settings.seed, "paths")
    right = [
        (row.seed, slot)
        for row in judging.rows
        for slot, (valid, predicted) in enumerate(zip(row.valid, row.predicted, strict=True))
        if valid and predicted == seeds.labels[row.seed]
    ]
    lead = np.diff(np.sort(seeds.probabilities, axis=1)[:, -2:], axis=1)[:, 0]

    def drawn(rows: np.ndarray) -> np.ndarray:
        order = random.permutation(len(rows))
        return order[np.argsort(lead[rows[order]], kind="stable")] if undecided_first else order

    wanted = min(count // 2, len(right))
    clean = [
        Input(seeds.x[row], seeds.x[row], seeds.ids[row], int(seeds.labels[row]))
        for row in drawn(np.arange(len(seeds.x)))[: count - wanted]
    ]
    mutants = []
    for number in drawn(np.array([row for row, _ in right], dtype=np.int64))[:wanted]:
        seed, slot = right[number]
        x, step = judging.made(seed, slot)
        mutants.append(Input(np.asarray(x), seeds.x[seed], seeds.ids[seed], int(seeds.labels[seed]), (step,)))
    return [one for pair in zip_longest(clean, mutants) for one in pair if one is not None]


def _confirm(
    work: Work,
    worker: Worker,
    domain: InputDomain,
    preflight: Preflight,
    inputs: list[Input],
    done: Compared,
    news: list[Disagreement],
    part: Allowance,
) -> None:
    """Up to ``EXAMPLES`` defects of each root cause; what agrees by itself is no finding."""
    assert work.confirmer is not None
    assert work.campaign is not None
    arm = work.campaign.outcome.counts["paths"]
    made: Counter[tuple[str, str, int, int]] = Counter()
    for found in _by_turns(inputs, news):
        one = inputs[found.row]
        if found.way == COMPANY:  # other company may well lead to another wrong class
            if not part.take(passes_of(found)):
                return
            predicted = wrong_beside_negative(worker, one, preflight.output_kind, domain.value_range)
            if predicted is None:
                continue
            found = replace(found, predicted=predicted)
        cause = _cause(inputs, found)
        if made[cause] >= EXAMPLES or identity_of(one, found, work.classes) in work.confirmer.found_by:
            continue
        if not part.take(REPLAYS * passes_of(found)):
            return
        work.deadline.begin("another answer was looked at again")
        defect = confirm(worker, domain, one, found, work.classes, work.folder.path, preflight.output_kind, REPLAYS)
        if defect is None:
            if found.oracle == NumericPath.name:  # in other company another answer may well be right
                done.refute(found)
            continue
        made[cause] += 1
        work.confirmer.defects.append(defect)
        work.confirmer.found_by[defect.id] = {"paths"}
        arm.defects += 1
        work.events.emit(
            "defect", id=defect.id, arm="paths", label=defect.label, predicted=defect.predicted, families=list(defect.families)
        )


def _cause(inputs: list[Input], found: Disagreement) -> tuple[str, str, int, int]:
    return found.oracle, found.way, inputs[found.row].label, found.predicted


def _by_turns(inputs: list[Input], found: list[Disagreement]) -> list[Disagreement]:
    """One of each root cause before any has its second, so that what there is no budget for is more of the same."""
    seen: Counter[tuple[str, str, int, int]] = Counter()
    turns = []
    for one in found:
        cause = _cause(inputs, one)
        turns.append(seen[cause])
        seen[cause] += 1
    return [one for _, _, one in sorted(zip(turns, range(len(found)), found, strict=True))]
