"""Raw outputs of every kind are read as what they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gate.errors import ConfigError, ModelError
from gate.models.differentiable import Differentiable, to_logits
from gate.models.outputs import OutputKind, check, finite, predictions, probabilities, recognise

LOGITS = np.random.default_rng(1).normal(scale=4, size=(20, 5)).astype(np.float32)
SOFTMAX = torch.from_numpy(LOGITS).softmax(1).numpy()
LOG = torch.from_numpy(LOGITS).log_softmax(1).numpy()


@pytest.mark.parametrize(
    ("raw", "classes", "kind"),
    [
        (LOGITS, 5, OutputKind.LOGITS),
        (SOFTMAX, 5, OutputKind.PROBABILITIES),
        (SOFTMAX.astype(np.float16), None, OutputKind.PROBABILITIES),
        (LOG, 5, OutputKind.LOG_PROBABILITIES),
        (LOGITS[:, :1], 2, OutputKind.SIGMOID_LOGIT),
        (SOFTMAX[:, 0], 2, OutputKind.SIGMOID),
        (np.abs(LOGITS) / 20, 5, OutputKind.LOGITS),  # independent scores that do not sum to 1
    ],
)
def test_the_kind_is_recognised(raw: np.ndarray, classes: int | None, kind: OutputKind) -> None:
    assert recognise(raw, classes) is kind


def test_all_kinds_of_one_answer_mean_the_same() -> None:
    expected = torch.from_numpy(LOGITS).double().softmax(1).numpy()
    for raw, kind in ((LOGITS, OutputKind.LOGITS), (SOFTMAX, OutputKind.PROBABILITIES), (LOG, OutputKind.LOG_PROBABILITIES)):
        np.testing.assert_allclose(probabilities(raw, kind), expected, atol=1e-6)
        np.testing.assert_array_equal(predictions(raw, kind), LOGITS.argmax(1))
        np.testing.assert_allclose(to_logits(torch.from_numpy(raw), kind).softmax(1).numpy(), expected, atol=1e-5)
    single = LOGITS[:, :1]
    both = np.concatenate([1 - torch.from_numpy(single).sigmoid(), torch.from_numpy(single).sigmoid()], axis=1)
    for raw, kind in ((single, OutputKind.SIGMOID_LOGIT), (both[:, 1:], OutputKind.SIGMOID)):
        np.testing.assert_allclose(probabilities(raw, kind), both, atol=1e-6)
        np.testing.assert_array_equal(predictions(raw, kind), (single[:, 0] > 0).astype(int))
        np.testing.assert_allclose(to_logits(torch.from_numpy(raw), kind).softmax(1).numpy(), both, atol=1e-5)


@pytest.mark.parametrize("kind", list(OutputKind))
def test_rows_that_are_not_finite_have_no_prediction(kind: OutputKind) -> None:
    width = 1 if "sigmoid" in kind else 3
    raw = np.full((4, width), 0.25, dtype=np.float32)
    raw[1, 0], raw[2, -1], raw[3, 0] = np.nan, np.inf, -np.inf
    assert finite(raw).tolist() == [True, False, False, False]
    assert (predictions(raw, kind)[1:] == -1).all()
    assert predictions(raw, kind)[0] >= 0
    assert np.isnan(probabilities(raw, kind)[1:]).all()
    assert np.isfinite(probabilities(raw, kind)[0]).all()
    noisy = np.concatenate([{"probabilities": SOFTMAX, "log_probabilities": LOG}.get(kind, LOGITS)[:, :3], raw]) if width == 3 else raw
    assert recognise(noisy).value in set(OutputKind)


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(width=32)))
def test_probabilities_are_probabilities_whatever_the_logits(raw: np.ndarray) -> None:
    kind = OutputKind.SIGMOID_LOGIT if raw.shape[1] == 1 else OutputKind.LOGITS
    p = probabilities(raw, kind)
    usable = finite(raw)
    assert ((p[usable] >= 0) & (p[usable] <= 1)).all()
    np.testing.assert_allclose(p[usable].sum(1), 1)
    chosen = predictions(raw, kind)
    assert (p[usable, chosen[usable]] == p[usable].max(1)).all()


def test_wrong_shapes_and_types_are_told_with_both_shapes() -> None:
    for raw, classes, told in (
        (LOGITS, 10, r"\[20, 5\]; expected \[20, 10\]"),
        (LOGITS[:7], 5, r"\[7, 5\]; expected \[20, 5\]"),
        (LOGITS[:, :, None], 5, r"\[20, 5, 1\]; expected"),
        (LOGITS[:, 0], 5, r"\[20\]; expected"),
        (LOGITS.argmax(1), 5, r"int64 \[20\]; expected floating"),
        (LOGITS[:, :3], 2, r"expected \[20, 2\] or \[20, 1\]"),
    ):
        with pytest.raises(ModelError, match=told):
            check(raw, 20, classes)
    assert check(LOGITS[:, 0], 20, 2).shape == (20, 1)
    with pytest.raises(ModelError, match="None of the 20 outputs is finite"):
        recognise(np.full((20, 5), np.nan, dtype=np.float32), 5)


def test_a_declared_kind_is_held_against_the_values() -> None:
    assert recognise(SOFTMAX, 5, "logits") is OutputKind.LOGITS
    assert recognise(LOGITS[:, :1], 2, "sigmoid") is OutputKind.SIGMOID_LOGIT
    assert recognise(SOFTMAX[:, :1], 2, "sigmoid") is OutputKind.SIGMOID
    for raw, declared in (
        (LOGITS, "probabilities"),
        (LOGITS, "log_probabilities"),
        (SOFTMAX, "log_probabilities"),
        (LOGITS, "sigmoid"),
        (LOGITS[:, :1], "logits"),
    ):
        with pytest.raises(ConfigError, match=f"no {declared}"):
            recognise(raw, None, declared)


def test_the_view_for_attacks_leaves_the_models_mode_alone_and_passes_gradients() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(1)).train()
    view = Differentiable(model, OutputKind.PROBABILITIES, before=torch.nn.Flatten())
    view.eval()
    assert model.training
    assert not view.training
    x = torch.rand(2, 2, 2, requires_grad=True)
    torch.testing.assert_close(view(x).softmax(1), model(x.flatten(1)))
    (gradient,) = torch.autograd.grad(view(x)[:, 0].sum(), x)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().sum() > 0
    saturated = to_logits(torch.tensor([[1.0, 0.0]], requires_grad=True), OutputKind.PROBABILITIES)
    assert torch.isfinite(saturated).all()
