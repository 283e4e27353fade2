"""The criteria give the values that independent implementations agree on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from gate.coverage import criterion

GOLDEN = json.loads((Path(__file__).parent / "coverage-golden.json").read_text(encoding="utf-8"))


def _options(key: str) -> tuple[str, dict[str, Any]]:
    name, _, rest = key.partition("_")
    number = rest.rpartition("_")[2]
    return name, {
        "nc": lambda: {"threshold": float(number)},
        "kmnc": lambda: {"sections": int(number)},
        "tknc": lambda: {"k": int(number)},
    }.get(name, dict)()


@pytest.mark.parametrize("batch", [1, 4, 25])
@pytest.mark.parametrize("key", sorted(GOLDEN["expected"]))
def test_golden_values_are_reproduced_sample_by_sample(key: str, batch: int) -> None:
    expected = GOLDEN["expected"][key]
    profile = {layer: torch.tensor(values) for layer, values in GOLDEN["profile"].items()}
    samples = {layer: torch.tensor(values) for layer, values in GOLDEN["samples"].items()}
    name, options = _options(key)
    c = criterion(name, **options).fit(profile)
    new: list[int] = []
    for start in range(0, 25, batch):
        new += c.update({layer: values[start : start + batch] for layer, values in samples.items()}).tolist()
    assert new == expected["new_items"]
    assert (c.covered, c.total) == (expected["covered"], expected["total"])
    assert c.value == expected["covered"] / expected["total"]
    assert all(0 <= share <= 1 for share in c.by_layer().values())
    assert c.raw_covered == c.covered
