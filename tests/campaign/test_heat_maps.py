"""Where answers come from: each method does what its paper says, fits the models it is for, and leaves nothing behind."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision
from planted_neurons import in_one
from torch import Tensor, nn

from gate.campaign.attention_heat import token_grid
from gate.campaign.attribution_work import heat_work
from gate.campaign.heat_maps import HeatMaps, find_sight, heat_maps
from gate.campaign.occlusion import occlusion


def seen(
    module: nn.Module, x: Tensor, classes: list[int] | None = None, *, gradients: bool = True, grid: int = 4, batch: int = 5
) -> tuple[HeatMaps | None, int]:
    """The heat maps of pictures [N, H, W, C], and forward-equivalents."""
    calls = 0

    def backwards(gradient: Tensor) -> None:
        nonlocal calls
        calls += 2 * len(gradient)

    def logits(values: Tensor) -> Tensor:
        nonlocal calls
        calls += len(values)
        found = module(values.permute(0, 3, 1, 2).to(torch.float32)).to(torch.float64)
        if found.requires_grad:
            found.register_hook(backwards)
        return found

    inputs = x.permute(0, 3, 1, 2).to(torch.float32)
    answers = logits(x).detach()
    calls = 0
    wanted = answers.argmax(1) if classes is None else torch.tensor(classes)
    sight = find_sight(module, inputs, answers.shape[1])
    return heat_maps(module, sight, logits, in_one, x, wanted, gradients=gradients, grid=grid, batch=batch), calls


class Bars(nn.Module):
    """Class 0 is a bar that lies, class 1 one that stands."""

    def __init__(self, in_place: bool = True) -> None:
        super().__init__()
        self.edges = nn.Conv2d(1, 2, 3, padding=1, bias=False)
        self.act = nn.ReLU(inplace=in_place)
        self.pool = nn.AvgPool2d(2)
        self.head = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            lying = torch.tensor([[-1.0, -1.0, -1.0], [2.0, 2.0, 2.0], [-1.0, -1.0, -1.0]])
            self.edges.weight.copy_(torch.stack([lying, lying.T])[:, None])
            self.head.weight.copy_(torch.eye(2) * 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.act(self.edges(x))).mean((2, 3)))


def both_bars() -> Tensor:
    """[2, 8, 8, 1]: twice a lying bar top left and a standing one bottom right."""
    x = torch.full((2, 8, 8, 1), 0.1)
    x[:, 1, :4] = 1.0
    x[:, 4:, 6] = 1.0
    return x


def test_grad_cam_looks_where_the_class_is_and_not_where_the_other_is() -> None:
    module = Bars().eval()
    for parameter in module.parameters():
        parameter.requires_grad_(False)  # as a served model has them
    found, calls = seen(module, both_bars(), [0, 1])
    assert found is not None
    assert (found.method, found.layer) == ("grad_cam_pp", "pool")
    assert found.maps.shape == (2, 4, 4)
    share = found.maps / found.maps.sum((1, 2), keepdim=True)
    assert share[0, :2, :2].sum() > share[0, 2:, 2:].sum()
    assert share[1, 2:, 2:].sum() > share[1, :2, :2].sum()
    assert calls == 3 * 2


def test_the_weights_are_those_of_the_paper() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)).eval()
    x = torch.rand(2, 8, 8, 1)
    found, _ = seen(module, x, [0, 2])
    assert found is not None
    acts = module[1](module[0](x.permute(0, 3, 1, 2))).detach().double()
    slope = module[3].weight.detach().double()[[0, 2]].reshape(2, 4, 6, 6)  # the head is linear
    alpha = slope**2 / (2 * slope**2 + (acts * slope**3).sum((2, 3), keepdim=True))
    weights = (alpha * slope.relu()).sum((2, 3))
    by_hand = (weights[..., None, None] * acts).sum(1).relu()
    assert torch.allclose(found.maps.double(), by_hand, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "method", "layer"),
    [("resnet18", "grad_cam_pp", "layer4"), ("swin_t", "grad_cam_pp", "permute"), ("vit_b_16", "rollout", "encoder_layer_11")],
)
def test_real_networks_get_the_method_that_fits_them(name: str, method: str, layer: str) -> None:
    torch.manual_seed(0)
    options = {"image_size": 64} if name == "vit_b_16" else {}
    module = torchvision.models.get_model(name, weights=None, num_classes=5, **options).eval()
    if name == "vit_b_16":
        nn.init.normal_(module.heads.head.weight)
    x = torch.randint(0, 256, (2, 64, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    inputs = x.permute(0, 3, 1, 2).float()
    before = module(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, calls = seen(module, x)
    assert found is not None
    assert found.method == method
    assert layer in str(found.layer)
    assert calls <= heat_work(4)
    assert not any(child._forward_hooks or child._forward_pre_hooks for child in module.modules())
    assert torch.equal(module(inputs), before)


class Shared(Bars):
    """One activation module for both convolutions, as many networks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Conv2d(2, 2, 3, padding=1, stride=2)
        with torch.no_grad():
            self.more.weight.copy_(torch.eye(2)[:, :, None, None].expand(2, 2, 3, 3))
            self.more.bias.fill_(-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.more(self.act(self.edges(x)))).mean((2, 3)))


