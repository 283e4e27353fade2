"""From the values in a file to what the model sees. Runs on the model's device, whole batches, with gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gate.config import InputSettings
from gate.errors import ConfigError

__all__ = ["Preprocess"]


class Preprocess(nn.Module):
    """File values -> 0..1 -> ``scale`` -> (v - mean) / std -> channel order -> layout.

    ``mean`` and ``std`` are given in the order of the files, RGB; the channels are turned round after them. ``flat`` lays a sample out as
    flattening [C, H, W] does.

    Args:
        settings: scale, mean, std, order and layout are used.
        value_range: lowest and highest possible value of the files, such as (0, 255).
        channels: of the files.

    Raises:
        ConfigError: settings that do not fit that number of channels, or an empty value range.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, settings: InputSettings, value_range: tuple[float, float], channels: int) -> None:
        super().__init__()
        for name in ("mean", "std"):
            count = len(getattr(settings, name))
            if count not in (1, channels):
                raise ConfigError(
                    f"input.{name} has {count} numbers for pictures of {channels} channels.",
                    where=f"input.{name}",
                    hint=f"Give one number, or {channels}.",
                )
        if settings.order == "bgr" and channels != 3:
            raise ConfigError(
                f"Channel order bgr needs 3 channels; the pictures have {channels}.", where="input.order", hint="Remove input.order."
            )
        if settings.layout == "nhw" and channels != 1:
            raise ConfigError(
                f"Layout nhw has no channels; the pictures have {channels}.",
                where="input.layout",
                hint="Use nchw or nhwc, or set input.channels to 1.",
            )
        if not value_range[0] < value_range[1]:
            raise ConfigError(
                f"The value range {list(value_range)} is empty.", where="input.range", hint="Give the lowest and the highest value."
            )
        self.settings = settings
        self.channels = channels
        self._low = float(value_range[0])
        self._span = float(value_range[1]) - self._low
        self.register_buffer("mean", torch.tensor(settings.mean, dtype=torch.float32), persistent=False)
        self.register_buffer("std", torch.tensor(settings.std, dtype=torch.float32), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """float32, in the model's layout.

        Args:
            x: [N, H, W, C], or [N, H, W] for one channel; uint8 or floating, in file units.

        Raises:
            ValueError: another shape.
        """
        if x.ndim == 3 and self.channels == 1:
            x = x.unsqueeze(-1)
        if x.ndim != 4 or x.shape[3] != self.channels:
            raise ValueError(f"expected [N, H, W, {self.channels}], got {list(x.shape)}")
        lowest, highest = self.settings.scale
        unit = (x.to(torch.float32) - self._low) / self._span
        values = (unit * (highest - lowest) + lowest - self.mean) / self.std
        if self.settings.order == "bgr":
            values = values.flip(3)
        if self.settings.layout == "nhwc":
            return values
        if self.settings.layout == "nhw":
            return values.squeeze(3)
        planes = values.permute(0, 3, 1, 2).contiguous()
        return planes if self.settings.layout == "nchw" else planes.flatten(1)
