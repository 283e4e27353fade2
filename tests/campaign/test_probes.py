"""The probes' turn: which faults it sees without a label, and that a fault which ends the worker is laid at the probe's door."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from known_model import NumpyWorker, images, reads_stripes
from saved_models import Stripes, load_parameters, save

from gate import opening
from gate.campaign.budget import Budget, BudgetSpent
from gate.campaign.events import EventLog
from gate.campaign.probes import Probed, run_probes
from gate.campaign.raising import MOST_IN_A_ROW
from gate.campaign.supervisor import Refused, Worker
from gate.config import BudgetSettings
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.domains.image.probes import probes
from gate.errors import WorkerError
from gate.models.outputs import OutputKind
from gate.oracles import Switches

X = images(40)[0]
LIST = probes(X, (0.0, 255.0), 0)


class Paths(NumpyWorker):
    """Also answers on other numeric paths: float64 is refused, the others give what ``other`` makes of the inputs."""

    def __init__(self, model: Callable[[np.ndarray], np.ndarray], other: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        super().__init__(model)
        self.other = other or model

    def call(self, operation: str, parameters: Any = None, arrays: Any = None, *, timeout: float | None = None) -> Any:
        if operation != "numeric_path":
            return super().call(operation, parameters, arrays, timeout=timeout)
        if parameters["path"] == "float64":
            return {"supported": False}, {}
        return {"supported": True}, {"raw": self.other(arrays["x"])}


def probed(worker: Any, *, deterministic: bool = True, begin: Callable[[str], None] = lambda _: None) -> Probed:
    return run_probes(worker, LIST, X, OutputKind.LOGITS, 32, deterministic=deterministic, begin=begin)


def names(done: Probed, oracle: str) -> set[str]:
    return {done.probes[row].name for row in done.tallies[oracle].findings}


def test_a_sound_model_has_no_finding_and_a_path_it_cannot_take_is_named() -> None:
    done = probed(Paths(reads_stripes))
    assert len(done.probes) == len(LIST)
    assert not done.disagreeing
    assert done.tallies["non_finite"].findings == ()
    assert done.untaken == ("float64",)
    assert done.model_calls == 6 * len(LIST) + len(LIST) // 4  # alone, twice as many in company, three paths, and a fourth on the slow one


def test_what_divides_by_the_contrast_breaks_on_blank_probes() -> None:
    def normalised(x: np.ndarray) -> np.ndarray:
        spread = x.reshape(len(x), -1).std(axis=1)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((reads_stripes(x) - 1) / spread * np.where(spread > 0, 1, np.nan), dtype=np.float32)

    done = probed(Paths(normalised))
    assert {"constant-black", "constant-white", "constant-0.5"} <= names(done, "non_finite")
    assert "noise-uniform" not in names(done, "non_finite")


def test_an_answer_that_depends_on_the_company_is_found_on_most_probes() -> None:
    def of_batch(x: np.ndarray) -> np.ndarray:
        return np.asarray(reads_stripes(x) / 5 - reads_stripes(x).mean(axis=0) / 5, dtype=np.float32)

    done = probed(Paths(of_batch))
    assert len(done.tallies["batch_dependence"].findings) > len(LIST) // 2
    assert done.tallies["batch_dependence"].worst is not None
    assert done.tallies["batch_dependence"].worst > 0.01


def test_another_answer_on_a_numeric_path_is_found_the_worst_first() -> None:
    def loses_the_dark(x: np.ndarray) -> np.ndarray:
        dark = x.reshape(len(x), -1).mean(axis=1) < 20
        return np.where(dark[:, None], np.array([9, 0, 0, 0], dtype=np.float32), reads_stripes(x))

    done = probed(Paths(reads_stripes, loses_the_dark))
    found = names(done, "numeric_path:channels_last")
    assert "constant-black" in found
    assert "constant-white" not in found
    assert done.disagreeing == set(done.tallies["numeric_path:channels_last"].findings)
    assert names(done, "numeric_path:bfloat16") <= found


def test_certainty_is_told_of_probes_that_show_nothing_only() -> None:
    def certain(x: np.ndarray) -> np.ndarray:
        return np.tile(np.array([50, 0, 0, 0], dtype=np.float32), (len(x), 1))

    done = probed(Paths(certain))
    found = done.tallies["unjustified_confidence"]
    assert len(found.findings) == found.tried == sum(probe.shows_nothing for probe in LIST)
    assert {done.probes[row].group for row in found.findings} == {"constant", "noise"}


def test_answers_of_a_model_that_is_not_deterministic_are_not_compared() -> None:
    done = probed(Paths(reads_stripes), deterministic=False)
    assert set(done.tallies) == {"crash", "non_finite", "unjustified_confidence"}


def test_probes_that_ran_before_the_time_was_up_count() -> None:
    class Late(Paths):
        def call(self, *arguments: Any, **named: Any) -> Any:
            if len(self.calls) == 5:
                raise BudgetSpent("The budget ended.")
            return super().call(*arguments, **named)

    done = probed(Late(reads_stripes))
    assert (len(done.probes), done.tallies["non_finite"].tried, done.stopped) == (5, 5, "The budget ended.")


@pytest.mark.parametrize(("allowed", "deterministic"), [(60, True), (60, False), (3, True)])
def test_where_time_is_short_the_first_probes_are_answered_and_compared_within_it(allowed: int, deterministic: bool) -> None:
    worker = Paths(reads_stripes)
    spent = 0

    def slow(x: np.ndarray) -> np.ndarray:
        nonlocal spent
        spent += len(x)
        return reads_stripes(x)

    worker.model = worker.other = slow
    late = lambda samples: spent + samples > allowed  # noqa: E731
    done = run_probes(worker, LIST, X, OutputKind.LOGITS, 32, deterministic=deterministic, begin=lambda _: None, late=late)
    assert done.late
    assert spent <= allowed
    assert done.probes == tuple(LIST[: len(done.probes)])
    assert len(done.probes) == (0 if allowed == 3 else 60 // 12 if deterministic else 60)
    assert ("numeric_path:bfloat16" in done.tallies) == (deterministic and allowed > 3)


def test_a_path_that_turns_out_too_slow_is_not_begun() -> None:
    worker = Paths(reads_stripes)
    done = run_probes(
        worker, LIST, X, OutputKind.LOGITS, 32, deterministic=True, begin=lambda _: None, late=lambda _: len(worker.calls) > len(LIST)
    )
    assert done.late
    assert len(done.probes) == len(LIST)
    assert not any(name.startswith("numeric_path") for name in done.tallies)


class Ends(Stripes):
    """Ends its process, or raises, on a picture that is white all over."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x == 1).all()):
            if self.how == "dies":
                os._exit(7)
            raise RuntimeError("division by zero")
        return super().forward(x)


