"""The classifier head and the features that go into it."""

from __future__ import annotations

import pytest
import torch
import torchvision
from loaded_networks import Pointwise, digits
from torch import Tensor, nn

from gate.errors import ModelError
from gate.models.head import FeatureTap, find_head
from gate.models.trace import trace


def test_the_last_layer_as_wide_as_the_output_is_the_head() -> None:
    resnet = torchvision.models.resnet18(num_classes=7).eval()
    assert find_head(resnet, trace(resnet, torch.rand(2, 3, 32, 32)), 7) == "fc"
    pointwise, x = Pointwise().eval(), torch.rand(2, 1, 8, 8)
    assert find_head(pointwise, trace(pointwise, x), 5) == "score"
    assert find_head(pointwise, trace(pointwise, x), 4) is None


@pytest.mark.parametrize("exported", [False, True])
def test_features_are_the_heads_input(exported: bool) -> None:
    module, x = digits().eval(), torch.rand(3, 1, 8, 8)
    expected = module.norm(module.conv(x)).relu().flatten(1).detach()
    if exported:
        module = torch.export.unflatten(torch.export.export(module, (x,), dynamic_shapes=[{0: torch.export.Dim.AUTO}]))
    head = find_head(module, trace(module, x), 10)
    assert head == "head"
    tap = FeatureTap(module, head)
    with tap.recording():
        module(x)
    torch.testing.assert_close(tap.features, expected)
    assert not tap.features.requires_grad
    with tap.recording(grad=True):
        module(x)
    assert tap.features.requires_grad
    with tap.recording():
        pass
    with pytest.raises(ModelError, match="did not run"):
        _ = tap.features
    tap.close()


def test_features_of_pixels_and_tokens_are_averaged() -> None:
    pointwise, x = Pointwise().eval(), torch.rand(2, 1, 8, 8)
    tap = FeatureTap(pointwise, "score")
    with tap.recording():
        pointwise(x)
    torch.testing.assert_close(tap.features, pointwise.conv(x).relu().mean((2, 3)).detach())

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x).mean(1)

    rows = torch.rand(2, 6, 4, dtype=torch.float64)
    module = Tokens().double()
    tap = FeatureTap(module, "head")
    with tap.recording():
        module(rows)
    torch.testing.assert_close(tap.features, rows.mean(1).float())
    with pytest.raises(ModelError, match="no module 'tail'"):
        FeatureTap(module, "tail")
