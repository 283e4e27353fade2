"""What happens in a run, one JSON object a line in ``events.jsonl``, and whoever wants to watch."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

__all__ = ["Event", "EventLog", "Observer"]

Event = dict[str, Any]
Observer = Callable[[Event], None]


class EventLog:
    """Appends events to a file, line by line and flushed, and passes each to the observers. Lives in the supervisor."""

    def __init__(self, path: Path | None, observers: tuple[Observer, ...] = ()) -> None:
        self._file: TextIO | None = None if path is None else path.open("a", encoding="utf-8")
        self._observers = observers

    def emit(self, kind: str, /, **fields: Any) -> None:
        """Records an event; ``kind`` is its name, such as ``step`` or ``defect``."""
        event: Event = {"event_time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": kind, **fields}
        if self._file is not None:
            self._file.write(json.dumps(event, allow_nan=False, default=str) + "\n")
            self._file.flush()
        for observer in self._observers:
            observer(event)

    def close(self) -> None:
        """Closes the file; later events reach the observers only."""
        if self._file is not None:
            self._file.close()
            self._file = None
