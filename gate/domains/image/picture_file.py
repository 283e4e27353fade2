"""Opens picture files that nobody has vouched for: the header is judged before anything is decoded, and only plain formats are tried."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

__all__ = ["MAX_PIXELS", "MIN_SIDE", "BadPictureError", "read_picture"]

MAX_PIXELS = 80_000_000  # more than any phone's camera takes; a three-channel picture of it needs 240 MB
MIN_SIDE = 4  # pixels; less shows nothing that has a label

# Not EPS, which starts a program, nor the rare formats whose decoders few people look at.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_SIXTEEN_BITS = 65535


class BadPictureError(Exception):
    """This file can't be used; the text says why, as the rest of a sentence that begins with the file's name."""


def read_picture(path: Path) -> Image.Image:
    """The picture as a person sees it, in mode L or RGB.

    EXIF orientation is applied; 16-bit grey is scaled to 8 bits; palettes, CMYK and the other colour spaces become RGB; what is
    transparent shows white; of several frames the first counts.

    Raises:
        BadPictureError: no regular file, no picture of a known format, broken, smaller than 4 pixels on a side or over 80 megapixels.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadPictureError("is no regular file")
        with Image.open(path, formats=_FORMATS) as picture:
            _check_size(*picture.size)
            picture.load()
            return _as_seen(ImageOps.exif_transpose(picture))
    except (BadPictureError, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadPictureError(f"has more than {MAX_PIXELS // 1_000_000} million pixels") from error
    except UnidentifiedImageError as error:
        raise BadPictureError(f"is no picture of a known format ({', '.join(_FORMATS)})") from error
    except OSError as error:
        raise BadPictureError(f"can't be read: {error.strerror or error}") from error
    except Exception as error:  # Pillow's decoders raise many kinds of errors on broken files
        raise BadPictureError(f"is broken: {error}") from error


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise BadPictureError(f"is {width} x {height} pixels large; {MAX_PIXELS // 1_000_000} million pixels are allowed")
    if min(width, height) < MIN_SIDE:
        raise BadPictureError(f"is {width} x {height} pixels small; each side needs {MIN_SIDE} at least")


def _as_seen(picture: Image.Image) -> Image.Image:
    if picture.mode in ("L", "RGB"):
        # A colour or level that stands for transparent, as PNG has it, counts as alpha.
        return _on_white(picture.convert("RGBA"), picture.mode) if "transparency" in picture.info else picture
    if picture.mode == "1":
        return picture.convert("L")
    if picture.mode.startswith("I"):
        return Image.fromarray(_eight_bits(np.asarray(picture)))
    if picture.mode == "F":
        raise BadPictureError("holds floating-point numbers without a known range; give such data as .npz")
    if picture.mode in ("LA", "La"):
        return _on_white(picture.convert("RGBA"), "L")
    if picture.mode in ("RGBA", "RGBa", "PA") or (picture.mode == "P" and "transparency" in picture.info):
        return _on_white(picture.convert("RGBA"), "RGB")
    return picture.convert("RGB")


def _on_white(picture: Image.Image, mode: str) -> Image.Image:
    ground = Image.new("RGBA", picture.size, (255, 255, 255, 255))
    return Image.alpha_composite(ground, picture).convert(mode)


def _eight_bits(values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    wide = values.astype(np.int64)
    if wide.min() < 0 or wide.max() > _SIXTEEN_BITS:
        raise BadPictureError("holds grey values beyond 16 bits; give such data as .npz")
    return np.rint(wide / (_SIXTEEN_BITS / 255)).astype(np.uint8)
