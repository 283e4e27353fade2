"""What ``gate policy check`` says of one file: the error that keeps it from loading, or the findings about it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from gate.errors import PolicyError
from gate.policy.check import check
from gate.policy.finding import Finding
from gate.policy.load import LoadedPolicy, load_policy

__all__ = ["Checked", "as_json", "checked", "in_words"]


@dataclass(frozen=True)
class Checked:
    """One file, checked."""

    file: str  # as the user gave it
    loaded: LoadedPolicy | None  # None where it does not load
    error: PolicyError | None  # why
    findings: tuple[Finding, ...]
    sound: bool  # it loads, and nothing that counts was found

    def count(self, level: str) -> int:
        """How many findings there are of a level."""
        return sum(finding.level == level for finding in self.findings)


def checked(file: str, *, today: datetime.date, strict: bool = False) -> Checked:
    """Loads and checks a file or a shipped policy.

    Args:
        file: a name or a path.
        today: decides which waivers are in force.
        strict: warnings count, too.
    """
    try:
        loaded = load_policy(file)
    except PolicyError as error:
        return Checked(file, None, error, (), False)
    findings = check(loaded, today=today)
    counting = ("error", "warning") if strict else ("error",)
    return Checked(file, loaded, None, findings, not any(finding.level in counting for finding in findings))


def in_words(report: Checked) -> Iterator[str]:
    """Lines for a person: one for the file, then two for each finding. A line holds whatever stands in the file."""
    if report.error is not None:
        first, *rest = report.error.lines
        yield f"{report.file}: {first}"
        yield from rest
    if report.loaded is None:
        return
    policy = report.loaded.policy
    sizes = ((len(policy.rules), "rule"), (len(policy.waivers), "waiver"))
    parts = [*(f"{number} {what}{'' if number == 1 else 's'}" for number, what in sizes), report.loaded.info.digest]
    counts = [
        f"{report.count(level)} {level}{'' if report.count(level) == 1 else 's'}"
        for level in ("error", "warning", "note")
        if report.count(level)
    ]
    yield f"{report.file}: {'ok' if report.sound else 'NOT SOUND'}, {', '.join([*parts, *counts])}"
    for finding in report.findings:
        about = f"{finding.rule}: " if finding.rule is not None else ""
        yield f"  {finding.where}: {finding.level}: {about}{finding.text}"
        yield f"    what to do: {finding.hint}"


def as_json(reports: Sequence[Checked]) -> str:
    """A JSON list with one object for each file, ending in a newline."""
    return json.dumps([_object(report) for report in reports], indent=2, ensure_ascii=True) + "\n"


def _object(report: Checked) -> dict[str, object]:
    error = report.error
    return {
        "file": report.file,
        "sound": report.sound,
        "digest": None if report.loaded is None else report.loaded.info.digest,
        "rules": None if report.loaded is None else [rule.id for rule in report.loaded.policy.rules],
        "error": None if error is None else {"text": error.what, "where": error.where, "hint": error.hint},
        "findings": [asdict(finding) for finding in report.findings],
    }
