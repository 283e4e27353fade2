"""Splices in the search: donors of the same class, made again from recipe and donor, and never natural."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_model import Scene, images

from gate.campaign.batch import Batch
from gate.campaign.donors import Donors
from gate.campaign.reuse import Reuse
from gate.corpus.corpus_file import CorpusHead, CorpusWriter, Entries, read_corpus
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import sample_ids
from gate.domains.image.limits import Domain

SPLICING = ("block_copy", "splice")
WIDE = Domain.model_validate({"splicing": {"block_copy": 0.3, "splice": 0.3}})


def proposals(made: Scene, monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    seen: list[Batch] = []
    propose = made.search.propose

    def proposing(step: int, count: int) -> Batch:
        seen.append(propose(step, count))
        return seen[-1]

    monkeypatch.setattr(made.search, "propose", proposing)
    made.run()
    return seen


def test_donors_are_others_of_the_same_class_all_alike() -> None:
    labels = np.array([0, 1, 0, 2, 0, 1, 0])
    donors = Donors(labels)
    assert donors.alone.tolist() == [False, False, False, True, False, False, False]
    seeds = np.tile(np.arange(7), 600)
    drawn = donors.draw(seeds, np.random.default_rng(0))
    assert (labels[drawn] == labels[seeds]).all()
    assert ((drawn != seeds) | (seeds == 3)).all()
    assert np.bincount(drawn[seeds == 0], minlength=7)[[2, 4, 6]].min() > 150


def test_every_splice_is_the_last_step_and_is_made_again_from_its_recipe_and_donor(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Scene(executions=2000, limits=WIDE, search={"operators": "even"}, gradients=False)
    places = {identity: place for place, identity in enumerate(made.corpus.seed_ids)}
    seen = dict.fromkeys(SPLICING, 0)
    mixed = 0
    for batch in proposals(made, monkeypatch):
        for mutant, seed, recipe in zip(batch.x, batch.seeds, batch.recipes, strict=True):
            assert all(step.operator in made.domain.natural for step in recipe[:-1])
            last = recipe[-1]
            if last.operator not in SPLICING:
                continue
            seen[last.operator] += 1
            mixed += len(recipe) > 1
            assert 0 < last.severity <= 1
            donors = None
            if last.operator == "splice":
                donor = places[last.parameters["donor"]]
                assert made.seeds.labels[donor] == made.seeds.labels[seed]
                assert donor != seed
                donors = made.seeds.x[donor][None]
            parent = made.domain.replay(made.seeds.x[seed], recipe[:-1])
            names = None if donors is None else [last.parameters["donor"]]
            steps = made.domain.splice_steps(last.operator, np.array([last.severity]), np.array([last.draw]), names)
            assert steps[0] == last
            np.testing.assert_array_equal(made.domain.splice(parent[None], steps, donors)[0], mutant)
    assert min(seen.values()) > 5
    assert mixed > 0
    splices = [row for row, recipe in enumerate(made.corpus.recipes) if recipe and recipe[-1].operator in SPLICING]
    assert not made.corpus.open[splices].any()


def test_a_finding_of_a_splice_is_not_natural_and_the_judging_arm_makes_none() -> None:
    found: list[Any] = []

    def wrong(x: np.ndarray) -> np.ndarray:
        return np.tile(np.array([0, 0, 0, 9], dtype=np.float32), (len(x), 1))

    def confirm(finding: Any) -> bool:
        found.append(finding)
        return True

    made = Scene(wrong, executions=1200, limits=WIDE, confirm=confirm, gradients=False)
    made.run()
    spliced = [one for one in found if "splicing" in one.families]
    assert spliced
    assert not any(one.natural for one in spliced)
    assert all(one.natural for one in found if set(one.families).isdisjoint({"splicing", "adversarial"}))
    assert {one.arm for one in spliced} == {"search"}
    assert not set(SPLICING) & {name for row in made.judging.rows for name in row.operators}


def test_what_is_alone_in_its_class_gets_a_natural_operator_and_a_splice_is_left_out_where_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Scene(executions=1000, seeds=5, limits=WIDE, search={"operators": "even"}, gradients=False)
    rows = 0
    for batch in proposals(made, monkeypatch):
        for seed, recipe in zip(batch.seeds, batch.recipes, strict=True):
            rows += recipe[-1].operator == "splice"
            assert recipe[-1].operator != "splice" or seed in (0, 4)  # five pictures of four classes
    assert rows > 3
    alone = Scene(executions=100, seeds=4, limits=WIDE, gradients=False)
    assert "splice" not in alone.search.operators
    assert "block_copy" in alone.search.operators


def test_splices_of_an_earlier_corpus_are_made_again_from_a_donor_of_this_campaign(tmp_path: Path) -> None:
    x, y = images()
    ids = sample_ids(x, y)
    domain = ImageDomain(WIDE, (8, 8, 1), np.uint8, (0.0, 255.0))
    natural = domain.step("brightness", 0.5, 7)

    def entry(name: str, seed: int, donor: int | None, donor_id: Any = None) -> tuple[str, list[Any], np.ndarray]:
        parent = domain.replay(x[seed], [natural])
        named = None if donor is None else [ids[donor]]
        steps = domain.splice_steps(name, np.array([0.8]), np.array([11]), named)
        made = domain.splice(parent[None], steps, None if donor is None else x[donor][None])[0]
        said = steps[0].to_json()
        if donor_id is not None:
            said["parameters"]["donor"] = donor_id
        return ids[seed], [natural.to_json(), said], made

    good = [entry("splice", 0, 4), entry("block_copy", 3, None)]
    # Of another class, of itself, of nobody, of no identity at all.
    bad = [entry("splice", 0, 1), entry("splice", 0, 0), entry("splice", 0, 4, "sha256:nobody"), entry("splice", 0, 4, [1])]
    forged = (good[0][0], good[0][1], np.full((8, 8, 1), 255, np.uint8))
    rows = [*good, *bad, forged]
    file = CorpusWriter(tmp_path / "corpus", CorpusHead((8, 8, 1), "uint8", (0.0, 255.0), "sha256:any"))
    ones = np.ones(len(rows))
    entries = Entries(
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        signatures=np.zeros(len(rows), dtype=np.int64),
        replaces=np.full(len(rows), -1),
        new_items=ones,
        margins=ones,
        open=ones > 0,
        distances=ones,
        stabilities=ones,
    )
    file.append(entries, np.stack([row[2] for row in rows]), step=0)
    file.close()
    reuse = Reuse(read_corpus(tmp_path / "corpus"), domain, x, ids, known_ids=ids, operators=(*domain.natural, *domain.splicing), labels=y)
    batch = reuse.propose(0, 20)
    assert batch is not None
    np.testing.assert_array_equal(batch.x, np.stack([good[0][2], good[1][2], good[0][2]]))
    assert [recipe[-1].operator for recipe in batch.recipes] == ["splice", "block_copy", "splice"]
    assert batch.recipes[0][-1].parameters["donor"] == ids[4]
    assert reuse.summary()["unknown"] == 4
    assert reuse.count.changed == 1
