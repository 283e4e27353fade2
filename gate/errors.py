"""The errors a user can meet, each with what was wrong, where, and what to do.

The class decides the exit code (see ``docs/ci.md``): 2 for usage, settings, data and policy; 3 where the gate could not
evaluate; 4 where there was too little evidence. Everything else that escapes is a bug in the gate and exits with 3.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "CoverageMapError",
    "DataError",
    "EvidenceError",
    "GateError",
    "InputShapeError",
    "ModelError",
    "OutputError",
    "PolicyError",
    "RegistryError",
    "UsageError",
    "WorkerError",
]


class GateError(Exception):
    """Base of all errors with a clear cause.

    Args:
        what: one sentence that says what is wrong.
        where: the file (with line), setting, URI or process concerned.
        hint: what the user can do about it.
        details: lines of another program, such as a worker's last words, shown below everything else.
    """

    exit_code = 3

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None, details: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        self.details = details.strip()

    @property
    def lines(self) -> tuple[str, ...]:
        """What is said, part by part; a part may hold whatever a model or a file put into it, line breaks included."""
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  what to do: {self.hint}")
        lines += [f"    | {line}" for line in self.details.splitlines()]
        return tuple(lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)


class UsageError(GateError):
    """The command, a setting, the data or the policy is wrong: exit 2."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting is unknown, malformed or out of range."""


class PolicyError(UsageError):
    """A policy file is unknown, malformed or contradicts itself."""


class DataError(UsageError):
    """A data set can't be used as it is."""


class CoverageMapError(UsageError):
    """A stored coverage map is damaged, of another version, or belongs to another model or profile set."""


class OutputError(UsageError):
    """The output folder can't be written, or holds something else."""


class InputShapeError(UsageError):
    """The model wants another input size or channel count than the settings describe."""


class RegistryError(GateError):
    """MLflow could not be reached, refused, or does not have what was asked for: exit 3."""


class ModelError(GateError):
    """The candidate's files can't be loaded, or its outputs make no sense: exit 3."""


class WorkerError(GateError):
    """The process that runs the model died, hung or broke the protocol: exit 3."""


class EvidenceError(GateError):
    """There is too little evidence for a verdict: exit 4, verdict inconclusive."""

    exit_code = 4
