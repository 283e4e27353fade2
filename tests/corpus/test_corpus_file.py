"""A corpus file survives what stops a process, tells what was changed, and takes no more memory than it may, whoever wrote it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate.corpus import corpus_file
from gate.corpus.corpus_file import CorpusHead, CorpusWriter, Entries, read_corpus
from gate.corpus.packing import pack, unpack
from gate.errors import DataError, OutputError

HEAD = CorpusHead((4, 5, 3), "uint8", (0.0, 255.0), "sha256:of-the-seeds")
RECIPE = [{"operator": "gamma", "severity": 0.1 + 0.2, "draw": 3, "parameters": {"gamma": 1 / 3}}]


def entries(count: int, first: int = 0) -> Entries:
    return Entries(
        tuple(f"s-{row}" for row in range(first, first + count)),
        tuple([RECIPE] * count),
        new_items=np.arange(count) + 0.5,
        margins=np.linspace(-1, 1, count),
        open=np.arange(count) % 2 == 0,
        distances=np.arange(count) / 3,
        stabilities=np.ones(count),
        signatures=np.arange(count) - (1 << 62),
        replaces=np.full(count, -1),
    )


def mutants(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size=(count, 4, 5, 3), dtype=np.uint8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of three steps with 3, 1 and 4 entries."""
    return write(tmp_path / "corpus.bin")


def write(path: Path) -> Path:
    file = CorpusWriter(path, HEAD)
    for step, count in enumerate((3, 1, 4)):
        file.append(entries(count, 10 * step), mutants(count, step), step=step)
    file.close()
    return path


def framed(*frames: bytes) -> bytes:
    """A file with right checksums, as somebody makes it who knows how."""
    data, check = corpus_file._MAGIC, bytes(16)
    for frame in frames:
        length = struct.pack(">I", len(frame))
        beginning = hashlib.sha256(check + length).digest()[:4]
        check = hashlib.sha256(check + frame).digest()[:16]
        data += length + beginning + frame + check
    return data


def head(**changes: Any) -> bytes:
    said = {"shape": [4, 5, 3], "dtype": "uint8", "value_range": [0.0, 255.0], "seeds": "sha256:of-the-seeds"}
    return json.dumps({**said, **changes}).encode()


def step(packed: bytes | None = None, **changes: Any) -> bytes:
    data = pack(mutants(1))[0] if packed is None else packed
    said = {
        "step": 0,
        "seed": ["s-1"],
        "recipe": [RECIPE],
        "new": [1.0],
        "margin": [0.5],
        "open": [True],
        "distance": [0.0],
        "stability": [1.0],
        "signature": [1],
        "replaces": [-1],
        "size": [len(data)],
    }
    return table(json.dumps({**said, **changes}).encode()) + data


def table(text: bytes) -> bytes:
    packed = zlib.compress(text, 1)
    return struct.pack(">I", len(packed)) + packed


def test_what_is_read_is_what_was_written_and_the_same_campaign_makes_the_same_bytes(path: Path, tmp_path: Path) -> None:
    found = read_corpus(path)
    assert found.head == HEAD
    assert found.steps.tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
    assert found.entries.seed_ids[3:5] == ("s-10", "s-20")
    assert found.entries.recipes[0] == RECIPE
    np.testing.assert_array_equal(found.entries.new_items[4:], entries(4).new_items)
    np.testing.assert_array_equal(found.entries.signatures[:3], entries(3).signatures)
    np.testing.assert_array_equal(found.mutants(np.array([7, 0, 3])), np.stack([mutants(4, 2)[3], mutants(3, 0)[0], mutants(1, 1)[0]]))
    assert path.read_bytes() == write(tmp_path / "again").read_bytes()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 8, 1), (5, 7, 3), (9,)])
