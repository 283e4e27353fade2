"""Probes and the marks that a search begins from: fixed, within bounds, in the file's dtype, at any size."""

from __future__ import annotations

import numpy as np
import pytest

from gate.domains.image.limits import Domain, Marks
from gate.domains.image.marks import KINDS, shown, sliding, starts
from gate.domains.image.natural import NaturalOperators
from gate.domains.image.operators import OPERATORS
from gate.domains.image.probes import FAR, probes
from gate.domains.mark import Mark, lay

SHAPES = [(8, 8, 1), (28, 28, 1), (21, 34, 3)]
BYTES = (0.0, 255.0)


def pictures(shape: tuple[int, int, int], dtype: str = "uint8") -> np.ndarray:
    x = np.random.default_rng(0).integers(0, 256, size=(12, *shape), dtype=np.uint8)
    return x if dtype == "uint8" else (x / 255).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_probes_are_files_of_the_seeds_kind(shape: tuple[int, int, int], dtype: str) -> None:
    x = pictures(shape, dtype)
    low, high = BYTES if dtype == "uint8" else (0.0, 1.0)
    found = probes(x, (low, high), 3)
    assert 60 <= len(found) <= 200
    assert len({probe.name for probe in found}) == len(found)
    for probe in found:
        assert (probe.x.shape, probe.x.dtype) == (shape, x.dtype)
        assert low <= probe.x.min()
        assert probe.x.max() <= high
        assert probe.seed < len(x)


def test_the_same_campaign_seed_gives_the_same_probes() -> None:
    x = pictures((8, 8, 1))
    first, again, other = (probes(x, BYTES, seed) for seed in (3, 3, 4))
    assert [probe.x.tobytes() for probe in first] == [probe.x.tobytes() for probe in again]
    assert [probe.x.tobytes() for probe in first] != [probe.x.tobytes() for probe in other]


def test_the_first_few_probes_are_of_different_groups() -> None:
    first = probes(pictures((28, 28, 3)), BYTES, 0)[:9]
    assert len({probe.group for probe in first}) == 9
    assert first[0].x.max() == 0


def test_every_natural_operator_goes_far_beyond_the_domain() -> None:
    x = pictures((28, 28, 1))
    beyond = {probe.name.removeprefix("beyond-"): probe for probe in probes(x, BYTES, 0) if probe.group == "beyond"}
    assert set(beyond) == set(NaturalOperators(FAR, (28, 28, 1), np.uint8, BYTES).names)
    changed = [np.abs(probe.x.astype(float) - x[probe.seed]).mean() for probe in beyond.values()]
    assert np.median(changed) > 30


def test_no_operator_of_a_probe_stands_where_a_policy_may_leave_it() -> None:
    names = NaturalOperators(FAR, (28, 28, 3), np.uint8, BYTES).names
    assert len(names) > 45
    for name in names:
        family = OPERATORS[name].family
        far, usual = getattr(getattr(FAR, family), name), getattr(getattr(Domain(), family), name)
        if name == "gamma":
            assert far[0] < usual[0] / 2
            assert far[1] > usual[1] * 2
        elif name in ("jpeg", "webp", "downscale"):
            assert far < usual / 2
        else:
            assert far > 1.6 * (usual or 0.0), name  # twice, where there is so much room


@pytest.mark.parametrize("shape", [(28, 28, 1), (28, 28, 3)])
def test_there_are_not_quite_a_hundred_probes(shape: tuple[int, int, int]) -> None:
    found = probes(pictures(shape), BYTES, 0)
    assert 80 < len(found) < 100
    assert len({probe.name for probe in found}) == len(found)


@pytest.mark.parametrize("shape", SHAPES)
def test_marks_keep_to_the_policys_bounds(shape: tuple[int, int, int]) -> None:
    limits = Marks(patch=0.0625, border=0.06, blend=0.08)
    height, width, _ = shape
    for mark in (*starts(limits, shape, BYTES, 0), *sliding(limits, shape, BYTES)):
        covered = float((mark.weight > 0).mean())
        assert mark.weight.max() == (pytest.approx(0.08) if mark.kind == "blend" else 1)
        if mark.kind == "patch":
            assert 0 < covered <= 0.0625
        if mark.kind == "border":
            inner = (mark.weight[..., 0] == 0).sum(axis=0).max()
            assert (height - inner) / 2 <= 0.06 * min(height, width)
        assert mark.picture.shape == shape


def test_a_kind_whose_bound_allows_no_pixel_is_left_out() -> None:
    kinds = {mark.kind for mark in starts(Marks(), (8, 8, 1), BYTES, 0)}
    assert kinds == {"patch", "blend"}  # 0.06 of 8 pixels is no whole pixel
    assert {mark.kind for mark in starts(Marks(), (28, 28, 1), BYTES, 0)} == set(KINDS)
    assert starts(Marks(patch=None, border=None, blend=None), (28, 28, 1), BYTES, 0) == ()
    assert sliding(Marks(patch=None), (28, 28, 1), BYTES) == ()


def test_squares_slide_over_every_pixel() -> None:
    covered = np.zeros((21, 34), dtype=bool)
    for mark in sliding(Marks(), (21, 34, 3), BYTES):
        covered |= mark.weight[..., 0] > 0
    assert covered.all()


def test_a_faint_mark_changes_no_value_by_more_than_its_share() -> None:
    x = pictures((28, 28, 1))
    for mark in starts(Marks(blend=0.08), (28, 28, 1), BYTES, 0):
        marked = lay(x, mark.weight, mark.picture)
        assert marked.dtype == np.uint8
        change = np.abs(marked.astype(float) - x)
        if mark.kind == "blend":
            assert change.max() <= np.ceil(0.08 * 255)
        else:
            assert (change[:, mark.weight[..., 0] == 0] == 0).all()
            assert (marked[:, mark.weight[..., 0] > 0] == np.rint(mark.picture[mark.weight[..., 0] > 0])).all()


def test_a_mark_alone_is_shown_on_grey() -> None:
    weight = np.zeros((4, 4, 1), dtype=np.float32)
    weight[0, 0] = 1
    alone = shown(Mark("patch", weight, np.full((4, 4, 1), 255, dtype=np.float32)), BYTES, np.uint8)
    assert alone[0, 0, 0] == 255
    assert (alone.reshape(-1)[1:] == 128).all()
