"""What became of each waiver: used, unused, expired, for another model; and that a waived slice hides no other."""

from __future__ import annotations

import datetime
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gate.policy import load_policy
from gate.policy.evaluate import evaluate
from gate.policy.waiver_use import waiver_uses
from gate.report import write
from gate.report.waivers import idle_waivers
from gate.result import Metric, ModelInfo, Paired, Result, RootCause, RuleResult, Status, Verdict
from gate.terminal.verdict import show_result

TODAY = datetime.date(2026, 11, 30)
MODEL = ModelInfo(uri="m", resolved_uri="models:/digits/3", name="digits", version="3")
RAN = {"executions": Metric(value=1000, unit="count")}

PLAIN = '{id: r, metric: defect_rate, fail: "> 0.2"}'
SLICED = '{id: r, metric: defect_rate, fail: "> 0.2", slice: {by: class}, min_samples: 20}'
CHANGE = "{id: r, metric: defect_rate, compare: {max_rise: 0.05}, slice: {by: class}, min_samples: 20}"


def rate(value: float, *, rise: float | None = None) -> Metric:
    paired = (
        None if rise is None else Paired(candidate=value, baseline=value - rise, rise=rise, lower=rise, upper=rise, confidence=0.95, n=100)
    )
    return Metric(value=value, lower=value, upper=value, confidence=0.95, n=100, unit="share", paired=paired)


def sliced(**parts: Metric) -> dict[str, Metric]:
    return {**RAN, "defect_rate": rate(0.15, rise=0.0).model_copy(update={"slices": {"class": parts}})}


def policy(folder: Path, rule: str, *waivers: dict[str, Any]) -> Any:
    path = folder / "p.yaml"
    lines = [f"version: 1\nname: p\nrules:\n  - {rule}\n"] + (["waivers:\n"] if waivers else [])
    for waiver in waivers:
        fields = {"rule": "r", "reason": "known", "owner": "'@t'", "expires": "2027-01-01", **waiver}
        lines.append(f"  - {{{', '.join(f'{key}: {value}' for key, value in fields.items())}}}\n")
    path.write_text("".join(lines))
    return load_policy(str(path)).policy


def states(made: Any, metrics: dict[str, Metric], *causes: str) -> list[str]:
    known = [RootCause(id=cause, title=cause, type="t", size=1, example="d", repair="") for cause in causes]
    return [use.state for use in waiver_uses(made, metrics, today=TODAY, candidate=MODEL, root_causes=known)]


def outcome(made: Any, metrics: dict[str, Metric]) -> RuleResult:
    (rule,) = evaluate(made, metrics, today=TODAY, candidate=MODEL).rules
    return rule


@pytest.mark.parametrize(
    ("value", "waiver", "state"),
    [
        (0.3, {}, "used"),
        (0.1, {}, "unused"),
        (0.3, {"expires": "2026-11-30"}, "used"),
        (0.3, {"expires": "2026-11-29"}, "expired"),
        (0.3, {"model": "'faces/*'"}, "another_model"),
        (0.3, {"model": "'digits/*'"}, "used"),
        (0.3, {"root_cause": "rc-b"}, "unused"),
        (0.3, {"root_cause": "rc-a"}, "used"),
    ],
)
def test_a_waiver_is_used_where_it_excuses_a_breach(tmp_path: Path, value: float, waiver: dict[str, Any], state: str) -> None:
    assert states(policy(tmp_path, PLAIN, waiver), {**RAN, "defect_rate": rate(value)}, "rc-a") == [state]


