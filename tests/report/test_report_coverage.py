"""Coverage as a person reads it: units, what is left, what guidance earned, and coverage that noise reaches as well."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from open_metrics import parse
from rich.console import Console
from sample import make_run

from gate.config import CRITERIA, UNBOUNDED
from gate.report import html, markdown, openmetrics, write
from gate.report.coverage import NO_SET, amount_of, change_of, explained, false_note, guidance, remark, reported, saturation, stalled
from gate.report.curve import Panel, panels
from gate.report.numbers import roughly
from gate.result import (
    CampaignSummary,
    ClassCoverage,
    ControlComparison,
    CoverageSummary,
    CurvePoint,
    Discovery,
    LayerSummary,
    Result,
    Unreached,
    Verdict,
)
from gate.terminal.verdict import show_result


def summary(**fields: Any) -> CoverageSummary:
    return CoverageSummary(**{"initial": 0.3, "final": 0.5, "gain": 0.2, "gain_per_iteration": None, "raw_final": 0.6, **fields})


def control(search: float, other: float, executions: int = 250) -> ControlComparison:
    return ControlComparison(executions=executions, gain=other, search_gain=search)


def words_of(page: str) -> str:
    """The page's text without its markup."""
    body = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body).replace("\u00a0", " "))


def terminal_of(result: Result) -> str:
    console = Console(file=io.StringIO(), width=200)
    show_result(result, console, run=Path("out"), report=Path("out"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def changed(result: Result, name: str, **fields: Any) -> Result:
    return result.model_copy(update={"coverage": {**result.coverage, name: result.coverage[name].model_copy(update=fields)}})


def test_every_criterion_has_words_and_every_statistic_its_warning() -> None:
    assert all(explained(name) for name in CRITERIA)
    for name in CRITERIA:
        kind: Any = UNBOUNDED.get(name, "share")
        said = remark(name, summary(kind=kind))
        assert (NO_SET in said) is (kind == "statistic")
        assert ("statistic, not a set" in said) is (name in ("nlc", "lsa", "dsa", "mdsa"))


@pytest.mark.parametrize(
    ("kind", "value", "said", "as_change"),
    [
        ("share", 0.525, "52.5 %", "52.5 points"),
        ("share", 0.00031, "0.031 %", "0.031 points"),
        ("count", 1204.0, "1,204 patterns", "1,204 patterns"),
        ("count", 1.0, "1 pattern", "1 pattern"),
        ("count", 3.841, "3.8 patterns", "3.8 patterns"),
        ("count", 47.48, "47 patterns", "47 patterns"),
        ("statistic", 14.2137, "14.2", "14.2"),
        ("statistic", -0.34, "-0.34", "-0.34"),
    ],
)
def test_a_value_has_the_unit_of_its_kind(kind: Any, value: float, said: str, as_change: str) -> None:
    assert amount_of(summary(kind=kind), value) == said
    assert change_of(summary(kind=kind), value) == as_change


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.9304, "93 %"),
        (0.9996, "over 99 %"),
        (0.0212, "2 %"),
        (0.0096, "1 %"),
        (0.0031, "0.3 %"),
        (0.00002, "under 0.01 %"),
    ],
)
def test_an_estimate_has_few_digits_and_is_never_rounded_to_all_or_nothing(value: float, text: str) -> None:
    assert roughly(value) == text


@pytest.mark.parametrize(
    ("random", "said"),
    [
        (
            control(0.031, 0.022),
            "Guided, the search gained 3.1 points in its first 250 executions; the same operators drawn at random gained 2.2 points: "
            "guidance earned 0.9 points of them (29 %).",
        ),
        (
            control(0.031, 0.031),
            "Guided, the search gained 3.1 points in its first 250 executions; the same operators drawn at random did as well: "
            "guidance earned nothing.",
        ),
        (
            control(0.02, 0.024),
            "Guided, the search gained 2.0 points in its first 250 executions; the same operators drawn at random gained 2.4 points: "
            "guidance earned nothing and lost 0.4 points.",
        ),
        (
            control(0.0, 0.0),
            "In the first 250 executions neither the guided search nor the same operators drawn at random gained anything.",
        ),
        (
            control(0.02, 0.0, 40),
            "Guided, the search gained 2.0 points in its first 40 executions; the same operators drawn at random gained nothing: "
            "guidance earned 2.0 points of them (100 %), in too few executions to build on.",
        ),
    ],
)
def test_guidance_is_credited_with_what_it_earned_over_chance_and_with_nothing_else(random: ControlComparison, said: str) -> None:
    assert guidance(summary(random=random)) == said


def test_a_statistic_that_falls_earns_no_share() -> None:
    said = guidance(summary(kind="statistic", random=control(0.04, -0.06)))
    assert said is not None
    assert said.endswith("drawn at random fell by 0.06: guidance earned 0.1.")
    assert "%" not in said