def test_mutants_are_packed_without_loss(dtype: Any, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 256, size=(6, *shape)).astype(dtype) / (1 if dtype == np.uint8 else np.float32(7))
    x = x.astype(dtype)
    if dtype == np.float32:
        x[0] = -0.0
    assert unpack(pack(x), shape, dtype).tobytes() == x.tobytes()
    assert unpack([], shape, dtype).shape == (0, *shape)


def test_smooth_pictures_and_floats_become_shorter_than_by_compression_alone() -> None:
    ramp = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)[None, :, :, None]
    assert len(pack(ramp)[0]) < ramp.nbytes / 20
    floats = np.random.default_rng(0).random((1, 64, 64, 1), dtype=np.float32)
    assert len(pack(floats)[0]) < len(zlib.compress(floats.tobytes(), 1))


def test_a_file_that_ends_anywhere_is_read_up_to_its_last_whole_step(path: Path) -> None:
    data = path.read_bytes()
    ends, count = [], {0: 0, 1: 3, 2: 4, 3: 8}
    for size in range(len(data)):
        path.write_bytes(data[:size])
        try:
            found = read_corpus(path)
        except DataError:
            assert size < data.index(b"seeds") + 100  # not even the head is whole
            continue
        ends.append(size - found.cut)
        assert len(found.entries) == count[len(set(ends)) - 1]
        np.testing.assert_array_equal(found.mutants(np.arange(len(found.entries)))[:3], mutants(3)[: len(found.entries)])
        path.write_bytes(data[:size] + bytes(300))  # as a file system leaves it that had made room already
        assert len(read_corpus(path).entries) == len(found.entries)
    assert len(set(ends)) == 3


def test_what_was_changed_is_refused_whole(path: Path) -> None:
    data = path.read_bytes()
    for place in range(0, len(data), 3):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(DataError, match="refused"):
            read_corpus(path)


def test_steps_can_not_be_taken_out_or_moved(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    sizes = []
    for steps in range(4):
        file = CorpusWriter(tmp_path / "part", HEAD)
        for number, count in enumerate((3, 1, 4)[:steps]):
            file.append(entries(count, 10 * number), mutants(count, number), step=number)
        file.close()
        sizes.append(len((tmp_path / "part").read_bytes()))
    first, second, third = (whole[start:end] for start, end in pairwise(sizes))
    beginning = whole[: sizes[0]]
    for order in ((second, third), (first, third), (second, first, third), (first, first, second, third)):
        path.write_bytes(beginning + b"".join(order))
        with pytest.raises(DataError, match="damaged or was changed"):
            read_corpus(path)


def tar_with(name: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    return stream.getvalue()


def zip_with(name: str, data: bytes = b"") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        tar_with("../escaped"),
        tar_with("link", tarfile.SYMTYPE),
        zip_with("../../escaped", b"x"),
        zip_with("bomb", bytes(10_000_000)),
        b"",
        b"gate.corpus/2\n" + bytes(100),
        b"\x80\x04cos\nsystem\n",
    ],
    ids=["tar with ../", "tar with a link", "zip with ../", "zip bomb", "empty", "later version", "pickle"],
)
def test_case_24_an_archive_or_anything_else_is_rejected_whole(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "given" / "corpus.bin"
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(DataError, match="refused") as caught:
        read_corpus(path)
    assert caught.value.exit_code == 2
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]