@pytest.mark.parametrize(("rule", "bad", "good"), [(SLICED, rate(0.4), rate(0.1)), (CHANGE, rate(0.4, rise=0.2), rate(0.4, rise=0.0))])
def test_the_second_worst_slice_counts_where_only_the_worst_is_waived(tmp_path: Path, rule: str, bad: Metric, good: Metric) -> None:
    worse = bad.model_copy(update={"value": 0.5})
    truck, ship = {"slice": "truck"}, {"slice": "ship"}
    both = sliced(truck=worse, ship=bad, cat=good)
    found = outcome(policy(tmp_path, rule, truck), both)
    assert (found.status, found.slice) == (Status.FAIL, "ship")
    assert states(policy(tmp_path, rule, truck), both) == ["used"]  # although the rule tells of the ship
    assert outcome(policy(tmp_path, rule, truck, ship), both).status is Status.WAIVED
    assert states(policy(tmp_path, rule, truck, ship, {"slice": "cat"}, {"slice": "dog"}), both) == ["used", "used", "unused", "unused"]
    alone = sliced(truck=worse, cat=good)
    assert outcome(policy(tmp_path, rule, truck), alone).status is Status.WAIVED
    assert outcome(policy(tmp_path, rule, {}), both).status is Status.WAIVED
    assert states(policy(tmp_path, rule, {}), both) == ["used"]
    assert states(policy(tmp_path, rule, {}), sliced(cat=good)) == ["unused"]


def test_a_waiver_of_a_comparison_covers_it(tmp_path: Path) -> None:
    rule = "{id: r, metric: defect_rate, compare: {max_rise: 0.05}, confidence: 0.95}"
    for rise, status, state in ((0.2, Status.WAIVED, "used"), (0.01, Status.PASS, "unused")):
        metrics = {**RAN, "defect_rate": rate(0.3, rise=rise)}
        assert outcome(policy(tmp_path, rule, {}), metrics).status is status
        assert states(policy(tmp_path, rule, {}), metrics) == [state]


def test_a_metric_that_is_missing_is_not_excused(tmp_path: Path) -> None:
    for metrics in (RAN, {**RAN, "defect_rate": Metric(value=None, unit="share", reason="nothing ran")}):
        assert outcome(policy(tmp_path, PLAIN, {}), metrics).status is Status.INCONCLUSIVE
        assert states(policy(tmp_path, PLAIN, {}), metrics) == ["unused"]


def test_idle_waivers_are_said_with_the_day_that_decided(tmp_path: Path) -> None:
    made = policy(tmp_path, SLICED, {"slice": "truck"}, {"expires": "2026-11-29"}, {"model": "'faces/*'"})
    metrics = sliced(cat=rate(0.1))
    uses = waiver_uses(made, metrics, today=TODAY, candidate=MODEL)
    result = Result(verdict=Verdict.PASS, exit_code=0, reasons=(), candidate=MODEL, waivers=uses)
    assert idle_waivers(result) == (
        "The waiver of r (slice truck) by @t excused nothing in this run; remove it if nobody needs it any more.",
        "The waiver of r by @t expired on 2026-11-29, before 2026-11-30: the rule counts again.",
    )


def test_idle_waivers_stand_in_the_report_the_summary_and_on_the_terminal_harmlessly(tmp_path: Path) -> None:
    made = policy(tmp_path, PLAIN, {"owner": "'<b>@t</b>'", "reason": "'x'"})
    uses = waiver_uses(made, {**RAN, "defect_rate": rate(0.1)}, today=TODAY, candidate=MODEL)
    rules = evaluate(made, {**RAN, "defect_rate": rate(0.1)}, today=TODAY, candidate=MODEL).rules
    result = Result(verdict=Verdict.PASS, exit_code=0, reasons=(), candidate=MODEL, waivers=uses, rules=rules)
    write(result, tmp_path)
    page, summary = (tmp_path / "report.html").read_text(), (tmp_path / "summary.md").read_text()
    assert "by &lt;b&gt;@t&lt;/b&gt; excused nothing in this run" in page
    assert "excused nothing in this run" in summary
    assert "<b>@t" not in summary
    shown = io.StringIO()
    show_result(result, Console(file=shown, width=200), run=tmp_path, report=None)
    assert "The waiver of r by <b>@t</b> excused nothing in this run" in shown.getvalue()
