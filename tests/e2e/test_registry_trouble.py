"""A registry that is down, fails, refuses or lacks what was asked for: exit 3 soon, with what to do, and reports of it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from candidates import Registered
from gate_command import Done, Finished


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def answering(asked: list[str]) -> Iterator[Callable[..., str]]:
    """Starts a server that answers everything with one status, or not at all (0)."""
    servers = []

    def start(status: int) -> str:
        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                asked.append(self.path)
                if not status:
                    time.sleep(3)
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _is_reported(done: Done, out: Path, *says: str) -> None:
    assert done.code == 3, done.said
    done.explains("ERROR", "what to do:", *says)
    run = Finished(out)
    run.is_whole()
    assert (run.record["verdict"], run.record["exit_code"]) == ("error", 3)
    assert next(iter(run.junit)).errors == 1  # the verdict; what no rule could be judged by follows


def test_a_server_that_is_down(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    _is_reported(gate_run("--model", "models:/digits/1", "--tracking-uri", url), tmp_path / "out", url)


@pytest.mark.parametrize(("status", "times"), [(503, 3), (401, 1), (403, 1)])
def test_failing_is_tried_again_and_refusing_is_not(
    status: int, times: int, asked: list[str], answering: Callable[..., str], gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    url = answering(status)
    _is_reported(gate_run("--model", "models:/digits/1", "--tracking-uri", url), tmp_path / "out", url)
    assert len(asked) == times


def test_a_server_that_does_not_answer(
    answering: Callable[..., str], gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    _is_reported(gate_run("--model", "models:/digits/1", "--tracking-uri", answering(0)), tmp_path / "out")


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("models:/digits e2f/1", "digits e2e"),
        ("models:/digits e2e/77", "2"),
        ("models:/digits e2e@champoin", "champion"),
        ("models:/m-00000000000000000000000000000000", "m-00000000000000000000000000000000"),
        ("runs:/00000000000000000000000000000000/model", "00000000000000000000000000000000"),
    ],
)
def test_what_does_not_exist_is_answered_with_the_nearest_that_does(
    uri: str, says: str, registered: Registered, gate_run: Callable[..., Done], tmp_path: Path
) -> None:
    _is_reported(gate_run("--model", uri, "--tracking-uri", registered.url), tmp_path / "out", says)


def test_a_baseline_that_does_not_exist_costs_no_budget(registered: Registered, gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--baseline", "models:/digits e2e@nobody", "--tracking-uri", registered.url)
    _is_reported(done, tmp_path / "out", "nobody")
    assert Finished(tmp_path / "out").record["campaign"] is None


def test_an_earlier_run_that_does_not_exist_costs_no_budget(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--previous", tmp_path / "nowhere")
    _is_reported(done, tmp_path / "out", "nowhere")
    assert Finished(tmp_path / "out").record["campaign"] is None


def test_a_verdict_that_can_not_be_recorded_is_no_pass(
    registered: Registered, gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    client = mlflow.MlflowClient(registered.url, registered.url)
    experiment = client.create_experiment("gone")
    client.delete_experiment(experiment)
    monkeypatch.setenv("GATE_EXPERIMENT", "gone")
    done = gate_run("--model", f"models:/{registered.name}/1", "--tracking-uri", registered.url)
    assert done.code == 3, done.said
    done.explains("could not be recorded in the registry", "gone", "not recorded")
    record = Finished(tmp_path / "out").record
    assert (record["verdict"], record["exit_code"]) == ("error", 3)
    assert record["metrics"]["defect_rate"]["value"] is not None