def ends(how: str, folder: Path) -> Path:
    import sys

    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return save(Ends(how).eval(), folder)


def test_the_probe_that_ends_the_process_is_named(tmp_path: Path) -> None:
    doing: list[str] = []
    with Worker(tmp_path / "worker") as own:
        own.call("load", load_parameters(ends("dies", tmp_path / "model")))
        with pytest.raises(WorkerError, match="the probe 'constant-white', alone"):
            probed(own, begin=doing.append)
    assert doing[-1] == "the probe constant-white was answered"


def test_a_probe_that_makes_the_model_raise_is_a_finding_and_is_compared_with_nothing(worker: Worker, tmp_path: Path) -> None:
    worker.call("load", load_parameters(ends("raises", tmp_path / "model")))
    done = probed(worker)
    assert done.answers is not None
    white = {probe.name for probe in LIST if (probe.x == 255).all()}
    assert "constant-white" in names(done, "crash") == white
    assert set(done.answers.raised.values()) == {"RuntimeError: division by zero"}
    assert not names(done, "non_finite")
    assert len(done.probes) == len(LIST)
    assert done.tallies["batch_dependence"].tried == len(LIST) - len(white)


def test_a_model_that_raises_on_every_probe_answers_nothing() -> None:
    def raises(x: np.ndarray) -> np.ndarray:
        raise Refused("ValueError: never")

    with pytest.raises(Refused, match=f"on {MOST_IN_A_ROW} inputs in a row"):
        probed(Paths(raises))