def test_a_criterion_that_did_not_guide_says_so() -> None:
    said = guidance(summary(guides=False, random=control(0.03, 0.01)))
    assert said is not None
    assert said.startswith("Guided by other criteria, the search gained")
    assert guidance(summary()) is None


@pytest.mark.parametrize(
    ("chance", "seen", "advice"),
    [
        (0.0212, 0.931, "about 2 %. A larger budget would pay: of 1,000 more mutants about 21 would at first cover something new."),
        (0.003, 0.931, "about 0.3 %. A larger budget would bring little: of 1,000 more mutants about 3 would cover something new."),
        (
            0.0212,
            0.997,
            "about 2 %. A larger budget would bring little: of 1,000 more mutants about 21 would cover something new, but little is left.",
        ),
        (0.0, 0.997, "about 0 %. A larger budget would bring next to nothing: new ground needs other operators, seed inputs or layers."),
    ],
)
def test_saturation_is_one_sentence_with_what_to_do(chance: float, seen: float, advice: str) -> None:
    said = saturation("kmnc", summary(discovery=Discovery(executions=6904, chance=chance, seen=seen)))
    assert said is not None
    assert said.startswith(
        f"This search has seen {'about 93 %' if seen < 0.95 else 'over 99 %'} of what it will reach, by KMNC; the chance"
    )
    assert advice in said
    assert "an estimate from 6,904 executions" in said


def test_what_cannot_be_told_yet_is_not_told() -> None:
    said = saturation("tknp", summary(kind="count", discovery=Discovery(executions=30, chance=0.9, seen=None)))
    assert said is not None
    assert said.startswith("How much of what it will reach this search has seen can't be told yet, by TKNP;")
    assert "overstates" not in said
    assert saturation("kmnc", summary()) is None


def test_a_standstill_is_told_with_its_length_and_its_end() -> None:
    campaign = CampaignSummary(
        seed=0,
        executions=9000,
        model_calls=9000,
        wall_seconds=1,
        device="cpu",
        device_hours=0,
        stop_reason="saturated",
        stalled_for=5210,
    )
    assert stalled(campaign) == "The search covered nothing new in its last 5,210 executions. So it was ended."
    assert (
        stalled(campaign.model_copy(update={"stop_reason": "wall", "stalled_for": 1}))
        == "The search covered nothing new in its last execution."
    )
    assert stalled(campaign.model_copy(update={"stalled_for": 0})) is None
    assert stalled(None) is None


