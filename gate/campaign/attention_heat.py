"""Where in a picture a transformer's tokens come from: attention rollout. Runs in the worker.

Abnar and Zuidema, "Quantifying Attention Flow in Transformers", 2020: the attention of a layer, averaged over heads, is mixed half and half
with what the residual connection lets through, and the layers are multiplied. It needs no gradients and says nothing of a class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["attention_over_tokens", "rollout", "token_grid"]

_PREFIXES = 6  # tokens before those of the picture, at most: class, distillation, registers
_USUAL = 2  # none, or one
_ASKED, _AVERAGED = 4, 6  # positions of need_weights and average_attn_weights in MultiheadAttention.forward


def attention_over_tokens(module: nn.Module) -> list[tuple[str, nn.MultiheadAttention]]:
    """The modules whose attention can be read."""
    return [(name, child) for name, child in module.named_modules() if isinstance(child, nn.MultiheadAttention)]


def rollout(attention: Sequence[nn.MultiheadAttention], run: Callable[[Tensor], Any], x: Tensor) -> Tensor | None:
    """float32 [N, h, w]: how much of the answer each place of the picture feeds; None where the attention has no such form.

    With a class token (one token or more that is no place) what flows into the first of them counts, else the mean over all tokens.

    Args:
        attention: of the model.
        run: one pass of file values [N, H, W, C] through it.
        x: file values [N, H, W, C].
    """
    seen: list[Tensor] = []
    handles = [hook for one in attention for hook in _hooks(one, seen)]
    try:
        with torch.no_grad():
            run(x)
    finally:
        for handle in handles:
            handle.remove()
    weights = [one.mean(1, dtype=torch.float32) for one in seen if one.ndim == 4 and len(one) == len(x) and one.shape[2] == one.shape[3]]
    if not weights or any(one.shape != weights[0].shape for one in weights):
        return None
    tokens = weights[0].shape[1]
    grid = token_grid(tokens, (x.shape[1], x.shape[2]))
    if grid is None:
        return None
    prefix, down, across = grid
    stay = torch.eye(tokens, device=x.device)
    flow = stay.expand(len(x), tokens, tokens)
    for one in weights:
        mixed = (one + stay) / 2
        flow = mixed / mixed.sum(2, keepdim=True) @ flow
    into = flow[:, 0] if prefix else flow.mean(1)
    return into[:, prefix:].reshape(len(x), down, across)


def token_grid(tokens: int, size: tuple[int, int]) -> tuple[int, int, int] | None:
    """(tokens before those of the picture, rows, columns) of a sequence of tokens; None where none fits.

    With one token before the others at most: a grid of square patches, or as many rows and columns as a square picture of tokens has, or
    one token a row. With more, as transformers with registers have: a grid of patches that fills the picture exactly.

    Args:
        tokens: in the sequence.
        size: height and width of the picture.
    """
    height, width = size
    for prefix in range(min(_PREFIXES, tokens)):
        places = tokens - prefix
        for patch in range(1, min(height, width) // 2 + 1):
            whole = prefix < _USUAL or (height % patch == 0 and width % patch == 0)
            if whole and (height // patch) * (width // patch) == places:
                return prefix, height // patch, width // patch
        if prefix == _USUAL - 1:
            for before in range(_USUAL):
                side = math.isqrt(tokens - before)
                if height == width and 1 < side <= height and side * side == tokens - before:
                    return before, side, side
                if tokens - before == height:
                    return before, height, 1
    return None


def _hooks(module: nn.MultiheadAttention, seen: list[Tensor]) -> list[Any]:
    """Has one module work its attention out for each head, and hand on what it was asked for."""
    wishes: list[tuple[bool, bool]] = []

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given, named = list(args), dict(kwargs)
        wishes.append(
            (
                bool(given[_ASKED] if len(given) > _ASKED else named.get("need_weights", True)),
                bool(given[_AVERAGED] if len(given) > _AVERAGED else named.get("average_attn_weights", True)),
            )
        )
        for position, name, value in ((_ASKED, "need_weights", True), (_AVERAGED, "average_attn_weights", False)):
            if len(given) > position:
                given[position] = value
            else:
                named[name] = value
        return tuple(given), named

    def after(_: nn.Module, __: Any, ___: Any, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
        asked, averaged = wishes.pop()
        values, weights = output
        seen.append(weights.detach())
        if not asked:
            return values, None
        return values, weights.mean(-3) if averaged else weights

    return [module.register_forward_pre_hook(before, with_kwargs=True), module.register_forward_hook(after, with_kwargs=True)]
