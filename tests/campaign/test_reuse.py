"""Entries of an earlier corpus: made again under this campaign's own rules, whatever their file says, and every one accounted for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_model import CLASSES, TRAP, images, write_npz
from saved_models import Stripes, save

from gate.campaign.reuse import Reuse
from gate.config import Settings
from gate.corpus.corpus_file import CorpusHead, CorpusWriter, Entries, read_corpus
from gate.corpus.locate import corpus_of
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import sample_ids
from gate.domains.image.limits import Domain
from gate.errors import DataError
from gate.pipeline import run
from gate.result import Result, Verdict

SEEDS, LABELS = images()
IDS = sample_ids(SEEDS, LABELS)
DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
NAMES = (*DOMAIN.natural, "pgd")


def stored(path: Path, rows: list[tuple[str, list[Any], np.ndarray]], *, head: CorpusHead | None = None, replaces: Any = None) -> Path:
    """A corpus file with one entry a row: seed input's identity, recipe, mutant."""
    file = CorpusWriter(path, head or CorpusHead((8, 8, 1), "uint8", (0.0, 255.0), "sha256:any"))
    count = len(rows)
    ones = np.ones(count)
    entries = Entries(
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        new_items=ones,
        margins=ones,
        open=ones > 0,
        distances=ones,
        stabilities=ones,
        signatures=np.zeros(count, dtype=np.int64),
        replaces=np.full(count, -1) if replaces is None else np.array(replaces),
    )
    file.append(entries, np.stack([row[2] for row in rows]), step=0)
    file.close()
    return path


def natural(seed: int, *steps: tuple[str, float, int], domain: ImageDomain = DOMAIN) -> tuple[str, list[Any], np.ndarray]:
    recipe = [domain.step(*step) for step in steps]
    return IDS[seed], [step.to_json() for step in recipe], domain.replay(SEEDS[seed], recipe)


def reuse(path: Path, *, domain: ImageDomain = DOMAIN, seeds: slice = slice(None), names: tuple[str, ...] = NAMES) -> Reuse:
    return Reuse(read_corpus(path), domain, SEEDS[seeds], IDS[seeds], known_ids=IDS, operators=names, labels=LABELS[seeds])


def test_natural_recipes_are_made_again_to_the_same_bytes_in_order(tmp_path: Path) -> None:
    rows = [
        natural(seed, ("brightness", 0.4, seed), *[("gamma", 0.3, seed)] * (seed % 2), *[("rotation", 0.2, 5)] * (seed % 3 == 2))
        for seed in range(20)
    ]
    made = reuse(stored(tmp_path / "corpus", rows))
    first, second, third = made.propose(0, 8), made.propose(1, 30), made.propose(2, 30)
    assert first is not None
    assert second is not None
    assert third is None
    assert (len(first.x), len(second.x)) == (8, 12)
    np.testing.assert_array_equal(np.concatenate([first.x, second.x]), np.stack([row[2] for row in rows]))
    recipes = [[step.to_json() for step in recipe] for batch in (first, second) for recipe in batch.recipes]
    assert recipes == [row[1] for row in rows]
    assert first.seeds.tolist() == list(range(8))
    assert first.valid.all()
    assert first.operators is not None
    assert [NAMES[place] for place in first.operators.tolist()] == [row[1][-1]["operator"] for row in rows[:8]]
    assert made.summary() == {
        "entries": 20,
        "used": 20,
        "left": 0,
        "no_seed": 0,
        "misclassified": 0,
        "unknown": 0,
        "invalid": 0,
        "changed": 0,
    }


def test_those_that_do_not_fit_are_counted_by_reason(tmp_path: Path) -> None:
    good = natural(3, ("brightness", 0.4, 1))
    pgd = {"operator": "pgd", "severity": 0.0, "draw": 1, "parameters": {"linf": 0.03}}
    rows = [
        good,
        ("s-nobody", good[1], good[2]),
        natural(39, ("gamma", 0.5, 1)),  # its seed input is misclassified
        (IDS[1], [{**good[1][0], "operator": "vanish"}], good[2]),
        (IDS[1], [{**good[1][0], "severity": 1.5}], good[2]),
        (IDS[1], [{**good[1][0], "severity": "much"}], good[2]),
        (IDS[1], [{**good[1][0], "draw": -1}], good[2]),
        (IDS[1], [{**good[1][0], "draw": 1 << 70}], good[2]),
        (IDS[1], [pgd, good[1][0]], good[2]),  # nothing can go on from what a model made
        (IDS[1], [], good[2]),
        (IDS[1], ["brightness"], good[2]),
        natural(4, *[("brightness", 0.9, 1)] * 4),  # too much in a row
        good,
    ]
    made = reuse(stored(tmp_path / "corpus", rows, replaces=[-1] * 12 + [0]), seeds=slice(0, 39))
    batch = made.propose(0, 100)
    assert batch is not None
    assert len(batch.x) == 1
    assert made.propose(1, 100) is None
    counts = made.summary()
    assert (counts["entries"], counts["used"], counts["no_seed"], counts["misclassified"]) == (12, 1, 1, 1)
    assert (counts["unknown"], counts["invalid"]) == (8, 1)


