"""One bounded, quiet conversation with MLflow.

MLflow's own defaults wait up to two minutes for each answer and retry for several more; a gate in a CI job must say sooner that the
server is down. The limits below hold wherever the user has not set MLflow's variable of that name. With the ordinary ones a server that
never answers costs 3 attempts of 10 s and 2 s between them, 32 s in all; one that refuses the connection or answers 5xx costs 2 s.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from gate.errors import GateError, RegistryError

__all__ = ["ANSWERS", "FILES", "Patience", "error_code", "redacted", "session"]


@dataclass(frozen=True)
class Patience:
    """How long to wait: seconds for one answer, retries after it (also after a refused connection, 408, 429 and 5xx)."""

    timeout: int
    retries: int


ANSWERS = Patience(timeout=10, retries=2)
# A server that fetches artifacts from elsewhere sends the first byte only when it has the whole file.
FILES = Patience(timeout=60, retries=2)

BACKOFF_FACTOR = 1  # waits 0 s, then 2 s, between attempts

_LOGGERS = ("mlflow", "alembic", "sqlalchemy.engine", "urllib3", "git")
_SQLITE_MAGIC = b"SQLite format 3\x00"
_lock = threading.RLock()


@contextmanager
def session(tracking_uri: str | None, *, patience: Patience = ANSWERS, create: bool = False) -> Iterator[Any]:
    """An ``MlflowClient`` for ``tracking_uri`` (MLflow's own default where None), with its failures told as RegistryError.

    While it lasts, MLflow neither logs, warns nor draws progress bars, and its limits are those of ``patience``; both are settings of the
    whole process, so sessions of several threads follow one another.

    Args:
        create: whether a database file or store folder that does not exist may be made. Reading from one that is missing is an error.

    Raises:
        RegistryError: the server is down, slow, refuses or fails; with what it answered.
    """
    with _lock, _environment(patience), _silence():
        from mlflow import MlflowClient, get_tracking_uri
        from mlflow.exceptions import MlflowException
        from requests import RequestException
        from sqlalchemy.exc import SQLAlchemyError

        uri = tracking_uri or get_tracking_uri()
        if not create:
            _refuse_absent_store(uri)
        try:
            yield MlflowClient(tracking_uri=uri)
        except GateError:
            raise
        except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
            raise _explained(error, uri) from error


def error_code(error: BaseException) -> str:
    """MLflow's name for the error, such as RESOURCE_DOES_NOT_EXIST; empty where it has none."""
    return str(getattr(error, "error_code", ""))


def redacted(uri: str) -> str:
    """The URI without a user name, password or query, fit to be shown."""
    return re.sub(r"(?<=//)[^/]*@", "", uri).split("?")[0]


@contextmanager
def _environment(patience: Patience) -> Iterator[None]:
    where_unset = {
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(patience.timeout),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(patience.retries),
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": str(BACKOFF_FACTOR),
        "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
        # A server may ask for an hour's pause in Retry-After.
        "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
        # Recent MLflow refuses stores on disk unless told otherwise; who names one means it.
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }
    always = {"MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
    wanted = {name: value for name, value in where_unset.items() if name not in os.environ} | always
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _silence() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow  # noqa: F401 - its import sets the levels which are changed next

        loggers = [logging.getLogger(name) for name in _LOGGERS]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _refuse_absent_store(uri: str) -> None:
    """MLflow would make an empty store of a mistyped path and then say that the model is missing."""
    parts = urlsplit(uri)
    if parts.scheme.split("+")[0] == "sqlite":
        from sqlalchemy.engine import make_url

        database = make_url(uri).database or ""
        if database.startswith("file:") or database in ("", ":memory:"):
            return
        path = Path(database)
        try:
            with path.open("rb") as file:
                start = file.read(len(_SQLITE_MAGIC))
        except OSError as error:
            raise _no_store(uri, f"can't be read: {error.strerror}") from error
        if start != _SQLITE_MAGIC:
            raise _no_store(uri, "is no SQLite database")
    elif parts.scheme in ("", "file"):
        path = Path(unquote(parts.path)) if parts.scheme else Path(uri)
        if not path.is_dir():
            raise _no_store(uri, "does not exist")


def _no_store(uri: str, what: str) -> RegistryError:
    return RegistryError(
        f"The MLflow store {what}.", where=redacted(uri), hint="Check the tracking URI (`tracking_uri`, MLFLOW_TRACKING_URI)."
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        pending += [current.__context__, current.__cause__]
        # requests and urllib3 keep the root of a failure in their first argument or in `reason`
        pending += [item for item in (*current.args, getattr(current, "reason", None)) if isinstance(item, BaseException)]


def _explained(error: BaseException, uri: str) -> RegistryError:
    from requests import RequestException
    from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError, ReadTimeoutError, ResponseError

    where = redacted(uri)
    causes = list(_causes(error))

    def caused_by(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    whole = str(getattr(error, "message", None) or error)
    text = _first_line(whole, uri)
    status = next((str(found) for cause in causes if (found := getattr(getattr(cause, "response", None), "status_code", None))), "")
    if not status and (named := re.search(r"\b(401|403) (?:Client )?Error\b|error code (401|403)\b", whole)):
        status = named[1] or named[2]
    if status == "401" or error_code(error) in ("UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED"):
        return RegistryError(
            "The tracking server does not know who is asking (401).",
            where=where,
            hint="Set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.",
        )
    if status == "403" or error_code(error) == "PERMISSION_DENIED":
        return RegistryError(
            f"The tracking server refuses access (403): {text}",
            where=where,
            hint="Ask its administrator for the permission, or use another account.",
        )
    patience = (
        "Check that it runs and can be reached from here; MLFLOW_HTTP_REQUEST_TIMEOUT and MLFLOW_HTTP_REQUEST_MAX_RETRIES set the patience."
    )
    if caused_by(NameResolutionError):
        return RegistryError("The tracking server's name can't be resolved.", where=where, hint="Check the tracking URI.")
    if caused_by(NewConnectionError, ConnectionRefusedError):
        return RegistryError("Nothing answers at the tracking server's address.", where=where, hint=patience)
    if caused_by(ReadTimeoutError, ConnectTimeoutError, TimeoutError):
        return RegistryError("The tracking server did not answer in time.", where=where, hint=patience)
    if refused := next((cause for cause in causes if isinstance(cause, ResponseError)), None):
        return RegistryError(f"The tracking server keeps failing: {refused}.", where=where, hint="See the server's log.")
    if caused_by(RequestException, HTTPError):
        return RegistryError(f"Talking to the tracking server failed: {text}", where=where, hint=patience)
    return RegistryError(f"MLflow could not do this: {text}", where=where)


def _first_line(text: str, uri: str) -> str:
    """The first line that says something; of failed downloads MLflow lists each under a headline and a line of the file's name."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#####")]
    if len(lines) > 1 and lines[0].startswith("The following failures occurred"):
        del lines[0]
    line = lines[0] if lines else "no reason given"
    login = urlsplit(uri).netloc.rpartition("@")[0]
    if login:
        line = line.replace(f"{login}@", "")
    return line if len(line) <= 500 else line[:500] + "…"