def test_of_an_activation_that_is_called_twice_the_last_call_counts() -> None:
    found, _ = seen(Shared().eval(), both_bars(), [0, 1])
    assert found is not None
    assert (found.method, found.layer, found.maps.shape) == ("grad_cam_pp", "act", (2, 4, 4))


def test_an_exported_program_shows_what_the_model_shows() -> None:
    module, x = Bars(in_place=False).eval(), both_bars()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.unflatten(torch.export.export(module, (x.permute(0, 3, 1, 2),), dynamic_shapes=({0: batch},)))
    plain, exported = seen(module, x, [0, 1])[0], seen(program, x, [0, 1])[0]
    assert plain is not None
    assert exported is not None
    assert exported.method == "grad_cam_pp"
    assert torch.allclose(exported.maps, plain.maps)


class Attentive(nn.Module):
    """Patches of 2 x 2 as tokens behind a class token, which looks at one place by construction."""

    def __init__(self, place: int, layers: int = 1) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 4, 2, stride=2)
        self.blocks = nn.ModuleList(nn.MultiheadAttention(4, 2, batch_first=True) for _ in range(layers))
        self.head = nn.Linear(4, 2)
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([tokens.mean(1, keepdim=True), tokens], 1)
        mask = torch.zeros(tokens.shape[1], tokens.shape[1])
        mask[0] = -1e9
        mask[0, 1 + self.place] = 0
        for block in self.blocks:
            tokens = tokens + block(tokens, tokens, tokens, need_weights=False, attn_mask=mask)[0]
        return self.head(tokens[:, 0])


@pytest.mark.parametrize("gradients", [True, False])
def test_rollout_follows_the_class_tokens_attention(gradients: bool) -> None:
    torch.manual_seed(0)
    found, calls = seen(Attentive(6).eval(), torch.rand(2, 8, 8, 1), gradients=gradients)
    assert found is not None
    assert (found.method, found.layer) == ("rollout", "blocks.0")
    assert found.maps.shape == (2, 4, 4)
    assert (found.maps.flatten(1).argmax(1) == 6).all()
    assert calls == 2


