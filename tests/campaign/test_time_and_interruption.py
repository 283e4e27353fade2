"""The whole pipeline when the time is up or somebody says stop, stage by stage: the record is there, and it says what happened."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from known_model import CLASSES, TRAP, write_npz
from saved_models import Stripes, save
from torch import Tensor

from gate import pipeline
from gate.campaign.budget import Budget
from gate.config import BudgetSettings, Settings
from gate.pipeline import Outcome, run
from gate.result import Result, Verdict

cloudpickle.register_pickle_by_value(sys.modules[__name__])

Event = dict[str, Any]


class Tired(Stripes):
    """Takes its time once its file says so."""

    def __init__(self, file: Path, trap: float | None = None) -> None:
        super().__init__(trap)
        self.file = str(file)

    def forward(self, x: Tensor) -> Tensor:
        import time
        from pathlib import Path

        if Path(self.file).exists():
            time.sleep(30)
        return super().forward(x)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("time")
    write_npz(base / "seeds.npz")
    write_npz(base / "tail.npz", 60)
    save(Stripes(trap=TRAP).eval(), base / "trapped")
    save(Tired(base / "tired.now", trap=TRAP).eval(), base / "tired")
    return base


@pytest.fixture(autouse=True)
def _awake(place: Path) -> None:
    (place / "tired.now").unlink(missing_ok=True)


def settings(place: Path, out: Path, model: str = "trapped", **changes: Any) -> Settings:
    said = {
        "model": str(place / model),
        "classes": CLASSES,
        "data": {"seeds": str(place / "seeds.npz")},
        "budget": {"executions": 60},
        "coverage": {"layers": ("hidden",), "criteria": ("kmnc",)},
        "previous": "none",
        "policy": "smoke",
        "device": "cpu",
        "batch_size": 16,
        "publish": False,
        "out": str(out),
    }
    return Settings.model_validate({**said, **changes})


@pytest.fixture(scope="module")
def earlier(place: Path) -> Path:
    """A finished run with defects."""
    outcome = run(settings(place, place / "earlier", budget={"executions": 600}))
    assert outcome.result.defects
    return outcome.folder


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[Event], None]]:
    """An observer that does something when a phase begins; ``wall`` leaves so many seconds of a wall budget from then on."""
    budgets: list[Budget] = []

    class Watched(Budget):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            budgets.append(self)

    monkeypatch.setattr(pipeline, "Budget", Watched)

    def make(phase: str, do: Callable[[], Any] | None = None, *, wall: float | None = None) -> Callable[[Event], None]:
        def observe(event: Event) -> None:
            if event["event"] == "phase" and event["name"] == phase:
                if wall is not None:
                    budgets[-1].settings = BudgetSettings.model_validate({"wall": f"{budgets[-1].seconds + wall}s"})
                if do is not None:
                    do()

        return observe

    return make


def events(out: Path) -> list[Event]:
    return [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]


def whole(outcome: Outcome) -> Result:
    """The record, which every rendering is there for."""
    for name in ("report.html", "junit.xml", "summary.md", "metrics.txt"):
        assert (outcome.folder / name).stat().st_size > 0
    assert Result.load(outcome.folder) == outcome.result
    return outcome.result


def test_a_batch_that_never_ends_is_dropped_when_the_wall_is_there_and_the_rest_is_judged(
    place: Path, tmp_path: Path, at: Callable[..., Any]
) -> None:
    begun: list[float] = []

    def tire(event: Event) -> None:
        if event["event"] == "step" and event["step"] == 3:
            begun.append(time.monotonic())
            (place / "tired.now").touch()

    measured = {"layers": ("hidden",), "criteria": ("kmnc", "tknp", "nlc")}
    chosen = settings(place, tmp_path / "out", "tired", budget={"executions": 100_000}, coverage=measured)
    result = whole(run(chosen, observers=[at("fuzz", wall=5.0), tire]))
    assert time.monotonic() - begun[0] < 8
    assert result.verdict is not Verdict.ERROR
    assert result.campaign is not None
    assert result.campaign.stop_reason == "wall"
    assert not result.partial
    stepped = sum(event["of"] for event in events(tmp_path / "out") if event["event"] == "step")
    opened = sum(result.campaign.arms[arm].executions for arm in ("probes", "marks"))
    assert result.campaign.executions == stepped + opened > opened > 0
    assert result.rules
    # The worker took its map with it; the counts follow from the values that it told step by step.
    kmnc, tknp, nlc = (result.coverage[name] for name in ("kmnc", "tknp", "nlc"))
    assert kmnc.total is not None
    assert kmnc.covered / kmnc.total == pytest.approx(kmnc.final)
    assert tknp.covered == tknp.final > 0
    assert nlc.covered == result.data["seeds"].samples + result.campaign.arms["search"].valid
    assert result.metrics["executions"].value == stepped > 0  # neither probes nor marks are mutants
    coverage = result.coverage["kmnc"]
    assert coverage.covered == round((coverage.total or 0) * coverage.final) > 0


def test_a_model_that_is_too_slow_to_be_checked_is_inconclusive(place: Path, tmp_path: Path, at: Callable[..., Any]) -> None:
    begun: list[float] = []

    def tire() -> None:
        begun.append(time.monotonic())
        (place / "tired.now").touch()

    result = whole(run(settings(place, tmp_path / "out", "tired"), observers=[at("preflight", tire, wall=3.0)]))
    assert time.monotonic() - begun[0] < 7
    assert (result.verdict, result.exit_code) == (Verdict.INCONCLUSIVE, 4)
    assert "ended while the model was checked; nothing was fuzzed" in result.reasons[0]
    assert not result.partial


def test_what_triage_has_no_time_for_is_missing_with_its_reason(place: Path, tmp_path: Path, earlier: Path, at: Callable[..., Any]) -> None:
    chosen = settings(
        place,
        tmp_path / "out",
        "tired",
        data={"seeds": str(place / "seeds.npz"), "long_tail": str(place / "tail.npz")},
        previous=str(earlier),
    )
    begun: list[float] = []

    def tire() -> None:
        begun.append(time.monotonic())
        (place / "tired.now").touch()

    result = whole(run(chosen, observers=[at("triage", tire, wall=2.0)]))
    assert time.monotonic() - begun[0] < 8
    assert result.verdict is not Verdict.ERROR
    for name, what in (
        ("regression_rate", "the earlier run was replayed"),
        ("long_tail_hit_rate", "the long-tail set was compared"),
        ("long_tail_accuracy", "the long-tail set was compared"),
    ):
        assert result.metrics[name].value is None
        assert result.metrics[name].reason == f"the budget ended before {what}"
    assert result.campaign is not None
    assert result.campaign.executions == 60
    assert not result.partial


@pytest.mark.parametrize("phase", ["data", "load", "preflight", "fuzz", "triage"])
def test_a_stop_is_heard_in_every_stage(place: Path, tmp_path: Path, earlier: Path, at: Callable[..., Any], phase: str) -> None:
    asked: list[float] = []

    def stop() -> bool:
        return bool(asked)

    def ask() -> None:
        asked.append(time.monotonic())
        (place / "tired.now").touch()

    chosen = settings(place, tmp_path / "out", "tired", previous=str(earlier))
    result = whole(run(chosen, observers=[at(phase, ask)], stop=stop))
    assert time.monotonic() - asked[0] < 6
    assert (result.verdict, result.exit_code, result.partial) == (Verdict.INCONCLUSIVE, 4, True)
    assert "interrupted" in result.reasons[0]
    if phase == "triage":
        assert result.metrics["regression_rate"].reason == "the run was interrupted before the earlier run was replayed"
    assert (result.campaign is None) == (phase in ("data", "load", "preflight"))


@pytest.mark.parametrize("phase", ["fetch", "preflight", "fuzz", "report", "publish"])
def test_one_who_does_not_want_to_wait_leaves_no_verdict_but_that(place: Path, tmp_path: Path, at: Callable[..., Any], phase: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    chosen = settings(place, out, publish=phase == "publish", tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    with pytest.raises(KeyboardInterrupt):
        run(chosen, observers=[at(phase, interrupt)])
    result = Result.load(out)
    assert (result.verdict, result.exit_code, result.partial) == (Verdict.INCONCLUSIVE, 4, True)
    assert "interrupted" in result.reasons[0]
    assert (out / "report.html").stat().st_size > 0
    assert "inconclusive" in (out / "summary.md").read_text().lower()
    if phase in ("fuzz", "report", "publish"):
        assert result.campaign is not None
        assert result.campaign.stop_reason == ("interrupted" if phase == "fuzz" else "executions")


def test_the_events_tell_of_the_device_and_of_every_defect(earlier: Path) -> None:
    log = events(earlier)
    result = Result.load(earlier)
    assert [event["event"] for event in log].count("device") == 1
    names = [event.get("name") if event["event"] == "phase" else event["event"] for event in log]
    assert names.index("load") < names.index("device") < names.index("preflight")
    told = {event["id"]: event for event in log if event["event"] == "defect"}
    assert set(told) == {defect.id for defect in result.defects}
    for defect in result.defects:
        event = told[defect.id]
        assert (event["arm"], event["label"], event["predicted"]) == (defect.arm, defect.label, defect.predicted)
        assert tuple(event["families"]) == defect.families
