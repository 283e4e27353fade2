"""How a campaign opens: probes first, since they are cheap and find the rude faults, then the search for universal marks.

Both have shares of their own, so that what they use is never taken from the judging arm, and neither earns coverage. With a budget in
executions all that is done here follows from it; where there is only time, the work that a share of it should allow is estimated, and a
clock ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gate.campaign.arms import ArmCount
from gate.campaign.budget import BudgetSpent, executions_of
from gate.campaign.deadline import Interrupted
from gate.campaign.mark_plan import FULL
from gate.campaign.marks import FoundMark, Marked, MarkSearch
from gate.campaign.preflight import Preflight
from gate.campaign.probes import Probed, Tally, run_probes
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.domains.image.marks import shown, sliding, starts
from gate.domains.image.probes import probes
from gate.metrics.intervals import exact_share
from gate.oracles import panel
from gate.oracles.crash import Crash
from gate.oracles.non_finite import NonFinite
from gate.result import Defect, MarksSummary, ProbeOracle, ProbesSummary, UniversalMark
from gate.triage.aborting import aborting
from gate.triage.confirm import REPLAYS, REPLAYS_UNSTEADY
from gate.triage.mark_defects import MarkConfirmer
from gate.triage.probe_defects import confirm_probe
from gate.triage.titles import title_of_mark
from gate.work import Work

__all__ = ["OUT_OF_LINE", "open_campaign"]

CONFIDENCE = 0.95  # at which a mark must move most inputs to count as a shortcut
MOST = 2 / 3  # share of the inputs; sound models of small pictures were seen at up to 0.56
_MORE = "a larger budget, or a larger share (arms.probes), would pay for more"
OUT_OF_LINE = 2.0  # median absolute deviations; Wang et al., "Neural Cleanse", IEEE S&P 2019


def open_campaign(work: Work, worker: Worker, domain: InputDomain, preflight: Preflight, value_range: tuple[float, float]) -> None:
    """Runs both and notes what they brought in ``work``, counts included. To be called before the campaign runs.

    Raises:
        WorkerError, ModelError: as the worker or the model failed; on a probe alone, the message names it.
    """
    _probe(work, worker, domain, preflight, value_range)
    if work.confirmer is not None and aborting(work.policy.policy.abort_on, work.confirmer.defects) is not None:
        work.marks = MarksSummary(reason="a defect ended the campaign before marks were searched for (abort_on)")
        return
    _mark(work, worker, domain, preflight, value_range)


def _share_of_executions(work: Work, share: float) -> int | None:
    limit = work.budget.settings.executions
    return None if limit is None else executions_of(share, limit)


def _probe(work: Work, worker: Worker, domain: InputDomain, preflight: Preflight, value_range: tuple[float, float]) -> None:
    assert work.seeds is not None
    assert work.campaign is not None
    share = work.policy.policy.arms.probes
    offered = probes(work.seeds.x, value_range, work.settings.seed)
    room = _share_of_executions(work, share) if share else 0
    chosen = offered if room is None else offered[:room]
    count = work.campaign.outcome.counts["probes"] = ArmCount()
    started, seconds = work.budget.seconds, _seconds(work, share)

    def late(samples: int) -> bool:
        return seconds is not None and work.budget.seconds - started + samples * work.seconds_per_sample > seconds

    done = run_probes(
        worker,
        chosen,
        work.seeds.x,
        preflight.output_kind,
        work.settings.batch_size,
        deterministic=preflight.deterministic,
        begin=work.deadline.begin,
        late=late,
        switches=work.policy.policy.oracles,
    )
    count.executions, count.model_calls = len(done.probes), done.model_calls
    raised = done.answers.raised if done.answers is not None else {}
    faults = [(row, oracle) for oracle in (Crash.name, NonFinite.name) if oracle in done.tallies for row in done.tallies[oracle].findings]
    count.findings = len(faults) + len(done.disagreeing)
    # Counted whichever oracles are on, as of mutants.
    work.probes_broken = 0 if done.answers is None else int((done.answers.predicted < 0).sum()) - len(raised)
    work.campaign.outcome.crashes += len(raised)
    work.probes_disagreeing = len(done.disagreeing)
    if done.compared:
        work.probes_compared = len(done.probes) - len(raised)
    work.probes = ProbesSummary(
        offered=len(offered),
        run=len(done.probes),
        reason=_why_not_all(done, share, len(offered), deterministic=preflight.deterministic),
        oracles={name: _said(done, tally, domain, work.folder.path) for name, tally in done.tallies.items()},
        untaken=done.untaken,
    )
    _confirm(work, worker, domain, preflight, done, faults)
    count.defects = sum(defect.arm == "probes" for defect in work.confirmer.defects) if work.confirmer else 0
    count.seconds = work.budget.seconds - started
    work.events.emit("probes", run=len(done.probes), raised=len(raised), nonfinite=work.probes_broken, disagreeing=len(done.disagreeing))


def _why_not_all(done: Probed, share: float, offered: int, *, deterministic: bool) -> str | None:
    if not share:
        return "the policy gives probes no share (arms.probes)"
    if done.stopped is not None:
        return done.stopped.rstrip(".")
    of = "time" if done.late else "executions"
    if not done.probes:
        return f"{share:.1%} of the {of} is less than one probe; {_MORE}"
    reasons = [] if len(done.probes) == offered else [f"their share of the {of} ({share:.1%}) pays for {len(done.probes)}; {_MORE}"]
    if done.late and not reasons:
        reasons.append(f"their share of the time ({share:.1%}) does not pay for every numeric path; {_MORE}")
    if not deterministic:
        reasons.append("two answers were not compared, because the model is not deterministic")
    return "; ".join(reasons) or None


def _said(done: Probed, tally: Tally, domain: InputDomain, folder: Path) -> ProbeOracle:
    """What an oracle said, with the worst probe's picture on disk."""
    if not tally.findings:
        return ProbeOracle(tried=tally.tried, findings=0, worst=tally.worst)
    probe = done.probes[tally.findings[0]]
    picture = f"probes/{probe.name}.png"
    (folder / "probes").mkdir(exist_ok=True)
    if domain.save(folder / "probes" / probe.name, probe.x).suffix != ".png":
        Image.fromarray(domain.picture(probe.x)).save(folder / picture)
    return ProbeOracle(tried=tally.tried, findings=len(tally.findings), worst=tally.worst, example=probe.name, picture=picture)


