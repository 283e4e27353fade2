"""The choice of operators: what pays is drawn more, up to the cap; none starves; what paid once is forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.campaign.bandit import CAP, FLOOR, HALF_LIFE, Bandit
from gate.campaign.operator_choice import WEIGHT_POINTS, OperatorChoice
from gate.campaign.payoff import Objective


def played(choice: OperatorChoice, chances: np.ndarray, steps: int, *, seed: int = 0, objective: Objective = "coverage") -> np.ndarray:
    """The weights after so many steps of 64 draws of a problem whose best arm is known: each operator finds with its own chance."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        operators = choice.draw(64, random, objective)
        choice.learn(operators, np.zeros(64), random.random(64) < chances[operators])
    return choice.weights(objective)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("arms", [2, 3, 10, 60])
def test_the_best_of_any_number_of_operators_comes_to_the_cap_and_none_falls_below_the_floor(arms: int, seed: int) -> None:
    chances = np.full(arms, 0.01)
    best = (7 * seed + 3) % arms
    chances[best] = 0.5
    weights = played(OperatorChoice([f"o{i}" for i in range(arms)], [1.0] * arms), chances, 60, seed=seed)
    assert weights.argmax() == best
    assert weights.sum() == pytest.approx(1)
    assert 0.7 < weights[best] <= CAP
    assert weights.min() >= FLOOR / arms


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.5, 200)), min_size=1, max_size=60))
def test_floor_and_cap_hold_whatever_was_paid(paid: list[tuple[float, float]]) -> None:
    bandit = Bandit(np.array([cost for _, cost in paid]))
    for _ in range(3):
        weights = bandit.weights()
        assert weights.sum() == pytest.approx(1)
        assert weights.min() >= FLOOR / len(paid) - 1e-12
        assert weights.max() <= (CAP if len(paid) > 1 else 1.0)
        bandit.learn(np.arange(len(paid)), np.array([reward for reward, _ in paid]))


def test_of_two_the_better_one_has_exactly_the_cap_and_one_alone_has_everything() -> None:
    chances = np.array([0.0, 1.0])
    assert played(OperatorChoice(["a", "b"], [1.0, 1.0]), chances, 20).tolist() == pytest.approx([1 - CAP, CAP], abs=1e-15)
    assert OperatorChoice(["only"], [7.0]).weights().tolist() == [1.0]


def test_what_no_longer_pays_is_forgotten() -> None:
    choice = OperatorChoice([f"o{i}" for i in range(10)], [1.0] * 10)
    chances = np.full(10, 0.01)
    chances[2] = 0.5
    assert played(choice, chances, 200).argmax() == 2
    chances[2], chances[7] = 0.01, 0.5
    # Within a few half-lives, however long the first one paid.
    weights = played(choice, chances, int(4 * HALF_LIFE / 64), seed=1)
    assert weights.argmax() == 7
    assert weights[7] > 0.6


def test_an_operator_is_worth_what_it_finds_for_its_cost() -> None:
    choice = OperatorChoice(["cheap", "dear"], [1.0, 31.0])
    assert choice.weights()[0] == CAP  # until something is known, what is cheap
    both = np.array([0, 1])
    for _ in range(100):
        choice.learn(both, np.array([1.0, 1.0]), np.array([False, False]))
    assert choice.weights()[0] == CAP
    for _ in range(2000):
        choice.learn(both, np.array([0.0, 1.0]), np.array([False, True]))
    assert choice.weights()[1] == CAP


def test_weights_share_out_work_and_not_mutants() -> None:
    choice = OperatorChoice(["cheap", "dear"], [1.0, 9.0], adaptive=False)
    drawn = choice.draw(10_000, np.random.default_rng(0))
    assert (drawn == 1).mean() == pytest.approx(0.1, abs=0.01)


def test_work_that_was_done_counts_and_not_the_work_that_was_declared() -> None:
    choice = OperatorChoice(["a", "b"], [1.0, 1.0])
    for _ in range(300):
        choice.learn(np.array([0, 1]), np.array([2.0, 1.0]), np.array([False, False]), np.array([20.0, 1.0]))
    assert choice.weights()[1] > 0.75


def test_more_new_items_are_worth_more_but_one_lucky_mutant_does_not_decide() -> None:
    choice = OperatorChoice(["few", "many"], [1.0, 1.0])
    none = np.zeros(2, dtype=bool)
    for _ in range(100):
        choice.learn(np.array([0, 1]), np.array([1.0, 3.0]), none)
    assert choice.weights()[1] > 0.7
    lucky = OperatorChoice(["steady", "lucky"], [1.0, 1.0])
    for step in range(100):
        lucky.learn(np.array([0, 1]), np.array([1.0, 1e6 if step == 50 else 0.0]), none)
    assert lucky.weights()[0] > 0.7


def test_when_defects_are_wanted_findings_alone_count_and_at_once() -> None:
    choice = OperatorChoice(["covers", "finds"], [1.0, 1.0])
    random = np.random.default_rng(0)
    for _ in range(20):
        operators = choice.draw(64, random)
        choice.learn(operators, (operators == 0) * 1.0, (operators == 1) & (random.random(64) < 0.05))
    assert choice.weights()[0] > 0.7
    assert choice.weights("defects")[1] == CAP


def test_without_adaptation_all_are_alike_whatever_was_found() -> None:
    choice = OperatorChoice(["a", "b", "c"], [1.0, 5.0, 31.0], adaptive=False)
    assert played(choice, np.array([0.0, 0.9, 0.0]), 20).tolist() == pytest.approx([1 / 3] * 3)


def test_the_weights_over_time_are_kept_in_little_memory_and_end_with_those_of_now() -> None:
    choice = OperatorChoice(["a", "b"], [1.0, 1.0])
    chances = np.array([0.01, 0.5])
    played(choice, chances, 500)
    executions = [point.executions for point in choice.history]
    assert WEIGHT_POINTS / 2 <= len(executions) <= WEIGHT_POINTS + 1
    assert executions == sorted(set(executions))
    assert (executions[0], executions[-1]) == (0, 500 * 64)
    assert choice.history[0].weights.tolist() == [0.5, 0.5]
    np.testing.assert_array_equal(choice.history[-1].weights, choice.weights())


def test_the_same_results_lead_to_the_same_weights() -> None:
    chances = np.linspace(0, 0.3, 12)
    once, again = (played(OperatorChoice([f"o{i}" for i in range(12)], [1.0] * 12), chances, 30) for _ in range(2))
    np.testing.assert_array_equal(once, again)
