"""Defect pictures as data URIs, small enough that a report with hundreds of them still opens at once.

A reader has a number of bytes for all pictures that it is asked for, and is told how many there will be. Each gets its share of what is
left, and is made as large and as good as fits: few pictures are shown in full, hundreds become thumbnails. A picture that occurs again,
under whatever name, is the same picture and costs nothing.
"""

from __future__ import annotations

import base64
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from PIL import Image, UnidentifiedImageError

__all__ = ["Picture", "PictureReader", "embedded", "figure"]

_LONGEST_SIDE = 224  # pixels; larger pictures are scaled down
_LOSSLESS_SIDE = 96  # up to this side PNG keeps every pixel, where there is room; above, JPEG is many times smaller
_TINY_SIDE = 96  # drawn larger than they are: show the pixels, do not blur them
_MOST_PIXELS = 50_000_000
_MOST_FILE = 64 << 20  # bytes of a file that is read at all
_SOME = 768 << 10  # characters, for the few pictures of a section that says nothing else
_STEPS = ((224, 82), (224, 70), (192, 70), (160, 70), (128, 68), (112, 64), (96, 60), (80, 55))  # longest side, JPEG quality


@dataclass(frozen=True)
class Picture:
    """A picture to embed: ``uri`` is a data URI; ``pixelated`` says that it is to be enlarged without smoothing."""

    uri: str
    width: int
    height: int
    pixelated: bool


class PictureReader:
    """Reads pictures of one run folder, never a file outside it, until the report's share of bytes is used up.

    Args:
        folder: of the run.
        most: characters that all data URIs together may have.
        expected: how many different pictures will be asked for; 0: so few that each may have the full size.
    """

    def __init__(self, folder: Path, *, most: int = _SOME, expected: int = 0) -> None:
        self._folder = folder.resolve()
        self._left = most
        self._expected = expected
        self._step = 0  # of the last picture: its neighbours need about as much
        self._by_path: dict[str, Picture | None] = {}
        self._by_content: dict[bytes, Picture | None] = {}

    @property
    def full(self) -> bool:
        """Whether no further picture fits."""
        return self._left <= 0

    def read(self, relative: str | None) -> Picture | None:
        """The picture at a path relative to the run folder; None where there is none that can be read, or no room is left."""
        if not relative:
            return None
        if relative not in self._by_path:
            self._by_path[relative] = self._load(relative)
        return self._by_path[relative]

    def _load(self, relative: str) -> Picture | None:
        try:
            path = (self._folder / relative).resolve()
            if not path.is_relative_to(self._folder) or not path.is_file() or path.stat().st_size > _MOST_FILE:
                return None
            content = path.read_bytes()
        except (OSError, ValueError):
            return None
        digest = hashlib.sha256(content).digest()
        if digest not in self._by_content:
            self._by_content[digest] = self._made(content)
        return self._by_content[digest]

    def _made(self, content: bytes) -> Picture | None:
        if self.full:
            return None
        try:
            with Image.open(io.BytesIO(content)) as opened:
                if opened.width * opened.height > _MOST_PIXELS:
                    return None
                image = _plain(opened)
        except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
            return None
        if self._expected > 0:
            made, self._step = _within(image, self._left // self._expected, max(0, self._step - 1))
        else:
            made = embedded(image)
        self._expected = max(1, self._expected - 1) if self._expected else 0
        self._left -= len(made.uri)
        return made


def embedded(image: Image.Image, *, longest: int = _LONGEST_SIDE) -> Picture:
    """Grey or RGB pixels to embed, scaled down to at most ``longest`` pixels a side."""
    shown = _fitted(image, longest)
    return _as_uri(shown, max(image.size) <= _TINY_SIDE, None if max(shown.size) <= _LOSSLESS_SIDE else _STEPS[0][1])


def _within(image: Image.Image, room: int, step: int) -> tuple[Picture, int]:
    """The picture in at most ``room`` characters, and the step it took; where even the last one has more, that one.

    Args:
        image: grey or RGB.
        room: characters of the data URI.
        step: where in ``_STEPS`` to begin.
    """
    pixelated = max(image.size) <= _TINY_SIDE
    if max(image.size) <= _LOSSLESS_SIDE:
        made = _as_uri(image, pixelated, None)
        if len(made.uri) <= room:
            return made, step
    for limit, quality in _STEPS[step:]:
        made = _as_uri(_fitted(image, limit), pixelated, quality)
        if len(made.uri) <= room:
            break
        step += 1
    return made, min(step, len(_STEPS) - 1)


def figure(picture: Picture | None) -> dict[str, Any] | None:
    """A picture as the templates take it, with its data."""
    if picture is None:
        return None
    return {
        "uri": Markup(picture.uri),
        "number": None,
        "width": picture.width,
        "height": picture.height,
        "pixelated": picture.pixelated,
    }


def _fitted(image: Image.Image, longest: int) -> Image.Image:
    if max(image.size) <= longest:
        return image
    smaller = image.copy()
    smaller.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return smaller


def _as_uri(image: Image.Image, pixelated: bool, quality: int | None) -> Picture:
    buffer = io.BytesIO()
    if quality is None:
        image.save(buffer, "PNG", optimize=True)
    else:
        image.save(buffer, "JPEG", quality=quality)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Picture(f"data:image/{'png' if quality is None else 'jpeg'};base64,{encoded}", image.width, image.height, pixelated)


def _plain(image: Image.Image) -> Image.Image:
    """Grey or RGB pixels only: what the browser gets holds no profile, comment or other chunk of the file."""
    if image.mode in ("L", "1"):
        return image.convert("L")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        ground = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(ground, image).convert("RGB")
    return image.convert("RGB")
