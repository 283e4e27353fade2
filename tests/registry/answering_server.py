"""HTTP servers which give one answer to everything: the ways in which a tracking server misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FakeServer:
    """An HTTP server which gives one answer to everything, and remembers what it was asked."""

    url: str
    asked: list[str] = field(default_factory=list)


Answering = Callable[..., FakeServer]


@contextmanager
def answering_servers() -> Iterator[Answering]:
    """Starts servers: answering(500), answering(hangs=True), answering(bodies={"/path": "text"}, statuses={"/path": 404})."""
    running: list[tuple[ThreadingHTTPServer, threading.Event]] = []

    def start(
        status: int = 200,
        body: str = "",
        *,
        hangs: bool = False,
        bodies: dict[str, str] | None = None,
        statuses: dict[str, int] | None = None,
        headers: dict[str, str] | None = None,
    ) -> FakeServer:
        release = threading.Event()
        fake = FakeServer("")

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                fake.asked.append(self.path)
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if hangs:
                    release.wait(30)
                    return
                text = next((text for prefix, text in (bodies or {}).items() if self.path.startswith(prefix)), body).encode()
                self.send_response(next((code for prefix, code in (statuses or {}).items() if self.path.startswith(prefix)), status))
                for key, value in {"Content-Type": "application/json", "Content-Length": str(len(text)), **(headers or {})}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PATCH = do_HEAD = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        running.append((server, release))
        fake.url = f"http://127.0.0.1:{server.server_port}"
        return fake

    try:
        yield start
    finally:
        for server, release in running:
            release.set()
            server.shutdown()
            server.server_close()