def test_a_comparison_in_which_the_model_raises_is_left_out_and_told() -> None:
    def alone(x: np.ndarray) -> np.ndarray:
        if len(x) > 1:
            raise Refused("ValueError: one at a time")
        return reads_stripes(x)

    done = probed(Paths(alone))
    assert done.stopped == "the model raised where answers were compared: ValueError: one at a time"
    assert len(done.probes) == len(LIST)
    assert not done.compared


def test_an_oracle_that_is_off_is_not_asked() -> None:
    off = {"crash": False, "numeric_path": False, "batch_dependence": False, "unjustified_confidence": False}
    begin = lambda _: None  # noqa: E731
    switches = Switches.model_validate(off)
    done = run_probes(Paths(reads_stripes), LIST, X, OutputKind.LOGITS, 32, deterministic=True, begin=begin, switches=switches)
    assert set(done.tallies) == {"non_finite"}


def test_a_real_model_takes_every_path_and_stays_as_it_is(worker: Worker, tmp_path: Path) -> None:
    worker.call("load", load_parameters(save(Stripes().eval(), tmp_path / "model")))
    before = worker.call("forward", {}, {"x": X})[1]["raw"]
    done = probed(worker)
    assert done.untaken == ("channels_last",) or not done.untaken
    assert not done.disagreeing
    assert worker.call("forward", {}, {"x": X})[1]["raw"].tobytes() == before.tobytes()
    bfloat = done.tallies["numeric_path:bfloat16"].worst
    double = done.tallies["numeric_path:float64"].worst
    assert bfloat is not None
    assert double is not None
    assert bfloat > double  # the paths are really other ones


@pytest.mark.parametrize(
    ("budget", "allowed", "run", "reason"),
    [
        ({"wall": "100s"}, 100, 100 // 12, "share of the time (10.0%) pays for 8"),
        ({"device": "20s", "wall": "100s"}, 20, 20 // 12, "share of the time (10.0%) pays for 1"),
        ({"wall": "100s", "executions": 50}, 12 * 5, 5, "share of the executions (10.0%) pays for 5"),
        ({"device": "5s"}, 0, 0, "10.0% of the time is less than one probe"),
    ],
)
def test_probes_keep_to_their_share_of_whatever_limits_the_run(
    budget: dict[str, Any], allowed: int, run: int, reason: str, tmp_path: Path
) -> None:
    """On a model that takes a tenth of a second for a sample, with a tenth of the budget."""
    spent = 0

    def slow(x: np.ndarray) -> np.ndarray:
        nonlocal spent
        spent += len(x)
        return reads_stripes(x)

    class Clock(Budget):
        @property
        def seconds(self) -> float:
            return 0.1 * spent

    work: Any = SimpleNamespace(
        seeds=SimpleNamespace(x=X),
        campaign=SimpleNamespace(outcome=SimpleNamespace(counts={}, unconfirmed=0, crashes=0)),
        policy=SimpleNamespace(policy=SimpleNamespace(arms=SimpleNamespace(probes=0.1), oracles=Switches())),
        settings=SimpleNamespace(seed=0, batch_size=32),
        budget=Clock(BudgetSettings.model_validate(budget)),
        deadline=SimpleNamespace(begin=lambda _: None),
        events=EventLog(None),
        confirmer=SimpleNamespace(defects=[]),
        folder=SimpleNamespace(path=tmp_path),
        seconds_per_sample=0.1,
    )
    preflight: Any = SimpleNamespace(output_kind=OutputKind.LOGITS, deterministic=True)
    worker: Any = Paths(slow, slow)
    opening._probe(work, worker, ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0)), preflight, (0.0, 255.0))
    assert work.probes.run == run
    assert reason in work.probes.reason
    assert "a larger share (arms.probes)" in work.probes.reason  # what would help
    assert spent <= allowed
