"""Old runs under another policy: what it would have decided about each, and which rules say something else than they did."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate.afterwards import evaluate_again
from gate.errors import GateError
from gate.report.words import sentence
from gate.result import Result, RuleResult, Status, Verdict

__all__ = ["Changed", "Rejudged", "as_json", "changes", "in_words", "rejudge"]

_SUMMED = (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.ERROR)
_WORDS = {Verdict.PASS: "passed", Verdict.FAIL: "blocked", Verdict.INCONCLUSIVE: "left open", Verdict.ERROR: "not judged"}


@dataclass(frozen=True)
class Changed:
    """A rule that says something else than it did. None: the policy of that time did not have it, or the new one does not."""

    rule: str
    before: Status | None
    after: Status | None
    explanation: str  # of the new one; empty where there is none


@dataclass(frozen=True)
class Rejudged:
    """One run."""

    run: Path
    before: Result | None  # None where it can't be read
    after: Result | None  # None where it can't be judged again, and then ``error`` says why
    error: GateError | None

    @property
    def changed(self) -> tuple[Changed, ...]:
        """Rules in the new policy's order, then those that only the old one had."""
        return () if self.before is None or self.after is None else changes(self.before, self.after)


def changes(before: Result, after: Result) -> tuple[Changed, ...]:
    """Rules of two judgements of one run whose status differs, or that only one of them has."""
    old = {rule.id: rule for rule in before.rules}
    new = {rule.id: rule for rule in after.rules}

    def of(name: str) -> Changed:
        was, now = old.get(name), new.get(name)
        return Changed(name, _status(was), _status(now), "" if now is None else now.explanation)

    return tuple(of(name) for name in {**new, **old} if _status(old.get(name)) != _status(new.get(name)))


def _status(rule: RuleResult | None) -> Status | None:
    return None if rule is None else rule.status


def rejudge(runs: Sequence[Path], policy: str, *, advisory: bool | None = None, today: datetime.date | None = None) -> tuple[Rejudged, ...]:
    """Judges each run under a policy; writes nothing. What is wrong with one run is said of that run and ends nothing.

    Args:
        runs: folders of finished runs.
        policy: a shipped name or a file.
        advisory: see ``evaluate_again``.
        today: decides which waivers are in force; the UTC date where None.
    """
    return tuple(_one(run, policy, advisory, today) for run in runs)


def _one(run: Path, policy: str, advisory: bool | None, today: datetime.date | None) -> Rejudged:
    before = None
    try:
        before = Result.load(run)
        return Rejudged(run, before, evaluate_again(run, policy, advisory=advisory, today=today), None)
    except GateError as error:
        return Rejudged(run, before, None, error)


def in_words(runs: Sequence[Rejudged]) -> Iterator[str]:
    """Lines for a person: each run with the rules that changed, and what came of all of them. A line holds whatever a run's files say."""
    for one in runs:
        if one.after is None or one.before is None:
            yield f"{one.run}: can't be judged again: {'' if one.error is None else one.error.what}"
            continue
        moved = (
            f"{one.before.verdict} -> {one.after.verdict}" if one.before.verdict != one.after.verdict else f"{one.after.verdict} as before"
        )
        yield f"{one.run}: {moved}  ({one.before.candidate.resolved_uri})"
        alike: dict[tuple[Status | None, Status | None, str], list[Changed]] = {}
        for change in one.changed:
            alike.setdefault((change.before, change.after, _reason(change)), []).append(change)
        for (was, now, reason), changes_ in alike.items():
            said = changes_[0].explanation if len(changes_) == 1 else sentence(reason)
            names = ", ".join(change.rule for change in changes_)
            yield f"  {names}: {_said(was)} -> {_said(now)}{f'. {said}' if said else ''}"
    if len(runs) > 1:
        yield _summary(runs)


def _reason(change: Changed) -> str:
    """What several rules may have in common: why their metrics are missing. Of a rule that was judged, all that it says."""
    _, missing, reason = change.explanation.partition(" could not be computed: ")
    return reason if missing else change.explanation


def _said(status: Status | None) -> str:
    return "no such rule" if status is None else str(status)


def _summary(runs: Sequence[Rejudged]) -> str:
    judged = [one for one in runs if one.after is not None]
    now = Counter(one.after.verdict for one in judged if one.after is not None)
    was = Counter(one.before.verdict for one in judged if one.before is not None)
    said = ", ".join(f"{_WORDS[verdict]} {now[verdict]} (before: {was[verdict]})" for verdict in _SUMMED if now[verdict] or was[verdict])
    broken = f"; {len(runs) - len(judged)} can't be judged again" if len(judged) < len(runs) else ""
    return f"Of {len(judged)} runs this policy would have {said}{broken}." if judged else "None of the runs can be judged again."


def as_json(runs: Sequence[Rejudged], *, today: datetime.date, given: bool) -> str:
    """The same for a program, ending in a newline.

    Args:
        today: the day that decided about waivers.
        given: whether the user named it; else it is the UTC date.
    """
    policy = next((one.after.policy for one in runs if one.after is not None), None)
    judged = [one.after.verdict for one in runs if one.after is not None]
    said = {
        "policy": None if policy is None else {"name": policy.name, "digest": policy.digest, "source": policy.source},
        "today": str(today),
        "today_from": "--today" if given else "UTC date",
        "runs": [_object(one) for one in runs],
        "summary": {"runs": len(runs), "judged": len(judged), **{str(verdict): judged.count(verdict) for verdict in _SUMMED}},
    }
    return json.dumps(said, indent=2, ensure_ascii=True) + "\n"


def _object(one: Rejudged) -> dict[str, Any]:
    return {
        "run": str(one.run),
        "candidate": None if one.before is None else one.before.candidate.resolved_uri,
        "before": _verdict(one.before),
        "after": _verdict(one.after),
        "changed": [
            {"rule": change.rule, "before": change.before, "after": change.after, "explanation": change.explanation}
            for change in one.changed
        ],
        "error": None if one.error is None else {"what": one.error.what, "where": one.error.where, "hint": one.error.hint},
    }


def _verdict(result: Result | None) -> dict[str, Any] | None:
    if result is None:
        return None
    policy = None if result.policy is None else result.policy.name
    return {"verdict": str(result.verdict), "exit_code": result.exit_code, "policy": policy, "reasons": list(result.reasons)}
