"""The counts. A zero means something only where something ran: without executions a count is missing, not zero."""

from __future__ import annotations

from gate.metrics.evidence import Evidence
from gate.metrics.measured import measured, missing
from gate.result import Metric

__all__ = [
    "backend_disagreements",
    "crashes",
    "executions",
    "flaky_findings",
    "hangs",
    "nonfinite_outputs",
    "preflight_faults",
    "root_causes",
]


def root_causes(evidence: Evidence, confidence: float) -> Metric:
    """Distinct root causes of the confirmed defects."""
    return _count("root_causes", evidence.root_causes, evidence)


def nonfinite_outputs(evidence: Evidence, confidence: float) -> Metric:
    """Inputs whose output was not finite: valid mutants, probes, clean samples before any filtering, and long-tail samples."""
    clean = 0 if evidence.clean is None else evidence.clean.nonfinite
    tail = () if evidence.long_tail is None else evidence.long_tail.predicted
    count = evidence.nonfinite_outputs + clean + sum(answer < 0 for answer in tail)
    if evidence.executions <= 0 and not count:
        return missing("nonfinite_outputs", "no mutant was run", n=0, evidence=evidence)
    samples = evidence.executions + (0 if evidence.clean is None else len(evidence.clean.labels)) + len(tail)
    return measured("nonfinite_outputs", float(count), n=samples)


def crashes(evidence: Evidence, confidence: float) -> Metric:
    """Valid mutants and probes on which the model raised an exception. A process that dies ends the run, and then a zero says nothing."""
    if evidence.stopped_early is not None and not evidence.crashes:
        return missing("crashes", "none was seen until then", evidence=evidence)
    return _count("crashes", evidence.crashes, evidence)


def hangs(evidence: Evidence, confidence: float) -> Metric:
    """Inputs without an answer in time. The first ends the run, so one that came to its end has none, and of another nobody can tell."""
    if evidence.stopped_early is not None:
        return missing("hangs", "the inputs that were in flight can't be told apart", evidence=evidence)
    return _count("hangs", 0, evidence)


def backend_disagreements(evidence: Evidence, confidence: float) -> Metric:
    """Probes with another answer, and inputs with another class, in other company or on another numeric path."""
    compared = evidence.probes_compared + evidence.inputs_compared
    if not compared:
        return missing("backend_disagreements", evidence.probes_reason or "no probe was run", n=0, evidence=evidence)
    return measured("backend_disagreements", float(evidence.probes_disagreeing + evidence.inputs_disagreeing), n=compared)


def flaky_findings(evidence: Evidence, confidence: float) -> Metric:
    """Findings that could not be seen again."""
    return _count("flaky_findings", evidence.flaky_findings, evidence)


def preflight_faults(evidence: Evidence, confidence: float) -> Metric:
    """Checks before the fuzzing that the model failed."""
    if evidence.preflight_faults is None:
        return missing("preflight_faults", "the checks before the fuzzing did not run", evidence=evidence)
    return measured("preflight_faults", float(evidence.preflight_faults), n=1)


def executions(evidence: Evidence, confidence: float) -> Metric:
    """Mutants run through the model: of the search, the judging arm and the control arms.

    Neither probes nor inputs with a mark, of which a budget in time may bring thousands before the first mutant; nor what was run while a
    canary was in the model.
    """
    return measured("executions", float(evidence.executions), n=evidence.executions)


def _count(name: str, count: int, evidence: Evidence) -> Metric:
    if evidence.executions <= 0 and not count:
        return missing(name, "no mutant was run", n=0, evidence=evidence)
    return measured(name, float(count), n=evidence.executions)
