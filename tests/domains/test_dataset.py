"""Data sets as people have them, and the bad files among them. Every file is really made."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gate.config import InputSettings
from gate.domains.image import folder_set
from gate.domains.image.dataset import ImageSet, load_images
from gate.errors import DataError, EvidenceError


def read(source: Path, *, classes: Any = None, skip: bool = False, **settings: Any) -> ImageSet:
    return load_images(source, settings=InputSettings(**settings), classes=classes, on_bad_file="skip" if skip else "error", role="seeds")


def pixels(seed: int, height: int = 12, width: int = 10, channels: int = 3) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return values[:, :, 0] if channels == 1 else values


def put(folder: Path, name: str, picture: Image.Image | np.ndarray, **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    image.save(folder / name, **options)
    return folder / name


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    """Two classes with two colour pictures each, and what operating systems leave behind."""
    root = tmp_path / "animals"
    for number in range(2):
        put(root / "dog", f"d{number}.png", pixels(number))
        put(root / "cat", f"c{number}.png", pixels(10 + number))
    (root / "dog" / ".DS_Store").write_bytes(b"x")
    (root / "cat" / "Thumbs.db").write_bytes(b"x")
    (root / "README.txt").write_text("about these animals")
    return root


def test_a_folder_per_class_is_read_in_a_fixed_order(animals: Path) -> None:
    found = read(animals)
    assert found.classes == ("cat", "dog")
    assert found.names == ("cat/c0.png", "cat/c1.png", "dog/d0.png", "dog/d1.png")
    assert found.y.tolist() == [0, 0, 1, 1]
    assert found.y.dtype == np.int64
    assert found.x.dtype == np.uint8
    assert found.x.flags.c_contiguous
    assert np.array_equal(found.x[2], pixels(0))
    assert found.value_range == (0, 255)
    assert found.kinds is None
    assert found.skipped == 0
    assert len(found) == 4


def test_a_given_class_list_decides_the_order_and_may_hold_more(animals: Path) -> None:
    found = read(animals, classes=["dog", "bird", "cat"])
    assert found.classes == ("dog", "bird", "cat")
    assert found.y.tolist() == [2, 2, 0, 0]
    with pytest.raises(DataError, match="cat") as error:
        read(animals, classes=["dog", "cats"])
    assert "'cats'" in str(error.value)


def test_kinds_come_from_two_levels_of_folders(tmp_path: Path) -> None:
    for kind in ("night", "fog"):
        put(tmp_path / kind / "dog", "a.png", pixels(1))
    put(tmp_path / "fog" / "cat", "b.png", pixels(2))
    found = read(tmp_path)
    assert found.kinds == ("fog", "fog", "night")
    assert found.classes == ("cat", "dog")
    assert found.names == ("fog/cat/b.png", "fog/dog/a.png", "night/dog/a.png")


def test_ids_and_digest_follow_from_content_alone(animals: Path, tmp_path: Path) -> None:
    first = read(animals)
    assert len(set(first.ids)) == 4
    assert all(name.startswith("s-") and len(name) == 14 for name in first.ids)
    moved = animals.rename(tmp_path / "elsewhere")
    again = read(moved)
    assert (again.ids, again.digest) == (first.ids, first.digest)
    put(moved / "cat", "c0.png", pixels(99))
    changed = read(moved)
    assert changed.digest != first.digest
    assert changed.ids[0] != first.ids[0]
    assert changed.ids[1:] == first.ids[1:]


def test_repeated_samples_get_distinct_ids(tmp_path: Path) -> None:
    x = np.stack([pixels(1), pixels(1), pixels(2), pixels(1)])
    np.savez(tmp_path / "s.npz", x=x, y=np.array([0, 0, 0, 1]))
    ids = read(tmp_path / "s.npz").ids
    assert ids[1] == f"{ids[0]}-2"
    assert len(set(ids)) == 4
    assert not ids[3].startswith(ids[0]), "another label is another sample"


# How pictures are brought to size and channel count


def test_resizing_cuts_the_middle_and_squeezes_only_when_told(tmp_path: Path) -> None:
    wide = np.full((20, 40, 3), 60, np.uint8)
    wide[:, :10], wide[:, 30:] = (255, 0, 0), (0, 0, 255)
    put(tmp_path / "a", "w.png", wide)
    cut = read(tmp_path, size=(10, 10)).x[0]
    assert cut.shape == (10, 10, 3)
    assert (cut[:, 1:-1] == 60).all(), "the coloured ends lie outside the middle square"
    squeezed = read(tmp_path, size=(10, 10), crop="none").x[0]
    assert squeezed[5, 0].tolist() == [255, 0, 0]
    assert squeezed[5, -1].tolist() == [0, 0, 255]
    middle = read(tmp_path, size=(20, 20), resize="none").x[0]
    assert np.array_equal(middle, wide[:, 10:30])
    with pytest.raises(DataError, match="resize"):
        read(tmp_path, size=(30, 30), resize="none")
    with pytest.raises(DataError, match="resize"):
        read(tmp_path, size=(20, 20), resize="none", crop="none")


@pytest.mark.parametrize(("height", "width"), [(37, 53), (53, 37), (24, 100), (100, 24), (24, 24), (24, 27)])
def test_resize_and_crop_agree_with_torchvision(tmp_path: Path, height: int, width: int) -> None:
    from torchvision import transforms

    put(tmp_path / "a", "p.png", pixels(3, height, width))
    usual = transforms.Compose([transforms.Resize(24), transforms.CenterCrop(24)])
    expected = np.asarray(usual(Image.fromarray(pixels(3, height, width))))
    assert np.array_equal(read(tmp_path, size=(24, 24)).x[0], expected)


def test_pictures_of_several_sizes_need_a_declared_one(tmp_path: Path) -> None:
    put(tmp_path / "a", "1.png", pixels(1, 12, 10))
    put(tmp_path / "a", "2.png", pixels(1, 10, 12))
    with pytest.raises(DataError, match="several sizes") as error:
        read(tmp_path)
    assert "input.size" in str(error.value)
    assert read(tmp_path, size=(10, 10)).x.shape == (2, 10, 10, 3)


def test_exif_rotation_is_applied(tmp_path: Path) -> None:
    upright = np.zeros((8, 16, 3), np.uint8)
    upright[:, :8] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    put(tmp_path / "a", "p.png", upright, exif=exif)
    assert np.array_equal(read(tmp_path).x[0], np.rot90(upright, k=-1))


def test_sixteen_bit_grey_keeps_its_shades(tmp_path: Path) -> None:
    shades = np.linspace(0, 65535, 64).reshape(8, 8)
    put(tmp_path / "a", "p.png", Image.fromarray(shades.astype(np.uint16)))
    found = read(tmp_path).x
    assert found.shape == (1, 8, 8, 1)
    assert np.array_equal(found[0, :, :, 0], np.rint(shades.astype(np.uint16) / 257))


def test_palette_cmyk_bilevel_and_alpha_become_grey_or_colour(tmp_path: Path) -> None:
    colour = Image.fromarray(np.full((8, 8, 3), (200, 40, 90), np.uint8))
    hidden = np.zeros((8, 8, 4), np.uint8)  # black, and transparent on its left half
    hidden[:, 4:, 3] = 255
    cases = {
        "a-palette.png": colour.convert("P", palette=Image.Palette.ADAPTIVE),
        "b-cmyk.jpg": colour.convert("CMYK"),
        "c-alpha.png": Image.fromarray(hidden),
        "d-grey-alpha.png": Image.fromarray(hidden).convert("LA"),
        "e-bilevel.png": Image.new("1", (8, 8), 1),
    }
    for name, image in cases.items():
        put(tmp_path / "a", name, image)
    transparent = Image.new("P", (8, 8), 1)
    transparent.putpalette([0, 0, 0, 10, 20, 30])
    put(tmp_path / "a", "f-palette-transparent.png", transparent, transparency=1)
    x = read(tmp_path).x
    assert x.shape == (6, 8, 8, 3)
    assert x[0, 0, 0].tolist() == [200, 40, 90]
    assert np.abs(x[1, 0, 0].astype(int) - [200, 40, 90]).max() <= 6  # through JPEG
    for row in (2, 3):
        assert x[row, 0, 0].tolist() == [255] * 3, "transparent shows white"
        assert x[row, 0, 7].tolist() == [0] * 3
    assert x[4].min() == 255
    assert x[5].min() == 255
    assert read(tmp_path, channels=1).x.shape == (6, 8, 8, 1)


def test_grey_pictures_stay_grey_unless_colour_is_declared(tmp_path: Path) -> None:
    put(tmp_path / "a", "p.png", pixels(1, channels=1))
    assert read(tmp_path).x.shape[3] == 1
    colour = read(tmp_path, channels=3).x
    assert np.array_equal(colour[..., 0], colour[..., 2])
    with pytest.raises(DataError, match="1 or 3 channels"):
        read(tmp_path, channels=4)


# Folders that can't be used


def test_missing_empty_and_unusable_sources_are_named(tmp_path: Path, animals: Path) -> None:
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    (tmp_path / "flat").mkdir()
    put(tmp_path / "flat", "a.png", pixels(1))
    (tmp_path / "list.csv").write_text("a,b")
    for name, words in {
        "nothing": "nothing at",
        "empty": "no pictures",
        "flat": "no folder per class",
        "list.csv": "can't be read",
    }.items():
        with pytest.raises(DataError, match=words) as error:
            read(tmp_path / name)
        assert error.value.exit_code == 2
        assert error.value.where is not None
        assert name in error.value.where
        assert error.value.hint
    put(animals / "dog" / "puppies", "x.png", pixels(1))
    with pytest.raises(DataError, match="holds folders"):
        read(animals)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_named(animals: Path) -> None:
    (animals / "dog").chmod(0)
    try:
        with pytest.raises(DataError, match="can't be read"):
            read(animals)
    finally:
        (animals / "dog").chmod(0o755)


def png_header_only(width: int, height: int) -> bytes:
    """A PNG that announces a size and holds no pixels: decoding it would fail, judging its header does not."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def truncated_jpeg() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels(1, 64, 64)).save(stream, format="JPEG")
    return stream.getvalue()[:800]


