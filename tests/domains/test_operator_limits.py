"""At severity 1 an operator changes as much as its limit says, in the unit that the policy's page gives."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest
from PIL import Image

from gate.domains.image.limits import Domain
from gate.domains.image.natural import NaturalOperators
from gate.domains.image.operators import OPERATORS
from gate.domains.image.similarity import structural_similarity

SIDE = 64
COUNT = 60


def changed(name: str, value: float, *, limit: object = None, channels: int = 3) -> tuple[np.ndarray, float]:
    """Sixty flat pictures of one value after the operator at severity 1, float32 [60, 64, 64, C], and the limit."""
    family = next(family for family, limits in Domain() if name in type(limits).model_fields)
    domain = Domain() if limit is None else Domain.model_validate({family: {name: limit}})
    operators = NaturalOperators(domain, (SIDE, SIDE, channels), np.float32, (0.0, 1.0))
    x = np.full((COUNT, SIDE, SIDE, channels), value, np.float32)
    made = operators.apply(x, [operators.step(name, 1.0, draw) for draw in range(COUNT)])
    return made, getattr(getattr(domain, family), name)


@pytest.mark.parametrize("name", ["gaussian_noise", "multiplicative_noise", "shot_noise"])
def test_noise_has_the_standard_deviation_of_its_limit(name: str) -> None:
    value = 0.5
    made, limit = changed(name, value, limit=0.1)
    light = {"gaussian_noise": 1.0, "multiplicative_noise": value, "shot_noise": value**0.5}[name]
    assert made.std() == pytest.approx(limit * light, rel=0.02)
    assert made.mean() == pytest.approx(value, abs=0.002)


def test_uniform_noise_reaches_its_limit_and_not_further() -> None:
    made, limit = changed("uniform_noise", 0.5)
    assert np.abs(made - 0.5).max() == pytest.approx(limit, rel=0.01)
    assert (made - 0.5).std() == pytest.approx(limit / 3**0.5, rel=0.02)


def test_noise_of_high_sensitivity_is_mostly_brightness() -> None:
    made, limit = changed("iso_noise", 0.5)
    noise = made - 0.5
    assert noise.std() == pytest.approx(limit * (1 + 0.25) ** 0.5, rel=0.02)
    assert np.corrcoef(noise[..., 0].ravel(), noise[..., 2].ravel())[0, 1] == pytest.approx(1 / 1.25, abs=0.02)


@pytest.mark.parametrize("name", ["salt_pepper", "pixel_dropout"])
def test_the_share_of_pixels_is_the_limit(name: str) -> None:
    made, limit = changed(name, 0.5)
    assert (made != 0.5).all(axis=3).mean() == pytest.approx(limit, rel=0.05)
    assert (made != 0.5).any(axis=3).mean() == (made != 0.5).all(axis=3).mean(), "all channels of a pixel go together"


@pytest.mark.parametrize("name", ["patch", "holes", "grid_dropout", "stripes"])
def test_the_covered_share_of_the_area_is_the_limit(name: str) -> None:
    made, limit = changed(name, 0.0)
    operators = NaturalOperators(Domain(), (SIDE, SIDE, 3), np.float32, (0.0, 1.0))
    values = np.array([operators.step(name, 1.0, draw).parameters["value"] for draw in range(COUNT)])
    cover = made.mean(axis=(1, 2, 3)) / values
    assert cover.max() <= limit * 1.001
    # Holes may overlap, bars cross.
    assert cover.mean() >= limit * {"patch": 0.999, "holes": 0.85, "grid_dropout": 0.999, "stripes": 0.96}[name]


@pytest.mark.parametrize(("name", "colour"), [("fog", 1.0), ("sun_flare", 1.0), ("shadow", 0.0)])
def test_weather_hides_as_much_as_its_limit_at_its_densest(name: str, colour: float) -> None:
    made, limit = changed(name, 0.4)
    hidden = ((made - 0.4) / (colour - 0.4)).max(axis=(1, 2, 3))
    assert hidden.max() <= limit + 1e-5
    assert hidden.mean() == pytest.approx(limit, rel=0.03)


def test_rain_snow_and_spatter_leave_most_of_the_picture_as_it_is() -> None:
    for name in ("rain", "snow", "spatter"):
        made, _ = changed(name, 0.4)
        common = np.median(made, axis=(1, 2, 3), keepdims=True)
        touched = (np.abs(made - common) > 0.02).any(axis=3).mean(axis=(1, 2))
        assert 0.005 < touched.mean() < 0.3, name


@pytest.mark.parametrize(("name", "unit"), [("brightness", 1.0), ("rgb_shift", 1.0)])
def test_what_is_added_is_at_most_the_limit(name: str, unit: float) -> None:
    made, limit = changed(name, 0.5)
    assert np.abs(made - 0.5).max(axis=(1, 2, 3)) == pytest.approx(np.full(COUNT, limit * unit), abs=1e-5)


def test_light_from_one_side_changes_from_one_edge_to_the_other_by_the_limit() -> None:
    made, limit = changed("illumination", 0.5)
    assert made.max() == pytest.approx(0.5 * (1 + limit), rel=0.02)
    assert made.min() == pytest.approx(0.5 * (1 - limit), rel=0.02)
    assert made.mean(axis=(1, 2, 3)) == pytest.approx(np.full(COUNT, 0.5), abs=1e-4)


def test_colder_light_is_bluer_and_warmer_light_redder() -> None:
    made, _ = changed("colour_temperature", 0.5)
    red, green, blue = (made[:, 0, 0, channel] for channel in range(3))
    assert green == pytest.approx(np.full(COUNT, 0.5), abs=1e-5)
    warm = red > 0.5
    assert 10 < warm.sum() < 50
    assert (blue[warm] < 0.5).all()
    assert (blue[~warm] > 0.5).all()
    assert 0.5 < red[warm].mean() < 0.65


def test_grey_stays_grey_when_hue_and_saturation_change() -> None:
    for name in ("hue", "saturation", "to_gray"):
        made, _ = changed(name, 0.37)
        assert np.abs(made - 0.37).max() < 1e-5, name


def test_no_blur_and_no_sharpening_changes_a_flat_picture() -> None:
    names = ("gaussian_blur", "box_blur", "motion_blur", "defocus", "zoom_blur", "median_blur", "glass_blur", "ringing")
    for name in (*names, "chromatic_aberration", "sharpen", "unsharp_mask", "emboss"):
        made, _ = changed(name, 0.37)
        assert np.abs(made - 0.37).max() < 1e-5, name


@pytest.mark.parametrize(
    ("name", "reach"),
    [("gaussian_blur", 1.0), ("box_blur", None), ("defocus", 0.5)],
)
def test_a_blur_spreads_a_point_as_far_as_its_limit(name: str, reach: float | None) -> None:
    limit = 0.05
    domain = Domain.model_validate({"blur": {name: limit}})
    operators = NaturalOperators(domain, (SIDE, SIDE, 1), np.float32, (0.0, 1.0))
    point = np.zeros((1, SIDE, SIDE, 1), np.float32)
    point[0, 32, 32] = 1
    spread = operators.apply(point, [operators.step(name, 1.0, 1)])[0, :, :, 0].astype(np.float64)
    assert spread.sum() == pytest.approx(1, abs=1e-4)
    deviation = float(np.sqrt((spread * (np.arange(SIDE) - 32.0)[None] ** 2).sum()))
    expected = ((limit * SIDE + 1) ** 2 / 12) ** 0.5 if reach is None else reach * limit * SIDE
    assert deviation == pytest.approx(expected, rel=0.12)


@pytest.fixture(scope="module")
def photographs() -> np.ndarray:
    """Ten real photographs [10, 224, 224, 3] that foolbox has on board."""
    folder = resources.files("foolbox") / "data"
    files = sorted((file for file in folder.iterdir() if file.name.startswith("imagenet_")), key=lambda file: file.name)[::2]
    pictures = []
    for file in files:
        with resources.as_file(file) as path, Image.open(path) as picture:
            pictures.append(np.asarray(picture.convert("RGB").resize((224, 224))))
    return np.stack(pictures)


# Those that keep every pixel where it is; a moved picture is like its origin to a person, but not to a comparison of pixels.
IN_PLACE = [
    name for name in NaturalOperators(Domain(), (224, 224, 3), np.uint8, (0, 255)).names if OPERATORS[name].family != "geometry"
] + ["stroke_width"]


@pytest.mark.parametrize("name", IN_PLACE)
def test_at_its_default_limit_a_photograph_shows_what_it_showed(name: str, photographs: np.ndarray) -> None:
    operators = NaturalOperators(Domain(), (224, 224, 3), np.uint8, (0, 255))
    made = operators.apply(photographs, [operators.step(name, 1.0, 977 * draw) for draw in range(len(photographs))])
    # At a quarter of the size: what is left when one looks at the picture as a whole.
    small = [x.reshape(-1, 56, 4, 56, 4, 3).mean((2, 4)).astype(np.float32) for x in (made, photographs)]
    alike = structural_similarity(small[0], small[1], 255.0)
    assert alike.mean() > 0.72
    assert alike.min() > 0.45