def test_the_sentences_are_about_the_criterion_that_the_policy_reports(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    assert reported(result) == "kmnc"
    assert result.policy is not None
    asked = result.model_copy(update={"policy": result.policy.model_copy(update={"criterion": "tknc"})})
    assert reported(asked) == "tknc"
    assert "The search, by TKNC" in words_of(html.render(asked, tmp_path))
    counts_first = result.model_copy(update={"coverage": {name: result.coverage[name] for name in ("tknp", "nlc", "nbc")}})
    assert reported(counts_first) == "nbc"
    assert reported(result.model_copy(update={"coverage": {}})) is None


def test_valid_and_raw_stand_beside_each_other_in_their_units(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    page, text = words_of(html.render(result, tmp_path)), markdown.render(result)
    assert "31.2 % 52.5 % 56.1 % 21.3 points 0.0027 % 9,240 of 17,600" in page
    assert "812 patterns 4,210 patterns 5,877 patterns 3,398 patterns" in page
    assert "| KMNC | 31.2 % | 52.5 % | 56.1 % | – |" in text
    assert "| TKNP | 812 patterns | 4,210 patterns | 5,877 patterns | – |" in text
    assert f"| NLC | 14.2 | 13.9 | 14.1 | {NO_SET} |" in text
    assert page.count("can fall") == 4  # the drawing, both tables by criterion, the table by layer
    assert "421000" not in page.replace(",", "")  # no count as a percentage


def test_a_reader_gets_saturation_guidance_and_noise_in_the_page_and_the_summary(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    told = result.coverage["kmnc"]
    for sentence in (saturation("kmnc", told), guidance(told), stalled(result.campaign)):
        assert sentence is not None
        assert sentence in words_of(html.render(result, tmp_path)).replace("&#39;", "'")
        assert sentence in markdown.render(result).replace("\\", "")
    assert "coverage: KMNC 31.2 % from the seeds alone, 52.5 % at the end; about 93 % of what this search will reach" in terminal_of(result)


def test_false_coverage_is_impossible_to_miss(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0, false_coverage=True)
    alarm = false_note(result)
    assert alarm == "FALSE COVERAGE in KMNC and NBC: uniform noise gained as much as the search. Do not take that gain as evidence."
    page = html.render(result, tmp_path)
    head = words_of(page.split("<nav", 1)[0])
    assert alarm in head
    shown = words_of(page)
    assert "Uniform noise gained 16.0 points in 600 executions; the search gained 12.8 points in its first 600." in shown
    assert "do not take this gain as evidence for or against the model" in shown
    assert "criterion in the policy" in shown
    # Beside the metric, and beside the rules over it.
    about_gain = 1 + sum(rule.metric.startswith("coverage_gain") for rule in result.rules)
    assert shown.count("False coverage: uniform noise gained as much. This is no evidence.") == about_gain
    assert page.count('badge is-warn"') >= 5
    text = markdown.render(result)
    assert text.index("FALSE COVERAGE in KMNC and NBC") < text.index("### Rules")
    assert "KMNC ⚠ **false coverage**" in text
    assert text.count("**⚠ False coverage: uniform noise gained as much. This is no evidence.**") == about_gain - 1
    assert "Nothing has to be done. The warning about coverage says how the next run can tell more." in shown
    assert f"! {alarm}" in terminal_of(result)


def test_false_coverage_names_what_noise_did_not_fill_and_says_where_luck_may_have_done_it(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0, false_coverage=True)
    sound = [name for name, told in result.coverage.items() if told.kind == "share" and not told.false_coverage]
    named = " or ".join(name.upper() for name in sound)
    for text in (words_of(html.render(result, tmp_path)), markdown.render(result)):
        assert f"Report {named}, which noise did not fill here (criterion in the policy)" in text
        assert "in its first 600." in text
    few = ControlComparison(executions=80, gain=0.02, search_gain=0.01)
    result = changed(result, "kmnc", noise=few)
    for name in sound:
        result = changed(result, name, noise=None)
    for text in (words_of(html.render(result, tmp_path)), markdown.render(result)):
        assert "Report another criterion (criterion in the policy)" in text
        assert "the search gained 1.0 points in its first 80, in too few executions to build on." in text


def test_a_long_list_of_false_coverage_stays_short(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    many = {f"own-{i}": result.coverage["nbc"] for i in range(40)}
    told = result.model_copy(update={"coverage": many})
    assert "own-0, own-1, own-2, own-3 and 36 more criteria" in (false_note(told) or "")
    text = markdown.render(told)
    assert text.count("False coverage in") == 4
    assert "… and in 36 more criteria" in text
    assert "28 more criteria are in `result.json`" in text
    assert "16 more criteria are in result.json" in words_of(html.render(told, tmp_path))


def test_without_false_coverage_nobody_is_alarmed(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    result = changed(result, "nbc", false_coverage=False)
    assert false_note(result) is None
    for text in (words_of(html.render(result, tmp_path)), markdown.render(result), terminal_of(result)):
        assert "false coverage" not in text.lower()


def test_false_coverage_of_another_criterion_does_not_touch_the_metric(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    assert [name for name, told in result.coverage.items() if told.false_coverage] == ["nbc"]
    page = words_of(html.render(result, tmp_path))
    assert "FALSE COVERAGE in NBC" in page
    assert "This is no evidence" not in page


def test_no_control_is_said_and_not_taken_for_a_clean_bill(tmp_path: Path) -> None:
    result = changed(make_run(tmp_path, Verdict.PASS, 0), "kmnc", random=None, noise=None, discovery=None)
    page = words_of(html.render(result, tmp_path))
    assert "No noise was run to compare with, so nothing says what this coverage is worth." in page
    assert "No mutant was drawn at random to compare with." in page
    assert "Too little was run to estimate it." in page
    assert "less than the search" not in page


def test_neurons_without_finite_values_are_counted_apart(tmp_path: Path) -> None:
    result = changed(make_run(tmp_path, Verdict.PASS, 0), "kmnc", nonfinite=3)
    said = "3 neurons gave NaN or an infinite value at least once."
    assert said in words_of(html.render(result, tmp_path))
    assert said in markdown.render(result)
    assert "neurons gave NaN" not in markdown.render(make_run(tmp_path, Verdict.PASS, 0))


def test_layers_classes_and_what_was_never_reached_have_their_tables(tmp_path: Path) -> None:
    page = words_of(html.render(make_run(tmp_path, Verdict.PASS, 0), tmp_path))
    assert "features.6 Conv2d 44 -4.1 to 5.45 2 (4.5 %)" in page
    assert "the classifier head: it says what the model answers" in page
    assert "KMNC: 8,360 items never reached, 47.5 % of all" in page
    assert "neuron 0: sections 0-31 and 90-99 of 100; neuron 3" in page
    assert "and others" in page
    assert "three 3 of 10 30.0 % confidence 0.10 to 0.19" in page
    assert "zero 700 91.4 % 97 50.0 %" in page


def test_a_huge_network_gives_a_small_page_that_says_what_it_leaves_out(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    layers = [f"block.{i}" for i in range(700)]
    huge = result.model_copy(
        update={
            "classes": tuple(f"class {i}" for i in range(10_000)),
            "coverage_by_class": tuple(ClassCoverage(label=i, executions=1, valid=1, new_items=float(i)) for i in range(10_000)),
            "layers": tuple(LayerSummary(name=name, type="Conv2d", neurons=64) for name in layers),
            "coverage": {
                name: told.model_copy(
                    update={
                        "by_layer": dict.fromkeys(layers, 0.5),
                        "unreached": tuple(Unreached(place=layer, items=1, total=2, examples=("neuron 1",) * 400) for layer in layers),
                    }
                )
                for name, told in result.coverage.items()
            },
        }
    )
    before, page = html.render(result, tmp_path), html.render(huge, tmp_path)
    assert len(page) - len(before) < 200_000
    said = words_of(page)
    assert "And 9,970 more classes" in said
    assert "640 more layers are in result.json" in said
    assert "And 640 more layers in result.json" in said
    assert "And 688 more in result.json" in said
    assert "neuron 1; neuron 1; neuron 1; and others" in said
    assert "class 0" in said  # the class that covered least stays
    assert len(markdown.render(huge)) < 100_000


def test_an_older_record_without_these_fields_still_gives_a_page(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0)
    bare = result.model_copy(
        update={"coverage": {"kmnc": summary(covered=5, total=10)}, "layers": (), "coverage_by_class": (), "curve": ()}
    )
    write(bare, tmp_path)
    page = words_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "KMNC sections of each neuron" in page
    assert "By class" not in page
    assert "never reached" not in page


def test_machines_get_each_unit_in_a_family_of_its_own(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0, false_coverage=True)
    samples = parse(openmetrics.render(result))

    def of(family: str, name: str) -> float | None:
        return samples.get((family, frozenset({("criterion", name)})))

    assert of("gate_coverage_final", "kmnc") == 0.525
    assert of("gate_coverage_patterns_final", "tknp") == 4210
    assert of("gate_coverage_statistic_gain", "nlc") == pytest.approx(-0.34)
    assert of("gate_coverage_final", "tknp") is of("gate_coverage_final", "nlc") is None
    assert (of("gate_coverage_false", "kmnc"), of("gate_coverage_false", "tknc")) == (1, 0)
    assert of("gate_coverage_seen", "kmnc") == 0.931
    assert of("gate_coverage_seen", "tknp") is None
    assert of("gate_coverage_chance_of_new", "tknp") == 0.0212
    assert of("gate_coverage_nonfinite_neurons", "kmnc") == 3
    assert samples["gate_campaign_stalled_for", frozenset()] == 412


def drawn(values: list[float], kind: str) -> Panel:
    curve = [CurvePoint(executions=10 * i, coverage={"c": value}, findings=0, defects=0) for i, value in enumerate(values)]
    return panels(curve, {"c": kind})[0]


@pytest.mark.parametrize(
    ("values", "kind", "marks"),
    [
        ([0.31, 0.52], "share", ["30 %", "35 %", "40 %", "45 %", "50 %", "55 %"]),
        ([812, 4210], "count", ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]),
        ([0, 4_000_000], "count", ["0", "1M", "2M", "3M", "4M"]),
        ([14.4, 13.9], "statistic", ["13.9", "14", "14.1", "14.2", "14.3", "14.4"]),
        ([-3, 1], "statistic", ["-3", "-2", "-1", "0", "1"]),
        ([0, 0], "count", ["-1", "-0.5", "0", "0.5", "1"]),
        ([1e-9, 5e-9], "statistic", ["0", "1e-09", "2e-09", "3e-09", "4e-09", "5e-09"]),
    ],
)
def test_a_drawing_has_the_scale_of_its_kind(values: list[float], kind: str, marks: list[str]) -> None:
    panel = drawn(values, kind)
    assert [tick.text for tick in panel.y] == marks
    for pair in panel.lines[0].points.split():
        x, y = map(float, pair.split(","))
        assert 52 <= x <= 328
        assert 12 <= y <= 178
    assert ("%" in panel.words) is (kind == "share")
    assert (panel.note == NO_SET) is (kind == "statistic")


def test_a_long_curve_is_drawn_whole(tmp_path: Path) -> None:
    result = make_run(tmp_path)
    name = next(iter(result.coverage))
    curve = tuple(CurvePoint(executions=10 * i, coverage={name: i / 500}, random={}, noise={}, findings=0, defects=0) for i in range(250))
    page = html.render(result.model_copy(update={"curve": curve}), tmp_path)
    lines = [points for points in re.findall(r'<polyline class="line search" points="([^"]*)"', page) if len(points.split()) > 100]
    assert 250 in [len(points.split()) for points in lines]
    assert all(re.fullmatch(r"[-\d.]+,[-\d.]+", pair) for pair in lines[0].split())
