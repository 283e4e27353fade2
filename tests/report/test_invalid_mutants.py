"""Why mutants were invalid: counted by operator and reason, and told in the report."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from sample import make_run

from gate.campaign.invalid import add_reasons, add_to_arm
from gate.domains.image.validity import REASONS
from gate.report import write
from gate.report.invalid_words import reason_in_words, reasons_in_words
from gate.result import Verdict


def test_reasons_are_counted_by_operator_and_batches_add_up() -> None:
    counts: dict[str, dict[str, int]] = {}
    operators, faults = np.array([0, 2, 2, 1, 2, 0]), np.array([-1, 1, 1, -1, 0, 1])
    add_reasons(counts, operators, faults, ("fog", "rain", "pgd"), ("contrast", "distance"))
    assert counts == {"fog": {"distance": 1}, "pgd": {"contrast": 1, "distance": 2}}
    add_reasons(counts, operators[:2], faults[:2], ("fog", "rain", "pgd"), ("contrast", "distance"))
    assert counts == {"fog": {"distance": 1}, "pgd": {"contrast": 1, "distance": 3}}
    add_reasons(counts, operators[:0], faults[:0], ("fog",), ("contrast",))
    assert counts == {"fog": {"distance": 1}, "pgd": {"contrast": 1, "distance": 3}}


def test_every_reason_has_words_and_the_most_frequent_comes_first() -> None:
    assert all(reason_in_words(reason) != reason.replace("_", " ") for reason in REASONS if "_" in reason and reason != "unknown_operator")
    assert reasons_in_words({"contrast": 3, "distance": 1200}) == "1,200 beyond its bound, 3 too little contrast left"
    assert reasons_in_words({}) == ""
    assert "\u202e" not in reason_in_words("\u202e<b>")


def test_the_report_says_beside_each_operator_why_its_mutants_were_invalid(tmp_path: Path) -> None:
    write(make_run(tmp_path, verdict=Verdict.PASS, defects=2), tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    rows = {re.sub(r"<[^>]+>", "", row)[:20]: row for row in re.findall(r'<tr><th scope="row" data-label="Operator">.*?</tr>', text)}
    (brightness,) = (row for name, row in rows.items() if "brightness" in name)
    assert "495 too little contrast left, 12 the validator model sees another class" in brightness
    (patch,) = (row for name, row in rows.items() if "patch" in name)
    assert "muted" not in patch


def test_reasons_of_an_arm_add_up_and_the_report_tells_them(tmp_path: Path) -> None:
    counts: dict[str, int] = {}
    add_to_arm(counts, np.array([-1, 1, 1, 0]), ("contrast", "distance"))
    add_to_arm(counts, np.array([-1, 1]), ("contrast", "distance"))
    add_to_arm(counts, np.array([], dtype=np.int64), ("contrast", "distance"))
    assert counts == {"contrast": 1, "distance": 3}
    write(make_run(tmp_path, verdict=Verdict.PASS, defects=2), tmp_path)
    rows = re.findall(r'<tr><th scope="row" data-label="Arm">.*?</tr>', (tmp_path / "report.html").read_text(encoding="utf-8"))
    (judging,) = (row for row in rows if ">judging<" in row)
    assert "178 too little contrast left" in judging
