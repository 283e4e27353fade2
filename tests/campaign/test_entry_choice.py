"""The choice of entries: each strategy on a worker whose scores are known, the mixture on rewards that are known, costs, determinism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from known_model import Scene, images

from gate.campaign.budget import BudgetSpent
from gate.campaign.entry_choice import REPLAYS, SCORED, SCORING_SHARE, EntryChoice
from gate.corpus.corpus import Corpus
from gate.errors import ConfigError
from gate.randomness import generator

COUNT = 40


class Scoring:
    """A worker that gives every input the score of its first pixel; features: all alike but for inputs whose second pixel is 255."""

    def __init__(self, *, features: bool = True, dropout: bool = True) -> None:
        self.said = {"features": features, "dropout": dropout}
        self.calls: list[tuple[str, str, int, int]] = []

    def call(
        self, operation: str, parameters: Mapping[str, Any] | None = None, arrays: Mapping[str, np.ndarray] | None = None
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        asked, x = dict(parameters or {}), dict(arrays or {})["x"]
        self.calls.append((operation, asked.get("score", ""), asked.get("passes", 1), len(x)))
        flat = x.reshape(len(x), -1).astype(np.float64)
        if operation == "scorable":
            return dict(self.said), {}
        if operation == "features":
            return {"head": "head"}, {"features": (flat[:, 1:2] == 255).astype(np.float32)}
        return {}, {"score": flat[:, 0] / 255 if asked["score"] != "replays" else np.where(flat[:, 0] > 100, 0.5, 1.0)}


def corpus() -> Corpus:
    x = images(COUNT)[0]
    x[:, 0, 0], x[:, 0, 1] = 10, 0
    x[17, 0, 0], x[23, 0, 1] = 250, 255
    return Corpus(x)


def choice(worker: Any, strategy: str, made: Corpus | None = None, **changes: Any) -> EntryChoice:
    answers = np.tile([0.97, 0.01, 0.01, 0.01], (COUNT, 1))
    answers[31] = 0.25
    made = corpus() if made is None else made
    made.margins[31] = 0.0
    options: dict[str, Any] = {
        "strategy": strategy,
        "probabilities": answers,
        "campaign_seed": 5,
        "steerable": True,
        "deterministic": True,
        "room": lambda positions: np.ones(len(positions)),
        "batch_size": 64,
        **changes,
    }
    return EntryChoice(made, worker, **options)


def shares(chooser: EntryChoice, step: int = 0, count: int = 2000, **options: Any) -> np.ndarray:
    entries, _ = chooser.pick(step, count, generator(5, "search", step), **options)
    return np.bincount(entries, minlength=COUNT) / count


@pytest.mark.parametrize(
    ("strategy", "dropout", "entry"),
    [("coverage", False, 17), ("diversity", False, 23), ("uncertainty", True, 17), ("uncertainty", False, 31)],
)
def test_a_strategy_turns_to_the_entry_that_its_score_stands_out_of(strategy: str, dropout: bool, entry: int) -> None:
    found = shares(choice(Scoring(dropout=dropout), strategy))
    assert found.argmax() == entry
    assert found[entry] > 3 * np.delete(found, entry).max()


def test_uniform_takes_all_alike_and_recency_the_newest() -> None:
    even = shares(choice(Scoring(), "uniform"), count=40_000)
    assert even.min() > 0.7 / COUNT
    assert even.max() < 1.3 / COUNT
    recent = shares(choice(Scoring(), "recency"), count=40_000)
    assert recent[-10:].sum() > 1.2 * recent[:10].sum()


def test_when_defects_are_wanted_the_smallest_margin_decides_whatever_the_strategy() -> None:
    chooser = choice(Scoring(), "uniform")
    found = shares(chooser, objective="defects")
    assert found.argmax() == 31
    _, strategies = chooser.pick(1, 10, generator(5, "search", 1), "defects")
    assert strategies.tolist() == [-1] * 10
    chooser.learn(strategies, np.ones(10), np.ones(10, dtype=bool), 10.0)
    assert chooser.counts["uniform"].executions == 0


def test_what_is_closed_or_has_no_room_is_not_chosen_and_a_seed_input_always_may_be() -> None:
    made = corpus()
    made.add_all(
        made.seeds[:4],
        np.arange(4),
        [()] * 4,
        lengths=np.ones(4, dtype=np.int64),
        severities=np.zeros(4),
        new_items=np.ones(4),
        margins=np.zeros(4),
        open_=np.array([True, False, True, True]),
        step=0,
    )
    left = np.concatenate([np.zeros(COUNT), [1.0, 1.0, 0.0, 0.5]])
    chooser = choice(Scoring(), "uniform", made, room=lambda positions: left[positions])
    entries, _ = chooser.pick(0, 5000, generator(5, "search", 0))
    assert set(entries.tolist()) == {*range(COUNT), COUNT, COUNT + 3}
    assert made.picks.sum() == 5000


@pytest.mark.parametrize(("strategy", "changes"), [("coverage", {"steerable": False}), ("diversity", {"features": False})])
def test_a_strategy_that_the_model_does_not_allow_is_an_error_alone_and_left_out_of_a_mixture(strategy: str, changes: Any) -> None:
    worker, options = Scoring(features=changes.get("features", True)), {k: v for k, v in changes.items() if k != "features"}
    with pytest.raises(ConfigError, match=f"does not allow the strategy {strategy}"):
        choice(worker, strategy, **options)
    mixed = choice(worker, "mixture", **options)
    assert strategy not in mixed.names
    assert len(mixed.names) == 4
    assert mixed.left_out[strategy]


def played(chances: Mapping[str, float], steps: int, *, seed: int = 0) -> EntryChoice:
    """A mixture whose strategies pay with known chances."""
    chooser, random = choice(Scoring(), "mixture", campaign_seed=seed), np.random.default_rng(seed)
    pays = np.array([chances.get(name, 0.02) for name in chooser.names])
    for step in range(steps):
        _, strategies = chooser.pick(step, 64, generator(seed, "search", step))
        chooser.learn(strategies, (random.random(64) < pays[strategies]) * 1.0, np.zeros(64, dtype=bool), 64.0)
    return chooser


@pytest.mark.parametrize("best", ["coverage", "diversity", "uncertainty", "recency", "uniform"])
def test_the_mixture_learns_the_strategy_that_pays_and_starves_none(best: str) -> None:
    chooser = played({best: 0.6}, 200)
    weights = dict(zip(chooser.names, chooser.weights().tolist(), strict=True))
    assert weights[best] > 0.65
    assert min(weights.values()) >= 0.2 / 5
    assert chooser.counts[best].executions == max(count.executions for count in chooser.counts.values())


def test_scoring_costs_no_more_than_its_share_of_the_work_and_is_told_of() -> None:
    chooser = played({}, 300)
    scored = sum(count.model_calls for count in chooser.counts.values())
    assert 0 < scored <= SCORING_SHARE * 300 * 64
    # All of it, and the two passes over three samples that told what can be scored.
    assert chooser.spent() == scored + 6
    assert chooser.spent() == 0


def test_a_mixture_begins_with_what_needs_no_scores() -> None:
    worker = Scoring()
    chooser = choice(worker, "mixture")
    _, strategies = chooser.pick(0, 500, generator(5, "search", 0))
    assert {chooser.names[one] for one in strategies} == {"recency", "uniform"}
    assert [name for name, *_ in worker.calls] == ["scorable"]


def test_work_of_the_search_for_which_nothing_was_chosen_pays_for_scores_too() -> None:
    worker = Scoring()
    chooser = choice(worker, "mixture")
    chooser.worked(1000.0)  # not yet enough
    chooser.pick(0, 10, generator(5, "search", 0))
    assert [name for name, *_ in worker.calls] == ["scorable"]
    chooser.worked(1e5)
    chooser.pick(1, 10, generator(5, "search", 1))
    assert {name for name, *_ in worker.calls} == {"scorable", "score", "features"}


def test_a_subset_is_scored_in_requests_no_larger_than_a_batch_and_anew_once_there_is_work_to_spare() -> None:
    worker = Scoring()
    made = Corpus(images(200)[0])
    chooser = choice(worker, "coverage", made, batch_size=48, probabilities=np.full((200, 4), 0.25))
    first, _ = chooser.pick(0, 100, generator(5, "search", 0))
    assert [(kind, rows) for _, kind, _, rows in worker.calls] == [("gradient", 48), ("gradient", SCORED - 48)]
    assert len(set(first.tolist())) <= SCORED
    chooser.pick(1, 100, generator(5, "search", 1))
    assert len(worker.calls) == 2
    chooser.learn(np.zeros(100, dtype=np.int64), np.zeros(100), np.zeros(100, dtype=bool), 2 * 3 * SCORED / SCORING_SHARE)
    second, _ = chooser.pick(2, 100, generator(5, "search", 2))
    assert len(worker.calls) == 4
    assert set(second.tolist()) != set(first.tolist())


def test_the_variance_of_an_entry_is_measured_once() -> None:
    worker = Scoring()
    chooser = choice(worker, "uncertainty")
    for step in range(3):
        chooser.pick(step, 10, generator(5, "search", step))
        chooser.learn(np.zeros(10, dtype=np.int64), np.zeros(10), np.zeros(10, dtype=bool), 1e6)
    assert [rows for _, kind, _, rows in worker.calls if kind == "variance"] == [COUNT]


def test_the_same_seed_and_history_choose_the_same_entries() -> None:
    def history(seed: int) -> list[np.ndarray]:
        chooser = choice(Scoring(), "mixture", campaign_seed=seed)
        found: list[np.ndarray] = []
        for step in range(40):
            picked = chooser.pick(step, 64, generator(seed, "search", step))
            chooser.learn(picked[1], (picked[0] % 3 == 0) * 1.0, picked[0] == 7, 200.0)
            found += picked
        return found

    for once, again in zip(history(1), history(1), strict=True):
        np.testing.assert_array_equal(once, again)
    assert any((once != other).any() for once, other in zip(history(1), history(2), strict=True))


def test_stability_takes_replays_only_of_models_that_change_their_answers() -> None:
    x = np.zeros((3, 8, 8, 1), np.uint8)
    x[1] = 200
    steady, changing = Scoring(), Scoring()
    assert choice(steady, "uniform").stabilities(x) is None
    assert steady.calls == []
    chooser = choice(changing, "uniform", deterministic=False)
    found = chooser.stabilities(x)
    assert found is not None
    assert found.tolist() == [1.0, 0.5, 1.0]
    assert changing.calls == [("score", "replays", REPLAYS, 3)]
    assert chooser.spent() == 3 * REPLAYS
    assert chooser.stabilities(x[:0]) is None


@pytest.mark.parametrize("strategy", ["mixture", "coverage", "diversity", "uncertainty", "recency", "uniform"])
def test_a_campaign_runs_with_every_strategy_and_counts_what_scoring_costs(strategy: str) -> None:
    made = Scene(executions=600, search={"strategy": strategy}, gradients=strategy in ("mixture", "coverage"))
    outcome = made.run()
    counts = made.search.entries.counts
    chosen = sum(count.executions for count in counts.values())
    assert 0 < chosen <= outcome.counts["search"].executions
    scored = sum(count.model_calls for count in counts.values())
    assert outcome.counts["search"].model_calls >= outcome.counts["search"].executions + scored
    assert (scored > 0) == (strategy in ("coverage", "diversity"))


def test_kept_entries_of_a_model_that_changes_its_answers_know_how_stable_they_are() -> None:
    made = Scene(executions=400, deterministic=False, gradients=False)
    made.run()
    replayed = [arrays["x"] for name, asked, arrays in made.worker.calls if name == "score" and asked["score"] == "replays"]
    # Those that stand for another, as simpler, take over what is known of it.
    assert 0 < sum(map(len, replayed)) <= len(made.corpus) - 40
    assert made.corpus.stabilities.tolist() == [1.0] * len(made.corpus)


def test_entries_for_whose_replays_there_was_no_time_are_kept_as_unstable() -> None:
    made = Scene(executions=400, deterministic=False)
    original, asked = made.worker.call, []

    def call(operation: str, parameters: Any = None, *given: Any, **options: Any) -> Any:
        if operation == "score" and parameters["score"] == "replays":
            asked.append(len(made.corpus))
            if len(asked) == 2:
                raise BudgetSpent("The budget ended.")
        return original(operation, parameters, *given, **options)

    made.worker.call = call  # type: ignore[method-assign]
    made.run()
    assert len(asked) >= 2
    assert 0.0 in made.corpus.stabilities[asked[1] :]
    assert (made.corpus.stabilities[: asked[1]] == 1.0).all()
