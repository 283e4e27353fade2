"""The worker process: loads the model, runs it, and answers the supervisor over one socket. Nothing else ever imports the model's code.

Started as ``python -P -m gate.campaign.worker FD`` in a process group of its own, with an environment that holds no secret. Its
standard output and error go to the supervisor as last words only; answers travel over the socket ``FD``. Requests and answers carry the
nonce that the supervisor gave at the start, so that a process that exits early or prints nonsense can't be taken for one that finished.
"""

from __future__ import annotations

import faulthandler
import signal
import socket
import sys
import traceback
from typing import Any

from gate.campaign.wire import Arrays, Closed, receive, send
from gate.errors import GateError

__all__ = ["main"]


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
    sys.exit(main(int(sys.argv[1])))
