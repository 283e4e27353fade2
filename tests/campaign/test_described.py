"""What several workers say of themselves, in one description."""

from __future__ import annotations

from typing import Any

import pytest

from gate.campaign.described import joined


def said(**changes: Any) -> dict[str, Any]:
    plain = {"first_layer": "Linear", "model_input": "[3]", "model_calls": 5, "compile": "off", "micro_batch": None, "gradient_batch": None}
    return {**plain, **changes}


def test_calls_are_added_and_the_smaller_batch_counts() -> None:
    both = joined(said(micro_batch=16, model_calls=7), said(micro_batch=8, gradient_batch=4, first_layer=None))
    assert both == said(model_calls=12, micro_batch=8, gradient_batch=4)
    assert joined(said(), said())["micro_batch"] is None


@pytest.mark.parametrize("turned", [False, True])
def test_one_worker_that_runs_the_plain_model_is_told(turned: bool) -> None:
    pair = [said(compile="inductor"), said(compile="off: no compiler")]
    assert joined(*(pair[::-1] if turned else pair))["compile"] == "off: no compiler"
    assert joined(said(compile="inductor"), said(compile="inductor"))["compile"] == "inductor"
