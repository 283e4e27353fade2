"""The tensor to judge is found in whatever a model returns."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from gate.errors import ConfigError, ModelError
from gate.models.select import choose_key, first_tensor, pick, select

SCORES, STATES = torch.rand(4, 3), torch.rand(4, 7, 2)


@dataclass
class Answer:
    loss: torch.Tensor | None
    logits: torch.Tensor


Named = namedtuple("Named", ["features", "scores"])


@pytest.mark.parametrize(
    ("output", "key"),
    [
        (SCORES, None),
        ({"states": STATES, "logits": SCORES}, "logits"),
        (OrderedDict(logits=SCORES, note="text"), "logits"),
        ((STATES, SCORES), 1),
        ([SCORES, None], 0),
        ((SCORES, (STATES, STATES)), 0),
        (Answer(None, SCORES), "logits"),
        (Named(STATES, SCORES), 1),
        ({"labels": SCORES.long(), "scores": SCORES, "again": SCORES}, "scores"),
    ],
)
def test_the_one_that_fits_is_found(output: Any, key: Any) -> None:
    assert choose_key(output, None, samples=4, classes=3) == key
    assert select(output, None, samples=4, classes=3) is SCORES
    assert first_tensor(output) is not None


def test_a_single_number_a_sample_fits_two_classes() -> None:
    output = {"score": torch.rand(4, 1), "states": STATES}
    assert choose_key(output, None, samples=4, classes=2) == "score"
    with pytest.raises(ModelError, match=r"None of the model's outputs has the shape \[4, 3\]: 'score': \[4, 1\], 'states': \[4, 7, 2\]"):
        choose_key(output, None, samples=4, classes=3)


def test_several_that_fit_must_be_told_apart_by_the_user() -> None:
    output = {"logits": SCORES, "probs": SCORES.softmax(1)}
    with pytest.raises(ConfigError, match=r"'logits', 'probs'(.|\n)*Set output\.key"):
        choose_key(output, None, samples=4, classes=3)
    assert choose_key(output, "probs", samples=4, classes=3) == "probs"


def test_keys_that_do_not_exist_are_refused_with_what_there_is() -> None:
    for output, key, told in (
        ({"logits": SCORES}, "logit", "Did you mean 'logits'"),
        ((SCORES, STATES), 2, r"0: \[4, 3\], 1: \[4, 7, 2\]"),
        (SCORES, "logits", "one tensor"),
        ((SCORES, None), 1, "NoneType, not a tensor"),
    ):
        with pytest.raises(ConfigError, match=told):
            choose_key(output, key, samples=4, classes=3)
    with pytest.raises(ModelError, match="holds no tensors"):
        choose_key("cat", None, samples=4, classes=3)


def test_an_answer_built_otherwise_than_before_is_an_error() -> None:
    with pytest.raises(ModelError, match="unlike before"):
        pick({"scores": SCORES}, "logits")
    with pytest.raises(ModelError, match="unlike before"):
        pick((SCORES,), None)
