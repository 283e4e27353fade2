"""Limits from models known to be good: their campaigns, a proposal for each rule, and how often such a policy blocks a good model."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gate.config import Settings
from gate.errors import EvidenceError, GateError, OutputError, UsageError
from gate.metrics.compute import measure
from gate.metrics.evidence import Evidence
from gate.metrics.evidence_file import read_evidence
from gate.metrics.intervals import exact_share
from gate.metrics.next_value import models_needed, share_below_highest
from gate.pipeline import run
from gate.policy.check import Finding, check
from gate.policy.load import LoadedPolicy, load_policy, shipped_policies
from gate.policy.proposing import MetricAt, Proposal, in_force, propose
from gate.record import as_asked, judged
from gate.registry.resolve import resolve
from gate.report.atomic import make_folder, write_text
from gate.report.text import visible
from gate.result import Result, Status, Verdict
from gate.trust.digest import digest

__all__ = ["Calibration", "GoodRun", "HeldOut", "calibrate", "in_words", "policy_file", "read_runs", "run_models", "write_policy"]

CONFIDENCE = 0.95  # of what is said about the false-block rate
LEAST = 2  # models
_BLOCKING = (Status.ERROR, Status.FAIL, Status.INCONCLUSIVE)


@dataclass(frozen=True)
class GoodRun:
    """A finished run of a model known to be good."""

    folder: Path
    result: Result
    evidence: Evidence


@dataclass(frozen=True)
class HeldOut:
    """What limits from all the other models make of one model."""

    model: str
    verdict: Verdict
    blocked_by: tuple[str, ...]  # rules about the model that do not let it through

    @property
    def lacks_evidence(self) -> bool:
        """Whether nothing but rules about the evidence keeps it from passing."""
        return self.verdict is not Verdict.PASS and not self.blocked_by


@dataclass(frozen=True)
class Calibration:
    """Proposed limits, and how good they are."""

    policy: LoadedPolicy
    asked: float  # false-block rate, at most
    executions: tuple[int, ...]  # of the runs' campaigns
    proposals: tuple[Proposal, ...]
    as_it_is: tuple[HeldOut, ...]  # every model under the policy as it is given
    held_out: tuple[HeldOut, ...]  # every model under limits that the others gave

    @property
    def blocked(self) -> int:
        """How many of the models are blocked by limits that the others gave."""
        return sum(bool(one.blocked_by) for one in self.held_out)

    @property
    def interval(self) -> tuple[float, float]:
        """Exact interval of the false-block rate, each model being one observation."""
        return exact_share(self.blocked, len(self.held_out), CONFIDENCE)


# ---------------------------------------------------------------------------------------------------------------------------------
# Runs


def run_models(
    settings: Settings, models: Sequence[str], folder: Path, *, say: Callable[[str], None], stop: Callable[[], bool] = lambda: False
) -> tuple[GoodRun, ...]:
    """Runs the gate on each model, in a folder of its own; a finished run of the same model with the same settings is taken as it is.

    Nothing is published, and no earlier run is replayed.

    Args:
        settings: of every run, but for the model and the output folder.
        models: MLflow model URIs or folders.
        folder: where the runs are kept.
        say: is told what happens, one line each.
        stop: asked all the time; True ends it.

    Raises:
        UsageError: fewer than two models, or one named twice.
        EvidenceError: a run could not be finished, so that it says nothing.
        GateError: whatever a run can raise before it has a folder.
    """
    _enough(models)
    policy = load_policy(settings.policy)
    found = []
    for number, model in enumerate(models, start=1):
        own = settings.model_copy(update={"model": model, "publish": False, "previous": "none", "advisory": False})
        place = folder / _name(model, _check(own, policy))
        there = _finished(place)
        if there is not None:
            say(f"{number} of {len(models)}: {model}: taken from {place}")
            found.append(there)
            continue
        say(f"{number} of {len(models)}: {model}: running")
        outcome = run(own.model_copy(update={"out": str(place)}), stop=stop)
        if outcome.result.partial or outcome.result.verdict is Verdict.ERROR:
            why = outcome.result.reasons[0] if outcome.result.reasons else "no reason was recorded"
            raise EvidenceError(
                f"The run of {model} says nothing about it: {why}", where=str(place), hint="Run the command again once that is mended."
            )
        found.append(_read(outcome.folder))
    _apart(found)
    return tuple(found)


def read_runs(folders: Sequence[Path]) -> tuple[GoodRun, ...]:
    """Finished runs of models known to be good.

    Raises:
        UsageError: fewer than two, or two of the same model.
        OutputError: a folder holds no finished run with evidence.
    """
    _enough(folders)
    found = tuple(map(_read, folders))
    _apart(found)
    return found


def _enough(given: Sequence[object]) -> None:
    if len(given) < LEAST:
        raise UsageError(
            f"Limits need at least {LEAST} models known to be good, and {len(given)} was given.",
            where="--model, --run",
            hint="Give more models, or runs of them; twenty or more make the limits worth something.",
        )


def _apart(runs: Sequence[GoodRun]) -> None:
    """Two runs of one model would count what is one observation twice."""
    seen: dict[str, GoodRun] = {}
    for one in runs:
        key = one.result.candidate.digest or one.result.candidate.resolved_uri
        if key in seen:
            raise UsageError(
                f"Two of the runs are of the same model, {one.result.candidate.resolved_uri}.",
                where=f"{seen[key].folder}, {one.folder}",
                hint="Give each model once: two runs of one say no more about other models than one does.",
            )
        seen[key] = one


def _read(folder: Path) -> GoodRun:
    result = Result.load(folder)
    path = folder / "campaign" / "evidence.json"
    try:
        evidence = read_evidence(path)
    except (OSError, ValueError) as error:
        raise OutputError("The run has no evidence that can be read.", where=str(path), hint="Run the gate on the model again.") from error
    if result.partial:
        raise OutputError("The run was interrupted, so it says too little.", where=str(folder), hint="Run the gate on the model again.")
    return GoodRun(folder, result, evidence)


def _name(model: str, check: str) -> str:
    """A folder name that a person recognises, and that no other campaign has."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", model).strip("-.")[-40:]
    return f"{plain or 'model'}-{check[:16]}"


