"""Packed bits hold what a set of numbers would, and so do Roaring bitmaps; neither believes what it is told."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from gate.coverage import bits
from gate.coverage.bits import LARGEST, Bits
from gate.coverage.roaring import longest, pack, unpack
from gate.errors import ConfigError

SIZES = st.sampled_from([1, 31, 32, 33, 63, 64, 95, 100, 1000])


def _bits(numbers: set[int], size: int) -> Bits:
    bits = Bits(size)
    bits.add(torch.tensor(sorted(numbers), dtype=torch.int64))
    return bits


@st.composite
def _sets(draw: st.DrawFn) -> tuple[int, set[int], set[int]]:
    size = draw(SIZES)
    some = st.sets(st.integers(0, size - 1))
    return size, draw(some), draw(some)


@pytest.fixture(params=["as on the CPU", "as on a device"], scope="module")
def arithmetic(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways that the bits of a word are told and counted, of which the second needs no device to be right."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "as on a device":
            patch.setattr(bits, "_on_cpu", lambda words: False)
        yield


@pytest.mark.usefixtures("arithmetic")
@given(_sets(), st.data())
def test_packed_bits_are_a_set_of_numbers(drawn: tuple[int, set[int], set[int]], data: st.DataObject) -> None:
    size, one, other = drawn
    ours, theirs = _bits(one, size), _bits(other, size)
    assert set(ours.unfolded().nonzero().flatten().tolist()) == one
    assert ours.has(torch.arange(size)).tolist() == [number in one for number in range(size)]
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    assert ours.count(start, stop) == len([number for number in one if start <= number < stop])
    assert ours.unfolded(start, stop).tolist() == [number in one for number in range(start, stop)]
    assert ours.union(theirs) == _bits(one | other, size)
    assert ours.union(theirs).count() == len(one | other)
    assert ours.within(theirs) == (one <= other)
    assert ours.within(ours.union(theirs))
    assert Bits.of(ours.words, size) == ours


@pytest.mark.usefixtures("arithmetic")
def test_the_last_bit_of_a_word_is_one_like_the_others() -> None:
    bits = _bits({31, 63}, 64)
    assert bits.words.tolist() == [-(1 << 31), -(1 << 31)]
    assert (bits.count(), bits.count(31, 32), bits.count(0, 31)) == (2, 1, 0)
    assert bits.has(torch.tensor([[30, 31], [32, 63]])).tolist() == [[False, True], [False, True]]
    bits.add(torch.tensor([0, 30]))
    assert bits.unfolded().nonzero().flatten().tolist() == [0, 30, 31, 63]


def test_numbers_of_one_word_are_added_together() -> None:
    assert _bits(set(range(32)), 32).words.tolist() == [-1]


def test_words_that_are_no_set_of_that_size_are_refused() -> None:
    for words in (
        torch.zeros(2, dtype=torch.int64),
        torch.zeros(3, dtype=torch.int32),
        [0, 0],
        torch.tensor([0, 1 << 8], dtype=torch.int32),
    ):
        with pytest.raises(ValueError, match=r"must be an int32 tensor of length 2|beyond 39"):
            Bits.of(words, 40)


def test_more_items_than_a_map_can_hold_are_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match=r"4,294,967,297 items") as caught:
        Bits(LARGEST + 1)
    assert caught.value.hint


# Roaring bitmaps.

LAYOUTS = {
    "nothing": (0, []),
    "empty": (200_000, []),
    "few": (200_000, [3, 65_535, 65_536, 199_999]),
    "all": (200_000, range(200_000)),
    "a list of the longest": (70_000, range(0, 4096 * 2, 2)),
    "one more than a list": (70_000, range(0, 4097 * 2, 2)),
    "every third": (300_000, range(0, 300_000, 3)),
    "runs": (300_000, [n for n in range(300_000) if n % 1000 < 700]),
    "runs that touch the edges": (131_072, [*range(60_000, 70_000), *range(131_000, 131_072)]),
    "only the last container": (1 << 20, [(1 << 20) - 1]),
    "lists, bitmaps and runs": (400_000, [*range(1000, 60_000), *range(65_536, 131_072, 5), *range(140_000, 190_000, 50), 399_999]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_set_survives_as_the_bytes_that_the_library_itself_writes(layout: str) -> None:
    size, numbers = LAYOUTS[layout]
    bits = np.zeros(size, dtype=bool)
    bits[list(numbers)] = True
    data = pack(bits)
    library = BitMap(list(numbers))
    library.run_optimize()
    assert data == library.serialize()
    assert len(data) <= longest(size)
    assert np.array_equal(unpack(data, size), bits)


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(0, 299_999), max_size=300), st.lists(st.tuples(st.integers(0, 299_999), st.integers(1, 20_000)), max_size=5))
def test_any_set_survives(numbers: set[int], stretches: list[tuple[int, int]]) -> None:
    bits = np.zeros(300_000, dtype=bool)
    bits[list(numbers)] = True
    for start, length in stretches:
        bits[start : start + length] = True
    assert np.array_equal(unpack(pack(bits), len(bits)), bits)
    # Whoever wrote it, with or without runs.
    assert np.array_equal(unpack(BitMap(np.flatnonzero(bits).tolist()).serialize(), len(bits)), bits)


def _container(count: int, body: bytes, *, key: int = 0, offset: int = 16) -> bytes:
    return struct.pack("<IIHHI", 12346, 1, key, count - 1, offset) + body


HOSTILE = {
    "nothing": b"",
    "another cookie": b"PK\x03\x04" + bytes(20),
    "four thousand million containers": struct.pack("<II", 12346, 0xFFFFFFFF),
    "a list out of order": _container(3, np.array([5, 4, 6], "<u2").tobytes()),
    "a number twice": _container(2, np.array([5, 5], "<u2").tobytes()),
    "a list that is cut off": _container(4000, np.arange(10, dtype="<u2").tobytes()),
    "a bitmap of another number of bits": _container(5000, bytes(8192)),
    "a bitmap that is cut off": _container(5000, bytes([255] * 700)),
    "an offset elsewhere": _container(1, b"\0\0", offset=1 << 31),
    "a container beyond the size": _container(1, b"\0\0", key=9),
    "a number beyond the size": _container(1, b"\xff\xff", key=1),
    "something after the end": _container(1, b"\0\0") + b"x",
    "runs that overlap": struct.pack("<IBHHHHHHH", 12347, 1, 0, 14, 2, 0, 9, 5, 9),
    "a run past the container": struct.pack("<IBHHHHH", 12347, 1, 0, 9, 1, 65_530, 9),
    "runs of another number of items": struct.pack("<IBHHHHH", 12347, 1, 0, 8, 1, 0, 9),
    "runs that are cut off": struct.pack("<IBHHH", 12347, 1, 0, 9, 60_000),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_bytes_that_are_no_set_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(it|its|a|the|something)\b"):
        unpack(data, 100_000)


def test_containers_out_of_order_are_refused() -> None:
    bits = np.zeros(1 << 18, dtype=bool)
    bits[[0, 1 << 17]] = True
    data = bytearray(pack(bits))
    data[8:10], data[12:14] = data[12:14], data[8:10]
    with pytest.raises(ValueError, match="out of order"):
        unpack(bytes(data), len(bits))


def test_no_change_of_any_byte_reads_beyond_a_set() -> None:
    rng = random.Random(3)
    for layout in ("few", "runs", "lists, bitmaps and runs"):
        size, numbers = LAYOUTS[layout]
        bits = np.zeros(size, dtype=bool)
        bits[list(numbers)] = True
        data = pack(bits)
        for _ in range(300):
            broken = bytearray(data)
            for _ in range(rng.randint(1, 3)):
                broken[rng.randrange(min(len(broken), rng.choice((60, len(broken)))))] = rng.randrange(256)
            try:
                assert unpack(bytes(broken), size).shape == (size,)
            except ValueError:
                continue
