"""What goes wrong most often in choosing layers and thresholds, told before anything is run. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from gate.config import CoverageSettings
from gate.coverage.listing import listed

__all__ = ["LayerFacts", "LayerRange", "Trap", "traps"]

_ONE = {"s": "s", "has": "has", "is_": "is", "its": "its", "do": "does"}
_SEVERAL = {"s": "", "has": "have", "is_": "are", "its": "their", "do": "do"}


@dataclass(frozen=True)
class LayerRange:
    """What a layer's neurons put out over some samples. Medians are over its neurons, each number is one of the outputs."""

    low: float  # lowest output of any neuron
    low_median: float  # of the neurons' lowest outputs
    low_max: float  # highest of the neurons' lowest outputs
    high_min: float  # lowest of the neurons' highest outputs
    high_median: float
    high: float  # highest output of any neuron


@dataclass(frozen=True)
class LayerFacts:
    """One module of the model as a candidate for watching."""

    name: str
    type: str  # dotted name of its class
    kind: str
    neurons: int  # 0 where it can't be watched
    calls: int
    head: bool  # gives the model's answer
    auto: str | None  # why `auto` leaves it out, None where it takes it
    watchable: bool
    watched: bool  # chosen by coverage.layers
    range: LayerRange | None = None  # None without samples, or where no output was finite
    constant: int = 0  # neurons whose output never varied over the samples
    nonfinite: int = 0  # neurons that gave NaN or an infinite value


@dataclass(frozen=True)
class Trap:
    """Something that makes coverage say less than it seems to."""

    kind: str
    layers: tuple[str, ...]
    what: str
    advice: str


def traps(layers: Sequence[LayerFacts], settings: CoverageSettings, *, training: Sequence[str] = ()) -> tuple[Trap, ...]:
    """What to be warned of, the worst first.

    Args:
        layers: all of the model; those that are watched matter.
        settings: what is to be measured.
        training: modules in training mode, as the loader found them.
    """
    watched = [layer for layer in layers if layer.watched]
    ranged = [layer for layer in watched if layer.range is not None]
    found = [
        *_train_mode(training),
        *_head(watched),
        *_too_large(watched, settings),
        *_nc(ranged, settings),
        *_bounds(ranged, settings),
        *_map(ranged, settings),
        *_one_neuron(watched, settings),
        *_constant(watched, ranged, settings),
        *_nonfinite(watched),
    ]
    return tuple(found)


def _train_mode(training: Sequence[str]) -> list[Trap]:
    if not training:
        return []
    modules = ["the model itself" if name == "(root)" else name for name in training]
    return [
        Trap(
            "train_mode",
            (),
            f"The model was saved in train mode ({listed(modules, 3)}): its outputs depend on chance or on the rest of the batch.",
            "Call model.eval() before logging it. Ranges shown here are those of the model as it was saved.",
        )
    ]


def _head(watched: Sequence[LayerFacts]) -> list[Trap]:
    return _trap(
        "head",
        watched,
        lambda layer: layer.head,
        "{layers} give{s} the model's answer: watching it measures how often classes are predicted, not what goes on inside.",
        "Watch hidden layers (coverage.layers: auto); for the answers there is the criterion `output`.",
    )


def _too_large(watched: Sequence[LayerFacts], settings: CoverageSettings) -> list[Trap]:
    found = []
    for name, k in (("tknc", settings.tknc_k), ("tknp", settings.tknp_k)):
        if name in settings.criteria:
            narrowest = min((layer.neurons for layer in watched), default=k)
            found += _trap(
                "k_too_large",
                watched,
                lambda layer, k=k: layer.neurons < k,  # type: ignore[misc]
                f"{{layers}} {{has}} fewer than the {k} neurons of {name}_k; a run refuses that.",
                f"Set {name}_k to at most {narrowest}, or leave the layer out.",
            )
            found += _trap(
                "k_takes_all",
                watched,
                lambda layer, k=k: layer.neurons == k,  # type: ignore[misc]
                f"{{layers}} {{has}} exactly the {k} neurons of {name}_k, so every sample covers all of it.",
                f"Set {name}_k to less than {narrowest}, or leave the layer out.",
            )
    return found


def _nc(ranged: Sequence[LayerFacts], settings: CoverageSettings) -> list[Trap]:
    if "nc" not in settings.criteria or settings.nc_scale != "none":
        return []
    threshold = settings.nc_threshold
    works = f"set nc_threshold to {_working(ranged)}, which half of the watched neurons exceed on these samples" if ranged else ""
    return [
        *_trap(
            "threshold_above_all",
            ranged,
            lambda layer: _range(layer).high <= threshold,
            f"{{layers}} never exceed{{s}} {{high}} on these samples, and nc_threshold is {threshold:g}: none of its neurons gets covered.",
            f"Use nc_scale: layer, or {works}.",
        ),
        *_trap(
            "threshold_below_all",
            ranged,
            lambda layer: _range(layer).high_min > threshold,
            f"Every neuron of {{layers}} exceeds nc_threshold {threshold:g} on these samples, so nothing is left to cover.",
            f"Use nc_scale: layer, or {works}.",
        ),
    ]