def _check(settings: Settings, policy: LoadedPolicy) -> str:
    """Of all that decides a run: settings, policy, and what the names of the model and the data stand for."""
    assert settings.model is not None
    reference = resolve(settings.model, tracking_uri=settings.tracking_uri)
    said = {
        "settings": settings.model_dump(mode="json", exclude={"out", "policy", "workers"}),
        "policy": policy.info.digest,
        "model": reference.resolved_uri if reference.folder is None else digest(reference.folder),
        "data": {name: _state(value) for name, value in settings.data if isinstance(value, str)},
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _state(source: str) -> object:
    """What is in a file, or how large and how old the files of a folder are; anything else goes by its name."""
    path = Path(source)
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if not path.is_dir():
        return source
    files = sorted(part for part in path.rglob("*") if part.is_file())
    return [[str(part.relative_to(path)), part.stat().st_size, part.stat().st_mtime_ns] for part in files]


def _finished(folder: Path) -> GoodRun | None:
    try:
        there = _read(folder)
    except GateError:
        return None
    return None if there.result.verdict is Verdict.ERROR else there


# ---------------------------------------------------------------------------------------------------------------------------------
# Limits


def calibrate(policy: LoadedPolicy, runs: Sequence[GoodRun], *, false_block: float, today: datetime.date) -> Calibration:
    """Proposes limits, and sees what they would do to good models: each is judged by limits that the others gave.

    Args:
        policy: whose rules about the model are calibrated.
        runs: of models known to be good, made under the policy's domain and effort.
        false_block: the rate of good models that are not let through, at most, strictly between 0 and 1.
        today: decides which waivers are in force.
    """
    models = [_measures(policy, one) for one in runs]
    held_out = []
    for place, one in enumerate(runs):
        others = propose(policy.policy, [*models[:place], *models[place + 1 :]], false_block=false_block)
        held_out.append(_judge(dataclasses.replace(policy, policy=in_force(policy.policy, others)), one, today))
    return Calibration(
        policy=policy,
        asked=false_block,
        executions=tuple(0 if one.result.campaign is None else one.result.campaign.executions for one in runs),
        proposals=propose(policy.policy, models, false_block=false_block),
        as_it_is=tuple(_judge(policy, one, today) for one in runs),
        held_out=tuple(held_out),
    )


def _measures(policy: LoadedPolicy, one: GoodRun) -> MetricAt:
    evidence = as_asked(one.evidence, policy, one.result.classes)
    return functools.cache(lambda name, confidence: measure(name, evidence, confidence))


def _judge(policy: LoadedPolicy, one: GoodRun, today: datetime.date) -> HeldOut:
    result = judged(one.result, one.evidence, policy, advisory=False, today=today)
    blocked = tuple(rule.id for rule in result.rules if rule.kind == "quality" and rule.status in _BLOCKING)
    return HeldOut(one.result.candidate.resolved_uri, result.verdict, blocked)


# ---------------------------------------------------------------------------------------------------------------------------------
# What is said and written


def in_words(found: Calibration) -> Iterator[str]:
    """Lines for a person: every limit, then how often such a policy blocks a good model."""
    count = len(found.held_out)
    yield f"Limits of {found.policy.policy.name} from {count} models known to be good"
    for one in found.proposals:
        new = f"{one.now} -> {one.limit}{' (looser)' if one.looser else ''}" if one.limit is not None else one.now
        yield f"  {one.rule}, {one.key}: {new}"
        yield f"    {one.metric}: {one.in_words}"
        yield f"    {one.method}"
        if one.warn is not None:
            yield f"    warn: {one.warn or 'removed, for it would lie behind the limit'}"
    now = sum(bool(one.blocked_by) for one in found.as_it_is)
    yield f"As the policy is, {now} of {count} are not let through by rules about the model."
    yield from _rate(found)
    yield from _missing(found)


def _rate(found: Calibration) -> Iterator[str]:
    count, (lower, upper) = len(found.held_out), found.interval
    yield (
        f"Expected false blocks over all rules: {found.blocked / count:.1%} ({found.blocked} of {count}, each judged by limits from the "
        f"others; {CONFIDENCE:.0%} interval {lower:.1%} to {upper:.1%}); asked for: at most {found.asked:.1%}."
    )
    for one in found.held_out:
        if one.blocked_by:
            yield f"  {one.model}: {', '.join(one.blocked_by)}"
    below = share_below_highest(count, CONFIDENCE)
    yield f"For one rule: at least {below:.0%} of all models like these do not go beyond what was seen, with {CONFIDENCE:.0%} confidence."
    if upper > found.asked:
        needed = models_needed(found.asked, CONFIDENCE)
        yield f"WARNING: {count} models can't show a rate of {found.asked:.1%}: that takes {needed} without a single block."


def _missing(found: Calibration) -> Iterator[str]:
    lacking = sum(one.lacks_evidence for one in found.held_out)
    if lacking:
        yield f"WARNING: {lacking} of {len(found.held_out)} do not pass for want of evidence; rules about it are never changed: give more."
    budget = found.policy.policy.budget
    own = None if budget is None else budget.executions
    if own is not None and {*found.executions} != {own}:
        least, most = min(found.executions), max(found.executions)
        ran = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        yield f"WARNING: the runs had {ran} executions and the policy's own budget is {own:,}: intervals will be of another width."


def write_policy(found: Calibration, out: Path, *, today: datetime.date) -> tuple[Finding, ...]:
    """Writes ``policy_file``, and gives what ``gate policy check`` finds in it that it does not find in the policy it extends.

    Raises:
        OutputError: the file is there already, or can't be written.
    """
    if out.exists():
        raise OutputError("The policy file is there already.", where=str(out), hint="Give another file with --out, or remove this one.")
    make_folder(out.parent)
    write_text(out, policy_file(found, out))
    known = {(one.level, one.rule, one.text) for one in check(found.policy, today=today)}
    return tuple(one for one in check(load_policy(str(out)), today=today) if (one.level, one.rule, one.text) not in known)


def policy_file(found: Calibration, out: Path) -> str:
    """A policy that extends the one calibrated, each limit with a comment that says where it comes from."""
    name = found.policy.policy.name
    lines = [
        f"# Limits from {len(found.held_out)} models known to be good, by `gate policy calibrate`.",
        *(f"# {_comment(line)}" for line in _rate(found)),
        *(f"# {_comment(line)}" for line in _missing(found)),
        "version: 1",
        f"name: {json.dumps(f'{name}-calibrated', ensure_ascii=False)}",
        f"description: {json.dumps(f'{name} with limits that models known to be good were seen to meet.', ensure_ascii=False)}",
        f"extends: [{json.dumps(_extended(found.policy.info.source, out), ensure_ascii=False)}]",
    ]
    changed = [one for one in found.proposals if one.limit is not None]
    lines += ["rules:"] if changed else []
    for rule in dict.fromkeys(one.rule for one in changed):
        mine = [one for one in changed if one.rule == rule]
        for one in mine:
            lines.append(f"  # {_comment(f'{one.key}: {one.in_words}')}")
            lines.append(f"  # {_comment(one.method)}; {_comment(name)} has {one.now}{', which is tighter' if one.looser else ''}")
        lines.append(f"  - id: {rule}")
        compare = {one.key: one.limit for one in mine if one.key != "fail"}
        for one in mine:
            if one.key == "fail":
                lines.append(f'    fail: "{one.limit}"')
                lines += [f"    warn: {json.dumps(one.warn) if one.warn else 'null'}"] if one.warn is not None else []
        if compare:
            relative = next(one.compare.relative for one in found.policy.policy.rules if one.id == rule and one.compare is not None)
            lines.append(
                f"    compare: {{{', '.join(f'{key}: {value}' for key, value in compare.items())}, relative: {str(relative).lower()}}}"
            )
    lines += [f"# {one.rule}, {one.key}: {_comment(one.method)}" for one in found.proposals if one.limit is None]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return visible(text, 1_000, isolate=False)


def _extended(source: str, out: Path) -> str:
    """The policy's shipped name, or its file as seen from the new one."""
    if source in shipped_policies():
        return source
    return os.path.relpath(Path(source).resolve(), out.resolve().parent)
