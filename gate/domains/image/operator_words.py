"""What operators do, in words that a title can end with: ``rotated by more than 12°`` after "when", or "in fog denser than 30 %".

One table, so that every rendering says the same of the same operator. Each operator has one amount, signed where it has two directions,
whose size grows with the severity; limits are told in its unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["OPERATOR_WORDS", "Words", "beyond", "by_how_much", "in_words", "measured"]

Parameters = Mapping[str, Any]
Amount = Callable[[Parameters], float]


@dataclass(frozen=True)
class Words:
    """How one operator is told. ``{}`` stands for the least amount that fails, in ``unit``."""

    up: str  # of a positive amount; without {} where there is nothing to measure
    amount: Amount | None = None
    unit: str = ""
    down: str | None = None  # of a negative amount; None: as ``up``
    both: str | None = None  # of both signs, with the smaller amount; None: one after the other, joined by "or"
    shown: Callable[[float], float] = abs  # what is printed of an amount


def in_words(operator: str) -> str:
    """The plain name of an operator, for lists."""
    return operator.replace("_", " ").replace("rgb", "RGB").replace("jpeg", "JPEG").replace("webp", "WebP")


def beyond(operator: str, parameters: Sequence[Parameters]) -> str | None:
    """From which amount on an operator did what it did, in words; None where the operator or its parameters are not known.

    Args:
        operator: its name.
        parameters: of the mildest steps of it that failed, at least one.
    """
    words = OPERATOR_WORDS.get(operator)
    if words is None:
        return None
    if words.amount is None:
        return words.up
    try:
        amounts = [float(words.amount(one)) for one in parameters]
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    if not amounts or not all(math.isfinite(amount) for amount in amounts):
        return None
    up = [amount for amount in amounts if amount >= 0 or words.down is None]
    down = [amount for amount in amounts if amount < 0 and words.down is not None]
    if up and down and words.both is not None:
        return words.both.format(_told(words, min(amounts, key=abs)))
    parts = []
    for phrase, own in ((words.up, up), (words.down, down)):
        if own and phrase is not None:
            parts.append(phrase.format(_told(words, min(own, key=abs))))
    return " or ".join(parts)


def by_how_much(operator: str, parameters: Parameters) -> str | None:
    """What one step of an operator did, in words; None where it has no amount, or where it or its parameters are not known."""
    words = OPERATOR_WORDS.get(operator)
    if words is None or words.amount is None:
        return None
    try:
        amount = float(words.amount(parameters))
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    if not math.isfinite(amount):
        return None
    phrase = words.down if amount < 0 and words.down is not None else words.up
    for least, exact in _EXACTLY:
        phrase = phrase.replace(least, exact)
    return phrase.format(f"{float(words.shown(amount)):.3g}{words.unit}")


# A title tells from which amount on, a recipe tells the amount.
_EXACTLY = (
    ("more than {}", "{}"),
    ("above {}", "of {}"),
    ("below {}", "of {}"),
    ("denser than {}", "of density {}"),
    ("wider than {}", "as wide as {}"),
    ("{} or less", "{}"),
)


def measured(operator: str, parameters: Parameters) -> tuple[str, ...]:
    """The parameters that an operator's amount is read from: how strong it is, not where or with which grain."""
    words = OPERATOR_WORDS.get(operator)
    if words is None or words.amount is None:
        return ()
    asked = _Asked(parameters)
    try:
        words.amount(asked)
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
        return ()
    return tuple(asked.names)


