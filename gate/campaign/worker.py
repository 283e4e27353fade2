"""The worker process: loads the model, runs it, and answers the supervisor over one socket. Nothing else ever imports the model's code.

Started as ``python -P -m gate.campaign.worker FD PARENT`` in a process group of its own, with an environment that holds no secret. Its
standard output and error go to the supervisor as last words only; answers travel over the socket ``FD``. Requests and answers carry the
nonce that the supervisor gave at the start, so that a process that exits early or prints nonsense can't be taken for one that finished.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import socket
import sys
import traceback
from typing import Any

from gate.campaign.wire import Arrays, Closed, receive, send
from gate.errors import GateError

__all__ = ["main"]

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def main(descriptor: int) -> int:
    """Serves requests until the supervisor says shutdown or goes away. Returns the exit status."""
    faulthandler.enable()
    # Ctrl-C reaches the whole terminal; only the supervisor decides what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=descriptor)
    try:
        greeting, _ = receive(connection)
        nonce = greeting["nonce"]
        from gate.campaign.session import Session  # imports torch

        session = Session()
        send(connection, {"nonce": nonce, "ok": {}})
        while True:
            request, arrays = receive(connection)
            if request["operation"] == "shutdown":
                send(connection, {"nonce": nonce, "ok": {}})
                return 0
            message, result = _answer(session, request, arrays)
            send(connection, {"nonce": nonce, **message}, result)
    except Closed:
        return 0


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