def one_pixel() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (1, 1)).save(stream, format="PNG")
    return stream.getvalue()


BAD_FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "120 megapixels": (lambda: png_header_only(12_000, 10_000), "million pixels"),
    "decompression bomb": (lambda: png_header_only(60_000, 60_000), "million pixels"),
    "one pixel": (one_pixel, "small"),
    "truncated": (truncated_jpeg, "can't be read"),
    "no pixels": (lambda: png_header_only(16, 16), "can't be read|is broken"),
    "empty": (lambda: b"", "no picture of a known format"),
    "text": (lambda: b"not a picture", "no picture of a known format"),
    "postscript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no picture of a known format"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_picture_is_named_or_skipped_and_counted(animals: Path, case: str) -> None:
    make, words = BAD_FILES[case]
    (animals / "cat" / "bad one.png").write_bytes(make())
    with pytest.raises(DataError, match=words) as error:
        read(animals)
    assert "bad one.png" in str(error.value)
    assert "on_bad_file" in str(error.value)
    found = read(animals, skip=True)
    assert found.skipped == 1
    assert found.names == ("cat/c0.png", "cat/c1.png", "dog/d0.png", "dog/d1.png")


def test_a_pipe_among_the_pictures_does_not_hang(animals: Path) -> None:
    os.mkfifo(animals / "cat" / "pipe.png")
    with pytest.raises(DataError, match="no regular file"):
        read(animals)


