"""Entries keep their place, their data and their origin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gate.corpus.corpus import Corpus
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.domains.image.recipe import recipe_from_json

DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))


@pytest.fixture
def corpus() -> Corpus:
    return Corpus(np.random.default_rng(0).integers(0, 256, size=(5, 8, 8, 1), dtype=np.uint8))


def grow(corpus: Corpus, seed: int, *, open_: bool = True, new_items: int = 1) -> np.ndarray:
    recipe = [DOMAIN.step("brightness", 0.5, seed), DOMAIN.step("rotation", 0.2, seed)]
    mutant = DOMAIN.replay(corpus.seeds[seed], recipe)
    corpus.add(mutant, seed, recipe, new_items=new_items, margin=0.2, open_=open_)
    return mutant


def test_seed_inputs_come_first_and_entries_keep_their_place(corpus: Corpus) -> None:
    mutants = [grow(corpus, seed) for seed in (3, 1)]
    assert len(corpus) == 7
    assert [corpus.seed_of(position) for position in range(7)] == [0, 1, 2, 3, 4, 3, 1]
    assert corpus.recipes[2] == ()
    np.testing.assert_array_equal(corpus.inputs([6, 0, 5]), np.stack([mutants[1], corpus.seeds[0], mutants[0]]))


def test_what_is_kept_is_a_copy(corpus: Corpus) -> None:
    mutant = corpus.seeds[0].copy()
    corpus.add(mutant, 0, (), new_items=1, margin=0.0, open_=True)
    mutant[:] = 0
    np.testing.assert_array_equal(corpus.inputs([5])[0], corpus.seeds[0])


def test_closed_entries_are_never_picked_and_picks_wear_off(corpus: Corpus) -> None:
    grow(corpus, 0, open_=False, new_items=10_000)
    grow(corpus, 1, new_items=1000)
    random = np.random.default_rng(1)
    first = np.bincount(corpus.pick(200, random), minlength=7)
    assert first[5] == 0
    assert first[6] == first.max()
    later = np.bincount(corpus.pick(200, random), minlength=7)
    assert later[6] < first[6]
    assert later[:5].min() > 0


def test_a_small_margin_promises_more(corpus: Corpus) -> None:
    corpus.set_margins(np.array([1.0, 0.0, 1.0, 1.0, 1.0]))
    counts = np.bincount(corpus.pick(700, np.random.default_rng(0)), minlength=5)
    assert counts[1] == counts.max()
    assert counts[1] > 2 * counts[0]


def test_what_is_saved_says_how_every_entry_was_made(corpus: Corpus, tmp_path: Path) -> None:
    for seed in (4, 2, 2):
        grow(corpus, seed)
    corpus.save(tmp_path, [f"s-{number}" for number in range(5)])
    with np.load(tmp_path / "corpus.npz", allow_pickle=False) as stored:
        x, seeds = stored["x"], stored["seed"]
    rows = [json.loads(line) for line in (tmp_path / "corpus.jsonl").read_text().splitlines()]
    assert seeds.tolist() == [4, 2, 2]
    assert [row["seed_id"] for row in rows] == ["s-4", "s-2", "s-2"]
    for mutant, seed, row in zip(x, seeds, rows, strict=True):
        np.testing.assert_array_equal(DOMAIN.replay(corpus.seeds[seed], recipe_from_json(row["recipe"])), mutant)


def test_a_corpus_without_mutants_can_be_saved(corpus: Corpus, tmp_path: Path) -> None:
    corpus.save(tmp_path, ["s"] * 5)
    with np.load(tmp_path / "corpus.npz") as stored:
        assert stored["x"].shape == (0, 8, 8, 1)
        assert stored["x"].dtype == np.uint8
    assert (tmp_path / "corpus.jsonl").read_text() == ""
