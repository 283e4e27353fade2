"""Brings a picture to the model's resolution, once, as uint8: the result is the seed input."""

from __future__ import annotations

from PIL import Image

from gate.config import InputSettings

__all__ = ["FitError", "fit"]

_FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "nearest": Image.Resampling.NEAREST,
    "lanczos": Image.Resampling.LANCZOS,
}


class FitError(Exception):
    """The picture can't be brought to the size; the text says why, as the rest of a sentence that begins with the file's name."""


def fit(picture: Image.Image, settings: InputSettings) -> Image.Image:
    """The picture at ``settings.size``; unchanged where that is None or is its size already.

    With ``crop: center`` the shorter side (for a target that is not square: the side that needs the greater factor) is brought to size
    and the middle cut out, with the same roundings as torchvision's ``Resize`` and ``CenterCrop``; with ``crop: none`` the picture is
    squeezed to the size. ``resize: none`` leaves out the scaling: then the middle is cut out of a larger picture, or the size must match.

    Raises:
        FitError: ``resize: none`` and the picture is smaller, or is of another size and ``crop`` is none too.
    """
    if settings.size is None:
        return picture
    height, width = settings.size
    if picture.size == (width, height):
        return picture
    if settings.resize == "none":
        if settings.crop == "none" or picture.width < width or picture.height < height:
            raise FitError(f"is {picture.height} x {picture.width} pixels; {height} x {width} are declared and `resize` is none")
        return _middle(picture, height, width)
    if settings.crop == "none":
        return picture.resize((width, height), _FILTERS[settings.resize])
    if width * picture.height >= height * picture.width:
        size = (width, max(height, int(width * picture.height / picture.width)))
    else:
        size = (max(width, int(height * picture.width / picture.height)), height)
    return _middle(picture.resize(size, _FILTERS[settings.resize]), height, width)


def _middle(picture: Image.Image, height: int, width: int) -> Image.Image:
    left, top = round((picture.width - width) / 2.0), round((picture.height - height) / 2.0)
    return picture.crop((left, top, left + width, top + height))