def _bounds(ranged: Sequence[LayerFacts], settings: CoverageSettings) -> list[Trap]:
    found = []
    for name, bounds in (("nbc", settings.nbc_bounds), ("snac", settings.snac_bounds)):
        if bounds is None or name not in settings.criteria:
            continue
        lower, upper = bounds
        advice = f"Leave {name}_bounds out: then each neuron has the range it shows on the profile set."
        # What lies a little beyond the samples is what these criteria are after; what lies beyond by more than all that was seen is not.
        found += _trap(
            "bound_above_all",
            ranged,
            lambda layer, upper=upper: upper > 2 * _range(layer).high - _range(layer).low,  # type: ignore[misc]
            f"The upper bound {upper:g} of {name}_bounds lies far above {{layers}}, which {{do}} not exceed {{high}} on these samples.",
            advice,
        )
        found += _trap(
            "bound_below_all",
            ranged,
            lambda layer, upper=upper: _range(layer).high_min > upper,  # type: ignore[misc]
            f"Every neuron of {{layers}} exceeds the upper bound {upper:g} of {name}_bounds on these samples already.",
            advice,
        )
        if name == "nbc":
            found += _trap(
                "bound_below_all",
                ranged,
                lambda layer, lower=lower: lower < 2 * _range(layer).low - _range(layer).high,  # type: ignore[misc]
                f"The lower bound {lower:g} of {name}_bounds lies far below {{layers}}, which stay{{s}} above {{low}} on these samples.",
                advice,
            )
            found += _trap(
                "bound_above_all",
                ranged,
                lambda layer, lower=lower: _range(layer).low_max < lower,  # type: ignore[misc]
                f"Every neuron of {{layers}} falls below the lower bound {lower:g} of {name}_bounds on these samples already.",
                advice,
            )
    return found


def _map(ranged: Sequence[LayerFacts], settings: CoverageSettings) -> list[Trap]:
    if "map" not in settings.criteria:
        return []
    threshold = settings.map_threshold
    advice = f"Set map_threshold to {_working(ranged)}, which half of the watched neurons exceed on these samples." if ranged else ""
    return [
        *_trap(
            "threshold_above_all",
            ranged,
            lambda layer: _range(layer).high <= threshold,
            f"{{layers}} never exceed{{s}} {{high}} on these samples, and map_threshold is {threshold:g}: {{its}} pattern is always empty.",
            advice,
        ),
        *_trap(
            "threshold_below_all",
            ranged,
            lambda layer: _range(layer).low > threshold,
            f"{{layers}} {{is_}} always above map_threshold {threshold:g} on these samples: {{its}} pattern is always full.",
            advice,
        ),
    ]


def _one_neuron(watched: Sequence[LayerFacts], settings: CoverageSettings) -> list[Trap]:
    blind = [name for name in settings.criteria if name in ("nc", "tknc", "tknp") and not (name == "nc" and settings.nc_scale == "none")]
    if not blind:
        return []
    return _trap(
        "one_neuron",
        watched,
        lambda layer: layer.neurons == 1,
        f"{{layers}} {{has}} one neuron, which has nothing to be compared with: {' and '.join(blind)} learns nothing from it.",
        "Leave it out in coverage.layers.",
    )


def _constant(watched: Sequence[LayerFacts], ranged: Sequence[LayerFacts], settings: CoverageSettings) -> list[Trap]:
    if not ranged or not any(layer.constant for layer in watched):
        return []
    count, total = sum(layer.constant for layer in watched), sum(layer.neurons for layer in watched)
    kmnc = " (kmnc has no sections for them)" if "kmnc" in settings.criteria else ""
    return [
        Trap(
            "constant",
            tuple(layer.name for layer in watched if layer.constant),
            f"{count:,} of the {total:,} watched neurons gave the same output for all of these samples{kmnc}.",
            "Dead neurons are a matter for training; if there are few samples here, give more.",
        )
    ]


def _nonfinite(watched: Sequence[LayerFacts]) -> list[Trap]:
    return _trap(
        "nonfinite",
        watched,
        lambda layer: layer.nonfinite > 0,
        "{layers} gave NaN or infinite outputs on clean samples; they cover nothing.",
        "Look for overflow (half precision?) or division by zero in the model, and at the input's scale, mean and std.",
    )


def _trap(kind: str, layers: Sequence[LayerFacts], holds: Callable[[LayerFacts], bool], what: str, advice: str) -> list[Trap]:
    """One trap for all the layers for which ``holds``; none where there is no such layer.

    ``what`` names them as ``{layers}``, their range as ``{low}`` and ``{high}``, and has its verbs from ``_ONE`` or ``_SEVERAL``.
    """
    caught = [layer for layer in layers if holds(layer)]
    if not caught:
        return []
    ranges = [layer.range for layer in caught if layer.range is not None]
    limits = {"high": f"{max(r.high for r in ranges):.4g}", "low": f"{min(r.low for r in ranges):.4g}"} if ranges else {}
    names = tuple(layer.name for layer in caught)
    return [Trap(kind, names, what.format(layers=listed(names, 3), **limits, **(_ONE if len(names) == 1 else _SEVERAL)), advice)]


def _working(ranged: Sequence[LayerFacts]) -> str:
    """A threshold that some neurons exceed on the samples and others don't: the median of the layers' medians of the highest outputs."""
    return f"{median(_range(layer).high_median for layer in ranged):.3g}"


def _range(layer: LayerFacts) -> LayerRange:
    assert layer.range is not None
    return layer.range
