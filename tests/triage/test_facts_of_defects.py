"""What types rest on is measured: how much changed and how, marks, and what the features lie near."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_types_of_defects import defect

from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.result import Defect, MarksSummary, UniversalMark
from gate.triage.facts import change_of, facts_of
from gate.triage.feature_space import FeatureSample

BYTES = (0.0, 255.0)
DOMAIN = ImageDomain(Domain(), (16, 16, 1), np.uint8, BYTES)
GREY = np.random.default_rng(3).integers(0, 150, (16, 16, 1)).astype(np.uint8)
NO_FEATURES = FeatureSample(reason="no head")


def patched(value: int = 255, side: int = 3) -> np.ndarray:
    changed = GREY.copy()
    changed[:side, :side] = value
    return changed


def turned() -> np.ndarray:
    return np.ascontiguousarray(np.roll(GREY, 5, axis=1))


def test_a_change_of_tone_is_told_from_one_of_content() -> None:
    brighter, flatter = np.clip(GREY * 0.6 + 60, 0, 255).astype(np.uint8), np.rint(GREY * 0.5).astype(np.uint8)
    assert change_of(GREY, brighter, BYTES).tone > 0.99
    assert change_of(GREY, flatter, BYTES).tone > 0.99
    noisy = np.clip(GREY.astype(int) + np.random.default_rng(0).integers(-20, 21, GREY.shape), 0, 255).astype(np.uint8)
    assert change_of(GREY, noisy, BYTES).tone < 0.2
    assert change_of(GREY, turned(), BYTES).tone < 0.75
    assert change_of(GREY, patched(), BYTES).tone < 0.2


def test_the_area_counts_a_position_once_whatever_its_channels() -> None:
    colour = np.repeat(GREY, 3, axis=2)
    changed = colour.copy()
    changed[0, 0] = 255
    changed[0, 1, 1] = 254
    found = change_of(colour, changed, BYTES)
    assert found.area == pytest.approx(2 / 256)
    assert found.largest == pytest.approx((255 - int(GREY[0, 0, 0])) / 255, abs=0.5)


def test_a_file_that_did_not_change_and_a_blank_one_have_no_tone() -> None:
    assert change_of(GREY, GREY, BYTES).tone == 0.0
    blank = np.zeros((4, 4, 1), dtype=np.float32)
    assert change_of(blank, blank + 0.5, (0.0, 1.0)).tone == pytest.approx(1.0)  # a shift of brightness


def stored(folder: Path, found: Defect, mutant: np.ndarray, original: np.ndarray = GREY) -> Defect:
    (folder / found.id).mkdir(parents=True, exist_ok=True)
    files = {
        name: str(DOMAIN.save(folder / found.id / name, sample).relative_to(folder))
        for name, sample in (("original_data", original), ("mutant_data", mutant))
    }
    return found.model_copy(update={"files": files})


def looked_at(
    folder: Path, defects: list[Defect], sample: FeatureSample = NO_FEATURES, marks: MarksSummary | None = None, **more: Any
) -> Any:
    return facts_of(defects, sample, marks, domain=DOMAIN, folder=folder, classes=4, **more)


def mark(kind: str, label: int, *, shortcut: bool = True) -> MarksSummary:
    one = UniversalMark(
        kind=kind, label=label, moved=90, inputs=100, rate=0.9, lower=0.8, upper=0.95, confidence=0.95, outlier=9.0, shortcut=shortcut
    )
    return MarksSummary(marks=(one,))


def test_a_change_like_a_mark_that_is_a_shortcut_to_its_class_belongs_to_it(tmp_path: Path) -> None:
    local, everywhere = stored(tmp_path, defect(1), patched()), stored(tmp_path, defect(2), turned())
    fainter = stored(tmp_path, defect(3), np.clip(GREY.astype(int) + 10, 0, 255).astype(np.uint8))
    found = [local, everywhere, fainter]

    def marked(marks: MarksSummary) -> list[bool]:
        return [facts.shortcut is not None for facts in looked_at(tmp_path, found, marks=marks).values()]

    assert marked(mark("patch", 1)) == [True, False, False]
    assert marked(mark("blend", 1)) == [False, False, True]
    assert marked(mark("patch", 2)) == [False, False, False]
    assert marked(mark("patch", 1, shortcut=False)) == [False, False, False]
    leads = [facts.leads_there is not None for facts in looked_at(tmp_path, found, marks=mark("patch", 1)).values()]
    assert leads == [True, True, True]  # whatever the change looks like
    assert not any(facts.leads_there for facts in looked_at(tmp_path, found, marks=mark("patch", 2)).values())


def led(tmp_path: Path, to: list[int], labels: list[int]) -> list[bool]:
    found = [
        stored(tmp_path, defect(n, label=label, predicted=target, operator="patch", families=("occlusion",)), patched())
        for n, (label, target) in enumerate(zip(labels, to, strict=True))
    ]
    return [facts.shortcut is not None for facts in looked_at(tmp_path, found).values()]


def test_local_changes_that_lead_from_many_classes_to_one_are_a_shortcut(tmp_path: Path) -> None:
    labels = [1, 2, 3] * 4
    assert led(tmp_path, [0] * 12, labels) == [True] * 12
    assert led(tmp_path, [0] * 10 + [2, 1], [1, 2, 3] * 3 + [1, 1, 2]) == [True] * 10 + [False] * 2
    assert not any(led(tmp_path, [0] * 12 + [2, 1, 1, 2], [1, 2, 3] * 4 + [1, 2, 3, 3]))  # three quarters are no rule
    assert not any(led(tmp_path, [0] * 9, labels[:9]))  # too few seed inputs
    assert not any(led(tmp_path, [0] * 12, [1, 2] * 6))  # two classes may be confused with a third


def test_features_say_whose_middle_is_nearer_and_whether_the_classes_are_neighbours(tmp_path: Path) -> None:
    # Classes 0 and 1 lie 20 degrees apart, 2 and 3 are far away, and so is 4 from everything.
    angles = np.radians([0, 20, 120, 150, 250])
    middles = np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def at(*degrees: float) -> np.ndarray:
        return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)

    found = [defect(1), defect(2), defect(3, predicted=3), defect(4, predicted=7)]
    sample = FeatureSample(
        tuple(one.id for one in found), at(12, 8, 140, 12), np.repeat(np.arange(5), 3), np.repeat(middles, 3, axis=0), None
    )
    facts = looked_at(tmp_path, found, sample)
    nearer, own, far, unknown = (facts[one.id].kinship for one in found)
    assert nearer.other == pytest.approx(np.cos(np.radians(8)))
    assert nearer.own == pytest.approx(np.cos(np.radians(12)))
    assert nearer.third == pytest.approx(np.cos(np.radians(108)))
    assert nearer.neighbours
    assert own.own > own.other
    assert not far.neighbours
    assert unknown is None  # no clean seed input of that class was looked at


def test_files_are_no_longer_read_once_the_time_is_up(tmp_path: Path) -> None:
    found = [stored(tmp_path, defect(1), patched()), stored(tmp_path, defect(2), patched())]
    answers = iter([False, True])
    facts = looked_at(tmp_path, found, late=lambda: next(answers))
    assert [one.area is None for one in facts.values()] == [False, True]


def test_a_probe_and_a_crash_without_files_have_no_facts(tmp_path: Path) -> None:
    facts = looked_at(tmp_path, [defect(1, label=None, predicted=None, oracle="non_finite"), defect(2, predicted=None, oracle="crash")])
    assert all(one.area is None and one.kinship is None and one.shortcut is None for one in facts.values())


def test_of_two_classes_each_is_the_others_nearest_and_that_says_nothing(tmp_path: Path) -> None:
    middles = np.eye(2)
    sample = FeatureSample(("d-000000000001",), np.full((1, 2), 0.7), np.repeat([0, 1], 3), np.repeat(middles, 3, axis=0), None)
    assert not looked_at(tmp_path, [defect(1)], sample)["d-000000000001"].kinship.neighbours
