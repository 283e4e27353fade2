"""What two heat maps say: whether the change hit what the model looks at, or the decision drifted elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gate.result import Heat
from gate.triage.heat import compare, in_words, overlay, save_pictures

CLEAN = np.full((8, 8, 1), 100, dtype=np.uint8)


def hot(*cells: tuple[int, int], side: int = 4, base: float = 0.02) -> np.ndarray:
    """float32 [side, side]: hot cells on a faint ground."""
    heat = np.full((side, side), base, dtype=np.float32)
    for row, column in cells:
        heat[row, column] = 1.0
    return heat


def patched(rows: slice, columns: slice) -> np.ndarray:
    mutant = CLEAN.copy()
    mutant[rows, columns] = 255
    return mutant


def said(before: np.ndarray, after: np.ndarray, mutant: np.ndarray) -> Heat:
    return compare("grad_cam_pp", "layer4", np.stack([before, after]), CLEAN, mutant)


def test_heat_on_a_patch_is_on_the_change() -> None:
    heat = said(hot((3, 3)), hot((0, 0)), patched(slice(0, 2), slice(0, 2)))
    assert heat.where == "on_the_change"
    assert heat.overlap == pytest.approx(1 / 1.3)
    assert heat.chance == pytest.approx(1 / 16)
    assert heat.moved > 0.7
    assert "the change hit what the model looks at: 77% of the heat lies on the change (6% if it were spread evenly)" in in_words(heat)


def test_heat_far_from_a_patch_lies_elsewhere() -> None:
    heat = said(hot((0, 0)), hot((3, 3)), patched(slice(0, 2), slice(0, 2)))
    assert heat.where == "elsewhere"
    assert heat.overlap < 0.03
    assert "the decision drifted elsewhere" in in_words(heat)


def test_evenly_spread_heat_says_nothing() -> None:
    even = np.ones((4, 4), dtype=np.float32)
    heat = said(even, even, patched(slice(0, 2), slice(0, 4)))
    assert heat.where == "unclear"
    assert heat.overlap == pytest.approx(heat.chance)
    assert heat.moved == 0


def test_a_change_of_everything_is_hit_by_any_heat_so_only_a_move_says_something() -> None:
    bright = CLEAN + 40
    still = said(hot((0, 0)), hot((0, 0)), bright)
    assert (still.overlap, still.chance) == (pytest.approx(1), pytest.approx(1))
    assert still.where == "unclear"
    assert said(hot((0, 0)), hot((3, 3)), bright).where == "elsewhere"


def test_a_tiny_change_is_measured_in_the_cells_of_the_heat() -> None:
    heat = said(hot((0, 0), side=2), hot((0, 0), side=2), patched(slice(0, 1), slice(0, 1)))
    assert heat.where == "on_the_change"
    assert heat.chance == pytest.approx(1 / 4)


def test_nothing_changed_is_unclear() -> None:
    heat = said(hot((0, 0)), hot((0, 0)), CLEAN)
    assert (heat.where, heat.overlap, heat.chance) == ("unclear", 0.0, 0.0)


def test_what_is_not_finite_counts_as_changed() -> None:
    clean = np.zeros((4, 4, 1), dtype=np.float32)
    mutant = clean.copy()
    mutant[0, 0] = np.nan
    heat = compare("occlusion", None, np.stack([hot((0, 0)), hot((0, 0))]), clean, mutant)
    assert heat.where == "on_the_change"
    assert "by occlusion" in in_words(heat)


@pytest.mark.parametrize(("cells", "share"), [(1, 1 / 16), (4, 2 / 16), (16, 8 / 16)])
def test_focus_is_the_share_that_holds_half(cells: int, share: float) -> None:
    heat = np.zeros(16, dtype=np.float32)
    heat[:cells] = 0.7
    found = said(heat.reshape(4, 4), heat.reshape(4, 4), CLEAN)
    assert (found.focus_before, found.focus_after) == (pytest.approx(share), pytest.approx(share))


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3), (5, 9), (224, 160, 3)])
def test_pictures_are_large_enough_and_the_hottest_place_is_the_lightest(shape: tuple[int, ...]) -> None:
    picture = np.full(shape, 60, dtype=np.uint8)
    drawn = overlay(picture, hot((0, 0)))
    assert min(drawn.shape[:2]) >= 96
    assert drawn.shape[0] * shape[1] == drawn.shape[1] * shape[0]
    light = drawn.astype(int).sum(2)
    place = np.unravel_index(light.argmax(), light.shape)
    assert place[0] < drawn.shape[0] / 4
    assert place[1] < drawn.shape[1] / 4


def test_small_pictures_keep_their_pixels_as_blocks() -> None:
    picture = (np.indices((8, 8)).sum(0) % 2 * 200).astype(np.uint8)
    drawn = overlay(picture, np.full((4, 4), 1.0, dtype=np.float32))
    side = drawn.shape[0] // 8
    assert (drawn[:side, :side] == drawn[0, 0]).all()
    assert (drawn[:side, side : 2 * side] != drawn[0, 0]).any()


def test_both_pictures_are_written_and_nothing_else(tmp_path: Path) -> None:
    picture = np.full((8, 8), 60, dtype=np.uint8)
    save_pictures(tmp_path, picture, picture, np.stack([hot((0, 0)), hot((3, 3))]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cam.png", "cam_before.png"]
    first, second = (np.asarray(Image.open(tmp_path / name)) for name in ("cam_before.png", "cam.png"))
    assert first[:20, :20].sum() > second[:20, :20].sum()
