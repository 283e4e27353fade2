"""Arms get their shares, whatever the budget, and what one leaves is the search's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_model import scene

from gate.campaign.arms import ARMS, ArmCount, Turns

SHARES = {"judging": 0.3, "random": 0.05, "noise": 0.02}
WANTED = {"search": 0.63, **SHARES}


def executed(**options: object) -> dict[str, int]:
    made = scene(model=lambda x: x.reshape(len(x), -1)[:, :4].astype("float32"), confirm=lambda _: False, **options)
    outcome = made.run()
    assert outcome.stop_reason == "executions"
    return {arm: count.executions for arm, count in outcome.counts.items()}


@pytest.mark.parametrize("budget", [1, 7, 8, 23, 24, 100, 101, 500, 1999])
def test_a_budget_is_spent_to_the_last_execution_and_shared_within_a_step(budget: int) -> None:
    counts = executed(executions=budget, seeds=100, batch_size=64)
    assert sum(counts.values()) == budget
    step = max(1, min(64, max(8, budget // 24)))
    for arm, share in WANTED.items():
        # The judging arm takes whole seed inputs only; what is too little for one is the search's.
        assert abs(counts[arm] - share * budget) <= step + (8 if arm == "search" else 0), arm
    assert counts["judging"] % 8 == 0
    assert counts["judging"] <= 0.3 * budget


def test_a_judging_arm_without_seed_inputs_leaves_its_share_to_the_search() -> None:
    counts = executed(executions=2000, seeds=4, batch_size=32)
    assert counts["judging"] == 4 * 8
    assert counts["random"] <= 0.05 * 2000 + 1
    assert counts["noise"] <= 0.02 * 2000 + 1
    assert counts["search"] >= 2000 * 0.93 - 32 - 2


def test_a_share_of_everything_lets_the_search_finish_the_rest() -> None:
    counts = executed(executions=300, seeds=10, shares={"judging": 1.0, "random": 0.0, "noise": 0.0})
    assert counts == {"search": 300 - 80, "judging": 80, "random": 0, "noise": 0}


shares = st.tuples(*[st.floats(0, 1)] * 3).filter(lambda s: sum(s) <= 1)


@settings(max_examples=80, deadline=None)
@given(shares, st.integers(1, 64), st.integers(1, 60), st.integers(0, 60))
def test_every_open_arm_stays_within_a_step_of_its_share(given_: tuple[float, ...], step: int, turns: int, judging_ends: int) -> None:
    dealt = Turns(dict(zip(("judging", "random", "noise"), given_, strict=True)))
    counts = {arm: ArmCount() for arm in ARMS}
    for turn in range(turns):
        arms = frozenset(ARMS) - ({"judging"} if turn >= judging_ends else set())
        arm = dealt.next({name: count.executions for name, count in counts.items()}, arms, step)
        if arm is None:
            assert all(dealt.shares[name] <= 0 for name in arms)
            return
        assert dealt.shares[arm] > 0 or (arm == "search" and "judging" not in arms)
        counts[arm].executions += step
        total = sum(count.executions for count in counts.values())
        for name in arms - {"search"}:
            assert counts[name].executions <= dealt.shares[name] * total + step
        if dealt.shares["search"] > 0 and turn < judging_ends:
            for name in arms:
                assert counts[name].executions >= dealt.shares[name] * total - 3 * step


def test_no_open_arm_no_turn() -> None:
    assert Turns(SHARES).next(dict.fromkeys(ARMS, 0), frozenset(), 8) is None
    assert Turns({"judging": 1.0, "random": 0.0, "noise": 0.0}).next(dict.fromkeys(ARMS, 0), frozenset({"noise"}), 8) is None