def test_rollout_multiplies_layers_with_half_of_each_passed_by() -> None:
    torch.manual_seed(0)
    module, x = Attentive(6, layers=2).eval(), torch.rand(2, 8, 8, 1)
    found, _ = seen(module, x)
    assert found is not None
    tokens = module.patches(x.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
    tokens = torch.cat([tokens.mean(1, keepdim=True), tokens], 1)
    mask = torch.zeros(17, 17)
    mask[0] = -1e9
    mask[0, 7] = 0
    flow = torch.eye(17)
    for block in module.blocks:
        out, weights = block(tokens, tokens, tokens, attn_mask=mask)  # averaged over heads
        flow = (weights + torch.eye(17)) / 2 @ flow
        tokens = tokens + out
    assert torch.allclose(found.maps.flatten(1), flow[:, 0, 1:], atol=1e-6)


def test_torchs_own_encoder_layers_give_their_weights() -> None:
    torch.manual_seed(0)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.encoder(x[:, 0]).mean(1))

    found, _ = seen(Rows().eval(), torch.rand(2, 8, 8, 1))
    assert found is not None
    assert found.method == "rollout"
    assert found.maps.shape == (2, 8, 1)


@pytest.mark.parametrize(
    ("tokens", "size", "grid"),
    [
        (197, (224, 224), (1, 14, 14)),
        (196, (224, 224), (0, 14, 14)),
        (198, (224, 224), (2, 14, 14)),
        (50, (224, 224), (1, 7, 7)),
        (33, (32, 64), (1, 4, 8)),
        (8, (8, 8), (0, 8, 1)),
        (9, (8, 8), (0, 3, 3)),
        (201, (224, 224), (5, 14, 14)),
        (11, (224, 224), None),
    ],
)
def test_tokens_find_their_places(tokens: int, size: tuple[int, int], grid: tuple[int, int, int] | None) -> None:
    assert token_grid(tokens, size) == grid


def _mlp() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2, bias=False)).eval()
    with torch.no_grad():
        model[1].weight.zero_()
        model[1].weight[0, [9, 10, 17, 18]] = 5.0  # rows 1 and 2, columns 1 and 2
        model[1].weight[1, [54, 55]] = 5.0
    return model


def test_covering_what_speaks_for_a_class_lowers_it() -> None:
    x = torch.full((2, 8, 8, 1), 0.1)
    x[:, 1:3, 1:3] = x[:, 6, 6:] = 1.0
    found, calls = seen(_mlp(), x, [0, 1], grid=8)
    assert found is not None
    assert (found.method, found.layer) == ("occlusion", None)
    assert calls == 2 * (64 + 1) <= heat_work(8)
    first, second = found.maps
    assert set(first.flatten().nonzero().flatten().tolist()) == {9, 10, 17, 18}
    assert set(second.flatten().nonzero().flatten().tolist()) == {54, 55}


def test_covered_squares_get_the_mean_colour_of_the_picture_in_whole_numbers() -> None:
    shown: list[Tensor] = []

    def logits(values: Tensor) -> Tensor:
        shown.append(values.clone())
        return values.flatten(1).double()[:, :2]

    x = torch.arange(25, dtype=torch.uint8).reshape(1, 5, 5, 1) * 10
    found = occlusion(logits, in_one, x, torch.tensor([0]), grid=2, batch=2)
    pictures = torch.cat(shown)
    assert found.shape == (1, 2, 2)
    assert len(pictures) == 5
    assert pictures.dtype == torch.uint8
    assert torch.equal(pictures[4], x[0])  # the last covers nothing
    covered = pictures[:4] != x
    assert (pictures[:4][covered] == 120).all()
    assert (covered.sum(0) + (x[0] == 120) >= 1).all()  # every pixel is covered once


@pytest.mark.parametrize("make", [_mlp, lambda: Bars().eval()])
def test_without_gradients_there_is_still_a_place(make: Callable[[], Any]) -> None:
    found, _ = seen(make(), both_bars(), [0, 0], gradients=False)
    assert found is not None
    assert found.method == "occlusion"
    assert int(found.maps[0].argmax()) in (0, 1, 4)  # top left


def test_a_model_that_does_not_look_at_the_picture_has_no_place() -> None:
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x.sum((1, 2, 3)) * 0 + 1, x.sum((1, 2, 3)) * 0], 1)

    found, _ = seen(Constant(), both_bars(), [0, 0])
    assert found is None
