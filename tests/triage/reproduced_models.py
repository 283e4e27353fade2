"""Small networks that read how bright a picture is, right ones and faulty ones, in the forms that answers and files come in."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import torch
from torch import Tensor, nn

__all__ = ["Answering", "Brightness"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Brightness(nn.Module):
    """Class 1 for light pictures, class 0 for dark ones; a faulty one always says the other.

    Args:
        middle: mean of what it sees, above which a picture is light.
        faulty: whether it answers wrongly.
        channel: the one that it looks at, along ``axis``; all where None.
        axis: of the channels.
    """

    def __init__(self, middle: float, *, faulty: bool, channel: int | None = None, axis: int = 1) -> None:
        super().__init__()
        self.middle, self.channel, self.axis = middle, channel, axis
        self.scores = nn.Linear(1, 2)
        with torch.no_grad():
            sign = -8.0 if faulty else 8.0
            self.scores.weight.copy_(torch.tensor([[-sign], [sign]]))
            self.scores.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if self.channel is not None:
            x = x.select(self.axis, self.channel)
        mean = x.flatten(1).mean(dim=1, keepdim=True) - self.middle
        return self.scores(mean)


class Answering(nn.Module):
    """The same in another form of answer."""

    def __init__(self, inner: nn.Module, form: str) -> None:
        super().__init__()
        self.inner, self.form = inner, form

    def forward(self, x: Tensor) -> Any:
        scores = self.inner(x)
        if self.form == "second":
            return scores.flip(1).mean(dim=0), scores
        if self.form == "dict":
            return {"features": x.flatten(1)[:, :3], "answer": torch.softmax(scores, dim=1)}
        if self.form == "sigmoid":
            return torch.sigmoid(scores[:, 1])
        if self.form == "logarithms":
            return torch.log_softmax(scores, dim=1)
        if self.form == "infinite":
            return scores / 0
        if self.form == "raises":
            raise ValueError("no such picture")
        return scores
