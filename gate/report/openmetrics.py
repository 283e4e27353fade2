"""``metrics.txt``: OpenMetrics 1.0 text, for GitLab's metrics report and for anything that reads Prometheus' format.

Source of the format: https://github.com/prometheus/OpenMetrics, specification 1.0. Metrics without a value are left out;
``gate_metrics_missing`` counts them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gate.report.canaries import canary_counts
from gate.report.decided import distance_of, saved_by
from gate.report.releases import status_counts
from gate.report.text import NAME, visible
from gate.report.words import advisory_note, meaning, partial_note
from gate.result import Result, RuleResult, Status, Verdict

__all__ = ["render"]

_MOST_RULES = 500


def render(result: Result) -> str:
    """The text, ending in ``# EOF``."""
    page = _Page()
    advisory, partial = advisory_note(result), partial_note(result)
    page.family("gate_verdict", "stateset", "The verdict of the run. " + " ".join(note for note in (advisory, partial) if note))
    for verdict in Verdict:
        page.sample("gate_verdict", {"gate_verdict": verdict.value}, verdict is result.verdict)
    page.one("gate_exit_code", "The exit code: 0 pass, 1 fail, 2 usage, 3 error, 4 inconclusive.", result.exit_code)
    page.one("gate_advisory", "1 when the run is advisory, so that fail and inconclusive block nothing.", result.advisory)
    page.one("gate_partial", "1 when the run was interrupted before its budget ended.", result.partial)
    page.family("gate_run", "info", "What was judged, and by which policy.")
    about = {
        "model": result.candidate.name or result.candidate.resolved_uri,
        "version": result.candidate.version or "",
        "digest": result.candidate.digest or "",
        "policy": result.policy.name if result.policy else "",
    }
    page.sample("gate_run_info", about, 1)
    _rules(page, result)
    _metrics(page, result)
    _weighed(page, result)
    _coverage(page, result)
    _campaign(page, result)
    page.one("gate_confirmed_defects", "Defects confirmed from their files.", len(result.defects))
    statuses = status_counts(result)
    if statuses is not None:
        page.family("gate_root_causes", "gauge", "Root causes by what became of them since the earlier run; open: nothing is known of it.")
        for status, number in statuses.items():
            page.sample("gate_root_causes", {"status": status}, number)
    return page.text()


def _rules(page: _Page, result: Result) -> None:
    page.family("gate_rules", "gauge", "Rules of the policy by status.")
    for status in Status:
        page.sample("gate_rules", {"status": status.value}, sum(rule.status is status for rule in result.rules))
    if not result.rules:
        return
    page.family("gate_rule", "stateset", "The status of each rule.")
    shown: dict[str, RuleResult] = {}
    for rule in result.rules[:_MOST_RULES]:
        shown.setdefault(visible(rule.id, NAME, isolate=False), rule)
    for label, rule in shown.items():
        for status in Status:
            page.sample("gate_rule", {"rule": label, "gate_rule": status.value}, status is rule.status)
    distances = {label: gap for label, gap in ((label, distance_of(rule)) for label, rule in shown.items()) if gap is not None}
    if distances:
        page.family("gate_rule_distance", "gauge", "From the limit, in the metric's unit; above 0 is on the good side.")
        for label, gap in distances.items():
            page.sample("gate_rule_distance", {"rule": label}, gap)
    page.family("gate_rule_known", "gauge", "1 where a breach only warns because the baseline has it too.")
    for label, rule in shown.items():
        page.sample("gate_rule_known", {"rule": label}, rule.known)


def _weighed(page: _Page, result: Result) -> None:
    """Differences from the baseline, canaries, several rules at once, and the early decision."""
    compared = {name: metric.paired for name, metric in sorted(result.metrics.items()) if metric.paired is not None}
    parts = (
        ("rise", "Candidate less baseline on the same inputs, by metric, in its unit.", "rise"),
        ("rise_lower", "Lower end of the interval of that difference.", "lower"),
        ("rise_upper", "Upper end of the interval of that difference.", "upper"),
        ("baseline", "The baseline's value on these inputs.", "baseline"),
        ("inputs", "Inputs that both models were compared on.", "n"),
    )
    for base, help_text, field in parts:
        values = {name: getattr(paired, field) for name, paired in compared.items()}
        told = {visible(name, NAME, isolate=False): value for name, value in values.items() if value is not None}
        if told:
            page.family(f"gate_compared_{base}", "gauge", help_text)
            for name, value in told.items():
                page.sample(f"gate_compared_{base}", {"metric": name}, value)
    counted = canary_counts(result)
    if counted is not None:
        page.family("gate_canaries", "gauge", "Faults planted on purpose by what came of the search for them.")
        page.sample("gate_canaries", {"outcome": "found"}, counted[0])
        page.sample("gate_canaries", {"outcome": "missed"}, counted[1] - counted[0])
    if result.multiplicity is not None:
        page.one("gate_multiplicity_tests", "Rules and slices that are decided on intervals.", result.multiplicity.tests)
        page.one("gate_multiplicity_error", "Chance, at most, that any of them breaches by chance alone.", result.multiplicity.error)
    if result.early is not None:
        page.one("gate_decided_early", "1 when the campaign ended because everything was settled.", result.early.stopped)
        saved = saved_by(result.early)
        if saved is not None:
            page.one("gate_budget_saved", "Share of the budget that deciding early saved, 0 to 1.", saved)


