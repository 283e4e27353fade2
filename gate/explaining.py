"""After the campaign: what it found is made simpler and explained, as far as triage's share of the budget goes.

The share is counted in forward-equivalents, so that a run with a budget in executions explains the same defects in the same order however
fast the machine is; where time is limited, a clock ends it as well. Nothing here changes what the campaign counted.
"""

from __future__ import annotations

from gate.backends import compare_paths
from gate.baseline import BaselineModel, ask_baseline
from gate.campaign.preflight import Preflight
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.oracles import panel
from gate.result import TriageSummary
from gate.triage.allowance import Allowance
from gate.triage.attribute import Attributing, Inside
from gate.triage.classify import classified, types_of_causes
from gate.triage.confirm import REPLAYS, REPLAYS_UNSTEADY
from gate.triage.defect_files import clear_unfinished, write_description
from gate.triage.facts import facts_of
from gate.triage.feature_map import feature_map
from gate.triage.feature_space import by_turns, gather
from gate.triage.merging import settle
from gate.triage.minimise import Minimiser
from gate.triage.subgroups import subgroups_of
from gate.work import Work

__all__ = ["begin", "conclude", "expected_seconds", "explain", "simplify"]

CALLS_PER_CAUSE = 600  # forward-equivalents that explaining one root cause is expected to take
LOOKED_AT = 2_000  # defects whose files are read to tell their type, beside those that were attributed
LOOKED_AT_OF_CAUSE = 24  # of one root cause; the others are taken to be like most of them


def expected_seconds(work: Work) -> float:
    """Seconds that explaining the defects found so far should take, at most triage's share of the wall budget."""
    wall = work.budget.settings.wall
    if wall is None or work.confirmer is None:
        return 0.0
    causes = len({defect.root_cause for defect in work.confirmer.defects})
    return min(work.settings.triage.share * wall, causes * CALLS_PER_CAUSE * work.seconds_per_sample)


def begin(work: Work) -> None:
    """Opens the allowance: triage's share of all model work, which is that of the campaign and its own.

    Notes it in ``work.allowance``.
    """
    assert work.campaign is not None
    share = work.settings.triage.share
    campaign = sum(count.model_calls for count in work.campaign.outcome.counts.values())
    wall, started = work.budget.settings.wall, work.budget.seconds

    def late() -> bool:
        left = work.budget.worker_left()
        return wall is not None and (work.budget.seconds - started > share * wall or (left is not None and left <= 0))

    work.allowance = Allowance(int(campaign * share / (1 - share)), late)
    work.triage = TriageSummary(share=share, allowed=work.allowance.calls, spent=0)


def simplify(work: Work, worker: Worker, domain: InputDomain, preflight: Preflight) -> None:
    """Makes the defects simpler, so that everything that comes after looks at the simplest ones.

    Takes half of the allowance and of its time, or as many model calls as ``triage.minimize`` seconds are expected to allow.

    Raises:
        BudgetSpent, Interrupted: what was done until then is in ``work``.
    """
    assert work.allowance is not None
    assert work.triage is not None
    assert work.confirmer is not None
    assert work.seeds is not None
    settings, run = work.settings.triage, work.folder.path
    calls = work.allowance.calls // 2
    if settings.minimize is not None and work.seconds_per_sample > 0:
        calls = int(settings.minimize / work.seconds_per_sample)
    wall, started = work.budget.settings.wall, work.budget.seconds

    def late() -> bool:
        allowed = settings.share * (wall or 0.0) / 2 if settings.minimize is None else settings.minimize
        return wall is not None and work.budget.seconds - started > allowed

    minimiser = Minimiser(
        worker,
        domain,
        work.seeds,
        run,
        preflight.output_kind,
        panel(work.policy.policy.oracles),
        Allowance(calls, late, within=work.allowance),
        batch_size=work.settings.batch_size,
        replays=REPLAYS if preflight.deterministic else REPLAYS_UNSTEADY,
    )
    clear_unfinished(run)
    defects = work.confirmer.defects
    try:
        minimiser.minimise(defects)
        minimiser.find_parts(defects, settings.per_root_cause)
    finally:
        # Whatever ended it, ids and root causes belong to what is left of each defect.
        settled = settle(run, defects, work.confirmer.found_by, work.classes, domain)
        minimised = sum(defect.minimal is not None for defect in defects)
        work.triage = work.triage.model_copy(update={"minimised": minimised, "merged": len(settled.merged), "spent": work.allowance.spent})
        work.events.emit("minimised", defects=minimised, renamed=settled.renamed, merged=settled.merged)


