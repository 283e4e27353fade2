"""Files of samples load back byte for byte; pictures for people show what matters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.domains.image import picture
from gate.errors import DataError


@settings(max_examples=30, deadline=None)
@given(
    height=st.integers(4, 20),
    width=st.integers(4, 20),
    channels=st.sampled_from([1, 2, 3, 4]),
    floats=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_sample_loads_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, height: int, width: int, channels: int, floats: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    shape = (height, width, channels)
    sample = random.random(shape, dtype=np.float32) if floats else random.integers(0, 256, shape, dtype=np.uint8)
    path = picture.save(tmp_path_factory.mktemp("samples") / "mutant", sample, (0, 1) if floats else (0, 255))
    assert path.suffix == (".png" if not floats and channels in (1, 3) else ".npz")
    again = picture.load(path)
    assert again.dtype == sample.dtype
    assert again.shape == sample.shape
    assert again.tobytes() == sample.tobytes()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_non_finite_floats_survive_saving(tmp_path: Path) -> None:
    sample = np.array([[np.nan, np.inf], [-np.inf, -0.0]], np.float32)[:, :, None]
    assert picture.load(picture.save(tmp_path / "probe", sample, (0, 1))).tobytes() == sample.tobytes()


@pytest.mark.parametrize("name", ["mutant", "mutant.png", "mutant.npz", "d-0.5 and\nmore"])
def test_the_suffix_follows_from_the_data(tmp_path: Path, name: str) -> None:
    sample = np.zeros((8, 8, 3), np.uint8)
    stem = name.removesuffix(".png").removesuffix(".npz")
    assert picture.save(tmp_path / name, sample, (0, 255)) == tmp_path / f"{stem}.png"
    assert picture.save(tmp_path / name, sample.astype(np.float32), (0, 1)) == tmp_path / f"{stem}.npz"


def test_a_file_that_does_not_load_back_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "_load", lambda path, as_png: np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(DataError, match="load back"):
        picture.save(tmp_path / "mutant", np.ones((8, 8, 3), np.uint8), (0, 255))
    assert list(tmp_path.iterdir()) == []


def test_broken_files_are_named(tmp_path: Path) -> None:
    for name in ("mutant.png", "mutant.npz"):
        (tmp_path / name).write_bytes(b"\x89PNG\r\n\x1a\nnot one")
        with pytest.raises(DataError, match=r"mutant\.png|\.npz"):
            picture.load(tmp_path / name)


def test_a_difference_is_black_where_nothing_changed_and_white_from_a_hundredth_of_the_range_on() -> None:
    original = np.full((8, 8, 3), 100, np.uint8)
    assert picture.difference(original, original, (0, 255)).max() == 0
    mutant = original.copy()
    mutant[2, 3] += 51
    mutant[5, 5] -= 1
    shown = picture.difference(original, mutant, (0, 255))
    assert shown.shape == (8, 8, 3)
    assert shown[2, 3].tolist() == [255] * 3
    assert shown[5, 5].tolist() == [100] * 3
    assert shown[0, 0].tolist() == [0] * 3


def test_differences_are_enlarged_a_hundred_times_over_the_value_range_of_floats() -> None:
    original = np.full((8, 8, 1), 0.5, np.float32)
    mutant = original.copy()
    mutant[0, 0] += 0.001
    mutant[0, 1] = np.nan
    shown = picture.difference(original, mutant, (-1, 1))
    assert shown.shape == (8, 8)
    assert shown[0, 0] == round(0.0005 * 100 * 255)
    assert shown[0, 1] == 255


def test_floats_are_shown_over_their_range_and_what_is_not_finite_black() -> None:
    sample = np.array([[-1, 0], [1, np.nan]], np.float32)[:, :, None]
    assert picture.viewable(sample, (-1, 1)).tolist() == [[0, 128], [255, 0]]
    assert picture.viewable(np.full((4, 4, 1), 7, np.uint8)).tolist() == [[7] * 4] * 4
    assert picture.viewable(np.zeros((4, 5, 6), np.float32)).shape == (4, 5, 3)
    assert picture.viewable(np.zeros((4, 5, 2), np.float32)).shape == (4, 5)