def _metrics(page: _Page, result: Result) -> None:
    for name, metric in sorted(result.metrics.items()):
        base = f"gate_metric_{re.sub(r'[^a-zA-Z0-9_]', '_', name)[:NAME]}"
        if metric.value is None or not page.one(base, f"{meaning(name)} Unit: {metric.unit}.".strip(), metric.value):
            continue
        if metric.lower is not None and metric.upper is not None:
            level = "" if metric.confidence is None else f" at confidence {metric.confidence:g}"
            page.one(f"{base}_lower", f"Lower end of the interval{level}.", metric.lower)
            page.one(f"{base}_upper", f"Upper end of the interval{level}.", metric.upper)
        if metric.n is not None:
            page.one(f"{base}_samples", "Number of observations behind it.", metric.n)
    page.one("gate_metrics_missing", "Metrics that could not be measured.", sum(metric.value is None for metric in result.metrics.values()))


def _coverage(page: _Page, result: Result) -> None:
    """One family for each unit: a count or a statistic beside shares would be read as one of them."""
    units = (
        ("share", "gate_coverage", "coverage", ", 0 to 1"),
        ("count", "gate_coverage_patterns", "count of patterns", ""),
        ("statistic", "gate_coverage_statistic", "value of a statistic, which can fall", ""),
    )
    for unit, base, words, span in units:
        of_unit = {name: summary for name, summary in result.coverage.items() if summary.kind == unit}
        kinds = (
            ("initial", f"Valid {words} from the seeds alone{span}."),
            ("final", f"Valid {words} at the end{span}."),
            ("gain", f"Final minus initial valid {words}."),
            ("raw_final", f"The {words} at the end, invalid mutants included{span}."),
        )
        for kind, help_text in kinds if of_unit else ():
            page.family(f"{base}_{kind}", "gauge", help_text)
            for name, summary in of_unit.items():
                page.sample(f"{base}_{kind}", {"criterion": name}, getattr(summary, kind))
    if not result.coverage:
        return
    page.family("gate_coverage_false", "gauge", "1 where uniform noise gained as much as the search, so that this gain is no evidence.")
    for name, summary in result.coverage.items():
        page.sample("gate_coverage_false", {"criterion": name}, summary.false_coverage)
    page.family("gate_coverage_nonfinite_neurons", "gauge", "Neurons that gave NaN or an infinite value at least once.")
    for name, summary in result.coverage.items():
        page.sample("gate_coverage_nonfinite_neurons", {"criterion": name}, summary.nonfinite)
    found = {name: summary.discovery for name, summary in result.coverage.items() if summary.discovery is not None}
    if found:
        page.family("gate_coverage_chance_of_new", "gauge", "Estimated chance that the next mutant covers something new, 0 to 1.")
        for name, discovery in found.items():
            page.sample("gate_coverage_chance_of_new", {"criterion": name}, discovery.chance)
    seen = {name: discovery.seen for name, discovery in found.items() if discovery.seen is not None}
    if seen:
        page.family("gate_coverage_seen", "gauge", "Estimated share of what the search will reach that it has reached, 0 to 1.")
        for name, part in seen.items():
            page.sample("gate_coverage_seen", {"criterion": name}, part)


def _campaign(page: _Page, result: Result) -> None:
    campaign = result.campaign
    if campaign is None:
        return
    page.one("gate_campaign_executions", "Inputs run through the model: mutants, probes and inputs with a mark.", campaign.executions)
    page.one("gate_campaign_model_calls", "Forward passes, one sample each; a backward pass counts two.", campaign.model_calls)
    page.one("gate_campaign_wall_time", "Duration of the run in seconds.", campaign.wall_seconds)
    page.one("gate_campaign_stalled_for", "Search executions since one covered something new.", campaign.stalled_for)
    if campaign.valid_fraction is not None:
        page.one("gate_campaign_valid_fraction", "Share of valid mutants.", campaign.valid_fraction)
    if campaign.arms:
        page.family("gate_arm_executions", "gauge", "Executions by arm.")
        for arm, summary in campaign.arms.items():
            page.sample("gate_arm_executions", {"arm": arm}, summary.executions)


class _Page:
    """Lines in the order of the format: each family declared once, its samples right behind."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._families: set[str] = set()

    def family(self, name: str, kind: str, help_text: str) -> bool:
        """Declares a family; False where the name is taken already."""
        if name in self._families:
            return False
        self._families.add(name)
        self._lines += [f"# TYPE {name} {kind}", f"# HELP {name} {_escaped(visible(help_text.strip()))}"]
        return True

    def sample(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """One line; a label value is made visible and escaped."""
        inside = ",".join(f'{key}="{_escaped(visible(text, 2 * NAME, isolate=False))}"' for key, text in labels.items())
        self._lines.append(f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}")

    def one(self, name: str, help_text: str, value: float) -> bool:
        """A gauge of a single sample; False where the name is taken already."""
        if not self.family(name, "gauge", help_text):
            return False
        self.sample(name, {}, value)
        return True

    def text(self) -> str:
        return "\n".join([*self._lines, "# EOF"]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _number(value: float) -> str:
    if isinstance(value, bool | int):
        return str(int(value))
    return "NaN" if math.isnan(value) else repr(float(value))