class _Asked(Mapping[str, Any]):
    """Parameters that note which of them are read."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self.names: list[str] = []

    def __getitem__(self, name: str) -> Any:
        self.names.append(name)
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)


def _told(words: Words, amount: float) -> str:
    """A number with its unit: rounded to two digits toward the milder side, so that what is said of more than it holds."""
    value = float(words.shown(amount))
    if words.shown is not abs:
        return f"{value:.2g}" if value < 10 else f"{round(value)}"
    if value <= 0:
        return f"0{words.unit}"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    least = math.floor(value / step + 1e-9) * step
    return f"{least:.10g}{words.unit}"


def _of(name: str, factor: float = 1.0) -> Amount:
    return lambda parameters: factor * float(parameters[name])


def _farthest(*names: str, factor: float = 1.0) -> Amount:
    """The largest size of any number in these parameters."""

    def amount(parameters: Parameters) -> float:
        return factor * max(abs(number) for name in names for number in _numbers(parameters[name]))

    return amount


def _numbers(value: Any) -> list[float]:
    if isinstance(value, list | tuple):
        return [number for part in value for number in _numbers(part)]
    return [float(value)]


def _percent_of_factor(name: str) -> Amount:
    """From 1, in percent: up or down."""
    return lambda parameters: 100 * (float(parameters[name]) - 1)


_PIXELS, _PERCENT, _DEGREES = " pixels", "%", "°"
_RANGE = "% of the value range"

OPERATOR_WORDS: dict[str, Words] = {
    "rotation": Words(
        "turned counter-clockwise by more than {}",
        _of("degrees"),
        _DEGREES,
        down="turned clockwise by more than {}",
        both="rotated by more than {}",
    ),
    "translation": Words(
        "moved by more than {}", lambda parameters: math.hypot(float(parameters["right"]), float(parameters["down"])), _PIXELS
    ),
    "scale": Words(
        "enlarged by more than {}",
        _percent_of_factor("factor"),
        _PERCENT,
        down="shrunk by more than {}",
        both="enlarged or shrunk by more than {}",
    ),
    "shear": Words("slanted by more than {}", _farthest("across", "down", factor=100), _PERCENT),
    "perspective": Words("seen at an angle, with a corner moved by more than {}", _farthest("corners"), _PIXELS),
    "crop": Words("cropped by more than {} of each side", lambda parameters: 100 * (1 - float(parameters["kept"])), _PERCENT),
    "elastic": Words("warped by more than {}", _of("pixels"), _PIXELS),
    "grid_distortion": Words("distorted by more than {} of a grid cell", _farthest("columns", "rows", factor=100), _PERCENT),
    "optical_distortion": Words("distorted by a lens by more than {}", _farthest("radial", factor=100), _PERCENT),
    "stroke_width": Words(
        "drawn with strokes thicker by more than {}",
        _of("pixels"),
        _PIXELS,
        down="drawn with strokes thinner by more than {}",
        both="drawn with strokes thicker or thinner by more than {}",
    ),
    "horizontal_flip": Words("mirrored left to right"),
    "vertical_flip": Words("mirrored top to bottom"),
    "transpose": Words("turned so that rows become columns"),
    "brightness": Words("brightened by more than {}", _of("added", 100), _RANGE, down="darkened by more than {}"),
    "contrast": Words("given more than {} more contrast", _percent_of_factor("factor"), _PERCENT, down="given more than {} less contrast"),
    "gamma": Words(
        "darkened by a gamma above {}",
        lambda parameters: math.log(float(parameters["gamma"])),
        down="lightened by a gamma below {}",
        shown=math.exp,
    ),
    "tone_curve": Words("given a tone curve bent by more than {}", _farthest("shadows", "lights", factor=100), _RANGE),
    "illumination": Words("lit from one side, brighter there by more than {}", _of("change", 100), _PERCENT),
    "clahe": Words("local contrast is evened out by more than {}", _of("share", 100), _PERCENT),
    "equalize": Words("its levels are evened out by more than {}", _of("share", 100), _PERCENT),
    "auto_contrast": Words("its contrast is stretched by more than {}", _of("share", 100), _PERCENT),
    "posterize": Words("left with levels more than {} apart", _of("step", 100), _RANGE),
    "solarize": Words("inverted in more than the lightest {}", lambda parameters: 100 * (1 - float(parameters["threshold"])), _RANGE),
    "invert": Words("light and dark change places"),
    "sharpen": Words("sharpened by more than {}", _of("amount", 100), _PERCENT),
    "unsharp_mask": Words("sharpened by an unsharp mask of more than {}", _of("amount", 100), _PERCENT),
    "emboss": Words("embossed by more than {}", _farthest("height", factor=100), _PERCENT),
    "hue": Words("its hues turn by more than {}", _farthest("degrees"), _DEGREES),
    "saturation": Words(
        "its colours get stronger by more than {}",
        _percent_of_factor("factor"),
        _PERCENT,
        down="its colours get weaker by more than {}",
        both="its colours get stronger or weaker by more than {}",
    ),
    "rgb_shift": Words("a colour channel shifts by more than {}", _farthest("added", factor=100), _RANGE),
    "colour_temperature": Words(
        "lit by light warmer by more than {}",
        _of("mired"),
        " mired",
        down="lit by light colder by more than {}",
        both="lit by light warmer or colder by more than {}",
    ),
    "to_gray": Words("losing more than {} of its colour", _of("share", 100), _PERCENT),
    "sepia": Words("browned (sepia) by more than {}", _of("share", 100), _PERCENT),
    "gaussian_blur": Words("blurred by more than {} (Gaussian)", _of("sigma"), _PIXELS),
    "box_blur": Words("blurred by more than {} (box)", _of("pixels"), _PIXELS),
    "motion_blur": Words("blurred by a movement of more than {}", _of("pixels"), _PIXELS),
    "defocus": Words("out of focus by more than {}", _of("radius"), _PIXELS),
    "zoom_blur": Words("blurred by zooming more than {}", _of("zoom", 100), _PERCENT),
    "median_blur": Words("smoothed by more than {} median passes", _of("pixels")),
    "glass_blur": Words("seen through glass that shifts pixels by more than {}", _of("pixels"), _PIXELS),
    "ringing": Words("edges ring by more than {}", _of("share", 100), _PERCENT),
    "chromatic_aberration": Words("red and blue differ in size by more than {}", _of("spread", 100), _PERCENT),
    "gaussian_noise": Words("covered by Gaussian noise above {}", _of("sigma", 100), _RANGE),
    "uniform_noise": Words("covered by uniform noise above {}", _of("reach", 100), _RANGE),
    "shot_noise": Words("covered by shot noise above {}", _of("sigma", 100), _RANGE),
    "multiplicative_noise": Words("covered by multiplicative noise above {}", _of("sigma", 100), _PERCENT),
    "iso_noise": Words("covered by sensor noise above {}", _of("sigma", 100), _RANGE),
    "salt_pepper": Words("more than {} of its pixels turn black or white", _of("share", 100), _PERCENT),
    "fog": Words("behind fog that hides more than {}", _of("density", 100), _PERCENT),
    "rain": Words("behind rain denser than {}", _of("density", 100), _PERCENT),
    "snow": Words("behind snow denser than {}", _of("density", 100), _PERCENT),
    "spatter": Words("spattered by more than {}", _of("density", 100), _PERCENT),
    "shadow": Words("under a shadow darker by more than {}", _of("darkness", 100), _PERCENT),
    "sun_flare": Words("under a sun flare that hides more than {}", _of("glare", 100), _PERCENT),
    "jpeg": Words("stored as JPEG of quality {} or less", lambda one: 100 - float(one["quality"]), shown=lambda lost: 100 - lost),
    "webp": Words("stored as WebP of quality {} or less", lambda one: 100 - float(one["quality"]), shown=lambda lost: 100 - lost),
    "downscale": Words("shrunk by more than {} and enlarged again", lambda one: 100 * (1 - float(one["factor"])), _PERCENT),
    "patch": Words("covered by a patch more than {} wide", _of("edge"), _PIXELS),
    "holes": Words("covered by squares more than {} wide", _of("edge"), _PIXELS),
    "grid_dropout": Words("covered by a grid of squares more than {} wide", _of("edge"), _PIXELS),
    "stripes": Words("crossed by bars wider than {} of it", _of("share", 100), _PERCENT),
    "pixel_dropout": Words("losing more than {} of its pixels", _of("share", 100), _PERCENT),
    # Made with the model's help, or by splicing: their bound is the policy's, not what this model needs.
    "fgsm": Words("attacked with one gradient step (FGSM)"),
    "pgd": Words("attacked along the gradient (PGD)"),
    "deepfool": Words("attacked toward the nearest boundary (DeepFool)"),
    "deepfool_linf": Words("attacked toward the nearest boundary (DeepFool)"),
    "carlini_wagner": Words("attacked with the least change (Carlini and Wagner)"),
    "boundary": Words("attacked along the boundary"),
    "coverage_gradient": Words("nudged toward unusual neuron outputs"),
    "block_copy": Words("a part of it is copied to another place"),
    "splice": Words("a part of another picture of its class is laid over it"),
}
