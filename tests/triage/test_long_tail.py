"""Which defects have a counterpart among real errors, against hand cases and a reference that takes no short cut."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.result import Defect
from gate.triage.long_tail import match, save_matches


def angle(*degrees: float) -> np.ndarray:
    """Unit vectors in the plane; the cosine distance of two of them is 1 - cos of the angle between."""
    return np.array([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees])


CLEAN = {"clean": angle(0, 10, 90, 100), "clean_labels": np.array([0, 0, 1, 1])}  # r is the distance of 10 degrees


def hits(defects: np.ndarray, defect_pairs: list[tuple[int, int]], tail: np.ndarray, tail_pairs: list[tuple[int, int]]) -> list[bool]:
    found = match(**CLEAN, tail=tail, tail_pairs=tail_pairs, defects=defects, defect_pairs=defect_pairs, seed=0)
    assert found.radius == pytest.approx(1 - math.cos(math.radians(10)))
    return list(found.hits)


def test_the_pair_must_agree_in_both_classes_and_the_distance_must_be_small() -> None:
    tail, pairs = angle(20, 50), [(0, 1), (0, 2)]
    assert hits(angle(29), [(0, 1)], tail, pairs) == [True]
    assert hits(angle(11), [(0, 1)], tail, pairs) == [True]
    assert hits(angle(31), [(0, 1)], tail, pairs) == [False]
    assert hits(angle(20, 20, 20), [(1, 0), (0, 2), (1, 1)], tail, pairs) == [False, False, False]
    assert hits(angle(51), [(0, 2)], tail, pairs) == [True]


def test_a_hit_names_the_nearest_error_that_makes_it_one() -> None:
    tail, pairs = angle(22, 28, 29), [(0, 1), (0, 1), (0, 2)]
    found = match(**CLEAN, tail=tail, tail_pairs=pairs, defects=angle(29, 20, 60), defect_pairs=[(0, 1)] * 3, seed=0)
    assert found.nearest == (1, 0, None)


def test_the_nearest_error_is_kept_as_a_picture_beside_the_defect_with_its_kind(tmp_path: Path) -> None:
    domain = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
    samples = np.stack([np.full((8, 8, 1), level, np.uint8) for level in (10, 200)])
    found = [plain_defect("d-0"), plain_defect("d-1")]
    for defect in found:
        (tmp_path / "defects" / defect.id).mkdir(parents=True)
    save_matches(found, {"d-0": None, "d-1": 1}, samples=samples, kinds=["fog", "night"], domain=domain, folder=tmp_path)
    assert (found[0].files, found[0].long_tail_kind) == ({}, None)
    assert found[1].long_tail_kind == "night"
    assert int(np.asarray(Image.open(tmp_path / found[1].files["long_tail"])).max()) == 200
    assert Defect.model_validate_json((tmp_path / "defects" / "d-1" / "defect.json").read_bytes()) == found[1]
    save_matches(found, {"d-0": 0}, samples=samples, kinds=[], domain=domain, folder=tmp_path)
    assert found[0].files == {"long_tail": "defects/d-0/long_tail.png"}
    assert found[0].long_tail_kind is None


def plain_defect(name: str) -> Defect:
    return Defect(
        id=name,
        arm="search",
        seed_id="s",
        label=0,
        predicted=1,
        confidence_before=0.9,
        confidence_after=0.8,
        oracle="changed_prediction",
        operator="rotate",
        family="geometry",
        families=("geometry",),
        natural=True,
        severity=0.5,
        recipe=(),
        root_cause="rc",
    )


def test_the_length_of_a_feature_vector_does_not_matter() -> None:
    assert hits(1000 * angle(29), [(0, 1)], 0.001 * angle(20), [(0, 1)]) == [True]


def test_without_two_clean_samples_of_a_class_there_is_nothing_to_measure_by() -> None:
    with pytest.raises(ValueError, match="two correctly classified"):
        match(
            clean=angle(0, 90),
            clean_labels=np.array([0, 1]),
            tail=angle(0),
            tail_pairs=[(0, 1)],
            defects=angle(0),
            defect_pairs=[(0, 1)],
            seed=0,
        )


def test_the_chance_level_is_what_shuffled_pairs_would_hit() -> None:
    # All in one place: a hit is any defect whose pair occurs, whatever its order. Shuffling changes nothing.
    alike = match(
        **CLEAN, tail=angle(0, 0), tail_pairs=[(0, 1), (0, 2)], defects=angle(*[0] * 8), defect_pairs=[(0, 1), (3, 1)] * 4, seed=0
    )
    assert (sum(alike.hits), alike.chance) == (4, 0.5)
    # Two places with a pair each: half of the shuffled defects stand in the wrong place.
    apart = match(
        **CLEAN, tail=angle(0, 60), tail_pairs=[(0, 1), (0, 2)], defects=angle(*[0, 60] * 20), defect_pairs=[(0, 1), (0, 2)] * 20, seed=0
    )
    assert all(apart.hits)
    assert apart.chance == pytest.approx(0.5, abs=0.03)
    assert (
        match(
            **CLEAN,
            tail=angle(0, 60),
            tail_pairs=[(0, 1), (0, 2)],
            defects=angle(*[0, 60] * 20),
            defect_pairs=[(0, 1), (0, 2)] * 20,
            seed=0,
        )
        == apart
    )


def slow(
    clean: np.ndarray,
    labels: list[int],
    tail: np.ndarray,
    tail_pairs: list[tuple[int, int]],
    defects: np.ndarray,
    pairs: list[tuple[int, int]],
) -> tuple[float, list[bool]]:
    def distance(a: np.ndarray, b: np.ndarray) -> float:
        return 1 - float(np.dot(a, b)) / math.sqrt(float(np.dot(a, a)) * float(np.dot(b, b)))

    nearest = []
    for i, one in enumerate(clean):
        same = [distance(one, other) for j, other in enumerate(clean) if j != i and labels[j] == labels[i]]
        if same:
            nearest.append(min(same))
    nearest.sort()
    place = 0.95 * (len(nearest) - 1)
    low = math.floor(place)
    high = min(low + 1, len(nearest) - 1)
    radius = nearest[low] + (place - low) * (nearest[high] - nearest[low])
    found = [
        any(pair == other and distance(defect, sample) <= radius for sample, other in zip(tail, tail_pairs, strict=True))
        for defect, pair in zip(defects, pairs, strict=True)
    ]
    return radius, found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(6, 25), st.integers(1, 12), st.integers(1, 15), st.integers(1, 4))
def test_it_agrees_with_a_reference(seed: int, count: int, tails: int, made: int, classes: int) -> None:
    random = np.random.default_rng(seed)
    clean, tail, defects = (random.normal(1, 1, size=(n, 3)) for n in (count, tails, made))
    labels = [int(label) for label in random.integers(0, classes, size=count)]
    tail_pairs = [(int(a), int(b)) for a, b in random.integers(0, classes + 1, size=(tails, 2))]
    pairs = [(int(a), int(b)) for a, b in random.integers(0, classes + 1, size=(made, 2))]
    radius, expected = slow(clean, labels, tail, tail_pairs, defects, pairs)
    found = match(
        clean=clean, clean_labels=np.array(labels), tail=tail, tail_pairs=tail_pairs, defects=defects, defect_pairs=pairs, seed=seed
    )
    assert found.radius == pytest.approx(radius, abs=1e-12)
    assert list(found.hits) == expected
    assert 0 <= found.chance <= 1
