"""The natural operators: nothing at severity 0, more with more severity, the same bytes wherever they run."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_sample_images

from gate.domains.image import batches
from gate.domains.image.limits import Domain
from gate.domains.image.natural import NaturalOperators
from gate.domains.image.operators import OPERATORS
from gate.domains.image.recipe import Step, recipe_from_json, recipe_to_json
from gate.errors import DataError, UsageError

OFF = {  # what does not keep labels everywhere, as it is switched on here
    "geometry": {"horizontal_flip": 1.0, "vertical_flip": 1.0, "transpose": 1.0},
    "photometry": {"solarize": 0.3, "invert": 1.0},
}
EVERY = Domain.model_validate(OFF)
NAMES = tuple(OPERATORS)
GREY = tuple(name for name in NAMES if not OPERATORS[name].colour)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    """Fifty real digits, [50, 8, 8, 1] uint8."""
    return np.rint(load_digits().images[:50] * (255 / 16)).astype(np.uint8)[..., None]


def picture(shape: tuple[int, int, int], dtype: type, seed: int) -> np.ndarray:
    """A smooth random picture with all kinds of values."""
    random = np.random.default_rng(seed)
    coarse = random.random((4, 4, shape[2]))
    rows, columns = np.arange(shape[0]) * 4 // shape[0], np.arange(shape[1]) * 4 // shape[1]
    values = np.clip(coarse[rows][:, columns] + random.normal(0, 0.05, shape), 0, 1)
    return np.rint(values * 255).astype(np.uint8) if dtype is np.uint8 else values.astype(np.float32)


def on_all_names(shape: tuple[int, int, int], dtype: type) -> NaturalOperators:
    return NaturalOperators(EVERY, shape, dtype, (0, 255) if dtype is np.uint8 else (0, 1))


@pytest.fixture(scope="module")
def colours() -> np.ndarray:
    """Fifty parts of two real photographs, [50, 24, 24, 3] uint8."""
    photographs = load_sample_images().images
    return np.stack([photographs[i % 2][8 * i : 8 * i + 24, 11 * i : 11 * i + 24] for i in range(50)])


def test_the_default_domain_switches_on_what_keeps_labels() -> None:
    names = NaturalOperators(Domain(), (8, 8, 3), np.uint8, (0, 255)).names
    assert set(NAMES) - set(names) == {name for family in OFF.values() for name in family}
    assert len(NAMES) == 62
    assert {OPERATORS[name].family for name in names} == {
        "geometry", "photometry", "blur", "noise", "weather", "compression", "occlusion",
    }  # fmt: skip


def test_operators_of_colour_are_not_used_on_grey_pictures_nor_transposing_on_oblong_ones() -> None:
    colour = {"hue", "saturation", "rgb_shift", "colour_temperature", "to_gray", "sepia", "chromatic_aberration", "iso_noise"}
    assert set(on_all_names((8, 8, 3), np.uint8).names) == set(NAMES)
    assert set(NAMES) - set(on_all_names((8, 8, 1), np.uint8).names) == colour
    assert set(NAMES) - set(on_all_names((8, 9, 3), np.uint8).names) == {"transpose"}
    with pytest.raises(UsageError, match="not made for"):
        on_all_names((8, 8, 1), np.uint8).step("hue", 0.5, 1)


def test_an_operator_is_off_when_its_limit_is_null_zero_or_neutral() -> None:
    domain = Domain.model_validate(
        {
            "geometry": {"rotation": None, "crop": 0.0},
            "photometry": {"gamma": (1.0, 1.0)},
            "compression": {"jpeg": 100, "downscale": 1.0},
        }
    )
    operators = NaturalOperators(domain, (8, 8, 1), np.uint8, (0, 255))
    assert set(NaturalOperators(Domain(), (8, 8, 1), np.uint8, (0, 255)).names) - set(operators.names) == {
        "rotation", "crop", "gamma", "jpeg", "downscale",
    }  # fmt: skip
    with pytest.raises(UsageError, match="switched off"):
        operators.step("rotation", 0.5, 1)


def test_every_operator_belongs_to_the_family_of_the_limits_that_names_it() -> None:
    operators = on_all_names((8, 8, 1), np.uint8)
    for name in NAMES:
        assert hasattr(getattr(Domain(), operators.family_of(name)), name)
    with pytest.raises(UsageError, match="rotate"):
        operators.family_of("rotate")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_severity_zero_changes_nothing_not_even_through_the_operator_itself(name: str, dtype: type) -> None:
    images = np.stack([picture((11, 11, 3), dtype, seed) for seed in range(4)])
    operators = on_all_names(images.shape[1:], dtype)
    steps = [operators.step(name, 0.0, draw) for draw in range(4)]
    assert np.array_equal(operators.apply(images, steps), images)
    limit = getattr(getattr(EVERY, operators.family_of(name)), name)
    unit = images.astype(np.float32) / np.float32(255 if dtype is np.uint8 else 1)
    operator = OPERATORS[name](limit)
    assert np.array_equal(operator.apply(unit, operator.parameters(np.zeros(4), np.arange(4), images.shape[1:])), unit)


def test_severity_zero_keeps_every_bit_of_floats_in_a_range_that_is_not_that_of_the_operators() -> None:
    x = np.stack([picture((8, 8, 3), np.float32, seed) for seed in range(20)]) * np.float32(3.3) - np.float32(1.1)
    operators = NaturalOperators(EVERY, (8, 8, 3), np.float32, (-1.1, 2.2))
    numbers = np.arange(20) * 3 % len(operators.names)
    severities = np.where(np.arange(20) % 2, 0.5, 0.0)
    steps = operators.steps(numbers, severities, np.arange(20))
    for made in (operators.apply(x, steps), operators.apply(x, list(steps))):
        assert np.array_equal(made[::2], x[::2])
        assert not np.array_equal(made[1::2], x[1::2])
    assert np.array_equal(operators.apply(x, operators.steps(numbers, np.zeros(20), np.arange(20))), x)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["digits", "colours"])
def test_more_severity_changes_more_over_fifty_pictures(name: str, kind: str, digits: np.ndarray, colours: np.ndarray) -> None:
    pictures = digits if kind == "digits" else colours
    operators = on_all_names(pictures.shape[1:], np.uint8)
    if name not in operators.names:
        pytest.skip("for pictures with three channels")
    distances = []
    for severity in (0.0, 0.25, 0.5, 0.75, 1.0):
        mutants = operators.apply(pictures, [operators.step(name, severity, draw) for draw in range(len(pictures))])
        distances.append(np.abs(mutants.astype(float) - pictures).mean())
    assert distances[0] == 0
    assert all(less < more for less, more in itertools.pairwise(distances)), distances


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_the_smallest_severities_give_numbers(name: str, dtype: type) -> None:
    shapes = ((1, 1, 1), (2, 1, 3), (5, 7, 1), (28, 28, 3))
    for shape, severity in itertools.product(shapes, (5e-324, 7.2e-154, 1e-40, 1e-20, 1e-9, 1e-6)):
        operators = on_all_names(shape, dtype)
        if name in operators.names:
            mutant = operators.apply(picture(shape, dtype, 3)[None], [operators.step(name, severity, 7)])
            assert np.isfinite(mutant).all()
            assert mutant.min() >= 0
            assert mutant.max() <= (255 if dtype is np.uint8 else 1)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    height=st.integers(1, 41),
    width=st.integers(1, 41),
    channels=st.sampled_from([1, 3]),
    dtype=st.sampled_from([np.uint8, np.float32]),
    severity=st.floats(0, 1),
    draw=st.integers(0, 2**31 - 1),
)
def test_shape_dtype_and_range_are_kept(name: str, height: int, width: int, channels: int, dtype: type, severity: float, draw: int) -> None:
    image = picture((height, width, channels), dtype, draw % 1000)
    operators = on_all_names(image.shape, dtype)
    if name not in operators.names:
        return
    before = image.copy()
    step = operators.step(name, severity, draw)
    mutant = operators.apply(image[None], [step])
    assert mutant.shape == (1, *image.shape)
    assert mutant.dtype == image.dtype
    assert mutant.flags.c_contiguous
    assert np.isfinite(mutant).all()
    assert mutant.min() >= 0
    assert mutant.max() <= (255 if dtype is np.uint8 else 1)
    assert np.array_equal(image, before), "the input was changed"
    assert Step.from_json(json.loads(json.dumps(step.to_json()))) == step


@pytest.mark.parametrize("name", GREY)
@pytest.mark.parametrize("shape", [(500, 377, 3), (31, 33, 2), (16, 16, 5)])
def test_large_pictures_and_other_channel_counts_work(name: str, shape: tuple[int, int, int]) -> None:
    image = picture(shape, np.uint8, 3)
    operators = on_all_names(shape, np.uint8)
    if name not in operators.names:
        pytest.skip("for square pictures")
    mutant = operators.apply(image[None], [operators.step(name, 1.0, 11)])[0]
    assert mutant.shape == shape
    assert not np.array_equal(mutant, image)


@pytest.mark.parametrize("name", GREY)
def test_the_file_range_scales_the_change(name: str, digits: np.ndarray) -> None:
    """The same picture in 0 to 16 and in 0 to 1 gets the same change."""
    unit = digits[7].astype(np.float32) / 255
    narrow = NaturalOperators(EVERY, unit.shape, np.float32, (0, 1))
    wide = NaturalOperators(EVERY, unit.shape, np.float32, (-8, 8))
    step = narrow.step(name, 0.8, 3)
    one = narrow.apply(unit[None], [step])
    other = wide.apply((unit * 16 - 8)[None], [wide.step(name, 0.8, 3)])
    # Where both are rounded to levels, the last bit of a float may tip the scale.
    levels = {"jpeg": 1.0, "webp": 1.0, "clahe": 1.0, "equalize": 1.0, "posterize": 2.0}
    assert np.abs(one * 16 - 8 - other).max() < levels.get(name, 1e-4)


@settings(max_examples=200, deadline=None)
@given(low=st.floats(-100, 100), extent=st.floats(0.01, 100))
def test_values_never_leave_a_range_that_floats_hold_only_roughly(low: float, extent: float) -> None:
    high = low + extent
    values = np.linspace(low, high, 64).astype(np.float32).reshape(1, 8, 8, 1).clip(np.float32(low), np.float32(high))
    operators = NaturalOperators(Domain(), (8, 8, 1), np.float32, (low, high))
    for draw in (0, 1):
        mutant = operators.apply(values, [operators.step("contrast", 1.0, draw)])
        assert mutant.min() >= np.float32(low)
        assert mutant.max() <= np.float32(high)


def test_shapes_smaller_than_a_pixel_show_faintly_on_tiny_pictures() -> None:
    grey = np.full((20, 8, 8, 1), 128, np.uint8)
    operators = on_all_names((8, 8, 1), np.uint8)
    patches = [operators.step("patch", 0.1, draw) for draw in range(20)]  # 0.6 pixels wide
    strong = [row for row, step in enumerate(patches) if abs(step.parameters["value"] - 0.5) > 0.1]
    changed = np.abs(operators.apply(grey, patches).astype(int) - 128)
    assert len(strong) > 10
    assert changed[strong].max(axis=(1, 2, 3)).min() > 0
    rain = operators.apply(np.zeros_like(grey), [operators.step("rain", 1.0, draw) for draw in range(20)])
    assert 0 < rain.max() < 128, "a streak as thick as a stroke"


def test_uint8_files_with_a_narrow_range_stay_inside_it() -> None:
    raw = load_digits().images[:20].astype(np.uint8)[..., None]  # 0 to 16
    operators = NaturalOperators(Domain(), raw.shape[1:], np.uint8, (0, 16))
    for name in operators.names:
        mutants = operators.apply(raw, [operators.step(name, 1.0, draw) for draw in range(len(raw))])
        assert mutants.dtype == np.uint8
        assert mutants.max() <= 16


def test_a_draw_decides_direction_and_place_and_not_the_size_of_the_change() -> None:
    operators = on_all_names((28, 28, 1), np.uint8)
    angles = {operators.step("rotation", 0.5, draw).parameters["degrees"] for draw in range(20)}
    assert angles == {-7.5, 7.5}
    assert len({operators.step("patch", 0.5, draw).parameters["x"] for draw in range(20)}) == 20
    assert len({operators.step("patch", 0.5, draw).parameters["edge"] for draw in range(20)}) == 1


def test_results_do_not_depend_on_batch_order_or_neighbours(digits: np.ndarray) -> None:
    operators = on_all_names(digits.shape[1:], np.uint8)
    digits = np.concatenate([digits, digits, digits])
    steps = [operators.step(operators.names[i % len(operators.names)], 0.9, i) for i in range(len(digits))]
    together = operators.apply(digits, steps)
    backwards = operators.apply(digits[::-1].copy(), steps[::-1])[::-1]
    alone = np.concatenate([operators.apply(digits[i : i + 1], steps[i : i + 1]) for i in range(len(digits))])
    assert np.array_equal(together, backwards)
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("kind", ["digits", "colours"])
def test_steps_by_column_are_those_made_one_by_one_and_those_read_from_a_file(kind: str, digits: np.ndarray, colours: np.ndarray) -> None:
    pictures = digits if kind == "digits" else colours
    operators = on_all_names(pictures.shape[1:], np.uint8)
    random = np.random.default_rng(8)
    count = 3 * len(operators.names)
    numbers, severities = np.arange(count) % len(operators.names), random.random(count)
    draws = random.integers(2**31, size=count)
    severities[::17] = 0
    steps = operators.steps(numbers, severities, draws)
    alone = [operators.step(operators.names[n], float(s), int(d)) for n, s, d in zip(numbers, severities, draws, strict=True)]
    assert list(steps) == alone
    x = pictures[np.arange(count) % len(pictures)]
    made = operators.apply(x, steps)
    read = [Step.from_json(json.loads(json.dumps(step.to_json()))) for step in steps]
    assert np.array_equal(operators.apply(x, read), made)
    assert np.array_equal(np.stack([operators.replay(picture, [step]) for picture, step in zip(x, read, strict=True)]), made)


def test_a_batch_of_none_stays_empty(digits: np.ndarray) -> None:
    operators = on_all_names(digits.shape[1:], np.uint8)
    none = np.empty(0, dtype=np.int64)
    steps = operators.steps(none, np.empty(0), none)
    assert len(steps) == 0
    assert operators.apply(digits[:0], steps).shape == (0, 8, 8, 1)
    assert operators.apply(digits[:0], []).dtype == np.uint8


def test_a_batch_too_large_to_be_changed_at_once_gives_the_same_bytes(digits: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    operators = on_all_names(digits.shape[1:], np.uint8)
    # Few operators, so that the parts of each lie in several stretches of the batch.
    chosen = np.array([operators.names.index(name) for name in ("rotation", "elastic", "patch", "jpeg", "brightness")])
    steps = operators.steps(chosen[np.arange(50) % 5], np.linspace(0.1, 1, 50), np.arange(50))
    whole = operators.apply(digits, steps)
    monkeypatch.setattr(batches, "_VALUES_AT_ONCE", 7 * 64)
    assert np.array_equal(operators.apply(digits, steps), whole)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 9, 3), (9, 1, 1), (2, 3, 3), (1, 200, 1)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_pictures_of_one_pixel_or_one_line_are_changed_within_their_range(shape: tuple[int, int, int], dtype: type) -> None:
    operators = on_all_names(shape, dtype)
    images = np.stack([picture(shape, dtype, seed) for seed in range(3)])
    for name in operators.names:
        mutants = operators.apply(images, [operators.step(name, 1.0, draw) for draw in range(3)])
        assert mutants.shape == images.shape
        assert mutants.dtype == images.dtype
        assert np.isfinite(mutants).all(), name
        assert mutants.min() >= 0
        assert mutants.max() <= (255 if dtype is np.uint8 else 1)


def test_a_mirror_image_happens_for_as_many_draws_as_the_severity_says() -> None:
    operators = on_all_names((8, 8, 1), np.uint8)
    flips = np.full(2000, operators.names.index("horizontal_flip"))
    for severity in (0.25, 0.75):
        steps = operators.steps(flips, np.full(2000, severity), np.arange(2000))
        assert abs(np.mean([step.parameters["happens"] for step in steps]) - severity) < 0.04


def test_every_channel_of_a_picture_with_two_or_five_of_them_goes_through_a_codec() -> None:
    for channels in (2, 5):
        x = picture((16, 16, channels), np.uint8, 4)[None]
        operators = on_all_names(x.shape[1:], np.uint8)
        for name in ("jpeg", "webp", "clahe"):
            made = operators.apply(x, [operators.step(name, 1.0, 1)])
            assert (made != x).any(axis=(0, 1, 2)).all(), name
            assert np.abs(made.astype(int) - x).mean() < 40, name


def test_the_global_random_generators_are_neither_read_nor_moved(digits: np.ndarray) -> None:
    import random

    operators = on_all_names(digits.shape[1:], np.uint8)
    results = []
    for seed in (1, 2):
        np.random.seed(seed)
        random.seed(seed)
        before = (np.random.get_state()[1].tobytes(), random.getstate())
        steps = [operators.step(operators.names[i % len(operators.names)], 1.0, i) for i in range(len(digits))]
        results.append(operators.apply(digits, steps))
        assert before == (np.random.get_state()[1].tobytes(), random.getstate())
    assert np.array_equal(*results)


def test_a_recipe_replays_from_its_file_to_the_bytes_of_the_step_by_step_mutant(digits: np.ndarray) -> None:
    operators = on_all_names(digits.shape[1:], np.uint8)
    recipe = tuple(operators.step(name, 0.3, 9) for name in ("rotation", "fog", "jpeg"))
    mutant = digits[:1]
    for step in recipe:
        mutant = operators.apply(mutant, [step])
    written = json.dumps(recipe_to_json(recipe))
    assert recipe_from_json(json.loads(written)) == recipe
    assert np.array_equal(operators.replay(digits[0], recipe_from_json(json.loads(written))), mutant[0])


def test_a_recipe_replays_where_the_policy_has_switched_its_operator_off(digits: np.ndarray) -> None:
    wide = on_all_names(digits.shape[1:], np.uint8)
    narrow = NaturalOperators(Domain.model_validate({"weather": {"fog": None}}), digits.shape[1:], np.uint8, (0, 255))
    step = wide.step("fog", 1.0, 4)
    assert np.array_equal(narrow.replay(digits[0], [step]), wide.replay(digits[0], [step]))


@pytest.mark.parametrize("severity", [0.0, 1.0])
def test_an_attack_is_not_replayed_without_its_model(severity: float, digits: np.ndarray) -> None:
    operators = on_all_names(digits.shape[1:], np.uint8)
    with pytest.raises(DataError, match="pgd"):
        operators.replay(digits[0], [Step("pgd", severity, 0, {})])


@pytest.mark.parametrize("parameters", [{}, {"degrees": "much"}, {"angle": 3.0}, {"degrees": [1.0, 2.0]}])
def test_a_step_with_parameters_of_another_operator_is_refused(parameters: dict[str, object], digits: np.ndarray) -> None:
    with pytest.raises(DataError, match="rotation"):
        on_all_names(digits.shape[1:], np.uint8).replay(digits[0], [Step("rotation", 0.5, 0, parameters)])


@pytest.mark.parametrize(
    "broken",
    [
        "rotation",
        {"operator": "rotation"},
        {"operator": 1, "severity": 0.1, "draw": 1, "parameters": {}},
        {"operator": "rotation", "severity": float("nan"), "draw": 1, "parameters": {}},
        {"operator": "rotation", "severity": "1", "draw": 1, "parameters": {}},
        {"operator": "rotation", "severity": 0.1, "draw": -1, "parameters": {}},
        {"operator": "rotation", "severity": 0.1, "draw": True, "parameters": {}},
        {"operator": "rotation", "severity": 0.1, "draw": 1, "parameters": []},
    ],
)
def test_a_malformed_recipe_is_refused(broken: object) -> None:
    with pytest.raises(DataError):
        recipe_from_json([broken])


def _fingerprint() -> str:
    """One hash over all operators on grey, colour and float pictures."""
    content = hashlib.sha256()
    for shape, dtype in (((8, 8, 1), np.uint8), ((33, 40, 3), np.uint8), ((21, 17, 3), np.float32)):
        operators = on_all_names(shape, dtype)
        image = picture(shape, dtype, 5)
        for name in operators.names:
            step = operators.step(name, 0.83, 77)
            content.update(json.dumps(step.to_json()).encode())
            content.update(operators.apply(image[None], [step]).tobytes())
    return content.hexdigest()


def test_another_process_makes_the_same_bytes_and_imports_no_torch_and_asks_no_network() -> None:
    program = (
        "import socket, sys\n"
        "def refuse(*args, **kwargs): raise SystemExit('network')\n"
        "socket.socket.connect = refuse\n"
        "socket.getaddrinfo = refuse\n"
        "from tests.domains.test_natural_operators import _fingerprint\n"
        "import gate.domains.image.dataset, gate.domains.image.picture, gate.domains.image.validity\n"
        "print(_fingerprint())\n"
        "print([name for name in ('torch', 'mlflow') if name in sys.modules])\n"
        "import albumentations.pytorch\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    here, heavy, later = done.stdout.split("\n")[:3]
    assert here == _fingerprint()
    assert heavy == "[]"
    assert later == "True", "other code could no longer import albumentations.pytorch"


def test_importing_the_operators_loads_no_heavy_library() -> None:
    program = "import sys, gate.domains.image.natural; print([n for n in ('cv2', 'albumentations', 'torch', 'scipy') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
