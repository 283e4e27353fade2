"""What counts and what does not, and mistakes that are told at once."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from gate.config import CoverageSettings
from gate.coverage import criteria_from, criterion
from gate.errors import ConfigError

PROFILE = {"l": torch.tensor([[0.0, -1.0, 5.0], [10.0, 1.0, 5.0]])}


def test_both_ends_of_a_range_belong_to_a_section_and_outside_counts_for_none() -> None:
    c = criterion("kmnc", sections=10).fit(PROFILE)
    assert c.total == 20  # the third neuron never varies
    assert c.update({"l": torch.tensor([[0.0, 1.0, 5.0], [10.0, -1.0, 9.0], [10.1, -1.1, 0.0], [9.99, 0.99, 5.0]])}).tolist() == [
        2,
        2,
        0,
        0,
    ]
    assert c.by_layer() == {"l": 0.2}


def test_the_limits_of_a_range_are_not_beyond_it() -> None:
    for name, total, new in (("nbc", 6, [0, 3, 3]), ("snac", 3, [0, 3, 0])):
        c = criterion(name).fit(PROFILE)
        assert c.update({"l": torch.tensor([[10.0, -1.0, 5.0], [10.5, 1.5, 5.5], [-1.0, -2.0, 4.0]])}).tolist() == new
        assert c.total == total


def test_a_margin_and_fixed_bounds_move_the_limits() -> None:
    sample = {"l": torch.tensor([[14.0, 1.9, 5.0], [15.5, 2.1, 5.1]])}
    assert criterion("snac", margin=1.0).fit(PROFILE).update(sample).tolist() == [0, 3]  # deviations 5, 1 and 0
    fixed = criterion("nbc", bounds=(0.1, 0.9))
    assert fixed.update({"l": torch.tensor([[0.1, 0.9, 0.5], [0.95, 0.05, 0.95]])}).tolist() == [0, 3]


def test_a_threshold_must_be_exceeded_and_equal_outputs_cover_nothing() -> None:
    c = criterion("nc", threshold=0.5)
    assert c.update({"l": torch.tensor([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]])}).tolist() == [1, 0]


def test_values_that_are_not_finite_cover_nothing_and_are_counted_apart() -> None:
    for name in ("nc", "kmnc", "nbc", "snac", "tknc"):
        c = criterion(name).fit(PROFILE)
        assert c.update({"l": torch.full((2, 3), torch.nan)}).tolist() == [0, 0]
        assert c.update({"l": torch.full((1, 3), torch.inf)}).tolist() == [0]
        assert (c.covered, c.raw_covered, c.nonfinite) == (0, 0, 3)


def test_only_samples_that_earn_extend_the_valid_map() -> None:
    c = criterion("kmnc", sections=10).fit(PROFILE)
    row = [[0.5, 0.05, 5.0]]
    assert c.update({"l": torch.tensor(row)}, earns=torch.tensor([False])).tolist() == [0]
    assert (c.covered, c.raw_covered) == (0, 2)
    assert c.update({"l": torch.tensor(row * 3)}, earns=torch.tensor([False, True, True])).tolist() == [0, 2, 0]
    assert (c.covered, c.raw_covered) == (2, 2)
    assert (c.value, c.raw_value) == (0.1, 0.1)


def test_half_precision_is_read_as_what_it_is() -> None:
    c = criterion("nbc").fit({"l": PROFILE["l"].half()})
    assert c.update({"l": torch.tensor([[10.0, 1.5, 5.0]], dtype=torch.bfloat16)}).tolist() == [1]


def test_directions_say_where_there_is_something_to_gain() -> None:
    c = criterion("nbc").fit(PROFILE)
    c.update({"l": torch.tensor([[11.0, 2.0, 5.5], [5.0, -2.0, 5.0]])})
    assert c.directions({"l": torch.tensor([[9.0, 0.0, 5.0], [torch.nan, 0.0, 5.0]])})["l"].tolist() == [[-1, 0, -1], [0, 0, -1]]
    fresh = criterion("nbc").fit(PROFILE)
    assert fresh.directions({"l": torch.tensor([[9.0, -0.9, 5.0]])})["l"].tolist() == [[1, -1, 1]]
    for name in ("nc", "tknc", "snac"):
        c = criterion(name, **({"k": 1} if name == "tknc" else {})).fit(PROFILE)
        c.update({"l": torch.tensor([[0.0, 0.0, 9.0]])})
        assert c.directions({"l": torch.zeros(2, 3)})["l"].tolist() == [[1, 1, 0]] * 2


def test_mistakes_in_use_are_told() -> None:
    with pytest.raises(ValueError, match="call fit"):
        criterion("kmnc").update({"l": torch.zeros(1, 3)})
    with pytest.raises(ValueError, match="empty"):
        criterion("kmnc").fit({"l": torch.zeros(0, 3)})
    with pytest.raises(ValueError, match="no neuron of the watched layers varies"):
        criterion("kmnc").fit({"l": torch.zeros(3, 3)}).update({"l": torch.zeros(1, 3)})
    c = criterion("kmnc").fit(PROFILE)
    with pytest.raises(ValueError, match=r"missing \['l'\], not watched \['m'\]"):
        c.update({"m": torch.zeros(1, 3)})
    with pytest.raises(ValueError, match="3 neurons, these activations have 4"):
        c.update({"l": torch.zeros(1, 4)})
    with pytest.raises(ValueError, match="must be a floating tensor"):
        c.update({"l": torch.zeros(1, 3, dtype=torch.int64)})
    with pytest.raises(ValueError, match="earns"):
        c.update({"l": torch.zeros(2, 3)}, earns=torch.tensor([True]))
    c.update({"l": torch.zeros(1, 3)})
    with pytest.raises(ValueError, match="make a new criterion"):
        c.fit(PROFILE)
    with pytest.raises(ValueError, match="different numbers"):
        criterion("nc").update({"a": torch.zeros(1, 3), "b": torch.zeros(2, 3)})


def test_a_k_larger_than_a_layer_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match="it has 3 neurons") as caught:
        criterion("tknc", k=4).fit(PROFILE)
    assert caught.value.where == "coverage.tknc_k"


@pytest.mark.parametrize("name", ["nc", "kmnc", "nbc", "snac", "tknc", "tknp", "map", "output", "nlc", "lsa", "dsa", "mdsa", "nc+nbc"])
def test_what_was_refused_at_first_leaves_no_trace(name: str) -> None:
    c = criterion(name)
    with pytest.raises(ValueError, match="empty"):
        c.fit({"other": torch.zeros(0, 7)})
    with pytest.raises(ValueError, match="earns"):
        c.update({"other": torch.zeros(2, 7)}, earns=torch.tensor([True]))
    assert c.layers == {}
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    c.fit({"l": torch.randn(8, 4, generator=torch.Generator().manual_seed(0))}, y if c.needs_labels else None)
    assert c.layers == {"l": 4}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tknc", {"k": 4}),
        ("tknp", {"k": 4}),
        ("map", {"window": 2}),
        ("kmnc", {"sections": 1 << 31}),
        ("nbc+tknc", {"tknc": {"k": 4}}),
    ],
)
def test_layers_that_an_option_does_not_fit_are_refused_however_often_they_come(name: str, options: dict[str, Any]) -> None:
    c = criterion(name, **options)
    for _ in range(2):
        with pytest.raises(ConfigError):
            c.fit(PROFILE).update(PROFILE)
    assert c.layers == {}
    if "map" not in name and "kmnc" not in name:
        c.fit({"l": torch.rand(2, 4)})
        assert c.layers == {"l": 4}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("nc", {"threshold": 10**400, "scale": "none"}),
        ("nc", {"threshold": True}),
        ("map", {"threshold": "0"}),
        ("map", {"threshold": 10**5000}),
        ("nbc", {"margin": 10**400}),
        ("nbc", {"margin": float("nan")}),
        ("nbc", {"bounds": (0, 1e39)}),  # float32 ends at 3.4e38
        ("snac", {"bounds": 5}),
        ("snac", {"bounds": "01"}),
        ("lsa", {"upper": 10**400}),
        ("mdsa", {"var_threshold": 10**400}),
    ],
)
def test_numbers_that_no_activation_can_be_compared_with_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        criterion(name, **options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kmn", {}),
        ("kmnc", {"sections": 0}),
        ("tknc", {"k": 0}),
        ("nc", {"threshold": 1.5}),
        ("nc", {"scale": "batch"}),
        ("nbc", {"margin": -1}),
    ],
)
def test_unknown_names_and_options_out_of_range_are_refused(name: str, options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"no criterion; did you mean 'kmnc'|must be"):
        criterion(name, **options)


def test_an_option_that_a_criterion_does_not_have_is_answered_with_the_nearest() -> None:
    with pytest.raises(TypeError, match="kmnc has no option 'section'; did you mean 'sections'"):
        criterion("kmnc", section=7)
    with pytest.raises(TypeError, match="kmnc has no option 'k'; it has sections, edges"):
        criterion("nc+kmnc", kmnc={"k": 7})


def test_the_settings_give_criteria_with_their_options() -> None:
    made = criteria_from(CoverageSettings(criteria=("tknc", "kmnc", "nc"), kmnc_sections=7, tknc_k=3, nc_threshold=0.2))
    assert [(name, c.options) for name, c in made.items()] == [
        ("tknc", {"k": 3}),
        ("kmnc", {"sections": 7, "edges": "left"}),
        ("nc", {"threshold": 0.2, "scale": "layer"}),
    ]


def test_importing_the_room_does_not_import_torch() -> None:
    code = "import sys, gate.coverage, gate.models, gate.models.outputs; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_update_costs_in_proportion_to_hits_not_to_the_items() -> None:
    wide = criterion("kmnc", sections=10_000).fit({"l": torch.rand(8, 4096)})
    wide.update({"l": torch.rand(1, 4096)})
    with torch.autograd.profiler.profile(profile_memory=True) as seen:
        wide.update({"l": torch.rand(1, 4096)})
    largest = max(event.self_cpu_memory_usage for event in seen.key_averages())
    assert largest < 10_000 * 4096 / 8  # the map itself has one byte an item
