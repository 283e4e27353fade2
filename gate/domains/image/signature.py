"""Completes the input settings from the shape in the model's MLflow signature, where that says enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gate.config import InputSettings
from gate.errors import InputShapeError

__all__ = ["complete_input"]

_USUAL_CHANNELS = (1, 3, 4)


def complete_input(settings: InputSettings, shape: Sequence[int] | None) -> InputSettings:
    """Fills size, channels and layout that the settings leave open.

    Args:
        settings: what the user said; what was said stays.
        shape: of the signature, batch first, -1 where any size fits; None where there is none.

    Raises:
        InputShapeError: the settings say something else than the signature; both shapes are named.
    """
    if shape is None:
        return settings
    layout = settings.layout if "layout" in settings.model_fields_set else _layout(shape, settings)
    if layout is None:
        return settings
    found: dict[str, Any] = {"layout": layout}
    height, width, channels = _sides(shape, layout)
    if height is not None and width is not None:
        found["size"] = (height, width)
    if channels is not None:
        found["channels"] = channels
    for name in ("size", "channels"):
        said = getattr(settings, name)
        if said is not None and name in found and _comparable(said) != _comparable(found[name]):
            raise InputShapeError(
                f"The settings say input.{name} {said}, and the model's signature has the input shape {list(shape)} "
                f"(read as {layout}: {name} {found[name]}).",
                where=f"input.{name}",
                hint=f"Remove input.{name} or set it to {found[name]}; set input.layout if the shape is read wrongly.",
            )
    return settings.model_copy(update={name: value for name, value in found.items() if name == "layout" or getattr(settings, name) is None})


def _comparable(value: Any) -> Any:
    """A list as a tuple, so that sizes compare."""
    return tuple(value) if isinstance(value, list | tuple) else value


def _layout(shape: Sequence[int], settings: InputSettings) -> str | None:
    if len(shape) == 4:
        expected = (settings.channels,) if settings.channels is not None else _USUAL_CHANNELS
        if shape[1] in expected:
            return "nchw"
        return "nhwc" if shape[3] in expected else None
    if len(shape) == 3 and settings.channels in (None, 1):
        return "nhw"
    if len(shape) == 2:
        return "flat"
    return None


def _sides(shape: Sequence[int], layout: str) -> tuple[int | None, int | None, int | None]:
    """(height, width, channels), None where the signature leaves one open or the layout has none."""

    def known(side: int) -> int | None:
        return side if side > 0 else None

    if layout == "nchw" and len(shape) == 4:
        return known(shape[2]), known(shape[3]), known(shape[1])
    if layout == "nhwc" and len(shape) == 4:
        return known(shape[1]), known(shape[2]), known(shape[3])
    if layout == "nhw" and len(shape) == 3:
        return known(shape[1]), known(shape[2]), 1
    return None, None, None
