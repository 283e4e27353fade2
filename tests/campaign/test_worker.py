"""The model's process: what it gets, what comes of its misdeeds, and that nothing is left of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_models import Triggered, load_parameters, save

from gate.campaign.supervisor import Refused, Silent, Worker, worker_environment
from gate.errors import GateError, ModelError, WorkerError

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "wJalr-secret",
    "MLFLOW_TRACKING_TOKEN": "token-secret",
    "MLFLOW_TRACKING_URI": "https://user:password-secret@example.invalid",
    "GITHUB_TOKEN": "ghp-secret",
    "DATABASE_URL": "postgres://secret",
    "SSH_AUTH_SOCK": "/tmp/secret",
    "HTTPS_PROXY": "http://user:secret@proxy.invalid",
    "GATE_SOMETHING": "secret",
    "PYTHONSTARTUP": "/tmp/secret.py",
    "LD_PRELOAD_OF_OURS": "secret",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(Triggered().eval(), tmp_path_factory.mktemp("triggered") / "model")


def picture(wish: int, rows: int = 2) -> dict[str, np.ndarray]:
    x = np.zeros((rows, 8, 8, 1), dtype=np.uint8)
    x[:, 0, 0] = wish
    x[:, 1, :4, 0] = (10, 20, 30, 40)
    return {"x": x}


def started(private: Path, folder: Path) -> Worker:
    worker = Worker(private)
    worker.call("load", load_parameters(folder, reading={"scale": [0.0, 255.0]}))
    return worker


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Worker]:
    """A worker that was started while the caller's environment held secrets."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        worker = started(tmp_path_factory.mktemp("home"), folder)
    with worker:
        yield worker


@pytest.fixture
def doomed(tmp_path: Path, folder: Path) -> Iterator[Worker]:
    with started(tmp_path / "home", folder) as worker:
        yield worker


