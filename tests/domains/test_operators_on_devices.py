"""The same bytes for NumPy arrays and torch tensors, wherever they lie."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_sample_images

from gate.domains.image.batches import columns_of
from gate.domains.image.device_operators import DEVICE_OPERATORS, apply_on_device, device_rows
from gate.domains.image.limits import Domain
from gate.domains.image.natural import NaturalOperators
from gate.domains.image.operators import OPERATORS
from gate.domains.image.operators.arrays import arrays_of
from gate.domains.image.operators.fields import bits32, normal
from gate.errors import DataError, UsageError

EVERY = Domain.model_validate(
    {
        "geometry": {"horizontal_flip": 1.0, "vertical_flip": 1.0, "transpose": 1.0},
        "photometry": {"solarize": 0.3, "invert": 1.0},
    }
)


def pictures(kind: str) -> tuple[np.ndarray, tuple[float, float]]:
    """60 real pictures and their value range."""
    if kind == "digits":
        return np.rint(load_digits().images[:60] * (255 / 16)).astype(np.uint8)[..., None], (0.0, 255.0)
    photographs = load_sample_images().images
    parts = np.stack([photographs[i % 2][5 * i : 5 * i + 21, 7 * i : 7 * i + 27] for i in range(60)])
    if kind == "colours":
        return parts, (0.0, 255.0)
    return (parts.astype(np.float32) / 255 * 3 - 1).astype(np.float32), (-1.0, 2.0)


def same_on(device: str, kind: str) -> None:
    x, value_range = pictures(kind)
    operators = NaturalOperators(EVERY, x.shape[1:], x.dtype, value_range)
    random = np.random.default_rng(3)
    for position, name in enumerate(operators.names):
        if name not in DEVICE_OPERATORS:
            continue
        steps = operators.steps(np.full(60, position), random.random(60), random.integers(2**31, size=60))
        made = apply_on_device(torch.from_numpy(x.copy()).to(device), columns_of(steps), value_range)
        assert made.device.type == device
        assert made.cpu().numpy().tobytes() == operators.apply(x, steps).tobytes(), name
    mixed = operators.steps(random.integers(len(operators.names), size=60), random.random(60), random.integers(2**31, size=60))
    here = operators.apply(x, mixed)
    rows = device_rows(mixed)
    assert 0 < rows.sum() < 60
    columns = [column for column in columns_of(mixed) if column[0] in DEVICE_OPERATORS]
    there = apply_on_device(torch.from_numpy(x.copy()).to(device), columns, value_range).cpu().numpy()
    assert np.array_equal(there[rows], here[rows])
    assert np.array_equal(there[~rows], x[~rows])


@pytest.mark.parametrize("kind", ["digits", "colours", "floats"])
def test_tensors_on_the_processor_get_the_bytes_of_arrays(kind: str) -> None:
    same_on("cpu", kind)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["digits", "colours", "floats"])
def test_tensors_on_the_graphics_processor_get_the_bytes_of_arrays(kind: str) -> None:
    same_on("cuda", kind)


def test_the_device_has_all_operators_but_those_a_library_makes_picture_by_picture() -> None:
    assert set(OPERATORS) - DEVICE_OPERATORS == {"jpeg", "webp", "downscale", "clahe"}
    x = torch.zeros(1, 8, 8, 1, dtype=torch.uint8)
    with pytest.raises(UsageError, match="jpeg"):
        apply_on_device(x, [("jpeg", np.array([0]), {"quality": np.array([50])})], (0.0, 255.0))
    with pytest.raises(DataError, match="rotation"):
        apply_on_device(x, [("rotation", np.array([0]), {"quality": np.array([50])})], (0.0, 255.0))


def test_fields_look_random_and_depend_on_grain_and_salt_only() -> None:
    xp = arrays_of(np.zeros(1))
    grains = np.array([1, 2, 2**31 - 1])
    field = np.asarray(normal(xp, grains, "a", 40_000))
    assert np.abs(field.mean(axis=1)).max() < 0.03
    assert np.abs(field.std(axis=1) - 1).max() < 0.03
    assert np.abs(np.corrcoef(np.concatenate([field, field[:, 1:2].repeat(40_000, 1) * 0 + np.roll(field, 1, axis=1)]))[0, 1:]).max() < 0.03
    assert np.array_equal(normal(xp, grains[1:2], "a", 100)[0], field[1, :100]), "a longer field goes on where a shorter ends"
    assert not np.array_equal(normal(xp, grains, "b", 100), field[:, :100])
    shares = np.asarray(bits32(xp, grains, "a", 40_000)) / 2**32
    assert np.abs(np.histogram(shares, bins=20, range=(0, 1))[0] / shares.size - 0.05).max() < 0.003
