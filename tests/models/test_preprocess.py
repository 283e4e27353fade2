"""What the model sees is what its training code made of a picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchvision.transforms import functional

from gate.config import InputSettings
from gate.domains.image.preprocess import Preprocess
from gate.errors import ConfigError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PICTURES = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3), dtype=np.uint8))


def test_the_usual_normalisation_is_reproduced_to_the_bit() -> None:
    got = Preprocess(InputSettings(mean=MEAN, std=STD), (0, 255), 3)(PICTURES)
    expected = torch.stack([functional.normalize(functional.to_tensor(p.numpy()), MEAN, STD) for p in PICTURES])
    assert got.dtype == torch.float32
    assert torch.equal(got, expected)
    assert got.is_contiguous()


def test_scale_order_and_layout() -> None:
    planes = PICTURES.permute(0, 3, 1, 2).float()
    assert torch.allclose(Preprocess(InputSettings(scale=(-1, 1)), (0, 255), 3)(PICTURES), planes / 127.5 - 1, atol=1e-6)
    assert torch.allclose(Preprocess(InputSettings(scale=(0, 255)), (0, 255), 3)(PICTURES), planes, atol=1e-4)
    turned = Preprocess(InputSettings(mean=MEAN, std=STD, order="bgr"), (0, 255), 3)(PICTURES)
    assert torch.equal(turned, Preprocess(InputSettings(mean=MEAN, std=STD), (0, 255), 3)(PICTURES).flip(1))
    assert torch.equal(Preprocess(InputSettings(layout="nhwc"), (0, 255), 3)(PICTURES), PICTURES.float() / 255)
    assert torch.equal(Preprocess(InputSettings(layout="flat"), (0, 255), 3)(PICTURES), (planes / 255).flatten(1))
    grey = PICTURES[..., :1]
    for x in (grey, grey[..., 0]):
        assert torch.equal(Preprocess(InputSettings(layout="nhw"), (0, 255), 1)(x), grey[..., 0].float() / 255)
        assert Preprocess(InputSettings(), (0, 255), 1)(x).shape == (3, 1, 5, 4)
    sixteen = Preprocess(InputSettings(), (0, 16), 1)(torch.tensor([[[0.0, 16.0]]], dtype=torch.float64))
    assert sixteen.flatten().tolist() == [0, 1]


def test_gradients_are_in_file_units() -> None:
    module = Preprocess(InputSettings(scale=(-1, 1), std=(0.5,), order="bgr"), (0, 255), 3)
    x = PICTURES.double().requires_grad_()
    (gradient,) = torch.autograd.grad(module(x).sum(), x)
    torch.testing.assert_close(gradient, torch.full_like(x, 2 / 255 / 0.5), rtol=1e-5, atol=0)


def test_what_does_not_fit_is_told() -> None:
    for settings, channels, told in (
        (InputSettings(mean=MEAN), 1, r"input\.mean has 3 numbers for pictures of 1"),
        (InputSettings(std=STD), 4, r"input\.std has 3 numbers"),
        (InputSettings(order="bgr"), 1, "needs 3 channels"),
        (InputSettings(layout="nhw"), 3, "has no channels"),
    ):
        with pytest.raises(ConfigError, match=told):
            Preprocess(settings, (0, 255), channels)
    with pytest.raises(ConfigError, match="empty"):
        Preprocess(InputSettings(), (1, 1), 1)
    with pytest.raises(ValueError, match=r"expected \[N, H, W, 3\], got \[3, 5, 4, 1\]"):
        Preprocess(InputSettings(), (0, 255), 3)(PICTURES[..., :1])
