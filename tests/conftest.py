"""What tests of several rooms share: a real MLflow server on loopback, its files in a temporary folder, and a real browser."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
START_ATTEMPTS = 3
START_SECONDS = 120.0

# A merge is judged by the same examples every time; `make test-properties` looks for new ones.
hypothesis.settings.register_profile("same-examples", derandomize=True, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same-examples"))

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported: tests share their machine
for _name in [name for name in os.environ if name.startswith(("MLFLOW_TRACKING_", "MLFLOW_REGISTRY_", "MLFLOW_HTTP_", "GATE_"))]:
    del os.environ[_name]  # a developer's own server must never be written to


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the server with its workers, which share its process group."""
    for kind, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    process.wait(10)


def _healthy(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Waits until the server answers; False when it ended, for example because another program took its port."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return process.poll() is None
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a `mlflow server` with a SQLite backend which serves its artifacts."""
    folder: Path = tmp_path_factory.mktemp("mlflow-server")
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    log = folder / "server.log"
    for _ in range(START_ATTEMPTS):
        port = _free_port()
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "artifacts")]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        try:
            url = f"http://127.0.0.1:{port}"
            if _healthy(url, process):
                yield url
                return
        finally:
            _stop(process)
    pytest.fail(f"mlflow server did not start:\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, headless."""
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is missing: install Debian's package `chromium`; pages can't be looked at without a browser.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()
