"""What the supervisor believes of a worker: every answer is held to its request and to what earlier answers settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gate.campaign.answers import Answers
from gate.errors import ConfigError, GateError, InputShapeError, ModelError, WorkerError

SENT = {"x": np.zeros((3, 8, 8, 1), dtype=np.uint8), "earns": np.array([True, True, False])}
NEW = np.array([2, 1, 0], dtype=np.int64)
PARAMETERS: dict[str, dict[str, Any]] = {
    "watch": {"coverage": {"criteria": ["kmnc"], "kmnc_sections": 10}},
    "open_arms": {"arms": ["search", "noise"]},
    "run": {"arm": "search"},
}


def raw(rows: int = 3, columns: int = 4, dtype: type = np.float32) -> np.ndarray:
    return np.zeros((rows, columns), dtype=dtype)


def good(operation: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    said: dict[str, tuple[dict[str, Any], dict[str, np.ndarray]]] = {
        "load": ({"training": [], "parameters": 5, "fingerprint": {"torch": "2", "device": "cpu", "threads": 2, "python": "3"}}, {}),
        "describe": ({"first_layer": None, "model_input": "[3]", "model_calls": 3}, {}),
        "forward": ({}, {"raw": raw()}),
        "features": ({"head": "fc"}, {"features": raw(columns=7)}),
        "watch": ({"layers": {"a": 2}, "gradients": True}, {}),
        "profile": ({}, {}),
        "cover_seeds": ({}, {}),
        "open_arms": ({"coverage": {"kmnc": 0.1}}, {}),
        "run": ({"valid": {"kmnc": 0.2}, "raw": {"kmnc": 0.3}}, {"raw": raw(), "new_items": NEW}),
        "coverage": ({"criteria": {"kmnc": {"covered": 2, "total": 20, "by_layer": {"a": 0.1}, "nonfinite": 0}}}, {}),
        "coverage_state": ({"state": {"kmnc": {"format": 1}}}, {"kmnc.state": raw()}),
        "mutate": ({}, {"x": SENT["x"].copy()}),
    }
    return said[operation]


def ask(answers: Answers, operation: str, fields: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    answers.check(operation, PARAMETERS.get(operation, {}), SENT, fields, arrays)


def after(last: str) -> Answers:
    """The state after a campaign that went well up to and including ``last``."""
    answers = Answers()
    for operation in ("load", "describe", "forward", "watch", "profile", "cover_seeds", "open_arms", "run", "features", "mutate"):
        ask(answers, operation, *good(operation))
        if operation == last:
            break
    return answers


def test_an_ordinary_campaign_is_believed() -> None:
    answers = after("mutate")
    for operation in ("run", "run", "coverage", "coverage_state", "describe", "forward"):
        ask(answers, operation, *good(operation))


Change = Callable[[dict[str, Any], dict[str, np.ndarray]], object]


@pytest.mark.parametrize(
    ("operation", "change"),
    [
        pytest.param("run", lambda f, a: f["valid"].update(kmnc=5.0), id="coverage above one"),
        pytest.param("run", lambda f, a: f["valid"].update(kmnc=-0.1), id="coverage below zero"),
        pytest.param("run", lambda f, a: f["valid"].update(kmnc=0.15), id="coverage that falls"),
        pytest.param("run", lambda f, a: f["valid"].update(kmnc=float("inf")), id="infinite coverage"),
        pytest.param("run", lambda f, a: f["valid"].update(kmnc="0.2"), id="coverage in words"),
        pytest.param("run", lambda f, a: f["valid"].update(kmnc=True), id="coverage that is a bool"),
        pytest.param("run", lambda f, a: f["valid"].pop("kmnc"), id="no coverage"),
        pytest.param("run", lambda f, a: f["valid"].update(nbc=0.5), id="a criterion that nobody asked for"),
        pytest.param("run", lambda f, a: f["raw"].update(kmnc=0.1), id="less raw than valid coverage"),
        pytest.param("run", lambda f, a: f.update(defects=0), id="one field too many"),
        pytest.param("run", lambda f, a: a.pop("raw"), id="no outputs"),
        pytest.param("run", lambda f, a: a.update(raw=raw(rows=2)), id="a row too few"),
        pytest.param("run", lambda f, a: a.update(raw=raw(columns=5)), id="a column too many"),
        pytest.param("run", lambda f, a: a.update(raw=raw(dtype=np.float64)), id="outputs of another dtype"),
        pytest.param("run", lambda f, a: a.update(raw=np.zeros(3, np.float32)), id="outputs without columns"),
        pytest.param("run", lambda f, a: a.pop("new_items"), id="no new items"),
        pytest.param("run", lambda f, a: a.update(new_items=NEW[:2]), id="new items of fewer rows"),
        pytest.param("run", lambda f, a: a.update(new_items=NEW.astype(np.float64)), id="new items in fractions"),
        pytest.param("run", lambda f, a: a.update(new_items=-NEW), id="negative new items"),
        pytest.param("run", lambda f, a: a.update(new_items=NEW * 2**40), id="endless new items"),
        pytest.param("run", lambda f, a: a.update(new_items=np.array([18, 0, 0])), id="more items in all than there are"),
        pytest.param("run", lambda f, a: a.update(new_items=NEW[::-1].copy()), id="items of a mutant that earns none"),
        pytest.param("forward", lambda f, a: a.clear(), id="forward without outputs"),
        pytest.param("forward", lambda f, a: a.update(raw=raw(columns=3)), id="forward with a column too few"),
        pytest.param("forward", lambda f, a: a.update(file=raw()), id="forward with one tensor too many"),
        pytest.param("features", lambda f, a: a.update(features=raw(columns=8)), id="features of another width"),
        pytest.param("features", lambda f, a: a.update(features=raw(rows=1)), id="features of other rows"),
        pytest.param("mutate", lambda f, a: a.update(x=a["x"][:1]), id="a mutant too few"),
        pytest.param("mutate", lambda f, a: a.update(x=a["x"].astype(np.float32)), id="mutants of another dtype"),
        pytest.param("describe", lambda f, a: f.update(model_calls=-1), id="fewer calls than none"),
        pytest.param("describe", lambda f, a: f.update(model_calls=10**30), id="more calls than can be"),
        pytest.param("describe", lambda f, a: f.update(first_layer=[1]), id="a layer that is no text"),
        pytest.param("coverage", lambda f, a: f["criteria"]["kmnc"].update(covered=21), id="more covered than there is"),
        pytest.param("coverage", lambda f, a: f["criteria"]["kmnc"]["by_layer"].update(a=1.5), id="more than a whole layer"),
        pytest.param("coverage", lambda f, a: f["criteria"].clear(), id="no criteria"),
        pytest.param("coverage_state", lambda f, a: a.update({"kmnc./../../x": raw()}), id="a file name as a tensor's"),
        pytest.param("coverage_state", lambda f, a: a.update(file=raw()), id="a tensor of no criterion"),
        pytest.param("coverage_state", lambda f, a: f["state"]["kmnc"].update(low=[1, {"a": float("inf")}]), id="infinity far inside"),
        pytest.param("open_arms", lambda f, a: f["coverage"].update(kmnc=1.01), id="seeds that cover more than all"),
        pytest.param("watch", lambda f, a: f.update(layers={}), id="no layers"),
        pytest.param("watch", lambda f, a: f.update(layers={"a": 0}), id="a layer without neurons"),
        pytest.param("watch", lambda f, a: f.update(gradients="yes"), id="gradients in words"),
        pytest.param("load", lambda f, a: f.update(training="yes"), id="training in words"),
        pytest.param("load", lambda f, a: f.update(fingerprint={}), id="no fingerprint"),
        pytest.param("profile", lambda f, a: f.update(done=True), id="more than nothing"),
    ],
)
def test_an_answer_that_can_not_be_true_is_the_workers_fault(operation: str, change: Change) -> None:
    answers = after("mutate")
    fields, arrays = good(operation)
    change(fields, arrays)
    with pytest.raises(WorkerError, match=f"answer to '{operation}' can't be true") as caught:
        ask(answers, operation, fields, arrays)
    assert caught.value.exit_code == 3


def test_another_model_in_the_same_worker_may_have_other_columns() -> None:
    answers = after("mutate")
    ask(answers, "load", *good("load"))
    ask(answers, "forward", {}, {"raw": raw(columns=2)})


@pytest.mark.parametrize(
    ("kind", "operation", "becomes"),
    [
        ("ModelError", "load", ModelError),
        ("ModelError", "features", ModelError),
        ("ConfigError", "load", ConfigError),
        ("ConfigError", "watch", ConfigError),
        ("InputShapeError", "forward", InputShapeError),
        ("ConfigError", "mutate", WorkerError),
        ("InputShapeError", "coverage", WorkerError),
        ("EvidenceError", "forward", WorkerError),
        ("DataError", "load", WorkerError),
        ("OutputError", "run", WorkerError),
        ("RegistryError", "run", WorkerError),
        ("AssertionError", "run", WorkerError),
    ],
)
def test_only_some_errors_are_the_workers_to_report(kind: str, operation: str, becomes: type[GateError]) -> None:
    made = Answers().error(operation, {"kind": kind, "what": "x" * 100_000, "where": ["a"], "hint": None})
    assert type(made) is becomes
    assert len(str(made)) < 10_000
