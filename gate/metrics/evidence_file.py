"""Reads ``campaign/evidence.json``: what a file says must fit together, for metrics take it as it is.

A list that is too short would end in an error far from its cause, and a count below 0 would keep a limit that nothing may cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gate.metrics.evidence import Evidence, JudgedSeed

__all__ = ["read_evidence"]

_COLUMNS = ("operators", "families", "severities", "valid", "failed", "predicted")
_OF_ANSWERS = ("failures", "failing_predicted", "failing_confidence")
_COUNTS = (
    "judging_repeat",
    "search_executions",
    "search_device_seconds",
    "root_causes",
    "probes_compared",
    "probes_disagreeing",
    "inputs_compared",
    "inputs_disagreeing",
    "nonfinite_outputs",
    "flaky_findings",
    "crashes",
    "executions",
)
_COUNTS_BESIDE = ("nonfinite", "crash_defects", "known_crashes", "nonfinite_defects", "known_nonfinite")


def read_evidence(path: Path) -> Evidence:
    """A run's evidence.

    Raises:
        OSError: the file can't be read.
        ValueError: it is no evidence, or what it says does not fit together.
    """
    evidence = Evidence.model_validate_json(path.read_bytes())
    for what in _misfits(evidence):
        raise ValueError(what)
    return evidence


def _misfits(evidence: Evidence) -> Iterator[str]:
    """What does not fit together, one after the other."""
    yield from _below_zero(evidence, _COUNTS)
    if evidence.preflight_faults is not None and evidence.preflight_faults < 0:
        yield "preflight_faults is below 0"
    yield from _misfits_of_sets(evidence)
    if len({seed.seed_id for seed in evidence.judged}) < len(evidence.judged):
        yield "a seed input was judged twice"
    for seed in evidence.judged:
        yield from _misfits_of_seed(seed, evidence.judging_repeat)
    for mark in evidence.marks:
        if not 0 <= mark.moved <= mark.inputs:
            yield "a mark moved more inputs than it was put on, or less than none"
    if len({canary.name for canary in evidence.canaries}) < len(evidence.canaries):
        yield "a canary was planted twice"
    yield from _misfits_beside(evidence)


def _misfits_of_sets(evidence: Evidence) -> Iterator[str]:
    clean, tail = evidence.clean, evidence.long_tail
    if clean is not None:
        if len(clean.labels) != len(clean.correct):
            yield "the clean set has another number of labels than of answers"
        if not 0 <= clean.nonfinite <= clean.correct.count(False):
            yield "the clean set has more answers that are not finite than wrong ones, or less than none"
    if tail is not None and (len(tail.labels) != len(tail.predicted) or len(tail.kinds) not in (0, len(tail.labels))):
        yield "the long-tail set has other numbers of labels, answers and kinds"


def _misfits_of_seed(seed: JudgedSeed, repeat: int) -> Iterator[str]:
    slots = len(seed.valid)
    if any(len(getattr(seed, name)) != slots for name in _COLUMNS) or len(seed.confidence) not in (0, slots):
        yield f"the lists of judged seed input {seed.seed_id} differ in length"
    if any(len(getattr(seed, name)) != (slots if repeat > 1 else 0) for name in _OF_ANSWERS):
        yield f"judged seed input {seed.seed_id} has other numbers of mutants and of their answers"
    if not _within((*seed.severities, *seed.confidence, *seed.failing_confidence), 1):
        yield f"a severity or a confidence of judged seed input {seed.seed_id} is not between 0 and 1"
    if not _within(seed.failures, repeat):
        yield f"a mutant of judged seed input {seed.seed_id} failed more often than it was asked, or less than never"
    if any(failed and not valid for failed, valid in zip(seed.failed, seed.valid, strict=False)):
        yield f"a mutant of judged seed input {seed.seed_id} failed that is not valid"


def _misfits_beside(evidence: Evidence) -> Iterator[str]:
    beside = evidence.baseline
    if beside is None:
        return
    yield from _below_zero(beside, _COUNTS_BESIDE)
    if beside.known_crashes > beside.crash_defects or beside.known_nonfinite > beside.nonfinite_defects:
        yield "the baseline has more of the candidate's defects than there are"
    if evidence.clean is not None and (
        beside.nonfinite > evidence.clean.nonfinite or len(beside.correct) not in (0, len(evidence.clean.labels))
    ):
        yield "the baseline has other clean samples than the candidate"
    if evidence.long_tail is not None and len(beside.long_tail) not in (0, len(evidence.long_tail.labels)):
        yield "the baseline has other long-tail samples than the candidate"
    slots = {seed.seed_id: len(seed.valid) for seed in evidence.judged}
    for identity, said in beside.judged.items():
        if any(len(column) != slots.get(identity) for column in (said.failed, said.predicted, said.confidence)):
            yield f"the baseline has another number of mutants of seed input {identity} than the candidate"
        if not _within(said.confidence, 1):
            yield f"a confidence of the baseline on seed input {identity} is not between 0 and 1"


def _below_zero(part: object, names: Iterable[str]) -> Iterator[str]:
    yield from (f"{name} is below 0" for name in names if getattr(part, name) < 0)


def _within(values: Iterable[float], most: float) -> bool:
    return all(-1e-6 <= value <= most + 1e-6 for value in values)