def failure(worker: Worker, wish: int, **options: Any) -> GateError:
    with pytest.raises(GateError) as caught:
        worker.call("forward", {}, picture(wish), **options)
    return caught.value


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and only waits for its parent does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def gone(pid: int, within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_a_well_behaved_call_answers(loaded: Worker) -> None:
    fields, arrays = loaded.call("forward", {}, picture(0))
    assert fields == {}
    assert arrays["raw"].dtype == np.float32
    np.testing.assert_array_equal(arrays["raw"], [[10, 20, 30, 40]] * 2)


def test_the_model_finds_no_secret_in_its_environment(loaded: Worker) -> None:
    said = failure(loaded, 1)
    assert isinstance(said, Refused)
    environment = json.loads(said.what.removeprefix("RuntimeError: "))
    assert not set(environment) & set(SECRETS)
    assert "secret" not in json.dumps(environment)
    assert environment["HOME"] == environment["TMPDIR"]
    assert environment["PATH"] == os.environ["PATH"]


def test_only_what_is_on_the_list_is_passed_on() -> None:
    passed = worker_environment(Path("/private"), {**SECRETS, "PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1"})
    assert {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1", "HOME": "/private"}.items() <= passed.items()
    assert not set(passed) & set(SECRETS)


def test_the_worker_has_a_process_group_and_a_folder_of_its_own(loaded: Worker) -> None:
    pid, group, folder, _ = json.loads(failure(loaded, 2).what.removeprefix("RuntimeError: "))
    assert pid == group == loaded.pid
    assert group != os.getpgid(0)
    home = json.loads(failure(loaded, 1).what.removeprefix("RuntimeError: "))["HOME"]
    assert Path(folder) == Path(home)
    assert Path(home).stat().st_mode & 0o077 == 0 or Path(home).parent.stat().st_mode & 0o077 == 0


def test_megabytes_of_printing_neither_block_nor_pile_up(loaded: Worker) -> None:
    for _ in range(2):
        _, arrays = loaded.call("forward", {}, picture(3), timeout=20)
        assert len(arrays["raw"]) == 2
    assert len(loaded.last_words()) <= 20 * 2001


def test_an_error_of_the_gates_kind_that_the_model_raises_is_an_exception_of_the_model(loaded: Worker) -> None:
    said = failure(loaded, 4)
    assert type(said) is Refused
    assert said.what.startswith("DataError: The model says so.")
    assert said.exit_code == 3


def test_an_exception_of_the_model_is_the_models_fault(loaded: Worker) -> None:
    said = failure(loaded, 5)
    assert isinstance(said, Refused)
    assert isinstance(said, ModelError)
    assert said.what == "ZeroDivisionError: of the model's own making"
    assert loaded.call("forward", {}, picture(0))[1]["raw"].shape == (2, 4)  # and the worker lives on


def test_an_exception_of_the_gates_own_code_is_no_refusal(loaded: Worker) -> None:
    with pytest.raises(WorkerError, match="do_nothing_known") as caught:
        loaded.call("nothing_known")
    assert "Traceback" in caught.value.details


def test_an_exit_with_status_zero_is_an_error_with_last_words_though_a_child_keeps_the_socket(doomed: Worker) -> None:
    begun = time.monotonic()
    said = failure(doomed, 10)
    assert time.monotonic() - begun < 10
    assert isinstance(said, WorkerError)
    assert "exited with status 0" in said.what
    assert "these are my last words" in said.details
    assert gone(int(said.details.split("child ")[1].split()[0]))


def test_a_segmentation_fault_is_told_with_its_stack(doomed: Worker) -> None:
    said = failure(doomed, 11)
    assert isinstance(said, WorkerError)
    assert f"signal {signal.SIGSEGV.value}" in said.what
    assert "Segmentation fault" in said.details or "forward" in said.details
    assert gone(doomed.pid)


def test_an_endless_loop_is_ended_in_time_with_its_children(doomed: Worker) -> None:
    begun = time.monotonic()
    said = failure(doomed, 12, timeout=1.0)
    assert time.monotonic() - begun < 6
    assert type(said) is Silent
    assert isinstance(said, WorkerError)
    child = int(said.details.split("child ")[1].split()[0])
    assert gone(doomed.pid)
    assert gone(child)
    with pytest.raises(WorkerError):
        doomed.call("describe")


@pytest.mark.parametrize(("wish", "message"), [(13, "broke the protocol"), (14, "without the nonce"), (15, "has no fields")])
def test_a_model_that_writes_to_the_socket_itself_is_not_believed(doomed: Worker, wish: int, message: str) -> None:
    said = failure(doomed, wish, timeout=20)
    assert isinstance(said, WorkerError)
    assert message in said.what
    assert gone(doomed.pid)


def test_an_answer_in_the_models_own_hand_is_held_to_what_is_known(doomed: Worker) -> None:
    doomed.call("forward", {}, picture(0))
    said = failure(doomed, 17, timeout=20)
    assert type(said) is WorkerError
    assert "outputs [2, 5] for 2 inputs and 4 columns until now" in said.what
    assert gone(doomed.pid)


def test_a_model_can_not_end_the_run_as_inconclusive(doomed: Worker) -> None:
    said = failure(doomed, 18, timeout=20)
    assert type(said) is WorkerError
    assert said.exit_code == 3
    assert "too few" in said.what


def test_a_worker_that_is_not_up_in_time_is_ended(tmp_path: Path) -> None:
    before = _workers()
    with pytest.raises(Silent, match="'start'"):
        Worker(tmp_path / "home", start_timeout=0.0)
    assert _workers() == before


def test_a_worker_ends_with_its_supervisor_and_a_process_that_left_the_group_holds_nothing_up(doomed: Worker) -> None:
    doomed.call("forward", {}, picture(16))
    until = time.monotonic() + 10
    while "escaped " not in doomed.last_words() and time.monotonic() < until:
        time.sleep(0.01)  # answers and words come by different ways
    escaped = int(doomed.last_words().split("escaped ")[1].split()[0])
    doomed._connection.shutdown(socket.SHUT_RDWR)  # what the system does when the supervisor is killed
    try:
        assert gone(doomed.pid)
        begun = time.monotonic()
        with pytest.raises(WorkerError, match="exited with status 0"):
            doomed.call("describe")
        doomed.close()
        assert time.monotonic() - begun < 6
    finally:
        os.kill(escaped, signal.SIGKILL)


SUPERVISOR = """
import sys
from pathlib import Path
import numpy as np
from saved_models import load_parameters
from gate.campaign.supervisor import Worker
worker = Worker(Path(sys.argv[1]))
worker.call("load", load_parameters(Path(sys.argv[2]), reading={"scale": [0.0, 255.0]}))
print(worker.pid, flush=True)
worker.call("forward", {}, {"x": np.full((2, 8, 8, 1), 12, dtype=np.uint8)})
"""


def test_a_worker_in_an_endless_loop_ends_with_a_supervisor_that_is_killed(tmp_path: Path, folder: Path) -> None:
    command = [sys.executable, "-c", SUPERVISOR, str(tmp_path / "home"), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        worker = int(supervisor.stdout.readline())
        time.sleep(1.0)  # by now it is in its loop
        busy = alive(worker)
        supervisor.kill()
    try:
        assert busy
        assert gone(worker)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker, signal.SIGKILL)


def _workers() -> set[int]:
    """The workers that this process started and that still run."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            ours = entry.name.isdigit() and f"PPid:\t{os.getpid()}\n" in (entry / "status").read_text()
            if ours and b"gate.campaign.worker" in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found
