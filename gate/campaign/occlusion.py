"""Where in a picture an answer comes from, without looking inside the model: squares are covered one by one. Runs in the worker.

Zeiler and Fergus, "Visualizing and Understanding Convolutional Networks", 2014.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["occlusion"]


def occlusion(
    logits: Callable[[Tensor], Tensor],
    parts: Callable[[int, Callable[[slice], Tensor]], list[Tensor]],
    x: Tensor,
    classes: Tensor,
    *,
    grid: int,
    batch: int,
) -> Tensor:
    """float32 [N, h, w]: by how much covering each square of a grid lowers the log probability of a class; 0 where it does not.

    A square gets the picture's mean colour, so that covering it takes what is there away and adds as little as possible.

    Args:
        logits: one pass: file values [N, H, W, C] -> float64 [N, C].
        parts: runs work on the rows of a batch, see ``gate.campaign.halving``.
        x: file values [N, H, W, C].
        classes: int64 [N]: whose log probability is looked at.
        grid: squares along each side, at most; a picture has no more than pixels.
        batch: pictures in one pass.
    """
    height, width = x.shape[1:3]
    down, across = min(grid, height), min(grid, width)
    of_row = torch.arange(height, device=x.device) * down // height
    of_column = torch.arange(width, device=x.device) * across // width
    cell = of_row[:, None] * across + of_column  # [H, W]
    maps = []
    for sample, wanted in zip(x, classes.tolist(), strict=True):
        colour = sample.to(torch.float32).mean((0, 1))
        mean = (colour if x.is_floating_point() else colour.round()).to(x.dtype)

        def said_of(squares: Tensor, sample: Tensor = sample, mean: Tensor = mean, wanted: int = wanted) -> Tensor:
            def work(rows: slice) -> Tensor:
                with torch.no_grad():
                    pictures = torch.where((cell == squares[rows, None, None])[..., None], mean, sample)
                    return logits(pictures).log_softmax(1)[:, wanted]

            return torch.cat(parts(len(squares), work))

        # Number ``down * across`` covers nothing: the answer that the others are compared with.
        squares = torch.arange(down * across + 1, device=x.device)
        said = torch.cat([said_of(some) for some in torch.split(squares, batch)])
        maps.append(torch.nan_to_num(said[-1] - said[:-1], nan=0.0, posinf=0.0, neginf=0.0).clamp(min=0).reshape(down, across))
    return torch.stack(maps).to(torch.float32)
