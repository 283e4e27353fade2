"""Small networks of the kinds that people release."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class SmallCNN(nn.Module):
    """Convolutions, batch normalisation, in-place ReLU, dropout; 10 classes from [N, 1, 8, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.Conv2d(6, 8, 3), nn.ReLU(inplace=True)
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.hidden = nn.Linear(8, 12)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.features(x)).flatten(1)
        return self.head(self.dropout(self.relu(self.hidden(x))))


class Transformer(nn.Module):
    """Two encoder layers over the rows of [N, 5, 8]; 3 classes. Time first inside unless ``batch_first``."""

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first), 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.batch_first:
            return self.head(self.encoder(x).mean(1))
        return self.head(self.encoder(x.transpose(0, 1)).mean(0))


class Recurrent(nn.Module):
    """An LSTM over [N, 5, 8], whose output is a tuple; 3 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.head(states[:, -1])


class _Lengths(nn.Module):
    def lengths(self, x: Tensor) -> Tensor:
        """int64 [N]: 1 to 5, told from the rows themselves so that it does not depend on the batch."""
        return (x[:, 0, 0] * 1000).long() % 5 + 1


class Packed(_Lengths):
    """An LSTM over packed rows of [N, 5, 8]; 3 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, self.lengths(x), batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        return self.head(last[0])


class Masked(_Lengths):
    """Two encoder layers that see the first rows of [N, 5, 8] only; 3 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.arange(5)[None] >= self.lengths(x)[:, None]
        return self.head(self.encoder(x, src_key_padding_mask=hidden)[:, 0])


class Shared(nn.Module):
    """One linear layer called twice, one ReLU called at two widths; 3 classes from [N, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Linear(4, 4)
        self.relu = nn.ReLU()
        self.wide = nn.Linear(4, 7)
        self.unused = nn.Linear(2, 2)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.twice(x))
        x = self.twice(x)
        return self.head(self.relu(self.wide(x)))


class Framed(nn.Module):
    """A convolution and a reshape, whose sizes an exported program writes down."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return x.reshape(x.shape[0], x.shape[1] * x.shape[2], x.shape[3]).reshape(x.shape)


class SharedConv(nn.Module):
    """One block called at two resolutions, so that an exported program holds it twice; 3 classes from [N, 2, 8, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Framed()
        self.head = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(self.block(x)).mean((2, 3)))


class _FusedAttention(nn.Module):
    """One projection to queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.proj = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.proj(functional.scaled_dot_product_attention(q, k, v))


class _Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 20)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(20, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(8)
        self.attn = _FusedAttention()
        self.norm2 = nn.LayerNorm(8)
        self.mlp = _Mlp()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class WithFusedProjection(nn.Module):
    """A block as vision transformers are often written; 3 classes from [N, 5, 8]."""

    expected = ("blocks.0.attn", "blocks.0.mlp.fc2", "blocks.1.attn", "blocks.1.mlp.fc2")

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(_Block(), _Block())
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x).mean(1))


class _Scores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x)),)


class _Dense(nn.Module):
    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.dense = nn.Linear(given, made)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x)


class _OuterAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self = _Scores()
        self.output = _Dense(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (self.output(self.self(x)[0]) + x,)


class _EncoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = _OuterAttention()
        self.intermediate = _Dense(8, 32)
        self.output = _Dense(32, 8)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        (x,) = self.attention(x)
        return (x + self.output(self.intermediate(x).relu()),)


class WithSeparateProjections(nn.Module):
    """Modules inside modules that return tuples, as language models have them, and a pooler; 3 classes from [N, 5, 8]."""

    expected = ("layer.attention", "layer.output.dense", "pooler")

    def __init__(self) -> None:
        super().__init__()
        self.layer = _EncoderLayer()
        self.pooler = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pooler(self.layer(x)[0][:, 0]).tanh())


class _Wide(nn.Module):
    """Attention whose inner width is not that of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(8, 12), nn.Linear(8, 12), nn.Linear(8, 12)
        self.o_proj = nn.Linear(12, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.o_proj(functional.scaled_dot_product_attention(self.q_proj(x), self.k_proj(x), self.v_proj(x)))


class WithGatedMLP(nn.Module):
    """Two linear layers side by side in the MLP; nothing is called attention; 3 classes from [N, 5, 8]."""

    expected = ("mixing", "down_proj")

    def __init__(self) -> None:
        super().__init__()
        self.mixing = _Wide()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(8, 20), nn.Linear(8, 20), nn.Linear(20, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mixing(x)
        x = x + self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return self.head(x.mean(1))


class _AttentionUnit(_Block):
    """Called attention, but a whole block."""


class WithAMisleadingName(nn.Module):
    """3 classes from [N, 5, 8]."""

    expected = ("unit.attn", "unit.mlp.fc2")

    def __init__(self) -> None:
        super().__init__()
        self.unit = _AttentionUnit()
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.unit(x).mean(1))


class _ChannelAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(6, 2, 1), nn.Conv2d(2, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.excite(self.squeeze(x.mean((2, 3), keepdim=True)).relu()).sigmoid()


class WithChannelAttention(nn.Module):
    """A convolutional network that weighs its channels; 3 classes from [N, 1, 8, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.attention = _ChannelAttention()
        self.last = nn.Conv2d(6, 6, 3)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.last(self.attention(self.conv(x))).mean((2, 3)))


def made(network: type[nn.Module], **options: object) -> nn.Module:
    """An instance in evaluation mode with fixed random weights and batch statistics that are not the identity."""
    torch.manual_seed(7)
    module = network(**options)
    for child in module.modules():
        if isinstance(child, nn.BatchNorm2d):
            nn.init.normal_(child.running_mean, std=0.3)
            nn.init.uniform_(child.running_var, 0.5, 2)
    return module.eval()


def exported(module: nn.Module, example: Tensor) -> nn.Module:
    """The module after a trip through torch.export, with a batch of any size."""
    program = torch.export.export(module, (example,), dynamic_shapes=[{0: torch.export.Dim.AUTO}])
    return torch.export.unflatten(program)
