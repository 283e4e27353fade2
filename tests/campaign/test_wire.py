"""Frames survive the wire as they were, and whatever is no frame is refused before it can do harm."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gate.campaign import wire
from gate.campaign.wire import MAX_JSON, Closed, Late, Malformed, receive, send

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        yield ours, theirs


def soon(seconds: float = 5.0) -> float:
    return time.monotonic() + seconds


def frame(text: bytes, payload: bytes = b"", *, text_length: int | None = None, payload_length: int | None = None) -> bytes:
    lengths = (len(text) if text_length is None else text_length, len(payload) if payload_length is None else payload_length)
    return struct.pack(">II", *lengths) + text + payload


def tensors(*described: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"tensors": list(described), **more}).encode()


SHAPES = [(), (0,), (1,), (2, 3, 4), (2, 0, 4), (1,) * 8]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_dtype_and_shape_comes_back_as_it_was(pair: Pair, dtype: str, shape: tuple[int, ...]) -> None:
    values = (np.random.default_rng(1).random(shape) * 200 - (0 if dtype in ("bool", "uint8") else 100)).astype(dtype)
    send(pair[0], {"n": 1}, {"a": values, "b": np.arange(3)})
    message, arrays = receive(pair[1], deadline=soon())
    assert message == {"n": 1}
    assert list(arrays) == ["a", "b"]
    assert arrays["a"].dtype == values.dtype
    assert arrays["a"].shape == shape
    assert arrays["a"].tobytes() == values.tobytes()
    arrays["a"][...] = 0  # what came is the receiver's own


def test_not_a_number_and_infinity_travel_in_tensors(pair: Pair) -> None:
    send(pair[0], {}, {"a": np.array([np.nan, np.inf, -np.inf], dtype=np.float32)})
    np.testing.assert_array_equal(receive(pair[1], deadline=soon())[1]["a"], np.array([np.nan, np.inf, -np.inf]))


def test_views_are_sent_in_the_order_that_one_reads_them(pair: Pair) -> None:
    values = np.arange(24).reshape(2, 3, 4)
    for view in (values.T, values[:, ::-1], values[1:, :, ::2], np.broadcast_to(np.int64(7), (3, 2))):
        send(pair[0], {}, {"a": view})
        np.testing.assert_array_equal(receive(pair[1], deadline=soon())[1]["a"], view)


def test_a_batch_larger_than_any_buffer_passes(pair: Pair) -> None:
    batch = np.random.default_rng(0).integers(0, 256, size=(64, 224, 224, 3), dtype=np.uint8)
    sender = threading.Thread(target=send, args=(pair[0], {"big": True}, {"x": batch}))
    sender.start()
    _, arrays = receive(pair[1], deadline=soon(20))
    sender.join()
    np.testing.assert_array_equal(arrays["x"], batch)


def test_any_text_passes(pair: Pair) -> None:
    said = {"what": "nul \x00, a lone \ud800 surrogate, עברית, \u2028 and 🐈", "deep": [[[{"a": None}]]], "yes": True}
    send(pair[0], said)
    assert receive(pair[1], deadline=soon())[0] == said


@pytest.mark.parametrize(
    "values",
    [np.zeros(2, np.float16), np.zeros(2, ">f4"), np.zeros(2, object), np.zeros(2, complex), np.array(["a"])],
    ids=lambda values: str(values.dtype),
)
def test_other_dtypes_are_not_sent(pair: Pair, values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="the wire carries no"):
        send(pair[0], {}, {"a": values})


def test_what_is_over_the_limits_is_not_sent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="over the wire's limits"):
        send(pair[0], {"text": "x" * MAX_JSON})
    with pytest.raises(ValueError, match="over the wire's limits"):
        send(pair[0], {}, {str(i): np.zeros(1) for i in range(257)})
    monkeypatch.setattr(wire, "MAX_PAYLOAD", 100)
    with pytest.raises(ValueError, match="over the wire's limits"):
        send(pair[0], {}, {"a": np.zeros(101, np.uint8)})
    with pytest.raises(ValueError, match="JSON"):
        send(pair[0], {"a": float("nan")})
    pair[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        pair[1].recv(1)


ONE = {"name": "a", "dtype": "uint8", "shape": [2]}
NO_FRAMES = {
    "no JSON": frame(b"{'single': 1}"),
    "no UTF-8": frame(b'{"tensors": ["\xff"]}'),
    "empty": frame(b""),
    "a list": frame(b"[]"),
    "a number": frame(b"3"),
    "a text": frame(b'"tensors"'),
    "null": frame(b"null"),
    "no list of tensors": frame(b'{"nonce": 1}'),
    "tensors is a number": frame(b'{"tensors": 3}'),
    "tensors is an object": frame(b'{"tensors": {"a": 1}}'),
    "a tensor without a shape": frame(b'{"tensors": [{"name": "a", "dtype": "uint8"}]}'),
    "a shape that is no list": frame(b'{"tensors": [{"name": "a", "dtype": "uint8", "shape": 2}]}', b"ab"),
    "a shape without end": frame(b'{"tensors": [{"name": "a", "dtype": "uint8", "shape": [1e999]}]}', b"ab"),
    "a shape of no number": frame(b'{"tensors": [{"name": "a", "dtype": "uint8", "shape": [NaN]}]}', b"ab"),
    "no number anywhere": frame(b'{"tensors": [], "coverage": NaN}'),
    "infinity": frame(b'{"tensors": [], "coverage": -Infinity}'),
    "unknown dtype": frame(tensors({**ONE, "dtype": "object"}), b"ab"),
    "a dtype with fields": frame(tensors({**ONE, "dtype": "u1,u1"}), b"ab"),
    "negative side": frame(tensors({**ONE, "shape": [-2]}), b"ab"),
    "two negative sides": frame(tensors({**ONE, "shape": [-2, -1]}), b"ab"),
    "less than described": frame(tensors(ONE), b"a"),
    "more than described": frame(tensors(ONE), b"abc"),
    "nothing of what was described": frame(tensors(ONE)),
    "more than there is memory": frame(tensors({**ONE, "shape": [1 << 62, 8]}), b"ab"),
    "empty with an impossible side": frame(tensors({**ONE, "shape": [0, 1 << 70]})),
    "empty with a very long side": frame(tensors({**ONE, "shape": [0, 1 << 62, 1 << 62]})),
    "too many dimensions": frame(tensors({**ONE, "shape": [1] * 100}), b"a"),
    "too many tensors": frame(tensors(*[{**ONE, "shape": [0]}] * 257)),
    "deep JSON": frame(b'{"tensors": ' + b"[" * 200_000),
    "deep but closed JSON": frame(b'{"tensors": [], "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a number of 10,000 digits": frame(b'{"tensors": [], "a": ' + b"9" * 10_000 + b"}"),
}


@pytest.mark.parametrize("data", NO_FRAMES.values(), ids=NO_FRAMES)
def test_what_is_no_frame_is_malformed(pair: Pair, data: bytes) -> None:
    sender = threading.Thread(target=pair[0].sendall, args=(data,))
    sender.start()
    with pytest.raises(Malformed):
        receive(pair[1], deadline=soon())
    pair[1].close()
    sender.join(5)


def test_text_over_the_limit_is_refused_on_its_announcement(pair: Pair) -> None:
    pair[0].sendall(struct.pack(">II", MAX_JSON + 1, 0))
    with pytest.raises(Malformed, match="announced"):
        receive(pair[1], deadline=soon())


@pytest.mark.parametrize("cut", [0, 3, 8, 20, -1])
def test_an_early_end_is_seen(pair: Pair, cut: int) -> None:
    whole = frame(tensors({**ONE, "shape": [100]}), b"a" * 100)
    pair[0].sendall(whole[:cut] if cut >= 0 else whole[:-1])
    pair[0].close()
    with pytest.raises(Closed):
        receive(pair[1], deadline=soon())


def test_a_sender_that_dawdles_is_late_although_bytes_keep_coming(pair: Pair) -> None:
    ended = threading.Event()

    def dawdle() -> None:
        for byte in frame(tensors({**ONE, "shape": [1000]}), b"a" * 1000):
            if ended.wait(0.02):
                return
            pair[0].sendall(bytes([byte]))

    sender = threading.Thread(target=dawdle)
    sender.start()
    started = time.monotonic()
    with pytest.raises(Late):
        receive(pair[1], deadline=soon(0.3))
    took = time.monotonic() - started
    ended.set()
    sender.join()
    assert 0.25 < took < 3


def test_a_silent_sender_is_late(pair: Pair) -> None:
    with pytest.raises(Late):
        receive(pair[1], deadline=soon(0.1))
    with pytest.raises(Late):
        receive(pair[1], deadline=soon(-1))


def test_a_reader_that_never_reads_does_not_hold_the_sender_up(pair: Pair) -> None:
    started = time.monotonic()
    with pytest.raises(Late, match="does not read"):
        send(pair[0], {}, {"x": np.zeros(64 << 20, np.uint8)}, deadline=soon(0.3))
    assert time.monotonic() - started < 5


def test_sending_to_nobody_is_closed(pair: Pair) -> None:
    pair[1].close()
    with pytest.raises(Closed):
        send(pair[0], {}, {"x": np.zeros(1000)})


def test_frames_follow_each_other(pair: Pair) -> None:
    for number in range(5):
        send(pair[0], {"number": number}, {"x": np.full(number, number)})
    for number in range(5):
        message, arrays = receive(pair[1], deadline=soon())
        assert message["number"] == number
        assert arrays["x"].tolist() == [number] * number