def _confirm(
    work: Work, worker: Worker, domain: InputDomain, preflight: Preflight, done: Probed, faults: Sequence[tuple[int, str]]
) -> None:
    assert work.confirmer is not None
    assert work.campaign is not None
    times = REPLAYS if preflight.deterministic else REPLAYS_UNSTEADY
    for number, (row, oracle) in enumerate(faults):
        try:
            defect = confirm_probe(work.confirmer, worker, domain, done.probes[row], oracle, work.folder.path, preflight.output_kind, times)
        except (BudgetSpent, Interrupted):
            work.campaign.outcome.unconfirmed += len(faults) - number
            return
        if defect is None:
            continue
        work.confirmer.defects.append(defect)
        work.confirmer.found_by[defect.id] = {"probes"}
        work.events.emit("defect", id=defect.id, arm="probes", label=None, predicted=None, families=list(defect.families))


def _mark(work: Work, worker: Worker, domain: InputDomain, preflight: Preflight, value_range: tuple[float, float]) -> None:
    assert work.seeds is not None
    assert work.campaign is not None
    share = work.policy.policy.arms.marks
    if not share:
        work.marks = MarksSummary(reason="the policy gives universal marks no share (arms.marks)")
        return
    height, width, channels = work.seeds.x.shape[1:]
    shape, limits = (height, width, channels), work.policy.policy.domain.marks
    count = work.campaign.outcome.counts["marks"] = ArmCount()
    started = work.budget.seconds
    seconds = _seconds(work, share)
    search = MarkSearch(
        worker,
        work.seeds,
        starts(limits, shape, value_range, work.settings.seed),
        sliding(limits, shape, value_range),
        value_range=value_range,
        classes=len(work.classes),
        output_kind=preflight.output_kind,
        gradients=work.gradients,
        batch_size=work.settings.batch_size,
        campaign_seed=work.settings.seed,
        late=lambda: seconds is not None and work.budget.seconds - started > seconds,
    )
    work.deadline.begin("universal marks were searched for")
    done = search.run(_allowance(work, share, seconds), needed=_needed(work, share))
    count.executions, count.model_calls = done.executions, done.model_calls
    found = tuple(_described(work, domain, one, len(done.found), value_range) for one in done.found)
    count.findings = sum(one.moved for one in found if one.shortcut)
    work.marks = _summary(done, found)
    _confirm_marks(work, worker, domain, preflight, list(zip(done.found, found, strict=True)))
    count.seconds = work.budget.seconds - started
    shortcuts = sum(one.shortcut for one in found)
    work.events.emit("marks", found=len(found), shortcuts=shortcuts, highest=found[0].rate if found else None, reason=done.reason)


