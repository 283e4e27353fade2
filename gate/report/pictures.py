"""Defect pictures as data URIs, small enough that a report with hundreds of them still opens at once."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, UnidentifiedImageError

__all__ = ["Picture", "PictureReader", "embedded"]

_LONGEST_SIDE = 224  # pixels; larger pictures are scaled down
_LOSSLESS_SIDE = 96  # up to this side PNG keeps every pixel; above, JPEG is many times smaller
_TINY_SIDE = 96  # drawn larger than they are: show the pixels, do not blur them
_MOST_PIXELS = 50_000_000
_MOST_BYTES = 10 << 20  # of all pictures together, before base64 adds a third


@dataclass(frozen=True)
class Picture:
    """A picture to embed: ``uri`` is a data URI; ``pixelated`` says that it is to be enlarged without smoothing."""

    uri: str
    width: int
    height: int
    pixelated: bool


class PictureReader:
    """Reads pictures of one run folder, never a file outside it, until the report's share of bytes is used up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._left = _MOST_BYTES
        self._seen: dict[str, Picture | None] = {}

    @property
    def full(self) -> bool:
        """Whether no further picture fits."""
        return self._left <= 0

    def read(self, relative: str | None) -> Picture | None:
        """The picture at a path relative to the run folder; None where there is none that can be read."""
        if not relative:
            return None
        if relative not in self._seen:
            self._seen[relative] = self._load(relative)
        found = self._seen[relative]
        if found is not None:
            self._left -= len(found.uri) * 3 // 4
        return found

    def _load(self, relative: str) -> Picture | None:
        try:
            path = (self._folder / relative).resolve()
            if not path.is_relative_to(self._folder) or not path.is_file():
                return None
            with Image.open(path) as opened:
                if opened.width * opened.height > _MOST_PIXELS:
                    return None
                image = _plain(opened)
        except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
            return None
        return embedded(image)


def embedded(image: Image.Image, *, longest: int = _LONGEST_SIDE) -> Picture:
    """Grey or RGB pixels to embed, scaled down (in place) to at most ``longest`` pixels a side."""
    side = max(image.size)
    if side > longest:
        image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    kind = "png" if max(image.size) <= _LOSSLESS_SIDE else "jpeg"
    buffer = io.BytesIO()
    if kind == "png":
        image.save(buffer, "PNG", optimize=True)
    else:
        image.save(buffer, "JPEG", quality=82)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Picture(f"data:image/{kind};base64,{encoded}", image.width, image.height, side <= _TINY_SIDE)


def _plain(image: Image.Image) -> Image.Image:
    """Grey or RGB pixels only: what the browser gets holds no profile, comment or other chunk of the file."""
    if image.mode in ("L", "1"):
        return image.convert("L")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        ground = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(ground, image).convert("RGB")
    return image.convert("RGB")