def test_what_a_model_made_is_taken_from_the_file_and_held_to_the_bound_of_now(tmp_path: Path) -> None:
    step = natural(2, ("brightness", 0.5, 7))
    bound = DOMAIN.model_bounds["pgd"]
    most = int(bound * 255)
    near = np.clip(step[2].astype(int) + most, 0, 255).astype(np.uint8)
    far = np.clip(step[2].astype(int) + 90, 0, 255).astype(np.uint8)
    pgd = DOMAIN.model_step("pgd", 9).to_json()
    path = stored(tmp_path / "corpus", [(IDS[2], [*step[1], pgd], near), (IDS[2], [*step[1], pgd], far), (IDS[2], [pgd], SEEDS[2])])
    made = reuse(path)
    batch = made.propose(0, 10)
    assert batch is not None
    np.testing.assert_array_equal(batch.x[0], near)
    assert np.abs(batch.x[1].astype(int) - step[2]).max() <= most
    assert [tuple(step.operator for step in recipe) for recipe in batch.recipes] == [("brightness", "pgd")] * 2 + [("pgd",)]
    assert made.count.changed == 1
    assert reuse(path, names=DOMAIN.natural).summary()["unknown"] == 3  # the model has no gradients


def test_a_file_can_not_smuggle_in_what_the_policy_forbids(tmp_path: Path) -> None:
    """Parameters beyond the limit, or other bytes than the recipe makes: both are made anew from severity and draw."""
    row = natural(5, ("brightness", 1.0, 3))
    strict = ImageDomain(Domain.model_validate({"photometry": {"brightness": 0.05}}), (8, 8, 1), np.uint8, (0.0, 255.0))
    forged = (row[0], [{**row[1][0], "parameters": {"delta": 0.9, "shift": 0.9, "size": 10**9}}], np.full((8, 8, 1), 255, np.uint8))
    made = reuse(stored(tmp_path / "corpus", [row, forged]), domain=strict, names=strict.natural)
    batch = made.propose(0, 10)
    assert batch is not None
    assert np.abs(batch.x.astype(int) - SEEDS[5]).max() <= 0.05 * 255 + 1
    assert made.count.changed == 2
    for mutant, recipe in zip(batch.x, batch.recipes, strict=True):
        np.testing.assert_array_equal(strict.replay(SEEDS[5], recipe), mutant)


@pytest.mark.parametrize(
    "head",
    [
        CorpusHead((8, 9, 1), "uint8", (0.0, 255.0), ""),
        CorpusHead((8, 8, 1), "float32", (0.0, 255.0), ""),
        CorpusHead((8, 8, 1), "uint8", (0.0, 16.0), ""),
    ],
)
def test_a_corpus_of_other_inputs_is_refused(tmp_path: Path, head: CorpusHead) -> None:
    path = stored(tmp_path / "corpus", [(IDS[0], [], np.zeros(head.shape, head.dtype))], head=head)
    with pytest.raises(DataError, match="this campaign's are"):
        reuse(path)


def test_a_corpus_with_a_mutant_that_can_not_be_unpacked_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = stored(tmp_path / "corpus", [natural(1, ("gamma", 0.5, 1))])
    found = read_corpus(path)
    found._sizes[0] -= 1
    with pytest.raises(DataError, match="refused"):
        Reuse(found, DOMAIN, SEEDS, IDS, known_ids=IDS, operators=NAMES, labels=LABELS)


def test_a_corpus_is_found_by_file_and_by_folder_and_never_through_a_link_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "run" / "campaign").mkdir(parents=True)
    path = stored(tmp_path / "run" / "campaign" / "corpus.bin", [natural(1, ("gamma", 0.5, 1))])
    for source in (path, tmp_path / "run"):
        assert corpus_of(str(source), tmp_path / "into", tracking_uri=None) == path
    outside = path.rename(tmp_path / "outside")
    path.symlink_to(outside)
    with pytest.raises(DataError, match="no corpus"):
        corpus_of(str(tmp_path / "run"), tmp_path / "into", tracking_uri=None)
    with pytest.raises(DataError, match="no such corpus"):
        corpus_of("a-run-id-perhaps")  # nothing is fetched
    for missing in ("nothere", str(tmp_path / "nowhere"), "a\0b", "x" * 5000 + "/y"):
        with pytest.raises(DataError, match="no such corpus"):
            corpus_of(missing, tmp_path / "into", tracking_uri=None)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Result, Path]:
    base = tmp_path_factory.mktemp("two runs")
    settings = {
        "model": str(save(Stripes(trap=TRAP).eval(), base / "model")),
        "classes": CLASSES,
        "data": {"seeds": str(write_npz(base / "seeds.npz"))},
        "coverage": {"layers": ("hidden",), "criteria": ("kmnc", "nbc")},
        "previous": "none",
        "device": "cpu",
        "batch_size": 64,
    }
    first = run(Settings.model_validate({**settings, "budget": {"executions": 600}, "out": str(base / "first")})).result
    again = {"budget": {"executions": 900}, "out": str(base / "second"), "corpus": str(base / "first")}
    return first, run(Settings.model_validate({**settings, **again})).result, base


def test_a_run_starts_from_the_corpus_of_the_one_before(two_runs: tuple[Result, Result, Path]) -> None:
    first, second, base = two_runs
    assert first.verdict is not Verdict.ERROR, first.reasons
    assert first.campaign is not None
    assert second.campaign is not None
    assert first.campaign.reused is None
    reused, entries = second.campaign.reused, read_corpus(base / "first" / "campaign" / "corpus.bin").current
    assert reused is not None
    assert reused.used == reused.entries == len(entries) > 20
    assert reused.changed == 0
    # All that the first run covered, the second has covered from its first executions on.
    for name, before in first.coverage.items():
        assert second.coverage[name].final >= before.final
    events = [json.loads(line) for line in (base / "second" / "events.jsonl").read_text().splitlines()]
    said = next(event for event in events if event.get("event", event.get("kind")) == "corpus" or event.get("name") == "corpus")
    assert said["used"] == reused.used