BOMBS: dict[str, bytes] = {
    "a shape of many gibibytes": framed(head(shape=[1 << 20, 1 << 20, 3])),
    "a shape of nothing": framed(head(shape=[0, 5, 3])),
    "a dtype of objects": framed(head(dtype="object")),
    "a range of NaN": framed(head(value_range=[0.0, float("nan")])),
    "a head with more": framed(head(more=1)),
    "a table that unpacks to 300 MiB": framed(head(), table(bytes(300 << 20))),
    "a mutant that is longer than its frame": framed(head(), step(size=[10_000])),
    "a negative size": framed(head(), step(size=[-5])),
    "columns of different lengths": framed(head(), step(margin=[0.5, 0.5])),
    "a recipe that is none": framed(head(), step(recipe=["gamma"])),
    "a recipe of a million steps": framed(head(), step(recipe=[RECIPE * 100])),
    "an entry that replaces itself": framed(head(), step(replaces=[0])),
    "a margin beyond one": framed(head(), step(margin=[2.0])),
    "NaN items": framed(head(), step(new=[float("nan")])),
    "a signature of 65 bits": framed(head(), step(signature=[1 << 64])),
    "a seed input with an endless name": framed(head(), step(seed=["x" * 10_000])),
    "no table": framed(head(), b"\x00"),
    "a table that is no JSON": framed(head(), table(b"{")),
    "deep nesting": framed(head(), table(b"[" * 200_000)),
}


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_what_can_not_be_is_refused_before_memory_is_taken(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(DataError, match="refused"):
        read_corpus(path)


def test_a_bomb_is_not_unpacked_beyond_what_is_allowed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(framed(head(), table(bytes(100 << 20))))
    monkeypatch.setattr(corpus_file, "_LONGEST_TABLE", 1 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="larger than it can be"):
            read_corpus(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "packed",
    [
        zlib.compress(bytes(50_000_000)),
        zlib.compress(bytes(59)),
        zlib.compress(bytes(60)) + b"more",
        b"no zlib",
        zlib.compress(bytes(60))[:-3],
    ],
    ids=["bomb", "too short", "more behind it", "no zlib", "torn"],
)
def test_a_mutant_of_another_size_is_refused(path: Path, packed: bytes) -> None:
    path.write_bytes(framed(head(), step(packed)))
    found = read_corpus(path)
    with pytest.raises(DataError, match="refused"):
        found.mutants(np.array([0]))


def test_right_files_by_others_are_read(path: Path) -> None:
    path.write_bytes(framed(head(), step()))
    np.testing.assert_array_equal(read_corpus(path).mutants(np.array([0])), mutants(1))


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_only_a_plain_file_is_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "corpus.bin")
    with pytest.raises(DataError, match="refused"):
        read_corpus(tmp_path / "corpus.bin")
    with pytest.raises(DataError, match="refused"):
        read_corpus(Path("/dev/zero"))
    with pytest.raises(DataError, match="No such file"):
        read_corpus(tmp_path / "missing")


def test_the_file_is_synchronised_after_so_many_bytes_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    path = tmp_path / "corpus.bin"
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.stat().st_size))
    monkeypatch.setattr(corpus_file, "SYNC", 2000)
    file = CorpusWriter(path, HEAD)
    for number in range(30):
        file.append(entries(2), mutants(2, number), step=number)
    assert len(synced) >= 3
    assert all(later - earlier < 3000 for earlier, later in zip([0, *synced], synced, strict=False))
    file.close()
    assert synced[-1] == path.stat().st_size
    file.close()  # once more is no harm


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = CorpusWriter(tmp_path / "corpus.bin", HEAD)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutputError, match="No space left"):
        file.append(entries(1), mutants(1), step=0)
    file.close()
    with pytest.raises(OutputError, match="can't be written"):
        CorpusWriter(tmp_path / "no folder" / "corpus.bin", HEAD)


def test_the_writer_never_writes_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("untouched")
    (tmp_path / "corpus.bin").symlink_to(tmp_path / "elsewhere")
    write(tmp_path / "corpus.bin")
    assert (tmp_path / "elsewhere").read_text() == "untouched"
    assert not (tmp_path / "corpus.bin").is_symlink()


def test_a_large_step_is_cut_into_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_file, "_ONE_FRAME", 60 * 3)
    file = CorpusWriter(tmp_path / "corpus.bin", HEAD)
    file.append(entries(10), mutants(10), step=0)
    np.testing.assert_array_equal(file.read(np.array([9, 0, 3])), mutants(10)[[9, 0, 3]])
    file.close()
    np.testing.assert_array_equal(read_corpus(tmp_path / "corpus.bin").mutants(np.arange(10)), mutants(10))
