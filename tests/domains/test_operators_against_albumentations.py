"""What albumentations makes of the same values, within the tolerance that the operators' modules state."""

from __future__ import annotations

import math
import random

import albucore
import cv2
import numpy as np
import pytest
from albumentations.augmentations.blur import functional as blur
from albumentations.augmentations.dropout import functional as dropout
from albumentations.augmentations.geometric import functional as geometric
from albumentations.augmentations.pixel import functional as pixel
from sklearn.datasets import load_sample_images

from gate.domains.image.operators import OPERATORS
from gate.domains.image.operators.arrays import arrays_of
from gate.domains.image.operators.fields import bits32, normal


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Twelve parts of two real photographs, [12, 48, 40, 3] float32 in [0, 1]."""
    photographs = load_sample_images().images
    parts = [photographs[i % 2][20 * i : 20 * i + 48, 30 * i : 30 * i + 40] for i in range(12)]
    return (np.stack(parts) / 255).astype(np.float32)


def ours(name: str, images: np.ndarray, **parameters: object) -> np.ndarray:
    """The operator with the same parameters for every picture."""
    return np.asarray(OPERATORS[name](None).apply(images, {key: [value] * len(images) for key, value in parameters.items()}))


def assert_close(found: np.ndarray, expected: np.ndarray, *, mean: float, most: float) -> None:
    distance = np.abs(found.astype(np.float64) - expected)
    assert distance.mean() <= mean, distance.mean()
    assert distance.max() <= most, distance.max()


@pytest.mark.parametrize("added", [-0.25, 0.1, 0.4])
def test_brightness(images: np.ndarray, added: float) -> None:
    expected = np.stack([albucore.multiply_add(image, 1.0, added) for image in images])
    assert_close(ours("brightness", images, added=added), expected, mean=1e-6, most=1e-5)


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_contrast(images: np.ndarray, factor: float) -> None:
    means = images.astype(np.float64).mean(axis=(1, 2, 3))
    expected = np.stack([albucore.multiply_add(image, factor, mean * (1 - factor)) for image, mean in zip(images, means, strict=True)])
    assert_close(ours("contrast", images, factor=factor), expected, mean=1e-5, most=1e-4)


@pytest.mark.parametrize("gamma", [0.3, 0.5, 0.9, 2.0, 4.0, 10.0])
def test_gamma(images: np.ndarray, gamma: float) -> None:
    expected = np.stack([pixel.gamma_transform(image, gamma) for image in images])
    assert_close(ours("gamma", images, gamma=gamma), expected, mean=1e-4, most=1e-3)


def test_gaussian_noise_adds_the_field_it_draws(images: np.ndarray) -> None:
    xp = arrays_of(images)
    field = normal(xp, np.full(len(images), 9), "gaussian_noise", images[0].size).reshape(images.shape) * np.float32(0.1)
    expected = np.stack([pixel.add_noise(image, noise) for image, noise in zip(images, field, strict=True)])
    assert_close(ours("gaussian_noise", images, sigma=0.1, grain=9), expected, mean=1e-6, most=1e-6)


def test_salt_and_pepper_fall_where_the_field_says(images: np.ndarray) -> None:
    count, height, width, _ = images.shape
    field = bits32(arrays_of(images), np.full(count, 9), "salt_pepper", height * width).reshape(count, height, width) / 2**32
    expected = np.stack(
        [pixel.apply_salt_and_pepper(image, own < 0.05, own >= 0.95) for image, own in zip(images, field, strict=True)],
    )
    assert_close(ours("salt_pepper", images, share=0.1, grain=9), expected, mean=0, most=0)


def test_pixels_are_lost_where_the_field_says(images: np.ndarray) -> None:
    count, height, width, _ = images.shape
    field = bits32(arrays_of(images), np.full(count, 9), "pixel_dropout", height * width).reshape(count, height, width, 1) / 2**32
    lost = np.broadcast_to(field < 0.2, images.shape)
    values = np.full_like(images[0], 0.3)
    expected = np.stack([pixel.pixel_dropout(image, own, values) for image, own in zip(images, lost, strict=True)])
    assert_close(ours("pixel_dropout", images, share=0.2, value=0.3, grain=9), expected, mean=1e-8, most=1e-7)


@pytest.mark.parametrize("sigma", [0.8, 1.3, 2.7])
def test_gaussian_blur(images: np.ndarray, sigma: float) -> None:
    size = 2 * math.ceil(3 * sigma) + 1
    kernel = np.asarray(blur.create_gaussian_kernel(sigma, size), dtype=np.float32)
    line = kernel[size // 2] / kernel[size // 2].sum()
    expected = np.stack([pixel.separable_convolve(image, line) for image in images])
    assert_close(ours("gaussian_blur", images, sigma=sigma), expected, mean=1e-4, most=1e-3)


@pytest.mark.parametrize("pixels", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("degrees", [0.0, 33.0, 90.0, 141.5])
def test_motion_blur(images: np.ndarray, pixels: float, degrees: float) -> None:
    size = int(pixels) + 1
    kernel = blur.create_motion_kernel(size, degrees, 0.0, False, random.Random(0))
    expected = np.stack([pixel.convolve(image, kernel / kernel.sum()) for image in images])
    assert_close(ours("motion_blur", images, pixels=pixels, degrees=degrees), expected, mean=1e-5, most=1e-4)


@pytest.mark.parametrize("side", [3, 5])
def test_box_blur(images: np.ndarray, side: int) -> None:
    expected = np.stack([blur.box_blur(image, side) for image in images])
    assert_close(ours("box_blur", images, pixels=side - 1.0), expected, mean=1e-5, most=1e-4)


def projected(images: np.ndarray, matrix: list[list[float]]) -> np.ndarray:
    """By a matrix from old to new positions."""
    height, width = images.shape[1:3]
    forward = np.array(matrix, dtype=np.float64)
    return np.stack(
        [geometric.perspective(image, forward, width, height, 0.0, cv2.BORDER_REFLECT_101, False, cv2.INTER_LINEAR) for image in images]
    )


WARP = {"mean": 0.005, "most": 0.1}


@pytest.mark.parametrize("degrees", [-15.0, 4.0, 90.0])
def test_rotation(images: np.ndarray, degrees: float) -> None:
    angle = math.radians(degrees)
    cos, sin, x, y = math.cos(angle), math.sin(angle), 39 / 2, 47 / 2
    expected = projected(images, [[cos, sin, x - cos * x - sin * y], [-sin, cos, y + sin * x - cos * y], [0, 0, 1]])
    assert_close(ours("rotation", images, degrees=degrees), expected, **WARP)


def test_translation_scale_shear_and_crop(images: np.ndarray) -> None:
    x, y = 39 / 2, 47 / 2
    assert_close(ours("translation", images, right=3.3, down=-2.6), projected(images, [[1, 0, 3.3], [0, 1, -2.6], [0, 0, 1]]), **WARP)
    for zoom in (0.85, 1.2):
        expected = projected(images, [[zoom, 0, x - zoom * x], [0, zoom, y - zoom * y], [0, 0, 1]])
        assert_close(ours("scale", images, factor=zoom), expected, **WARP)
    expected = projected(images, [[1, -0.1, 0.1 * y], [0, 1, 0], [0, 0, 1]])
    assert_close(ours("shear", images, across=0.1, down=0.0), expected, **WARP)
    expected = projected(images, [[1 / 0.9, 0, -2 / 0.9], [0, 1 / 0.9, -1 / 0.9], [0, 0, 1]])
    assert_close(ours("crop", images, kept=0.9, left=2.0, top=1.0), expected, **WARP)


def test_perspective(images: np.ndarray) -> None:
    shift = np.array([[2.0, 1.0], [-3.0, 2.5], [1.0, -2.0], [0.5, 3.0]])
    corners = np.array([[0, 0], [39, 0], [39, 47], [0, 47]], dtype=np.float32)
    forward = cv2.getPerspectiveTransform(corners, (corners + shift).astype(np.float32))
    assert_close(ours("perspective", images, corners=shift.tolist()), projected(images, forward.tolist()), **WARP)


def test_grid_distortion(images: np.ndarray) -> None:
    across, down = [0.2, -0.1, 0.15, -0.2], [0.1, 0.2, -0.2, 0.05]

    def moved(length: int, shift: list[float]) -> np.ndarray:
        lines = np.linspace(0, length - 1, len(shift) + 2)
        return np.interp(np.arange(length), lines, lines + np.array([0, *shift, 0]) * lines[1]).astype(np.float32)

    map_x = np.broadcast_to(moved(40, across)[None], (48, 40))
    map_y = np.broadcast_to(moved(48, down)[:, None], (48, 40))
    expected = np.stack([geometric.remap(image, map_x, map_y, cv2.INTER_LINEAR, cv2.BORDER_REFLECT_101, 0.0) for image in images])
    assert_close(ours("grid_distortion", images, columns=across, rows=down), expected, **WARP)


def test_a_patch_on_whole_pixels_and_several_holes(images: np.ndarray) -> None:
    hole = np.array([[8, 11, 16, 19]])
    expected = np.stack([dropout.fill_holes_with_value(image.copy(), hole, np.full(3, 0.25, np.float32)) for image in images])
    assert_close(ours("patch", images, x=12.0, y=15.0, edge=8.0, value=0.25), expected, mean=0, most=0)
    holes = np.array([[0, 0, 4, 4], [10, 20, 14, 24], [30, 40, 34, 44], [20, 4, 24, 8], [2, 30, 6, 34]])
    expected = np.stack([dropout.fill_holes_with_value(image.copy(), holes, np.full(3, 0.75, np.float32)) for image in images])
    x, y = [2.0, 12, 32, 22, 4], [2.0, 22, 42, 6, 32]
    assert_close(ours("holes", images, x=x, y=y, edge=4.0, value=0.75), expected, mean=0, most=0)


def test_flips_inversion_and_solarising(images: np.ndarray) -> None:
    assert np.array_equal(ours("horizontal_flip", images, happens=1), images[:, :, ::-1])
    assert np.array_equal(ours("vertical_flip", images, happens=1), images[:, ::-1])
    square = images[:, :40]
    assert np.array_equal(ours("transpose", square, happens=1), square.transpose(0, 2, 1, 3))
    assert_close(ours("invert", images, happens=1), np.stack([pixel.invert(image) for image in images]), mean=1e-6, most=1e-6)
    expected = np.stack([pixel.solarize(image, 0.7) for image in images])
    assert_close(ours("solarize", images, threshold=0.7), expected, mean=1e-6, most=1e-6)


def test_grey_sepia_and_the_tone_curve(images: np.ndarray) -> None:
    grey = np.stack([pixel.to_gray_weighted_average(image) for image in images])[..., None]
    assert_close(ours("to_gray", images, share=1.0), np.broadcast_to(grey, images.shape), mean=1e-4, most=1e-3)
    sepia = np.array([[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]])
    expected = np.stack([pixel.linear_transformation_rgb(image, sepia) for image in images])
    assert_close(ours("sepia", images, share=1.0), np.clip(expected, 0, 1), mean=1e-5, most=1e-4)
    expected = np.stack([pixel.move_tone_curve(image, 1 / 3 + 0.1, 2 / 3 - 0.05) for image in images])
    assert_close(ours("tone_curve", images, shadows=0.1, lights=-0.05), expected, mean=0.005, most=0.02)


def test_equalising_and_stretching(images: np.ndarray) -> None:
    levels = np.rint(images * 255).astype(np.uint8)
    expected = np.stack([pixel.equalize(image, mode="cv", by_channels=True) for image in levels]) / 255
    assert_close(ours("equalize", images, share=1.0), expected, mean=0.005, most=0.02)
    # The library's own stretch leaves 255 out of its count; by its backend:
    planes = [[cv2.normalize(image[..., c], None, 0, 1, cv2.NORM_MINMAX) for c in range(3)] for image in images]
    assert_close(ours("auto_contrast", images, share=1.0), np.stack([np.stack(one, axis=2) for one in planes]), mean=1e-6, most=1e-5)


def test_median_of_three_by_three(images: np.ndarray) -> None:
    expected = np.stack([blur.median_blur(image, 3) for image in images])
    # At the edge OpenCV repeats the last pixel instead of mirroring.
    assert_close(ours("median_blur", images, pixels=1.0)[:, 1:-1, 1:-1], expected[:, 1:-1, 1:-1], mean=1e-7, most=1e-6)


def test_thicker_and_thinner_strokes(images: np.ndarray) -> None:
    square = np.ones((3, 3), np.uint8)
    thicker = np.stack([cv2.dilate(image, square) for image in images])
    thinner = np.stack([cv2.erode(image, square) for image in images])
    assert_close(ours("stroke_width", images, pixels=1.0), thicker, mean=1e-7, most=1e-6)
    assert_close(ours("stroke_width", images, pixels=-1.0), thinner, mean=1e-7, most=1e-6)
