"""The supervisor's end of the worker: starts the process, asks, waits no longer than it must, and ends it with everything it started."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gate.campaign.answers import Answers
from gate.campaign.deadline import Deadline
from gate.campaign.wire import Arrays, Closed, Late, Malformed, receive, send
from gate.errors import GateError, ModelError, WorkerError

__all__ = ["Refused", "Request", "Silent", "Worker", "worker_environment"]

# Kept from the caller's environment: what Python, torch and CUDA need to start. Everything else may be a secret.
_PASSED = (
    "CUDA_VISIBLE_DEVICES",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "MKL_NUM_THREADS",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "PATH",
    "PYTHONPATH",
    "TZ",
    "VIRTUAL_ENV",
)
_LAST_WORDS = 20  # lines
_LINE_LENGTH = 2000
_LONGEST = 4000  # characters kept of an exception's text
REFUSED = "ModelRaised"  # how the session names an exception that the model's own code raised
_SILENCE = 600.0  # seconds without an answer after which a worker counts as hung, where the caller gives no time


class Refused(ModelError):
    """The model raised an exception; ``what`` is its text."""


class Silent(WorkerError):
    """The worker gave no answer in time and was ended."""


def worker_environment(private: Path, source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a worker: an allow-list, and folders of its own for whatever wants to write."""
    source = os.environ if source is None else source
    environment = {name: source[name] for name in _PASSED if name in source}
    environment.update(HOME=str(private), TMPDIR=str(private), PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1")
    # Threads that wait by spinning make a model many times slower as soon as anything else runs on the machine, as in most CI jobs.
    environment["OMP_WAIT_POLICY"] = source.get("OMP_WAIT_POLICY", "PASSIVE")
    environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # what torch needs for repeatable matrix products on CUDA
    return environment


@dataclass(eq=False)
class Request:
    """One request of a worker and, once it has been read, its answer. Whoever asked holds it until then."""

    operation: str
    parameters: dict[str, Any]
    arrays: Arrays  # let go once the answer has been checked against them
    patience: float  # seconds that its answer is waited for
    answered: tuple[dict[str, Any], Arrays] | None = None
    error: GateError | None = None


class Worker:
    """Owns one worker process and the socket to it. Lives in the supervisor; use it as a context manager.

    Args:
        private: a folder that belongs to the worker: its home, its temporary files, its working folder.
        start_timeout: seconds that its start may take.
        deadline: asked before every request and while every answer is waited for; without one only silence ends the waiting.
        wait: until it is up; otherwise its first answer says whether it is.

    Raises:
        WorkerError: the process did not come up.
        BudgetSpent, Interrupted: it did not in the time there was.
    """

    def __init__(self, private: Path, *, start_timeout: float | None = None, deadline: Deadline | None = None, wait: bool = True) -> None:
        if deadline is not None:
            deadline.check()
        self._deadline = deadline
        self._killed = False
        self.given_up = False  # ended because its answer could not be waited for
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection = ours
        self._in_flight: deque[Request] = deque()  # oldest first; the worker answers in this order
        self._ended: GateError | None = None  # why it was ended, for whoever still waits for an answer
        self._nonce = secrets.token_hex(16)
        self._answers = Answers()
        self._words: deque[str] = deque(maxlen=_LAST_WORDS)
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gate.campaign.worker", str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=private,
            env=worker_environment(private),
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # a process group of its own, so that its children can be ended with it
        )
        theirs.close()
        self._listener = threading.Thread(target=self._listen, name="worker-output", daemon=True)
        self._listener.start()
        threading.Thread(target=self._watch, name="worker-end", daemon=True).start()
        patience = _SILENCE if start_timeout is None else max(start_timeout, 0.0)
        started = self._send(Request("start", {}, {}, patience), {"nonce": self._nonce})
        if wait:
            self.answer(started)

    @property
    def pid(self) -> int:
        """The process id, which is also its process group."""
        return self._process.pid

    def call(
        self,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        arrays: Arrays | None = None,
        *,
        timeout: float | None = None,
    ) -> tuple[dict[str, Any], Arrays]:
        """One request and its answer.

        Args:
            operation: a ``do_…`` method of ``gate.campaign.session.Session``, without the prefix.
            parameters: its keyword arguments.
            arrays: its tensors.
            timeout: seconds to wait for the answer.

        Raises:
            BudgetSpent, Interrupted: the deadline allows no request, or has come while the answer was waited for (then the worker has been
                ended, see ``given_up``).
            Refused: the model or torch raised an exception.
            ModelError: the session says that the model is at fault.
            ConfigError, InputShapeError: the session says that the settings are, in a request where they can be.
            WorkerError: the worker died, kept silent, broke the protocol or gave an answer that can't be true; it has been ended.
        """
        return self.answer(self.ask(operation, parameters, arrays, timeout=timeout))

    def ask(
        self,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        arrays: Arrays | None = None,
        *,
        timeout: float | None = None,
    ) -> Request:
        """Sends a request, whose answer is fetched with ``answer``. Several may be on their way; the worker takes them in order.

        Raises:
            BudgetSpent, Interrupted, WorkerError: as ``call`` does; what the worker has to say comes with the answer.
        """
        if self._deadline is not None:
            self._deadline.check()
        patience = _SILENCE if timeout is None else max(timeout, 0.0)
        request = Request(operation, dict(parameters or {}), dict(arrays or {}), patience)
        return self._send(request, {"nonce": self._nonce, "operation": operation, "parameters": request.parameters})

    def answer(self, request: Request) -> tuple[dict[str, Any], Arrays]:
        """The answer to a request, waited for if need be; those of earlier requests are read and kept on the way.

        Raises:
            What ``call`` raises. Where an earlier request ended the worker, that request's error.
        """
        while request.answered is None and request.error is None:
            self._receive()
        if request.error is not None:
            raise request.error
        assert request.answered is not None
        return request.answered

    def close(self) -> None:
        """Ends the worker and every process of its group."""
        with contextlib.suppress(Closed, Late, Malformed, OSError):
            if self._process.poll() is None and not self._in_flight:
                patience = time.monotonic() + 2.0
                send(self._connection, {"nonce": self._nonce, "operation": "shutdown", "parameters": {}}, deadline=patience)
                # Once it has answered there is nothing left to lose; waiting for torch to take itself apart costs a second.
                receive(self._connection, deadline=patience)
        self.kill()

    def kill(self) -> None:
        """Ends the process group at once; once is enough."""
        if self._killed:
            return
        self._killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()
        self._listener.join(timeout=2.0)
        # A process that left the group may still hold the other end of the pipe; closing ours would wait for it.
        if self._process.stdout is not None and not self._listener.is_alive():
            self._process.stdout.close()

    def last_words(self) -> str:
        """The last lines that the worker printed."""
        return "\n".join(self._words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()

    def _watch(self) -> None:
        # A child of the worker may hold the socket's other end open, so the end of the stream does not always tell that it died.
        self._process.wait()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        # Reading to the end, so that a model that prints a lot never blocks on a full pipe; only the last lines are kept.
        stream = self._process.stdout
        assert stream is not None
        with contextlib.suppress(ValueError, OSError):
            while line := stream.readline(_LINE_LENGTH):
                self._words.append(line.decode("utf-8", "replace").rstrip("\n"))

    def _send(self, request: Request, message: Mapping[str, Any]) -> Request:
        if self._ended is not None:
            raise self._ended
        try:
            send(self._connection, message, request.arrays, deadline=self._until(time.monotonic() + request.patience)())
        except (Closed, Late) as error:
            raise self._lost(request, error, time.monotonic() - request.patience) from error
        self._in_flight.append(request)
        return request

    def _receive(self) -> None:
        """Reads the answer to the oldest request in flight and notes it there."""
        if not self._in_flight:
            raise ValueError("the request was not asked of this worker")
        request = self._in_flight[0]
        started = time.monotonic()
        deadline = started + request.patience
        try:
            message, arrays = receive(self._connection, deadline=self._until(deadline))
        except (Closed, Late, Malformed) as error:
            self._lost(request, error, started)
            return
        if message.get("nonce") != self._nonce:
            self._end(WorkerError("The worker answered without the nonce it was given.", where=f"worker process {self.pid}"))
        elif not all(isinstance(message.get(part, {}), dict) for part in ("ok", "error")):
            self._end(WorkerError("The worker broke the protocol: its answer has no fields.", where=f"worker process {self.pid}"))
        elif "error" in message:
            self._in_flight.popleft()
            request.error = self._error(request.operation, message["error"])
        else:
            fields = message.get("ok", {})
            try:
                if request.operation != "start":
                    self._answers.check(request.operation, request.parameters, request.arrays, fields, arrays)
            except WorkerError as error:
                self._end(error)
            else:
                self._in_flight.popleft()
                request.answered = fields, arrays
                request.arrays = {}

    def _until(self, deadline: float) -> Callable[[], float]:
        limit = self._deadline
        return lambda: deadline if limit is None else min(deadline, time.monotonic() + limit.left())

    def _end(self, error: GateError) -> GateError:
        """Ends the worker; every request in flight, and every later one, gets the reason."""
        self.kill()
        self._ended = error
        while self._in_flight:
            self._in_flight.popleft().error = error
        return error

    def _lost(self, request: Request, error: Exception, started: float) -> GateError:
        """Ends the worker, which did not take a request or gave no whole answer."""
        oldest = self._in_flight[0].operation if self._in_flight else request.operation
        if isinstance(error, Closed):
            return self._end(self._dead(oldest))
        if isinstance(error, Malformed):
            return self._end(WorkerError(f"The worker broke the protocol: it {error}.", where=f"worker process {self.pid}"))
        self.kill()
        if self._deadline is not None and time.monotonic() < started + request.patience:
            self.given_up = True
            return self._end(self._deadline.error())
        return self._end(
            Silent(
                f"The worker gave no answer to {oldest!r} within {time.monotonic() - started:.0f} s and was ended.",
                where=f"worker process {self.pid}",
                hint="See whether the model hangs on some input; a smaller batch_size may help a slow one.",
                details=self.last_words(),
            )
        )

    def _error(self, operation: str, error: Mapping[str, Any]) -> GateError:
        if error.get("kind") == REFUSED:
            return Refused(
                str(error.get("what"))[:_LONGEST],
                where="the model, in the worker",
                hint="Run the model on the same input outside the gate to see the trace.",
            )
        made = self._answers.error(operation, error)
        if isinstance(made, WorkerError):
            made.details = self.last_words()
        return made

    def _dead(self, operation: str) -> WorkerError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)
        status = self._process.poll()
        self.kill()
        how = "closed its connection" if status is None else f"died with signal {-status}" if status < 0 else f"exited with status {status}"
        return WorkerError(
            f"The worker {how} during {operation!r}.",
            where=f"worker process {self.pid}",
            hint="The model's own code ended the process, or the machine ran out of memory (then a smaller batch_size helps).",
            details=self.last_words(),
        )
