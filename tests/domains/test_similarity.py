"""Structural similarity and distances: against the formula written out, and against another implementation's values."""

from __future__ import annotations

import numpy as np
import pytest

from gate.domains.image import distances
from gate.domains.image.similarity import WINDOW, structural_similarity


def written_out(a: np.ndarray, b: np.ndarray, extent: float) -> float:
    """Equation 13 of Wang et al. window by window, in double precision."""
    window = min(WINDOW, *a.shape[:2])
    window -= 1 - window % 2
    c1, c2 = (0.01 * extent) ** 2, (0.03 * extent) ** 2
    found = []
    for channel in range(a.shape[2]):
        for top in range(a.shape[0] - window + 1):
            for left in range(a.shape[1] - window + 1):
                place = (slice(top, top + window), slice(left, left + window), channel)
                x, y = a[place].astype(float), b[place].astype(float)
                covariance = ((x - x.mean()) * (y - y.mean())).mean()
                luminance = (2 * x.mean() * y.mean() + c1) / (x.mean() ** 2 + y.mean() ** 2 + c1)
                found.append(luminance * (2 * covariance + c2) / (x.var() + y.var() + c2))
    return float(np.mean(found))


def pair(shape: tuple[int, int, int], dtype: type, seed: int = 0) -> tuple[np.ndarray, np.ndarray, float]:
    random = np.random.default_rng(seed)
    a = random.random((3, *shape))
    b = np.clip(a + random.normal(0, 0.2, a.shape), 0, 1)
    if dtype is np.uint8:
        return np.rint(255 * a).astype(np.uint8), np.rint(255 * b).astype(np.uint8), 255.0
    return a.astype(np.float32), b.astype(np.float32), 1.0


@pytest.mark.parametrize("shape", [(8, 8, 1), (12, 9, 3), (7, 20, 1), (5, 30, 3), (2, 6, 1), (1, 9, 3)], ids=str)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_it_is_the_formula_also_for_pictures_smaller_than_the_window(shape: tuple[int, int, int], dtype: type) -> None:
    a, b, extent = pair(shape, dtype)
    expected = [written_out(x, y, extent) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(structural_similarity(a, b, extent), expected, rtol=1e-5)


def test_it_agrees_with_scikit_image() -> None:
    random = np.random.default_rng(7)
    a = random.integers(0, 256, (3, 20, 17, 3), dtype=np.uint8)
    b = np.clip(a.astype(int) + random.integers(-60, 60, a.shape), 0, 255).astype(np.uint8)
    b[2] = 255 - a[2]
    # skimage.metrics.structural_similarity(x, y, channel_axis=2, win_size=7, use_sample_covariance=False, data_range=255)
    expected = [0.9117064830835684, 0.91240773056915, -0.9740530663097249]
    np.testing.assert_allclose(structural_similarity(a, b, 255.0), expected, rtol=1e-9)


def test_the_same_picture_is_one_and_a_batch_is_what_its_rows_are() -> None:
    a, b, extent = pair((40, 40, 3), np.uint8)
    assert structural_similarity(a, a, extent).tolist() == [1.0, 1.0, 1.0]
    many_a, many_b = np.tile(a, (200, 1, 1, 1)), np.tile(b, (200, 1, 1, 1))
    alone = structural_similarity(a, b, extent)
    np.testing.assert_array_equal(structural_similarity(many_a, many_b, extent), np.tile(alone, 200))


@pytest.mark.parametrize("shape", [(8, 8, 1), (5, 7, 3), (300, 300, 3)], ids=str)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_distances_are_those_of_double_precision(shape: tuple[int, int, int], dtype: type) -> None:
    a, b, _ = pair(shape, dtype)
    b[0, 0] = a[0, 0]
    difference = (a.astype(np.float64) - b).reshape(len(a), -1)
    np.testing.assert_allclose(distances.deviation(a), a.reshape(len(a), -1).std(axis=1, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(distances.farthest(a, b), np.abs(difference).max(axis=1), rtol=1e-6)
    np.testing.assert_allclose(distances.root_mean_square(a, b), np.sqrt(np.square(difference).mean(axis=1)), rtol=1e-6)
    assert distances.changed(a, b).tolist() == np.count_nonzero(difference, axis=1).tolist()


def test_one_colour_has_no_deviation_however_large_the_picture() -> None:
    assert distances.deviation(np.full((2, 700, 700, 3), 201, np.uint8)).tolist() == [0.0, 0.0]
