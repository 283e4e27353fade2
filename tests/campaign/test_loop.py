"""The loop: what earns coverage, when it ends, what it leaves behind, and that it repeats."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from known_model import Scene, fails_in_the_dark, reads_stripes

from gate.campaign import loop
from gate.campaign.budget import BudgetSpent
from gate.campaign.deadline import Interrupted
from gate.domains.image.limits import Domain
from gate.errors import WorkerError

STRICT = Domain.model_validate({"chain": {"contrast_kept": 0.95}})


def wrong(x: np.ndarray) -> np.ndarray:
    return np.roll(reads_stripes(x), 1, axis=1)


def steps_of(made: Scene) -> list[dict[str, Any]]:
    return [event for event in made.events if event["event"] == "step"]


def test_invalid_mutants_count_in_the_raw_coverage_only() -> None:
    made = Scene(executions=600, limits=STRICT, gradients=False)
    outcome = made.run()
    search = outcome.counts["search"]
    assert 0 < search.valid < search.executions
    assert outcome.final["kmnc"] < outcome.raw["kmnc"]
    kept = made.corpus.inputs(40 + np.flatnonzero(made.corpus.open[40:]))  # but for those that a simpler one stands for
    assert len(np.unique((kept.reshape(len(kept), -1).mean(axis=1) / 256 * 25).astype(int))) == len(kept)


def test_what_earns_is_what_is_valid_and_noise_fills_its_own_map() -> None:
    made = Scene(executions=600, limits=STRICT, gradients=False)
    proposed: list[np.ndarray] = []
    original = made.domain.check

    def check(mutants: np.ndarray, seeds: np.ndarray, recipes: Any) -> np.ndarray:
        codes = original(mutants, seeds, recipes)
        proposed.append(codes < 0)
        return codes

    made.domain.check = check  # type: ignore[method-assign]
    made.run()
    runs = [(asked["arm"], arrays["earns"]) for name, asked, arrays in made.worker.calls if name == "run"]
    others = [earns for arm, earns in runs if arm != "noise"]
    assert all(np.array_equal(a, b) for a, b in zip(others, proposed, strict=True))
    assert all(earns.all() for arm, earns in runs if arm == "noise")
    assert any(not earns.all() for earns in others)
    outcome = made.campaign.outcome
    reasons = {name: sum(reasons.values()) for name, reasons in outcome.invalid.items()}
    assert reasons == {name: n.executions - n.valid for name, n in outcome.operators.items() if n.executions > n.valid}
    assert {reason for reasons in outcome.invalid.values() for reason in reasons} <= set(made.domain.reasons)
    for arm in ("search", "judging", "random"):
        count = outcome.counts[arm]
        assert sum(count.invalid.values()) == count.executions - count.valid > 0, arm


def test_each_arm_has_its_own_map_and_findings_of_the_random_arm_belong_to_nobody() -> None:
    confirmed: list[Any] = []
    made = Scene(wrong, executions=1000, confirm=lambda finding: confirmed.append(finding) or True)
    outcome = made.run()
    assert {finding.arm for finding in confirmed} == {"search", "judging"}
    assert outcome.counts["random"].findings > 0
    assert outcome.counts["random"].defects == 0
    assert outcome.counts["noise"].findings == 0
    assert outcome.counts["search"].coverage == outcome.final
    for arm in ("search", "random", "noise"):
        assert outcome.counts[arm].coverage["kmnc"] == len(made.worker.covered[arm]) / 25
    assert len({tuple(sorted(covered)) for covered in made.worker.covered.values()}) == 3


def test_one_kind_of_finding_is_confirmed_once_and_given_up_after_some_tries() -> None:
    tried: list[tuple[Any, ...]] = []
    made = Scene(wrong, executions=1500, seeds=4, confirm=lambda finding: tried.append(finding.key) or True)
    outcome = made.run()
    assert len(set(tried)) == len(tried) == sum(count.defects for count in outcome.counts.values())
    assert sum(count.findings for count in outcome.counts.values()) > len(tried)
    tried.clear()
    outcome = Scene(wrong, executions=1500, seeds=4, confirm=lambda finding: bool(tried.append(finding.key))).run()
    counts = [tried.count(key) for key in set(tried)]
    assert max(counts) == loop.CONFIRMATIONS_PER_KEY
    assert sum(count.defects for count in outcome.counts.values()) == 0


def test_answers_that_are_not_finite_are_counted_and_outrank_a_wrong_class() -> None:
    confirmed: list[Any] = []

    def broken(x: np.ndarray) -> np.ndarray:
        raw = wrong(x)
        raw[x.reshape(len(x), -1).mean(axis=1) < 77] = np.nan
        return raw

    outcome = Scene(broken, executions=500, confirm=lambda finding: confirmed.append(finding) or True).run()
    kinds = {finding.oracle: finding for finding in confirmed}
    assert set(kinds) == {"non_finite", "changed_prediction"}
    assert kinds["non_finite"].predicted is None
    assert kinds["non_finite"].confidence_after is None
    assert kinds["non_finite"].mutant.mean() < 77
    assert outcome.nonfinite > 0


def test_a_search_that_stalls_goes_for_defects_and_the_control_arms_end() -> None:
    made = Scene(executions=3000, seeds=200, coverage={"stall": 300})
    made.worker.covers = False
    outcome = made.run()
    assert outcome.stop_reason == "executions"
    assert outcome.executions == 3000
    assert outcome.counts["judging"].executions == 896  # 112 whole seed inputs in 30 % of 3000
    assert made.search.objective == "defects"
    frozen = outcome.states[2]
    assert [change.state for change in outcome.states] == ["init", "active", "frozen", "shut_down"]
    assert "nothing new was covered for" in frozen.reason
    after = [event for event in made.events if event["event"] == "step" and event["executions"] > frozen.executions]
    assert {event["arm"] for event in after[loop.IN_FLIGHT :]} == {"search", "judging"}
    assert outcome.counts["random"].executions < 0.05 * 3000 / 2
    assert outcome.stalled_for == outcome.counts["search"].executions
    assert after[-1]["stalled"] is True
    assert after[-1]["stalled_for"] == outcome.stalled_for
    assert [event["state"] for event in made.events if event["event"] == "state"] == ["active", "frozen", "shut_down"]


def test_a_frozen_campaign_resumes_where_something_new_is_covered_after_all() -> None:
    made = Scene(executions=3000, seeds=200, coverage={"stall": 300}, shares={"judging": 0.0, "random": 0.05, "noise": 0.0})
    made.worker.covers = False
    objectives: list[tuple[int, str]] = []
    propose = made.search.propose

    def proposing(step: int, count: int) -> Any:
        made.worker.covers = made.campaign.outcome.executions > 1500
        objectives.append((made.campaign.outcome.stalled_for, made.search.objective))
        return propose(step, count)

    made.search.propose = proposing  # type: ignore[method-assign]
    outcome = made.run()
    states = [change.state for change in outcome.states]
    assert states[:5] == ["init", "active", "frozen", "resumed", "frozen"]
    resumed = outcome.states[3]
    assert resumed.reason == "something new was covered"
    assert resumed.executions > 1500
    assert {objective for stalled_for, objective in objectives if stalled_for < 300} == {"coverage"}
    assert {objective for stalled_for, objective in objectives if stalled_for >= 300} == {"defects"}
    resumed_steps = [event for event in made.events if event["event"] == "step" and event["executions"] > resumed.executions]
    assert any(event["arm"] == "random" for event in resumed_steps)


def test_a_stall_can_end_the_campaign_or_be_shown_only() -> None:
    made = Scene(executions=3000, seeds=200, coverage={"stall": 300, "on_stall": "end"})
    made.worker.covers = False
    outcome = made.run()
    assert outcome.stop_reason == "saturated"
    assert 300 <= outcome.counts["search"].executions < 300 + loop.IN_FLIGHT * made.campaign.step_size
    assert outcome.executions < 700
    made = Scene(executions=3000, seeds=200, coverage={"stall": 300, "on_stall": "continue"})
    made.worker.covers = False
    outcome = made.run()
    assert outcome.stop_reason == "executions"
    assert outcome.executions == 3000
    assert outcome.stalled_for == outcome.counts["search"].executions > 1500
    stalled = [event["stalled"] for event in steps_of(made)]
    assert stalled == sorted(stalled)
    assert stalled[-1]
    assert [change.state for change in outcome.states] == ["init", "active", "shut_down"]


@pytest.mark.parametrize(
    ("estimate", "limit", "stops"),
    [
        ({"executions": 300, "chance": 0.009, "seen": 0.9}, 0.01, True),
        ({"executions": 300, "chance": 0.011, "seen": 0.9}, 0.01, False),
        ({"executions": 299, "chance": 0.0, "seen": 0.9}, 0.01, False),  # with less than 3 / limit nothing is known of so small a chance
        ({"executions": 99, "chance": 0.0, "seen": 0.9}, 0.5, False),
        ({"executions": 100, "chance": 0.0, "seen": None}, 0.5, True),
        (None, 0.5, False),
        ({"executions": 300, "chance": 0.0, "seen": 1.0}, None, False),
    ],
)
def test_a_small_chance_of_anything_new_stops_the_search_once_it_rests_on_enough(
    estimate: dict[str, Any] | None, limit: float | None, stops: bool
) -> None:
    made = Scene(executions=400, coverage={"stall_chance": limit, "on_stall": "end"})
    made.worker.estimate = estimate
    outcome = made.run()
    assert outcome.stop_reason == ("saturated" if stops else "executions")
    assert outcome.discovery == {"kmnc": estimate}
    assert steps_of(made)[-1]["discovery"] == ({} if estimate is None else {"kmnc": estimate})


def test_the_chances_of_several_criteria_add_up_and_one_that_has_none_keeps_the_search_open() -> None:
    for chances, stops in (((0.006, 0.003), True), ((0.006, 0.006), False), ((0.0, None), False)):
        made = Scene(executions=400, coverage={"criteria": ("kmnc", "nlc"), "stall_chance": 0.01, "on_stall": "end"})
        estimates = [None if chance is None else {"executions": 500, "chance": chance, "seen": 0.9} for chance in chances]
        made.campaign.outcome.discovery = dict(zip(("kmnc", "nlc"), estimates, strict=True))
        assert made.campaign._stalled is stops


def test_a_new_item_starts_the_count_of_stale_executions_again() -> None:
    made = Scene(executions=None, wall=600, seeds=10, coverage={"stall": 200, "on_stall": "end"})
    outcome = made.run()
    gains = [event for event in steps_of(made) if event["arm"] == "search"]
    last = max(i for i, event in enumerate(gains) if i == 0 or event["coverage"] != gains[i - 1]["coverage"])
    stale = sum(event["of"] for event in gains[last + 1 :])
    assert 200 - made.campaign.step_size <= stale <= 200 + loop.IN_FLIGHT * made.campaign.step_size
    assert outcome.stop_reason == "saturated"


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_stop_ends_it_between_two_steps(steps: int) -> None:
    asked = iter([*[False] * steps, True])
    made = Scene(executions=1000, stop=lambda: next(asked))
    outcome = made.run()
    assert outcome.stop_reason == "interrupted"
    assert outcome.steps == steps
    assert outcome.curve[-1].executions == outcome.executions == sum(event["of"] for event in steps_of(made))


def test_a_wall_budget_ends_it_too() -> None:
    outcome = Scene(executions=None, wall=0.5).run()
    assert outcome.stop_reason == "wall"
    assert outcome.executions > 0


def test_gain_per_iteration_looks_at_exactly_the_first_thousand() -> None:
    made = Scene(executions=3000, batch_size=96)
    outcome = made.run()
    assert outcome.first == 1000
    assert outcome.counts["search"].executions > 1500
    assert outcome.after_first["kmnc"] <= outcome.final["kmnc"]
    few = Scene(executions=200).run()
    assert few.first == few.counts["search"].executions < 200
    assert few.after_first == few.final


@pytest.mark.parametrize("steps", [1, 15, 16, 17, 100, 331])
def test_the_curve_stays_short_evenly_spaced_and_whole(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CURVE_POINTS", 16)
    asked = iter([*[False] * steps, True])
    made = Scene(
        executions=None,
        wall=600,
        stop=lambda: next(asked),
        batch_size=8,
        shares={"judging": 0.0, "random": 0.0, "noise": 0.0},
        gradients=False,
    )
    outcome = made.run()
    at = [point.executions for point in outcome.curve]
    assert at[0] == 0
    assert at[-1] == outcome.executions == 8 * steps
    assert len(at) <= 16
    gaps = set(np.diff(at[:-1]).tolist())
    assert len(gaps) <= 1  # but for the newest
    if steps > 16:
        assert len(at) >= 8
    values = [point.coverage["kmnc"] for point in outcome.curve]
    assert values == sorted(values)
    assert values[-1] == outcome.final["kmnc"]


def test_the_same_campaign_seed_repeats_everything_and_another_does_not() -> None:
    def told(campaign_seed: int) -> tuple[Any, ...]:
        found: list[tuple[Any, ...]] = []
        made = Scene(
            fails_in_the_dark,
            executions=600,
            campaign_seed=campaign_seed,
            confirm=lambda finding: found.append((finding.key, finding.mutant.tobytes(), finding.step, finding.slot)) or True,
        )
        outcome = made.run()
        sent = [(name, asked, {key: array.tobytes() for key, array in arrays.items()}) for name, asked, arrays in made.worker.calls]
        return sent, found, list(made.judging.rows), outcome.curve

    assert told(1) == told(1)
    assert told(1)[0] != told(2)[0]


def test_operators_are_counted_by_what_their_mutants_did() -> None:
    made = Scene(executions=800)
    outcome = made.run()
    search = outcome.counts["search"]
    counts = outcome.operators.values()
    assert sum(count.executions for count in counts) == search.executions
    assert sum(count.valid for count in counts) == search.valid
    assert sum(count.findings for count in counts) == search.findings
    assert sum(count.new_items for count in counts) == len(made.worker.covered["search"])
    assert search.model_calls > search.executions  # attacks cost more than one


def test_classes_are_counted_by_the_seed_inputs_of_their_mutants() -> None:
    made = Scene(executions=800, limits=STRICT)
    proposed: list[Any] = []
    take = made.search.take

    def taken(batch: Any, outcome: Any, found: np.ndarray) -> None:
        proposed.append((made.seeds.labels[batch.seeds], batch.valid, outcome.new_items))
        take(batch, outcome, found)

    made.search.take = taken  # type: ignore[method-assign]
    outcome = made.run()
    labels, valid, new = (np.concatenate(part) for part in zip(*proposed, strict=True))
    assert set(outcome.classes) == {0, 1, 2, 3}
    for label, count in outcome.classes.items():
        mine = labels == label
        assert (count.executions, count.valid, count.new_items) == (mine.sum(), valid[mine].sum(), new[mine].sum())
    assert sum(count.new_items for count in outcome.classes.values()) == len(made.worker.covered["search"])
    assert 0 < sum(count.valid for count in outcome.classes.values()) < outcome.counts["search"].executions


def test_a_campaign_that_died_names_no_budget() -> None:
    made = Scene(executions=1000)

    def dies(*_: Any, **__: Any) -> Any:
        raise WorkerError("The worker died.")

    made.worker.call = dies  # type: ignore[method-assign]
    with pytest.raises(WorkerError):
        made.run()
    assert made.campaign.outcome.stop_reason == "error"


@pytest.mark.parametrize(("error", "reason"), [(BudgetSpent, "wall"), (Interrupted, "interrupted")])
@pytest.mark.parametrize("operations", [("run",), ("mutate", "climb")])
def test_a_batch_that_the_time_does_not_suffice_for_is_dropped(error: type[Exception], reason: str, operations: tuple[str, ...]) -> None:
    made = Scene(executions=1000)
    answers = made.worker.call

    def late(name: str, *given: Any, **more: Any) -> Any:
        if name in operations and made.campaign.outcome.executions > 300:
            raise error("too late")
        return answers(name, *given, **more)

    made.worker.call = late  # type: ignore[method-assign]
    outcome = made.run()
    assert outcome.stop_reason == reason
    assert 300 < outcome.executions == sum(event["of"] for event in steps_of(made)) < 1000
    assert outcome.curve[-1].executions == outcome.executions


def test_findings_that_there_is_no_time_to_confirm_are_counted_and_no_defects() -> None:
    asked = []

    def confirm(finding: Any) -> bool:
        asked.append(finding)
        if len(asked) > 5:
            raise BudgetSpent("too late")
        return True

    made = Scene(wrong, executions=300, confirm=confirm)
    outcome = made.run()
    assert sum(count.defects for count in outcome.counts.values()) == 5
    assert outcome.unconfirmed == len(asked) - 5 > 0
    assert steps_of(made)[-1]["unconfirmed"] == outcome.unconfirmed


def test_confirming_does_not_run_past_the_wall() -> None:
    asked: list[Any] = []

    def slow(finding: Any) -> bool:
        asked.append(finding)
        time.sleep(0.3)
        return True

    made = Scene(wrong, executions=None, wall=1.0, confirm=slow)
    started = time.monotonic()
    outcome = made.run()
    assert time.monotonic() - started < 3
    assert outcome.stop_reason == "wall"
    assert 0 < len(asked) <= 5
    assert outcome.unconfirmed > 0


def test_a_share_that_floating_point_makes_a_little_too_small_keeps_its_last_execution() -> None:
    assert int(0.58 * 100) == 57
    made = Scene(executions=100, mutants_per_seed=29, shares={"judging": 0.58, "random": 0.0, "noise": 0.0})
    assert made.run().counts["judging"].executions == 58  # two whole seed inputs
