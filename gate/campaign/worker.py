"""The worker process: loads the model, runs it, and answers the supervisor over one socket. Nothing else ever imports the model's code.

Started as ``python -P -m gate.campaign.worker FD PARENT`` in a process group of its own, with an environment that holds no secret. Its
standard output and error go to the supervisor as last words only; answers travel over the socket ``FD``. Requests and answers carry the
nonce that the supervisor gave at the start, so that a process that exits early or prints nonsense can't be taken for one that finished.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import socket
import sys
import threading
import traceback
from queue import SimpleQueue
from typing import Any

from gate.campaign.wire import Arrays, Closed, receive, send
from gate.errors import GateError

__all__ = ["main"]

Frame = tuple[dict[str, Any], Arrays]

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def main(descriptor: int) -> int:
    """Serves requests until the supervisor says shutdown or goes away. Returns the exit status."""
    faulthandler.enable(all_threads=False)  # those that only read and write say nothing of a crash
    # Ctrl-C reaches the whole terminal; only the supervisor decides what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=descriptor)
    try:
        greeting, _ = receive(connection)
        nonce = greeting["nonce"]
        from gate.campaign.session import Session  # imports torch

        session = Session()
        requests: SimpleQueue[Frame | None] = SimpleQueue()
        answers: SimpleQueue[Frame | None] = SimpleQueue()
        # Neither side waits for the other to read: the next request arrives, and the last answer leaves, while the model runs.
        threading.Thread(target=_read, args=(connection, requests), name="reader", daemon=True).start()
        writer = threading.Thread(target=_write, args=(connection, answers), name="writer", daemon=True)
        writer.start()
        answers.put(({"nonce": nonce, "ok": {}}, {}))
        while (frame := requests.get()) is not None:
            request, arrays = frame
            if request["operation"] == "shutdown":
                answers.put(({"nonce": nonce, "ok": {}}, {}))
                break
            message, result = _answer(session, request, arrays)
            answers.put(({"nonce": nonce, **message}, result))
            del frame, request, arrays, result  # a batch is not held while the next one is waited for
        answers.put(None)
        writer.join()
        return 0
    except Closed:
        return 0


def _read(connection: socket.socket, requests: SimpleQueue[Frame | None]) -> None:
    with contextlib.suppress(Closed):
        while True:
            requests.put(receive(connection))
    requests.put(None)


def _write(connection: socket.socket, answers: SimpleQueue[Frame | None]) -> None:
    with contextlib.suppress(Closed):
        while (frame := answers.get()) is not None:
            send(connection, *frame)
            del frame
        return
    os._exit(0)  # the supervisor is gone, whatever the model is doing


def _end_with(parent: int) -> None:
    """Has the system end this process when its supervisor (process id ``parent``) dies, whatever the model is doing then. Linux only."""
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the worker can't be tied to its supervisor")
    if os.getppid() != parent:  # it died before the system knew
        os._exit(0)


def _answer(session: Any, request: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    try:
        operation = getattr(session, "do_" + str(request["operation"]))
        fields, result = operation(arrays, **request["parameters"])
    except GateError as error:
        return {"error": {"kind": type(error).__name__, "what": error.what, "where": error.where, "hint": error.hint}}, {}
    except Exception as error:
        text = str(error) if type(error).__name__ == "ModelRaised" else f"{type(error).__name__}: {error}"
        traceback.print_exc()
        sys.stderr.flush()
        return {"error": {"kind": type(error).__name__, "what": text[:4000], "where": None, "hint": None}}, {}
    return {"ok": fields}, result


if __name__ == "__main__":
    _end_with(int(sys.argv[2]))
    sys.exit(main(int(sys.argv[1])))