def explain(work: Work, worker: Worker, domain: InputDomain, preflight: Preflight, baseline: BaselineModel | None = None) -> None:
    """Says of each root cause what it is, where it comes from and what to do; ends the baseline's worker as soon as it was asked.

    Raises:
        BudgetSpent, Interrupted: what was done until then is in ``work``.
    """
    assert work.allowance is not None
    assert work.triage is not None
    try:
        compare_paths(work, worker, domain, preflight)
        ask_baseline(work, domain, baseline)
        if baseline is not None:
            baseline.close()
        _gather_features(work, worker, domain)
        _attribute(work, worker, domain)
    finally:
        _tell_types(work, domain)  # however little is known: what an oracle alone says, and why there is no more
    if work.deadline.stopped:
        work.deadline.check()  # types and map leave things out then without a word, and no worker was called that would have said so
    work.triage = work.triage.model_copy(update={"spent": work.allowance.spent})


def conclude(work: Work, late: str | None) -> None:
    """Says how far explaining came, however it ended; ``late`` is what ended it early. To be called last.

    Notes it in ``work.triage``.
    """
    assert work.allowance is not None
    assert work.confirmer is not None
    assert work.triage is not None
    defects = work.confirmer.defects
    known = {defect.root_cause for defect in defects if defect.attribution is not None}
    update = {
        "attributed": sum(defect.attribution is not None for defect in defects),
        "not_explained": tuple(sorted({defect.root_cause for defect in defects} - known)),
        "reason": late or work.triage.reason,
        "spent": work.allowance.spent,
    }
    work.triage = work.triage.model_copy(update=update)


def _gather_features(work: Work, worker: Worker, domain: InputDomain) -> None:
    """Before what may take all that is left: each costs one pass, and much is read from them."""
    assert work.allowance is not None
    assert work.confirmer is not None
    assert work.seeds is not None
    work.features = gather(
        work.confirmer.defects,
        work.seeds,
        worker=worker,
        domain=domain,
        folder=work.folder.path,
        allowance=work.allowance,
        batch_size=work.settings.batch_size,
        campaign_seed=work.settings.seed,
    )


def _attribute(work: Work, worker: Worker, domain: InputDomain) -> None:
    """Neurons and heat of a few defects of each root cause."""
    assert work.allowance is not None
    assert work.confirmer is not None
    assert work.triage is not None
    defects = work.confirmer.defects
    layers = [layer.name for layer in work.layers]
    inside = Inside(worker, layers, gradients=work.gradients, batch=work.settings.batch_size)
    attributing = Attributing(inside, domain, work.folder.path, work.allowance, work.settings.triage.per_root_cause)
    attributing.run(defects)
    work.triage = work.triage.model_copy(update={"reason": attributing.reason})


def _tell_types(work: Work, domain: InputDomain) -> None:
    """Types, subgroups and the map of features: no pass of the model."""
    assert work.allowance is not None
    assert work.confirmer is not None
    allowance, sample, defects = work.allowance, work.features, work.confirmer.defects

    def late() -> bool:
        return allowance.late or work.deadline.stopped

    attributed = [defect for defect in defects if defect.attribution is not None]
    looked_at = {defect.id: defect for defect in [*attributed, *by_turns(defects, LOOKED_AT, LOOKED_AT_OF_CAUSE)]}
    facts = facts_of(
        list(looked_at.values()),
        sample,
        work.marks,
        domain=domain,
        folder=work.folder.path,
        classes=len(work.classes),
        late=late,
    )
    defects[:] = classified(defects, facts)
    for defect in defects:
        write_description(work.folder.path, defect)
    for cause, (kind, reason) in types_of_causes(defects).items():
        work.about_causes.setdefault(cause, {}).update(type=kind, type_reason=reason)
    for cause, groups in subgroups_of(defects, sample).items():
        work.about_causes.setdefault(cause, {}).update(
            subgroups=groups.subgroups, outside=groups.outside, grouped=groups.looked_at, subgroups_reason=groups.reason
        )
    work.feature_map = feature_map(sample, defects, work.settings.seed, late=late())
