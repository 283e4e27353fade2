"""Probes: pictures that need no label, for the oracles that need none. A fixed list, the rudest of each group first.

A probe shows nothing, or something far beyond what a person would still label: whatever class a model gives it is neither right nor wrong.
But it has to answer with finite numbers, with the same ones in any company, and without ending its process.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.domains.image.limits import Blur as BlurLimits
from gate.domains.image.limits import Compression, Domain, Geometry, Noise, Occlusion, Photometry, Weather
from gate.domains.image.natural import NaturalOperators
from gate.domains.probe import Probe
from gate.randomness import generator, integer

__all__ = ["FAR", "probes"]

_SHOWS_NOTHING = ("constant", "colour", "noise")  # groups in which there is nothing to recognise

# Natural operators far beyond what any person would still label. Those that can't go there are off: a picture stays what it is without its
# colours, evened out, or mirrored.
FAR = Domain(
    geometry=Geometry(
        rotation=180.0,
        translation=0.9,
        scale=1.0,
        shear=1.0,
        perspective=0.4,
        crop=0.9,
        elastic=1.0,
        grid_distortion=0.45,
        optical_distortion=0.5,
        stroke_width=0.2,
    ),
    photometry=Photometry(
        brightness=1.0,
        contrast=0.99,
        gamma=(0.05, 10.0),
        tone_curve=None,
        illumination=1.0,
        clahe=None,
        equalize=None,
        auto_contrast=None,
        posterize=1.0,
        solarize=1.0,
        invert=1.0,
        sharpen=4.0,
        unsharp_mask=4.0,
        emboss=1.0,
        hue=None,
        saturation=None,
        rgb_shift=1.0,
        colour_temperature=None,
        to_gray=None,
        sepia=None,
    ),
    blur=BlurLimits(
        gaussian_blur=0.5,
        box_blur=0.5,
        motion_blur=1.0,
        defocus=0.15,  # a disc has many places: a wider one would take seconds on a large picture
        zoom_blur=0.5,
        median_blur=0.2,
        glass_blur=0.2,
        ringing=1.0,
        chromatic_aberration=0.2,
    ),
    noise=Noise(gaussian_noise=1.0, uniform_noise=1.0, shot_noise=1.0, multiplicative_noise=1.0, iso_noise=1.0, salt_pepper=1.0),
    weather=Weather(fog=1.0, rain=1.0, snow=1.0, spatter=1.0, shadow=1.0, sun_flare=1.0),
    compression=Compression(jpeg=1, webp=1, downscale=0.1),
    occlusion=Occlusion(patch=0.95, holes=0.95, grid_dropout=0.95, stripes=0.95, pixel_dropout=0.95),
)

_LEVELS = {
    "black": 0.0,
    "white": 1.0,
    **{f"{level:g}": level for level in (0.5, 0.25, 0.75, 0.02, 0.98)},
}  # shares of the range
_NOISES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)  # standard deviations about middle grey, shares of the value range
_PERIODS = (1, 2, 4)  # pixels
_OF_SEEDS = 3  # seed inputs that are taken to extremes of contrast

Picture = npt.NDArray[Any]


def probes(seeds: Picture, value_range: tuple[float, float], campaign_seed: int) -> tuple[Probe, ...]:
    """Not quite a hundred probes, the same for the same arguments; groups take turns, so that the first few are as different as can be.

    Args:
        seeds: [S, H, W, C] seed inputs in the file dtype, S >= 1.
        value_range: lowest and highest value of a file.
        campaign_seed: noise and the choice of seed inputs depend on it.
    """
    shape, dtype = seeds.shape[1:], seeds.dtype
    low, high = value_range

    def file(unit: npt.NDArray[np.floating[Any]]) -> Picture:
        values = np.broadcast_to(np.clip(unit, 0, 1) * (high - low) + low, shape)
        return np.ascontiguousarray((np.rint(values) if dtype == np.uint8 else values).astype(dtype))

    def drawn(group: str, pictures: Iterator[tuple[str, npt.NDArray[np.floating[Any]]]]) -> Iterator[Probe]:
        return (Probe(f"{group}-{name}", group, -1, group in _SHOWS_NOTHING, file(unit)) for name, unit in pictures)

    groups = (
        drawn("constant", ((name, np.array(level)) for name, level in _LEVELS.items())),
        drawn("noise", _noise(shape, campaign_seed)),
        drawn("chequers", _chequers(shape)),
        _beyond(seeds, value_range, campaign_seed),
        drawn("pixel", _pixels(shape)),
        drawn("stripes", _stripes(shape)),
        _contrast(seeds, value_range, campaign_seed),
        drawn("ramp", _ramps(shape)),
        drawn("colour", _colours(shape)),
    )
    return tuple(probe for probe in chain.from_iterable(zip_longest(*groups)) if probe is not None)


def _noise(shape: tuple[int, ...], campaign_seed: int) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    random = generator(campaign_seed, "probes", "noise")
    yield "uniform", random.random(shape)
    yield "binary", (random.random(shape) < 0.5).astype(np.float64)
    for strength in _NOISES:
        yield f"gaussian-{strength:g}", 0.5 + strength * random.standard_normal(shape)


def _chequers(shape: tuple[int, ...]) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    rows, columns = np.indices(shape[:2])
    for period in _fitting(shape):
        yield f"{period}", ((rows // period + columns // period) % 2).astype(np.float64)[:, :, None]


def _stripes(shape: tuple[int, ...]) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    rows, columns = np.indices(shape[:2])
    for period in _fitting(shape):
        for name, place in (("across", rows), ("upright", columns), ("slanting", rows + columns)):
            yield f"{name}-{period}", ((place // period) % 2).astype(np.float64)[:, :, None]


def _ramps(shape: tuple[int, ...]) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    height, width = shape[:2]
    yield "downward", np.linspace(0, 1, height)[:, None, None]
    yield "rightward", np.linspace(0, 1, width)[None, :, None]


def _pixels(shape: tuple[int, ...]) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    height, width = shape[:2]
    for name, row, column in (("middle", height // 2, width // 2), ("first", 0, 0), ("last", height - 1, width - 1)):
        for colour, value in (("white", 1.0), ("black", 0.0)):
            unit = np.full(shape, 1.0 - value)
            unit[row, column] = value
            yield f"{colour}-{name}", unit


def _colours(shape: tuple[int, ...]) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    if shape[2] != 3:
        return
    colours = {"red": "100", "green": "010", "blue": "001", "cyan": "011", "magenta": "101", "yellow": "110"}
    for name, parts in colours.items():
        yield name, np.array([float(part) for part in parts])


def _contrast(seeds: Picture, value_range: tuple[float, float], campaign_seed: int) -> Iterator[Probe]:
    """Seed inputs in two values only, and those two exchanged."""
    low, high = value_range
    random = generator(campaign_seed, "probes", "contrast")
    for seed in random.permutation(len(seeds))[:_OF_SEEDS].tolist():
        lit = seeds[seed] > seeds[seed].mean()
        for name, bright in (("binary", lit), ("reversed", ~lit)):
            yield Probe(f"contrast-{name}-{seed}", "contrast", seed, False, np.where(bright, high, low).astype(seeds.dtype))


def _beyond(seeds: Picture, value_range: tuple[float, float], campaign_seed: int) -> Iterator[Probe]:
    """Each natural operator that can go there, far beyond any policy's domain, on a seed input of its own."""
    operators = NaturalOperators(FAR, (seeds.shape[1], seeds.shape[2], seeds.shape[3]), seeds.dtype, value_range)
    random = generator(campaign_seed, "probes", "beyond")
    chosen = random.integers(len(seeds), size=len(operators.names)).tolist()
    steps = [operators.step(name, 1.0, integer(campaign_seed, "probes", "beyond", name)) for name in operators.names]
    made = operators.apply(seeds[chosen], steps)
    for name, seed, x in zip(operators.names, chosen, made, strict=True):
        yield Probe(f"beyond-{name}", "beyond", seed, False, x)


def _fitting(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Periods of which a picture shows at least two."""
    return tuple(period for period in _PERIODS if 2 * period <= min(shape[:2]))
