"""The wire between supervisor and worker: length-capped JSON and raw tensor bytes, nothing that could run code when read.

A frame is two big-endian unsigned 32-bit lengths (JSON, payload), the JSON text (UTF-8), and the payload: the tensors' bytes one after
another, C order, little endian, as the JSON's ``tensors`` list describes them (name, dtype, shape). Neither side unpickles anything.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["MAX_JSON", "MAX_PAYLOAD", "Arrays", "Closed", "Late", "Malformed", "receive", "send"]

MAX_JSON = 16 << 20
MAX_PAYLOAD = (1 << 32) - 1  # what the length field can say: one batch, not a data set
MAX_TENSORS = 256
_DTYPES = {"bool": np.bool_, "uint8": np.uint8, "int32": np.int32, "int64": np.int64, "float32": np.float32, "float64": np.float64}
_HEADER = struct.Struct(">II")
_ASK_AGAIN = 0.2  # seconds between two looks at a deadline that may come nearer

Arrays = dict[str, np.ndarray]

assert sys.byteorder == "little", "the wire sends native bytes, which are little endian on every machine torch supports"


class Malformed(Exception):
    """The other side sent something that is no frame; it can't be trusted with another."""


class Closed(Exception):
    """The other side closed the connection or died."""


class Late(Exception):
    """No whole frame came in time."""


def send(
    connection: socket.socket,
    message: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray] | None = None,
    *,
    deadline: float | None = None,
) -> None:
    """Writes one frame.

    Args:
        connection: a stream socket.
        message: JSON values; the key ``tensors`` is the wire's own.
        arrays: tensors by name.
        deadline: on the monotonic clock; None waits for ever.

    Raises:
        Late: the other side does not read. The connection is out of step and must be closed.
        ValueError: a dtype, a size or a number of tensors that the wire does not carry.
        Closed: the other side is gone.
    """
    tensors, parts = [], []
    for name, array in (arrays or {}).items():
        contiguous = np.ascontiguousarray(array)
        if str(contiguous.dtype) not in _DTYPES:
            raise ValueError(f"the wire carries no {contiguous.dtype} tensors ({name})")
        tensors.append({"name": name, "dtype": str(contiguous.dtype), "shape": list(array.shape)})
        parts.append(contiguous.reshape(-1).view(np.uint8).data)
    text = json.dumps({**message, "tensors": tensors}, allow_nan=False).encode("ascii")
    payload = sum(part.nbytes for part in parts)
    if len(text) > MAX_JSON or payload > MAX_PAYLOAD or len(tensors) > MAX_TENSORS:
        raise ValueError(f"a frame of {len(text)} + {payload} bytes with {len(tensors)} tensors is over the wire's limits")
    try:
        for part in (memoryview(_HEADER.pack(len(text), payload) + text), *parts):
            connection.settimeout(None if deadline is None else max(deadline - time.monotonic(), 1e-3))
            connection.sendall(part)
    except TimeoutError as error:
        raise Late("the other side does not read") from error
    except OSError as error:
        raise Closed(str(error)) from error


def receive(connection: socket.socket, *, deadline: float | Callable[[], float] | None = None) -> tuple[dict[str, Any], Arrays]:
    """Reads one frame.

    Args:
        connection: a stream socket.
        deadline: on the monotonic clock; None waits for ever. A function is asked again and again, for a deadline that may come nearer.

    Raises:
        Closed, Late, Malformed: see there. After Late and Malformed the connection is out of step and must be closed.
    """
    text_length, payload_length = _HEADER.unpack(_read(connection, _HEADER.size, deadline))
    if text_length > MAX_JSON:
        raise Malformed(f"announced {text_length} bytes of JSON, {MAX_JSON} are allowed")
    text = _read(connection, text_length, deadline)
    try:
        message = json.loads(text, parse_constant=_no_number)
        tensors = message.pop("tensors")
        described = [(str(t["name"]), str(t["dtype"]), tuple(int(side) for side in t["shape"])) for t in tensors]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Malformed(f"sent JSON that is no frame: {error}") from error
    if len(described) > MAX_TENSORS or any(dtype not in _DTYPES or min(shape, default=0) < 0 for _, dtype, shape in described):
        raise Malformed("described tensors that the wire does not carry")
    sizes = [math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize for _, dtype, shape in described]
    if sum(sizes) != payload_length:
        raise Malformed(f"described {sum(sizes)} bytes of tensors and announced {payload_length}")
    arrays: Arrays = {}
    for (name, dtype, shape), size in zip(described, sizes, strict=True):
        flat: np.ndarray = np.frombuffer(_read(connection, size, deadline), dtype=_DTYPES[dtype])
        try:
            arrays[name] = flat.reshape(shape)
        except ValueError as error:  # too many dimensions, or an empty tensor with an impossibly long side
            raise Malformed(f"described a tensor that can't be: {error}") from error
    return message, arrays


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _read(connection: socket.socket, count: int, deadline: float | Callable[[], float] | None) -> bytearray:
    buffer = bytearray(count)
    view = memoryview(buffer)
    done = 0
    while done < count:
        if deadline is not None:
            left = (deadline() if callable(deadline) else deadline) - time.monotonic()
            if left <= 0:
                raise Late(f"{done} of {count} bytes came")
            connection.settimeout(min(left, _ASK_AGAIN) if callable(deadline) else left)
        else:
            connection.settimeout(None)
        try:
            got = connection.recv_into(view[done:])
        except TimeoutError:
            continue
        except OSError as error:
            raise Closed(str(error)) from error
        if not got:
            raise Closed(f"end of stream after {done} of {count} bytes")
        done += got
    return buffer
