"""``gate policy show``: in words, as one file that needs no other, and for a program."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gate.cli.policy import command
from gate.policy import describe, load_policy, shipped_policies
from gate.policy.merged import as_yaml

TODAY = datetime.date(2026, 11, 30)

MINE = """\
version: 1
name: mine
description: "Zweimal: \\"no\\", 1e3, '@x'"
extends: [strict]
decide: early
abort_on: [crashes]
positive: ["no", "1e3", "null"]
budget: {wall: 10m, device: 90s}
judging: {repeat: 3, aggregate: any}
arms: {canaries: 0.1}
domain: {geometry: {rotation: null}, photometry: {gamma: [1, 1]}}
oracles: {confidence_collapse: {below: 0.2}, numeric_path: false}
coverage: {criteria: [kmnc, nbc], guide: [nbc]}
rules:
  - {id: rise, metric: defect_rate, compare: {max_rise: 0.02, relative: true}, known: count, confidence: 0.9}
  - {id: defect-rate, warn: null, known: count}
  - {id: worst-class, drop: true}
waivers:
  - {rule: defect-rate, reason: "2027-01-01", owner: "@team", expires: 2027-03-31, model: "x/*"}
  - {rule: worst-family, slice: blur, reason: glare, owner: me, expires: 2026-11-29}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    return path


@pytest.mark.parametrize("name", shipped_policies())
def test_the_merged_file_of_a_shipped_policy_is_the_same_policy(tmp_path: Path, name: str) -> None:
    path = tmp_path / "merged.yaml"
    path.write_text(as_yaml(load_policy(name)))
    assert load_policy(str(path)).info.digest == load_policy(name).info.digest


def test_the_merged_file_needs_no_other_and_loads_to_the_same_digest(mine: Path) -> None:
    shown = CliRunner().invoke(command, ["show", str(mine), "--format", "yaml"]).output
    assert "\nextends:" not in shown
    again = mine.with_name("again.yaml")
    again.write_text(shown)
    first, second = load_policy(str(mine)), load_policy(str(again))
    assert second.policy == first.policy
    assert second.info.digest == first.info.digest


def test_a_rule_says_which_files_it_comes_from(mine: Path) -> None:
    text = " ".join(describe(load_policy(str(mine)), today=TODAY).split())
    assert f"From {mine}:15." in text
    assert f"strict.yaml (shipped) (fail and min samples); {mine} (warn and known); last named in {mine}:16." in text


def test_the_words_say_what_decides_and_when(mine: Path) -> None:
    text = " ".join(describe(load_policy(str(mine)), today=TODAY).split())
    for said in (
        "10% are searches for faults that the gate plants",
        "each drawn mutant is answered 3 times, and counts as failing where any of the answers fail",
        "Holm's method",
        "in at most 10 % of runs",
        "The campaign may stop as soon as every rule about the model is settled",
        "The campaign ends with the first confirmed input on which the model raises an exception; such a run never passes.",
        "Failures that the baseline has too count like any others.",
        "Failures that the baseline has too, on the same inputs, do not block",
        "may rise by 2 % of the baseline's value",
        "Waivers, as of 2026-11-30",
        "in force until 2027-03-31",
        "EXPIRED on 2026-11-29",
    ):
        assert said in text, said


def test_the_words_leave_out_what_the_policy_does_not_do(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text('version: 1\nname: p\nrules: [{id: r, metric: crashes, fail: "> 0"}]\n')
    text = describe(load_policy(str(path)), today=TODAY)
    for absent in ("Holm", "canaries", "noisy", "first confirmed input", "Waivers"):
        assert absent not in text
    assert "judged once, at the end" in text


def test_a_program_gets_policy_origins_and_the_state_of_waivers(mine: Path) -> None:
    shown = json.loads(CliRunner().invoke(command, ["show", str(mine), "--format", "json", "--today", "2027-04-01"]).output)
    assert shown["digest"] == load_policy(str(mine)).info.digest
    assert shown["origins"]["defect-rate"]["metric"].startswith("baseline.yaml (shipped):")
    assert shown["origins"]["defect-rate"]["known"] == f"{mine}:16"
    assert shown["today"] == "2027-04-01"
    assert [waiver["in_force"] for waiver in shown["waivers"]] == [False, False]


def test_what_stands_in_a_policy_can_not_act_on_the_terminal_or_break_the_merged_file(tmp_path: Path) -> None:
    path = tmp_path / "a\nrules: []\x1b[31m.yaml"
    path.write_text('version: 1\nname: "\\e[31mred"\nrules: [{id: r, metric: crashes, fail: "> 0"}]\n')
    assert "\\x1b[31mred" in CliRunner().invoke(command, ["show", str(path)]).output
    merged = tmp_path / "merged.yaml"
    merged.write_text(CliRunner().invoke(command, ["show", str(path), "--format", "yaml"]).output)
    assert load_policy(str(merged)).info.digest == load_policy(str(path)).info.digest
