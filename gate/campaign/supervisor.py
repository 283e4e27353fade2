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
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gate.campaign.answers import Answers
from gate.campaign.deadline import Deadline
from gate.campaign.wire import Arrays, Closed, Late, Malformed, receive, send
from gate.errors import GateError, ModelError, WorkerError

__all__ = ["Refused", "Silent", "Worker", "worker_environment"]

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


class Worker:
    """Owns one worker process and the socket to it. Lives in the supervisor; use it as a context manager.

    Args:
        private: a folder that belongs to the worker: its home, its temporary files, its working folder.
        deadline: asked before every request and while every answer is waited for; without one only silence ends the waiting.

    Raises:
        WorkerError: the process did not come up.
        BudgetSpent, Interrupted: it did not in the time there was.
    """

    def __init__(self, private: Path, *, start_timeout: float | None = None, deadline: Deadline | None = None) -> None:
        if deadline is not None:
            deadline.check()
        self._deadline = deadline
        self.given_up = False  # ended because its answer could not be waited for
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection = ours
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
        wait = _SILENCE if start_timeout is None else max(start_timeout, 0.0)
        self._exchange("start", {"nonce": self._nonce}, None, time.monotonic() + wait)

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
        if self._deadline is not None:
            self._deadline.check()
        deadline = time.monotonic() + (_SILENCE if timeout is None else max(timeout, 0.0))
        asked = dict(parameters or {})
        fields, result = self._exchange(operation, {"nonce": self._nonce, "operation": operation, "parameters": asked}, arrays, deadline)
        try:
            self._answers.check(operation, asked, arrays or {}, fields, result)
        except WorkerError:
            self.kill()
            raise
        return fields, result

    def close(self) -> None:
        """Ends the worker and every process of its group."""
        with contextlib.suppress(Closed, Late, Malformed, OSError):
            if self._process.poll() is None:
                patience = time.monotonic() + 2.0
                send(self._connection, {"nonce": self._nonce, "operation": "shutdown", "parameters": {}}, deadline=patience)
                # Once it has answered there is nothing left to lose; waiting for torch to take itself apart costs a second.
                receive(self._connection, deadline=patience)
        self.kill()

    def kill(self) -> None:
        """Ends the process group at once."""
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

    def _exchange(self, operation: str, request: Mapping[str, Any], sent: Arrays | None, deadline: float) -> tuple[dict[str, Any], Arrays]:
        started = time.monotonic()
        limit = self._deadline

        def until() -> float:
            return deadline if limit is None else min(deadline, time.monotonic() + limit.left())

        try:
            send(self._connection, request, sent, deadline=until())
            message, arrays = receive(self._connection, deadline=until)
        except Closed as error:
            raise self._dead(operation) from error
        except Late as error:
            self.kill()
            if limit is not None and time.monotonic() < deadline:
                self.given_up = True
                raise limit.error() from error
            raise Silent(
                f"The worker gave no answer to {operation!r} within {time.monotonic() - started:.0f} s and was ended.",
                where=f"worker process {self.pid}",
                hint="See whether the model hangs on some input; a smaller batch_size may help a slow one.",
                details=self.last_words(),
            ) from error
        except Malformed as error:
            self.kill()
            raise WorkerError(f"The worker broke the protocol: it {error}.", where=f"worker process {self.pid}") from error
        if message.get("nonce") != self._nonce:
            self.kill()
            raise WorkerError("The worker answered without the nonce it was given.", where=f"worker process {self.pid}")
        if not all(isinstance(message.get(part, {}), dict) for part in ("ok", "error")):
            self.kill()
            raise WorkerError("The worker broke the protocol: its answer has no fields.", where=f"worker process {self.pid}")
        if "error" in message:
            raise self._error(operation, message["error"])
        return message.get("ok", {}), arrays

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