def _confirm_marks(
    work: Work, worker: Worker, domain: InputDomain, preflight: Preflight, found: Sequence[tuple[FoundMark, UniversalMark]]
) -> None:
    """Defects of the marks that are a shortcut, and the titles of their root causes."""
    assert work.seeds is not None
    assert work.confirmer is not None
    assert work.campaign is not None
    count, confirmer, asked = work.campaign.outcome.counts["marks"], work.confirmer, work.policy.policy.oracles
    shortcuts = [(one, described) for one, described in found if described.shortcut]
    if not shortcuts or not asked.universal_mark.on:
        return
    times = REPLAYS if preflight.deterministic else REPLAYS_UNSTEADY
    marks = MarkConfirmer(confirmer, worker, domain, work.seeds, work.classes, work.folder.path, preflight.output_kind, times, panel(asked))

    def note(defect: Defect) -> None:
        confirmer.defects.append(defect)
        confirmer.found_by[defect.id] = {"marks"}
        count.defects += 1
        said = {"label": defect.label, "predicted": defect.predicted, "families": list(defect.families)}
        work.events.emit("defect", id=defect.id, arm="marks", **said)

    work.deadline.begin("inputs with a universal mark were confirmed")
    for number, (one, described) in enumerate(shortcuts):
        before = count.defects
        try:
            marks.confirm(one, described, note)
        except (BudgetSpent, Interrupted):
            work.campaign.outcome.unconfirmed += len(shortcuts) - number
            return
        finally:
            if count.defects > before:
                work.about_causes.setdefault(marks.root_cause(one), {})["title"] = title_of_mark(described, work.classes)


def _seconds(work: Work, share: float) -> float | None:
    """The time that the share is worth; None where only executions limit the run."""
    limits = [limit for limit in (work.budget.settings.wall, work.budget.settings.device) if limit is not None]
    return share * min(limits) if limits else None


def _allowance(work: Work, share: float, seconds: float | None) -> int:
    """Forward-equivalents that may be spent."""
    room = _share_of_executions(work, share)
    if room is None and seconds is not None:
        room = int(seconds / work.seconds_per_sample) if work.seconds_per_sample > 0 else FULL
    return FULL if room is None else min(room, FULL)


def _needed(work: Work, share: float) -> Callable[[int], str]:
    if work.budget.settings.executions is None:
        return lambda least: "a longer budget, or a larger share (arms.marks), would pay for it"
    return lambda least: f"a budget of {math.ceil(least / share):,} executions, or a larger share (arms.marks), would pay for it"


def _summary(done: Marked, found: tuple[UniversalMark, ...]) -> MarksSummary:
    made = done.plan
    reason = done.reason
    if reason is None and made is not None and not made.levels and not any(mark.shortcut for mark in found):
        # A planted mark that is a little different from the plain ones moves few inputs until it is improved: that would pass as evidence.
        reason = (
            "its share pays for a look at plain marks only, and none of these is a shortcut; a larger budget, or a larger share "
            "(arms.marks), would pay for improving them"
        )
    return MarksSummary(
        reason=reason,
        gradients=done.gradients,
        searched=made.inputs if made else 0,
        held_out=made.held_out if made else 0,
        starts=made.starts if made else 0,
        improved=made.levels if made else (),
        model_calls=done.model_calls,
        marks=found,
        by_class=done.by_class,
    )


def _described(work: Work, domain: InputDomain, one: FoundMark, measured: int, value_range: tuple[float, float]) -> UniversalMark:
    """A mark as the record has it, with its files on disk."""
    assert work.seeds is not None
    lower, upper = exact_share(one.moved, one.inputs, 1 - (1 - CONFIDENCE) / measured)
    return UniversalMark(
        kind=one.mark.kind,
        label=one.target,
        moved=one.moved,
        inputs=one.inputs,
        rate=one.moved / one.inputs,
        lower=lower,
        upper=upper,
        confidence=CONFIDENCE,
        outlier=one.outlier,
        shortcut=lower > MOST and (one.outlier is None or one.outlier > OUT_OF_LINE),
        files=_files(work.folder.path, domain, one, value_range, work.seeds.x.dtype),
    )


def _files(
    folder: Path, domain: InputDomain, one: FoundMark, value_range: tuple[float, float], dtype: np.dtype[np.generic]
) -> dict[str, str]:
    """Writes the mark and its examples; paths by name."""
    base = f"marks/{one.mark.kind}-{one.target}"
    (folder / "marks").mkdir(exist_ok=True)
    np.savez_compressed(folder / f"{base}.npz", weight=one.mark.weight, picture=one.mark.picture)
    pictures = {"mark": shown(one.mark, value_range, dtype)}
    for number, (before, after) in enumerate(one.examples, 1):
        pictures |= {f"before_{number}": before, f"after_{number}": after}
    files = {"data": f"{base}.npz"}
    for name, sample in pictures.items():
        files[name] = f"{base}-{name}.png"
        Image.fromarray(domain.picture(sample)).save(folder / files[name])
    return files