def test_a_large_picture_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    import tracemalloc

    # 120 megapixels that do decode: 120 MB if anyone tried.
    put(tmp_path / "a", "huge.png", Image.new("1", (12_000, 10_000)), compress_level=1)
    tracemalloc.start()
    with pytest.raises(DataError, match="million pixels"):
        read(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_only_bad_files_is_an_error_also_when_they_may_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.png").write_bytes(b"no")
    with pytest.raises(DataError, match="None of the 1 files"):
        read(tmp_path, skip=True)


def test_hostile_names_are_read_and_written_out_harmlessly(tmp_path: Path) -> None:
    here = os.fsencode(tmp_path)
    names = [b"\xff\xfe", b"<script>alert(1)</script>".replace(b"/", b"-"), b"a\n::error::b", b"=HYPERLINK(1)", "\u202eevil".encode()]
    for number, name in enumerate(names):
        folder = Path(os.fsdecode(here + b"/" + name))
        put(folder, f"{number}.png", pixels(number))
        (folder / f"{number}.png").rename(folder / os.fsdecode(b"p\xff.png"))
    found = read(tmp_path)
    assert len(found.classes) == 5
    json.dumps([found.classes, found.names, found.source], ensure_ascii=False).encode("utf-8")
    assert "\\udcff\\udcfe" in found.classes
    bad = Path(os.fsdecode(here + b"/" + names[0])) / "bad.png"
    bad.write_bytes(b"no")
    with pytest.raises(DataError) as error:
        read(tmp_path)
    str(error.value).encode("utf-8")


# .npz files


def save(tmp_path: Path, **arrays: Any) -> Path:
    np.savez_compressed(tmp_path / "set.npz", **arrays)
    return tmp_path / "set.npz"


def test_an_npz_of_grey_pictures_with_kinds_is_read(tmp_path: Path) -> None:
    x = np.stack([pixels(i, channels=1) for i in range(3)])
    found = read(save(tmp_path, x=x, y=np.array([2, 0, 1], np.uint8), kind=np.array(["fog", "dark", "fog"])))
    assert found.x.shape == (3, 12, 10, 1)
    assert np.array_equal(found.x[..., 0], x)
    assert found.y.tolist() == [2, 0, 1]
    assert found.kinds == ("fog", "dark", "fog")
    assert found.classes == ("0", "1", "2")
    assert found.names == ("0", "1", "2")


def test_floats_become_single_precision_in_their_range(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((2, 8, 8, 3))
    found = read(save(tmp_path, x=np.asfortranarray(x), y=np.array([0, 1])))
    assert found.x.dtype == np.float32
    assert found.x.flags.c_contiguous
    assert np.array_equal(found.x, x.astype(np.float32))
    assert found.value_range == (0, 1)


def test_uint8_arrays_are_brought_to_size_and_floats_are_not(tmp_path: Path) -> None:
    x = np.stack([pixels(i, 16, 20, 5) for i in range(2)])
    y = np.array([0, 1])
    assert read(save(tmp_path, x=x, y=y), size=(8, 8)).x.shape == (2, 8, 8, 5)
    grey = read(save(tmp_path, x=x[..., :1], y=y), size=(8, 8)).x
    expected = Image.fromarray(x[0, :, :, 0]).resize((10, 8), Image.Resampling.BILINEAR).crop((1, 0, 9, 8))
    assert np.array_equal(grey[0, :, :, 0], np.asarray(expected))
    with pytest.raises(DataError, match="16 x 20"):
        read(save(tmp_path, x=x.astype(np.float32) / 255, y=y), size=(8, 8))


def test_python_objects_are_never_unpickled(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(marker),)

    payload = np.array([Payload(), 1], dtype=object)
    x, y = np.zeros((2, 8, 8), np.uint8) + np.arange(8, dtype=np.uint8), np.array([0, 1])
    for arrays in ({"x": payload, "y": y}, {"x": x, "y": payload}, {"x": x, "y": y, "kind": payload}):
        with pytest.raises(DataError, match="not read"):
            read(save(tmp_path, **arrays))
    (tmp_path / "bare.npz").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(DataError, match="npz"):
        read(tmp_path / "bare.npz")
    assert not marker.exists()


X = np.stack([pixels(i) for i in range(3)])
Y = np.array([0, 1, 2])
WITH_NAN = X.astype(np.float32) / 255
WITH_NAN[1, 2, 3, 0] = np.nan
WITH_INF = X.astype(np.float32) / 255
WITH_INF[2, 0, 0, 0] = np.inf


@pytest.mark.parametrize(
    ("arrays", "settings", "words"),
    [
        ({"x": WITH_NAN, "y": Y}, {}, "NaN.*first is 1"),
        ({"x": WITH_INF, "y": Y}, {}, "infinite.*first is 2"),
        ({"x": (X > 127).astype(np.uint8), "y": Y}, {}, "between 0 and 1"),
        ({"x": X.astype(np.float32) / 255, "y": Y}, {"range": (0.0, 255.0)}, "between 0 and 1"),
        ({"x": X.astype(np.float32), "y": Y}, {}, "outside the range 0 to 1"),
        ({"x": X.astype(np.float32) / 255 - 0.5, "y": Y}, {}, "outside the range"),
        ({"x": X, "y": Y}, {"range": (0.0, 16.0)}, "outside the range 0 to 16"),
        ({"x": X.astype(np.int64), "y": Y}, {}, "dtype int64"),
        ({"x": X[0, 0], "y": Y}, {}, "shape"),
        ({"x": X[:0], "y": Y[:0]}, {}, "no samples"),
        ({"x": X[:, :1, :1], "y": Y}, {}, "4 pixels"),
        ({"x": X.transpose(0, 3, 1, 2), "y": Y}, {}, "channels first"),
        ({"x": X.transpose(0, 3, 1, 2), "y": Y}, {"channels": 3}, "input.channels is 3"),
        ({"x": X, "y": Y}, {"channels": 1}, "input.channels is 1"),
        ({"x": X, "y": Y[:2]}, {}, "3 class indices"),
        ({"x": X, "y": Y.astype(float)}, {}, "dtype float64"),
        ({"x": X, "y": np.eye(3, dtype=int)}, {}, "3 class indices"),
        ({"x": X, "y": np.array([0, -1, 2])}, {}, "negative"),
        ({"x": X, "y": np.array([0, 1, 2**64 - 1], np.uint64)}, {}, "outside the"),
        ({"x": X}, {}, "no array 'y'"),
        ({"y": Y}, {}, "no array 'x'"),
        ({"x": X, "y": Y, "kind": np.array(["a"])}, {}, "3 names"),
        ({"x": X, "y": Y, "kind": Y}, {}, "3 names"),
    ],
)
def test_unusable_arrays_are_explained(tmp_path: Path, arrays: dict[str, Any], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words) as error:
        read(save(tmp_path, **arrays), **settings)
    assert error.value.exit_code == 2
    assert error.value.hint or words in ("no samples", "4 pixels")
    assert "set.npz" in str(error.value)


def test_labels_outside_the_class_list_name_the_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="label 2 of row 2 is outside the 2 classes"):
        read(save(tmp_path, x=X, y=Y), classes=["zero", "one"])


def test_black_and_white_pictures_are_fine_where_their_range_says_so(tmp_path: Path) -> None:
    path = save(tmp_path, x=(X > 127).astype(np.uint8), y=Y)
    assert read(path, range=(0.0, 1.0)).value_range == (0, 1)


def npy(header: str, data: bytes) -> bytes:
    padded = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + data


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999, 8, 8)}", b"\0" * 64), "GiB are allowed"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 8, 8)}", b"\0" * 64), "has the shape"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4, 8, 8)}", b"\0" * 64), "another length"),
        (npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 8, 8)}", b"\0" * 65), "another length"),
        (npy("{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (1, 8, 8)}", b"\0" * 64), "header"),
        (b"\x93NUMPY\x09\x00", "version"),
        (b"", "EOF|magic"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path: Path, member: bytes, words: str) -> None:
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as archive:
        archive.writestr("x.npy", member)
        archive.writestr("y.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", b"\0"))
    with pytest.raises(DataError, match=words):
        read(tmp_path / "set.npz")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    whole = save(tmp_path, x=X, y=Y).read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 0xFF
    for content in (whole[: len(whole) // 2], bytes(flipped), b"", b"PK\x03\x04"):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"npz"):
            read(tmp_path / "bad.npz")


def test_reading_many_pictures_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        put(tmp_path / "set" / "cat", f"{number:03}.png", pixels(number))
    read_files: list[Path] = []
    original = folder_set.read_picture

    def counted(path: Path, *given: Any, **more: Any) -> Any:
        read_files.append(path)
        return original(path, *given, **more)

    monkeypatch.setattr(folder_set, "read_picture", counted)
    asked: list[int] = []

    def check() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise EvidenceError("stop")

    with pytest.raises(EvidenceError):
        load_images(tmp_path / "set", settings=InputSettings(), classes=None, on_bad_file="error", role="seeds", check=check)
    assert len(asked) == 3
    assert len(read_files) < 200
