"""Entries keep their place, their data and their origin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gate.corpus.corpus import Corpus
from gate.corpus.corpus_file import CorpusHead, CorpusWriter, read_corpus
from gate.corpus.mutant_store import MutantStore
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.domains.image.recipe import Step, recipe_from_json

DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))


@pytest.fixture
def corpus() -> Corpus:
    return Corpus(np.random.default_rng(0).integers(0, 256, size=(5, 8, 8, 1), dtype=np.uint8))


def keep(corpus: Corpus, mutant: np.ndarray, seed: int, recipe: list[Step]) -> None:
    corpus.add_all(
        mutant[None],
        np.array([seed]),
        [recipe],
        lengths=np.array([len(recipe)]),
        severities=np.array([sum(step.severity for step in recipe)]),
        new_items=np.ones(1),
        margins=np.array([0.2]),
        open_=np.ones(1, dtype=bool),
        step=0,
    )


def grow(corpus: Corpus, seed: int) -> np.ndarray:
    recipe = [DOMAIN.step("brightness", 0.5, seed), DOMAIN.step("rotation", 0.2, seed)]
    mutant = DOMAIN.replay(corpus.seeds[seed], recipe)
    keep(corpus, mutant, seed, recipe)
    return mutant


def test_seed_inputs_come_first_and_entries_keep_their_place(corpus: Corpus) -> None:
    mutants = [grow(corpus, seed) for seed in (3, 1)]
    assert len(corpus) == 7
    assert corpus.seeds_of(range(7)).tolist() == [0, 1, 2, 3, 4, 3, 1]
    assert corpus.recipes[2] == ()
    np.testing.assert_array_equal(corpus.inputs([6, 0, 5]), np.stack([mutants[1], corpus.seeds[0], mutants[0]]))


def test_what_is_kept_is_a_copy(corpus: Corpus) -> None:
    mutant = corpus.seeds[0].copy()
    keep(corpus, mutant, 0, [])
    mutant[:] = 0
    np.testing.assert_array_equal(corpus.inputs([5])[0], corpus.seeds[0])


def add_all(corpus: Corpus, mutants: np.ndarray, seeds: np.ndarray, *, signatures: np.ndarray | None = None, steps: int = 1) -> None:
    recipes = [[DOMAIN.step("brightness", 0.5, row)] * steps for row in range(len(mutants))]
    corpus.add_all(
        mutants,
        seeds,
        recipes,
        lengths=np.full(len(mutants), steps),
        severities=np.full(len(mutants), 0.5 * steps),
        new_items=np.arange(len(mutants)) + 1.0,
        margins=np.full(len(mutants), 0.25),
        open_=np.ones(len(mutants), dtype=bool),
        step=7,
        signatures=signatures,
    )


def offer(corpus: Corpus, mutant: np.ndarray, seed: int, signature: int, *, steps: int = 1, open_: bool = True) -> int:
    return corpus.simplify(
        mutant[None],
        np.array([seed]),
        [[DOMAIN.step("gaussian_blur", 0.25, 1)] * steps],
        lengths=np.array([steps]),
        severities=np.array([0.25 * steps]),
        margins=np.array([0.5]),
        open_=np.array([open_]),
        step=9,
        signatures=np.array([signature]),
    )


def test_a_step_is_added_at_once_and_read_by_column(corpus: Corpus) -> None:
    mutants = np.random.default_rng(5).integers(0, 256, size=(300, 8, 8, 1), dtype=np.uint8)
    seeds = np.arange(300) % 5
    add_all(corpus, mutants, seeds)
    everything = np.arange(305)
    np.testing.assert_array_equal(corpus.seeds_of(everything), np.concatenate([np.arange(5), seeds]))
    np.testing.assert_array_equal(corpus.lengths([0, 5, 304]), [0, 1, 1])
    np.testing.assert_array_equal(corpus.severities([0, 5, 304]), [0.0, 0.5, 0.5])
    np.testing.assert_array_equal(corpus.steps[[4, 5]], [-1, 7])
    mixed = np.array([304, 2, 5, 304, 0])
    np.testing.assert_array_equal(
        corpus.inputs(mixed), np.stack([mutants[299], corpus.seeds[2], mutants[0], mutants[299], corpus.seeds[0]])
    )
    later = corpus.recipes_of(mixed)
    grow(corpus, 1)
    assert [len(recipe) for recipe in later] == [1, 0, 1, 1, 0]
    assert later[0][0].draw == 299


def test_of_mutants_that_cover_the_same_the_corpus_goes_on_with_the_simplest(corpus: Corpus) -> None:
    far = np.clip(corpus.seeds[3].astype(int) + 40, 0, 255).astype(np.uint8)
    near = np.clip(corpus.seeds[3].astype(int) + 3, 0, 255).astype(np.uint8)
    add_all(corpus, far[None], np.array([3]), signatures=np.array([77]), steps=2)
    corpus.count_picks(np.array([5, 5]))
    assert offer(corpus, near, 3, 78) == 0  # covers something else
    assert offer(corpus, near, 3, 77, steps=3) == 0  # a longer chain
    assert offer(corpus, near, 3, 77, open_=False) == 0  # can't be mutated further
    assert offer(corpus, far, 3, 77, steps=2) == 0  # no simpler
    assert len(corpus) == 6
    assert offer(corpus, far, 3, 77) == 1  # shorter
    assert offer(corpus, near, 3, 77) == 1  # nearer
    assert corpus.open.tolist() == [True] * 5 + [False, False, True]
    np.testing.assert_array_equal(corpus.inputs([5, 7]), np.stack([far, near]))  # what an entry holds never changes
    assert corpus.picks[7] == 2
    assert corpus.new_items[7] == corpus.new_items[5] == 1.0
    assert corpus.recipes[7][0].operator == "gaussian_blur"


def test_entries_of_unknown_coverage_replace_nothing(corpus: Corpus) -> None:
    add_all(corpus, corpus.seeds[:2], np.array([0, 1]))
    assert offer(corpus, corpus.seeds[0], 0, 0) == 0
    assert len(corpus) == 7


def written(folder: Path, corpus: Corpus, memory: int | None = None) -> Corpus:
    head = CorpusHead((8, 8, 1), "uint8", (0.0, 255.0), "sha256:seeds")
    file = CorpusWriter(folder / "corpus.bin", head)
    return Corpus(corpus.seeds, file=file, seed_ids=[f"s-{number}" for number in range(5)], memory=memory)


def test_the_file_says_how_every_entry_was_made(corpus: Corpus, tmp_path: Path) -> None:
    corpus = written(tmp_path, corpus)
    mutants = [grow(corpus, seed) for seed in (4, 2, 2)]
    add_all(corpus, mutants[0][None], np.array([4]), signatures=np.array([5]), steps=2)
    assert offer(corpus, mutants[0], 4, 5) == 1
    assert corpus.file is not None
    corpus.file.close()
    found = read_corpus(tmp_path / "corpus.bin")
    assert found.entries.seed_ids == ("s-4", "s-2", "s-2", "s-4", "s-4")
    assert found.cut == 0
    assert found.current.tolist() == [0, 1, 2, 4]
    assert found.entries.replaces.tolist() == [-1, -1, -1, -1, 3]
    np.testing.assert_array_equal(found.entries.distances, corpus.distances[5:])
    for mutant, seed, recipe in zip(found.mutants(np.arange(3)), (4, 2, 2), found.entries.recipes, strict=False):
        np.testing.assert_array_equal(DOMAIN.replay(corpus.seeds[seed], recipe_from_json(recipe)), mutant)
    np.testing.assert_array_equal(found.mutants(np.arange(3)), mutants)


def test_a_corpus_without_mutants_is_a_file_without_entries(corpus: Corpus, tmp_path: Path) -> None:
    file = written(tmp_path, corpus).file
    assert file is not None
    file.close()
    found = read_corpus(tmp_path / "corpus.bin")
    assert len(found.entries) == 0
    assert found.mutants(np.zeros(0, dtype=np.int64)).shape == (0, 8, 8, 1)


@pytest.mark.parametrize("memory", [1, 64 * 7, 64 * 50, 1 << 20])
def test_what_was_spilled_changes_nothing_that_is_handed_out(corpus: Corpus, tmp_path: Path, memory: int) -> None:
    random = np.random.default_rng(8)
    made = written(tmp_path, corpus, memory)
    known = corpus.seeds
    for _ in range(12):
        mutants = random.integers(0, 256, size=(int(random.integers(1, 30)), 8, 8, 1), dtype=np.uint8)
        add_all(made, mutants, random.integers(5, size=len(mutants)))
        known = np.concatenate([known, mutants])
        for size in (1, 40):
            positions = random.integers(len(known), size=size)
            np.testing.assert_array_equal(made.inputs(positions), known[positions])
    assert made.mutants_held <= max(1, memory // 64)
    assert made.mutants_held == min(max(1, memory // 64), len(known) - 5)


def test_two_hundred_thousand_entries_stay_within_their_memory(corpus: Corpus, tmp_path: Path) -> None:
    made = written(tmp_path, corpus, 1 << 20)
    mutants = np.random.default_rng(1).integers(0, 4, size=(20_000, 8, 8, 1), dtype=np.uint8)
    none: list[list[object]] = [[]] * 20_000
    for step in range(10):
        made.add_all(
            mutants + np.uint8(step),
            np.zeros(20_000, dtype=np.int64),
            none,
            lengths=np.ones(20_000, dtype=np.int64),
            severities=np.ones(20_000),
            new_items=np.ones(20_000),
            margins=np.ones(20_000),
            open_=np.ones(20_000, dtype=bool),
            step=step,
        )
    assert len(made) == 200_005
    assert made.mutants_held == 1 << 14
    positions = np.random.default_rng(2).integers(5, 200_005, size=500)
    step, row = np.divmod(positions - 5, 20_000)
    np.testing.assert_array_equal(made.inputs(positions), mutants[row] + step.astype(np.uint8)[:, None, None, None])


def test_what_was_used_longest_ago_makes_room() -> None:
    everything = np.arange(10, dtype=np.uint8).reshape(10, 1)
    asked: list[list[int]] = []

    def read(numbers: np.ndarray) -> np.ndarray:
        asked.append(numbers.tolist())
        return everything[numbers]

    store = MutantStore((1,), np.uint8, read=read, memory=3)
    store.add(everything[:3])
    store.take(np.array([0, 2]))
    store.add(everything[3:4])
    for number in (0, 2, 3, 1):
        assert store.take(np.array([number])).tolist() == [[number]]
    assert asked == [[1]]
    store.take(np.array([2, 3, 1]))
    assert asked == [[1]]
