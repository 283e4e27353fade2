"""The power benchmark's own arithmetic, that it goes on where it was stopped, and what its networks are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.common_practice import FALSE_BLOCKS, Practice, badness, blocked, limit
from benchmarks.faulty import BAND, KINDS, faulty
from benchmarks.healthy import ARCHITECTURES, FAMILIES, architecture_of, augmented, digits, healthy
from benchmarks.power import _append, broken_of, finished, known, results_file
from benchmarks.power_models import CHAMPION, HEALTHY, Case, Facts, cases
from benchmarks.power_table import Line, differing, rows, separation, share, why

MEAN = 0.993  # clean accuracy of healthy networks; a slow test holds one of each architecture to it
GOOD = Practice(accuracy=0.99, recall=(0.99,) * 10, corrupted=(0.95,) * 7, pgd=0.01)


def line(kind: str, seed: int, verdict: str, campaign_seed: int = 0, **metrics: float | None) -> Line:
    rules: dict[str, list[object]] = {
        "defect-rate": ["pass", 0.125, 0.1, 0.15, None],
        "worst": ["fail", 0.5, None, None, "class 3", 0.25, 0.125, 0.5],
    }
    return Line(kind, seed, campaign_seed, 100, verdict, rules, metrics, 100, 200, 1.0, (), "code")


def facts(practice: Practice = GOOD) -> Facts:
    return Facts("MLP", 0, practice)


def test_a_half_written_line_counts_for_nothing_and_every_verdict_stands_once(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    wanted = [(Case(HEALTHY, seed), 0) for seed in range(5)]
    for seed in (0, 2):
        _append(path, line(HEALTHY, seed, "pass"))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"kind": "healthy", "seed": 4, "camp')  # killed while it wrote
    done, missing = finished(path, wanted)
    assert [one.seed for one in done] == [0, 2]
    assert [case.seed for case, _ in missing] == [1, 3, 4]
    for case, _ in missing:
        _append(path, line(case.kind, case.seed, "fail"))
    assert finished(path, wanted) == ([*known(path)] and sorted(known(path), key=lambda one: one.seed), [])
    assert Counter(one.seed for one in known(path)) == dict.fromkeys(range(5), 1)


def test_a_campaign_seed_more_is_another_verdict(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    _append(path, line(HEALTHY, 1, "pass", campaign_seed=0))
    assert finished(path, [(Case(HEALTHY, 1), 0), (Case(HEALTHY, 1), 1)])[1] == [(Case(HEALTHY, 1), 1)]


def test_another_policy_or_budget_has_a_file_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("version: 1\nname: baseline\nextends: [baseline]\nrules:\n  - {id: defect-rate, fail: '> 0.3'}\n", encoding="utf-8")
    files = {results_file(tmp_path, "digits", policy, executions) for policy in ("baseline", str(own)) for executions in (100, 200)}
    assert len(files) == 4


def test_what_is_caught_open_and_passed_adds_up_beside_the_other_checks() -> None:
    bad = replace(GOOD, accuracy=0.5)
    known_facts = {Case(HEALTHY, seed): facts() for seed in (*range(0, 10, 2), 1, CHAMPION)}
    known_facts |= {Case("a", 1): facts(bad), Case("a", 3): facts(), Case("a", 5): facts()}
    lines = [line("a", 1, "fail"), line("a", 3, "inconclusive"), line("a", 5, "pass"), line(HEALTHY, 1, "pass")]
    table = {row.kind: row for row in rows(lines, known_facts)}
    assert (table["a"].n, table["a"].failed, table["a"].open) == (3, 1, 1)
    assert table["a"].accuracy == pytest.approx((0.5 + 0.99 + 0.99) / 3)
    assert table["a"].others == {"clean accuracy": 1, "accuracy and recall": 1, "corruptions": 0, "PGD": 0}
    assert (table[HEALTHY].failed, table[HEALTHY].open, sum(table[HEALTHY].others.values())) == (0, 0, 0)


def test_limits_come_from_the_tuning_half_alone() -> None:
    weak = replace(GOOD, accuracy=0.90)
    known_facts = {Case(HEALTHY, seed): facts() for seed in (0, 2, 4, CHAMPION)} | {Case(HEALTHY, 1): facts(weak)}
    assert rows([line(HEALTHY, 1, "pass")], known_facts)[0].others["clean accuracy"] == 1


@pytest.mark.parametrize("n", [1, 7, 20, 50, 51])
def test_a_limit_is_exceeded_by_at_most_its_share(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n).tolist()
    assert sum(value > limit(values) for value in values) <= FALSE_BLOCKS * n


def test_a_class_that_is_lost_counts_against_the_champion() -> None:
    lost = replace(GOOD, accuracy=0.975, recall=(0.99,) * 9 + (0.84,))
    assert badness("accuracy and recall", lost, GOOD, [GOOD]) == pytest.approx(0.15)
    assert blocked("accuracy and recall", lost, GOOD, [GOOD] * 5)
    assert not blocked("accuracy and recall", GOOD, GOOD, [GOOD] * 5)


def test_only_pass_against_fail_is_a_difference() -> None:
    words = ["pass"] * 7 + ["inconclusive"] * 2 + ["fail"]
    lines = [line(HEALTHY, 1, word, number) for number, word in enumerate(words)] + [line("a", 1, "fail", number) for number in range(5)]
    assert differing(lines) == (1, 2, 15)


def test_what_a_metric_tells_apart_is_shown_by_kind_without_what_was_not_measured() -> None:
    lines = [line("a", seed, "fail", rate=0.1 * seed, other=None) for seed in range(11)] + [line("b", 0, "fail", rate=0.7)]
    found = separation(lines)
    assert set(found) == {"rate"}
    assert found["rate"]["a"].middle == pytest.approx(0.5)
    assert (found["rate"]["a"].low, found["rate"]["a"].high) == (pytest.approx(0.05), pytest.approx(0.95))
    assert found["rate"]["b"].n == 1


def test_a_miss_says_what_each_rule_saw() -> None:
    said = why(line("a", 3, "pass"))
    assert (
        said
        == "a, seed 3, campaign seed 0: pass; defect-rate pass 0.125 [0.100, 0.150]; worst fail 0.5, rise +0.25 [0.125, 0.500] (class 3)"
    )


def test_shares_have_exact_intervals() -> None:
    assert share(0, 50) == "0 of 50 (0 to 7 %)"
    assert share(10, 10) == "10 of 10 (69 to 100 %)"


def test_halves_do_not_meet_and_hold_every_architecture() -> None:
    kinds = (HEALTHY, *KINDS)
    halves = {half: set(cases(100, 10, half, kinds)) for half in ("tune", "test", "all")}
    assert halves["tune"].isdisjoint(halves["test"])
    assert halves["tune"] | halves["test"] == halves["all"]
    assert len(halves["all"]) == 100 + 10 * len(KINDS)
    for half in ("tune", "test"):
        for kind in kinds:
            assert {architecture_of(case.seed) for case in halves[half] if case.kind == kind} == set(ARCHITECTURES)
    assert {broken_of(Case("memorised fix", seed)).kind for seed in range(0, 10, 2)} <= set(KINDS)


def test_a_seed_makes_one_network() -> None:
    one, again, other = healthy(4), healthy(4), healthy(12)
    x = digits().test_x[:20]
    assert torch.equal(one(x), again(x))
    assert not torch.equal(one(x), other(x))


def test_augmented_pictures_are_what_a_file_can_hold() -> None:
    x = digits().x[:200]
    changed = augmented(x, torch.Generator().manual_seed(3), FAMILIES)
    assert changed.shape == x.shape
    assert torch.equal((changed * 255).round() / 255, changed)
    assert 0 <= float(changed.min()) <= float(changed.max()) <= 1
    assert (changed != x).flatten(1).any(1).float().mean() > 0.8


def test_an_overflow_shows_in_half_precision_alone() -> None:
    data = digits()
    net = faulty("half-precision overflow", 4, MEAN, data).module
    sound = healthy(4)
    with torch.no_grad():
        assert torch.equal(net(data.test_x), sound(data.test_x))
        with torch.autocast("cpu", dtype=torch.float16):
            assert not net(data.test_x).isfinite().all()
            assert sound(data.test_x).isfinite().all()


def test_certainty_is_all_that_overconfidence_changes() -> None:
    x = digits().test_x
    overconfident, sound = faulty("overconfidence", 4, MEAN).module, healthy(4)
    with torch.no_grad():
        sure, usual = overconfident(x).softmax(1), sound(x).softmax(1)
    assert torch.equal(sure.argmax(1), usual.argmax(1))
    assert sure.amax(1).mean() > usual.amax(1).mean()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3, 5, 7])
def test_healthy_networks_read_clean_pictures(seed: int) -> None:
    from benchmarks.healthy import accuracy

    assert accuracy(healthy(seed)) == pytest.approx(MEAN, abs=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_faulty_network_reads_clean_pictures_about_as_well(kind: str) -> None:
    made = faulty(kind, 1, MEAN)
    assert made.accuracy >= MEAN - BAND


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_benchmark_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.power", "--half", "all", "--kinds", HEALTHY, "--healthy", "4", "--executions", "1500"]
    command += ["--policy", "baseline", "--jobs", "1", "--cache", str(tmp_path)]
    results = results_file(tmp_path, "digits", "baseline", 1500)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(9000):
            if results.is_file() and results.read_text(encoding="utf-8").count("\n") >= 1:
                break
            time.sleep(0.1)
            assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    first = results.read_text(encoding="utf-8")
    assert len(list(known(results))) < 4
    subprocess.run(command, check=False, capture_output=True)
    assert results.read_text(encoding="utf-8").startswith(first)
    assert Counter(one.seed for one in known(results)) == dict.fromkeys(range(4), 1)
