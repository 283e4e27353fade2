"""After the campaign: do right answers stay right where the model is served in another way? See gate.triage.backends.

Takes at most ``PART`` of what explaining may spend.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from gate.campaign.arms import ArmCount
from gate.campaign.preflight import Preflight
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.oracles.numeric_path import NumericPath
from gate.randomness import generator
from gate.result import PathsSummary, PathTally
from gate.triage.allowance import Allowance
from gate.triage.backends import COMPARED, Compared, Disagreement, Input, compare, confirm, identity_of, passes_of
from gate.work import Work

__all__ = ["PART", "compare_paths"]

PART = 0.2  # of the allowance, at most
SEEDS = 64
MUTANTS = 64
FEWEST = 4  # inputs below which a comparison says too little
ROUNDING = 24  # forward passes by which the inputs on the slow paths may exceed their share
AGAIN = 1 / 3  # of what may be spent, kept for running inputs again whose answers changed
EXAMPLES = 3  # defects of one root cause; the others are counted
REPLAYS = 1  # by itself, after it was seen in a batch: the model is deterministic
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
    count = min(SEEDS + MUTANTS, (int(part.calls * (1 - AGAIN)) - ROUNDING) // COMPARED)
    if not preflight.deterministic:
        work.paths = PathsSummary(reason="two answers were not compared, because the model is not deterministic")
        return
    if count < FEWEST:
        work.paths = PathsSummary(
            reason=f"triage's share of the budget pays for fewer than {FEWEST} inputs; a larger one would pay for more"
        )
        return
    inputs = _inputs(work, count)
    done, arm = Compared(), work.campaign.outcome.counts.setdefault("paths", ArmCount())
    paths = [*NumericPath.PLAIN, *(["compiled"] if _compiles(work, part) else [])] if asked.numeric_path.on else []
    try:
        compare(
            worker,
            inputs,
            preflight.output_kind,
            work.settings.batch_size,
            part,
            paths=paths,
            alone=asked.batch_dependence.on,
            prices={"compiled": COMPILING},
            begin=work.deadline.begin,
            done=done,
        )
        _confirm(work, worker, domain, preflight, inputs, done, part)
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


def _inputs(work: Work, count: int) -> list[Input]:
    """``count`` inputs, half of them the judging arm's valid mutants that were read rightly, as far as there are such."""
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
    wanted = min(MUTANTS, count // 2, len(right))
    chosen = random.permutation(len(seeds.x))[: min(SEEDS, count - wanted)]
    inputs = [Input(seeds.x[row], seeds.x[row], seeds.ids[row], int(seeds.labels[row])) for row in chosen]
    for number in random.permutation(len(right))[:wanted]:
        seed, slot = right[number]
        x, step = judging.made(seed, slot)
        inputs.append(Input(np.asarray(x), seeds.x[seed], seeds.ids[seed], int(seeds.labels[seed]), (step,)))
    return inputs


def _confirm(
    work: Work, worker: Worker, domain: InputDomain, preflight: Preflight, inputs: list[Input], done: Compared, part: Allowance
) -> None:
    """Up to ``EXAMPLES`` defects of each root cause; what agrees by itself is no finding."""
    assert work.confirmer is not None
    assert work.campaign is not None
    arm = work.campaign.outcome.counts["paths"]
    made: Counter[tuple[str, str, int, int]] = Counter()
    for found in _by_turns(inputs, done.found):
        one, cause = inputs[found.row], _cause(inputs, found)
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
