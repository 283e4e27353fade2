"""What is warned of before anything is run, and the thresholds that would work."""

from __future__ import annotations

from typing import Any

import pytest

from gate.config import CoverageSettings
from gate.coverage.traps import LayerFacts, LayerRange, traps


def _layer(name: str = "hidden", **changes: Any) -> LayerFacts:
    values = {"type": "torch.nn.modules.linear.Linear", "kind": "linear", "neurons": 8, "calls": 1, "head": False, "auto": None}
    return LayerFacts(**{"name": name, **values, "watchable": True, "watched": True, "range": _range(), **changes})


def _range(low: float = -1.0, high: float = 2.0) -> LayerRange:
    width = high - low
    return LayerRange(low, low + 0.1 * width, low + 0.2 * width, low + 0.6 * width, low + 0.8 * width, high)


def _kinds(*layers: LayerFacts, training: tuple[str, ...] = (), **settings: Any) -> list[str]:
    return [trap.kind for trap in traps(layers, CoverageSettings(**settings), training=training)]


def test_an_ordinary_layer_is_no_trap_for_any_criterion() -> None:
    everything = ("nc", "kmnc", "nbc", "snac", "tknc", "tknp", "map", "output", "nlc", "lsa", "dsa", "mdsa")
    assert _kinds(_layer(), criteria=everything) == []


def test_a_threshold_above_everything_is_told_with_one_that_works() -> None:
    settings = CoverageSettings(criteria=("nc",), nc_scale="none", nc_threshold=7.0)
    (trap,) = traps([_layer("a"), _layer("b", range=_range(0.0, 10.0))], settings)
    assert (trap.kind, trap.layers) == ("threshold_above_all", ("a",))
    assert "never exceeds 2 on these samples, and nc_threshold is 7" in trap.what
    assert "set nc_threshold to 4.7" in trap.advice  # between 1.4 and 8, the medians of the two layers
    assert _kinds(_layer(), criteria=("nc",), nc_scale="none", nc_threshold=1.0) == []


def test_a_threshold_that_every_neuron_exceeds_leaves_nothing_to_cover() -> None:
    assert _kinds(_layer(), criteria=("nc",), nc_scale="none", nc_threshold=-1.0) == ["threshold_below_all"]
    assert _kinds(_layer(), criteria=("map",), map_threshold=-2.0) == ["threshold_below_all"]
    assert _kinds(_layer(), criteria=("map",), map_threshold=2.0) == ["threshold_above_all"]


def test_thresholds_of_what_is_not_measured_or_not_watched_do_not_matter() -> None:
    assert _kinds(_layer(), criteria=("kmnc",), nc_scale="none", nc_threshold=5.0, nbc_bounds=(-99.0, 99.0)) == []
    assert _kinds(_layer(watched=False), criteria=("nc",), nc_scale="none", nc_threshold=5.0) == []
    assert _kinds(_layer(range=None), criteria=("nc",), nc_scale="none", nc_threshold=5.0) == []


@pytest.mark.parametrize(
    ("bounds", "kinds"),
    [
        ((-1.1, 2.1), []),  # a little beyond the samples is what NBC is after
        ((-1.1, 9.0), ["bound_above_all"]),
        ((-9.0, 2.1), ["bound_below_all"]),
        ((-1.1, 0.5), ["bound_below_all"]),  # every neuron is above it already
        ((-0.3, 2.1), ["bound_above_all"]),
    ],
)
def test_fixed_bounds_that_say_nothing_are_told(bounds: tuple[float, float], kinds: list[str]) -> None:
    assert _kinds(_layer(), criteria=("nbc",), nbc_bounds=bounds) == kinds


def test_the_head_one_neuron_and_a_k_too_large_are_told() -> None:
    assert _kinds(_layer(head=True)) == ["head"]
    assert _kinds(_layer(neurons=1), criteria=("nc",)) == ["one_neuron"]
    assert _kinds(_layer(neurons=1), criteria=("nc",), nc_scale="none", nc_threshold=1.0) == []
    (trap,) = traps([_layer(neurons=3), _layer("wide", neurons=4)], CoverageSettings(criteria=("tknc", "tknp"), tknc_k=5, tknp_k=2))[:1]
    assert (trap.kind, trap.layers) == ("k_too_large", ("hidden", "wide"))
    assert "at most 3" in trap.advice
    assert _kinds(_layer(neurons=2), criteria=("tknc",)) == ["k_takes_all"]


def test_dead_and_broken_neurons_are_counted() -> None:
    (trap,) = traps([_layer(constant=3), _layer("other")], CoverageSettings(criteria=("kmnc",)))
    assert (trap.kind, trap.layers) == ("constant", ("hidden",))
    assert trap.what.startswith("3 of the 16 watched neurons")
    assert "kmnc has no sections" in trap.what
    assert _kinds(_layer(nonfinite=1)) == ["nonfinite"]


def test_train_mode_comes_first_and_names_the_modules() -> None:
    found = traps([_layer(head=True)], CoverageSettings(), training=("(root)", "drop"))
    assert [trap.kind for trap in found] == ["train_mode", "head"]
    assert "the model itself and drop" in found[0].what


def test_several_layers_are_told_in_one_sentence_that_reads_well() -> None:
    settings = CoverageSettings(criteria=("nc",), nc_scale="none", nc_threshold=1000.0)
    (trap,) = traps([_layer(name) for name in "abcde"], settings)
    assert trap.what.startswith("a, b, c and 2 more never exceed 2 on these samples")
    (trap,) = traps([_layer("a", head=True), _layer("b", head=True)], CoverageSettings())
    assert trap.what.startswith("a and b give the model's answer")


def test_a_layers_name_is_never_taken_for_a_format() -> None:
    (trap,) = traps([_layer("{high}{0}", head=True)], CoverageSettings())
    assert trap.what.startswith("{high}{0} gives")
