"""What the supervisor believes of a worker: every answer is held to its request and to what earlier answers settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gate.campaign.answers import Answers
from gate.coverage.roaring import pack
from gate.errors import ConfigError, GateError, InputShapeError, ModelError, WorkerError

SENT = {"x": np.zeros((3, 8, 8, 1), dtype=np.uint8), "earns": np.array([True, True, False])}
NEW = np.array([2.0, 1.0, 0.0])
SIGNED = np.array([5, -6, 0])
LAYER = {"name": "a", "type": "torch.nn.Linear", "neurons": 2, "head": False, "low": -1.0, "high": 2.5, "constant": 1}
ESTIMATE = {"executions": 2, "chance": 0.5, "seen": 0.9}
PARAMETERS: dict[str, dict[str, Any]] = {
    "watch": {"coverage": {"criteria": ["kmnc"], "kmnc_sections": 10}},
    "open_arms": {"arms": ["search", "noise"]},
    "run": {"arm": "search"},
}


def raw(rows: int = 3, columns: int = 4, dtype: type = np.float32) -> np.ndarray:
    return np.zeros((rows, columns), dtype=dtype)


def bitmap(numbers: list[int], size: int = 20) -> np.ndarray:
    bits = np.zeros(size, dtype=bool)
    bits[numbers] = True
    return np.frombuffer(pack(bits), dtype=np.uint8)


def kept(fields: dict[str, Any]) -> dict[str, Any]:
    """What is said of the one criterion."""
    described: dict[str, Any] = fields["criteria"]["kmnc"]
    return described


def good(operation: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    said: dict[str, tuple[dict[str, Any], dict[str, np.ndarray]]] = {
        "load": (
            {"training": [], "parameters": 5, "fingerprint": {"torch": "2", "device": "cpu", "threads": 2, "python": "3", "amp": "off"}},
            {},
        ),
        "describe": (
            {"first_layer": None, "model_input": "[3]", "model_calls": 3, "compile": "off", "micro_batch": None, "gradient_batch": 4},
            {},
        ),
        "forward": ({}, {"raw": raw()}),
        "features": ({"head": "fc"}, {"features": raw(columns=7)}),
        "watch": ({"layers": {"a": 2}, "gradients": True, "steerable": True}, {}),
        "profile": ({}, {}),
        "cover_seeds": ({}, {}),
        "open_arms": ({"coverage": {"kmnc": 0.1}, "layers": [dict(LAYER)]}, {}),
        "run": (
            {"valid": {"kmnc": 0.2}, "raw": {"kmnc": 0.3}, "discovery": {"kmnc": dict(ESTIMATE)}},
            {"raw": raw(), "new_items": NEW, "added": NEW[:, None], "signature": SIGNED},
        ),
        "restore": ({}, {}),
        "items": ({}, {"kmnc": np.array([[0, 0, 2], [7, 9, 7]])}),
        "coverage": (
            {
                "criteria": {
                    "kmnc": {
                        "covered": 4,
                        "total": 20,
                        "by_layer": {"a": 0.2},
                        "by_class": [],
                        "nonfinite": 0,
                        "unreached": [{"place": "a", "items": 16, "total": 20, "untouched": 1, "examples": ["neuron 0: section 3 of 10"]}],
                    }
                }
            },
            {},
        ),
        "coverage_state": (
            {
                "criteria": {
                    "kmnc": {
                        "criterion": "kmnc",
                        "options": {"sections": 10},
                        "layers": {"a": 2},
                        "begun": True,
                        "state": 2,
                        "parts": {"hit": {"kind": "items", "size": 20}, "low": {"kind": "numbers", "dtype": "float32", "shape": [2]}},
                    }
                }
            },
            {"kmnc/hit": bitmap([1, 12]), "kmnc/low": np.zeros(2, np.float32)},
        ),
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
        pytest.param("run", lambda f, a: a.update(signature=SIGNED[:2]), id="signatures of fewer rows"),
        pytest.param("run", lambda f, a: a.update(signature=SIGNED.astype(np.float64)), id="signatures in fractions"),
        pytest.param("run", lambda f, a: a.update(signature=SIGNED[::-1].copy()), id="signature of a mutant that earns none"),
        pytest.param("items", lambda f, a: a.pop("kmnc"), id="items of no criterion"),
        pytest.param("items", lambda f, a: a.update(kmnc=a["kmnc"] + [[3], [0]]), id="items of a row that was not sent"),
        pytest.param("items", lambda f, a: a.update(kmnc=a["kmnc"] * -1), id="items below zero"),
        pytest.param("items", lambda f, a: a.update(kmnc=a["kmnc"][:1]), id="items without samples"),
        pytest.param("run", lambda f, a: a.update(new_items=NEW[:2]), id="new items of fewer rows"),
        pytest.param("run", lambda f, a: a.update(new_items=NEW / 2, added=NEW[:, None] / 2), id="new items in fractions"),
        pytest.param("run", lambda f, a: a.pop("added"), id="no items by criterion"),
        pytest.param("run", lambda f, a: a.update(added=NEW), id="items by criterion without columns"),
        pytest.param("run", lambda f, a: a.update(added=NEW[:, None].astype(np.int64)), id="items by criterion of another dtype"),
        pytest.param("run", lambda f, a: a.update(added=np.full((3, 1), np.inf)), id="items by criterion without end"),
        pytest.param("run", lambda f, a: a.update(added=NEW[:, None] * 0), id="items by criterion that add up to another number"),
        pytest.param("run", lambda f, a: a.update(added=np.array([[2.0], [1.0], [-1.0]])), id="items by criterion of one that earns none"),
        pytest.param("run", lambda f, a: a.update(new_items=NEW.astype(np.int64)), id="new items of another dtype"),
        pytest.param("run", lambda f, a: a.update(new_items=NEW * np.nan), id="new items that are no numbers"),
        pytest.param("run", lambda f, a: a.update(new_items=np.array([3.0, 0.0, 0.0])), id="more items than one mutant can cover"),
        pytest.param("run", lambda f, a: f.pop("discovery"), id="no estimates"),
        pytest.param("run", lambda f, a: f["discovery"].pop("kmnc"), id="a criterion without an estimate"),
        pytest.param("run", lambda f, a: f["discovery"]["kmnc"].update(chance=1.1), id="a chance above one"),
        pytest.param("run", lambda f, a: f["discovery"]["kmnc"].update(seen=-0.1), id="less than nothing seen"),
        pytest.param("run", lambda f, a: f["discovery"]["kmnc"].update(executions=5), id="an estimate from mutants that earn none"),
        pytest.param("run", lambda f, a: f["discovery"]["kmnc"].pop("chance"), id="an estimate without a chance"),
        pytest.param("run", lambda f, a: f["valid"].update(kmnc=10**400), id="a number that no float can hold"),
        pytest.param("run", lambda f, a: a.update(new_items=-NEW), id="negative new items"),
        pytest.param("run", lambda f, a: a.update(new_items=NEW * 2**40), id="endless new items"),
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
        pytest.param("describe", lambda f, a: f.update(compile=True), id="compiled without a word"),
        pytest.param("describe", lambda f, a: f.update(micro_batch=0), id="batches of nothing"),
        pytest.param("describe", lambda f, a: f.update(gradient_batch="4"), id="a size in words"),
        pytest.param("coverage", lambda f, a: f["criteria"]["kmnc"].update(covered=21), id="more covered than there is"),
        pytest.param("coverage", lambda f, a: f["criteria"]["kmnc"]["by_layer"].update(a=1.5), id="more than a whole layer"),
        pytest.param("coverage", lambda f, a: f["criteria"].clear(), id="no criteria"),
        pytest.param("coverage", lambda f, a: kept(f).update(covered=5, unreached=[]), id="more items than its share of them"),
        pytest.param("coverage", lambda f, a: kept(f).update(total=None, unreached=[]), id="a share of no number"),
        pytest.param("coverage", lambda f, a: kept(f).update(by_class=[0.5]), id="classes of a criterion that has none"),
        pytest.param("coverage", lambda f, a: f["criteria"]["kmnc"].update(by_class={"0": 1}), id="classes that are no list"),
        pytest.param("coverage", lambda f, a: kept(f)["unreached"][0].update(place="b"), id="a place that is no layer"),
        pytest.param("coverage", lambda f, a: kept(f)["unreached"][0].update(place=["a"]), id="a place that is a list"),
        pytest.param("coverage", lambda f, a: kept(f)["unreached"][0].update(items=19), id="more left than is not covered"),
        pytest.param("coverage", lambda f, a: kept(f)["unreached"][0].update(untouched=3), id="more neurons untouched than there are"),
        pytest.param("coverage", lambda f, a: kept(f)["unreached"][0].update(examples=["x"] * 6), id="endless examples"),
        pytest.param("coverage", lambda f, a: kept(f)["unreached"][0].update(examples=["x" * 301]), id="an endless example"),
        pytest.param("coverage", lambda f, a: kept(f).update(unreached=kept(f)["unreached"] * 13), id="endless places"),
        pytest.param("coverage_state", lambda f, a: a.update({"kmnc/../../x": raw()}), id="a file name as a tensor's"),
        pytest.param(
            "coverage_state", lambda f, a: kept(f)["parts"].update({"../x": {"kind": "value", "value": 1}}), id="a path as a part"
        ),
        pytest.param("coverage_state", lambda f, a: a.update(file=raw()), id="a tensor of no criterion"),
        pytest.param("coverage_state", lambda f, a: kept(f)["options"].update(x=[1, {"a": float("inf")}]), id="infinity far inside"),
        pytest.param("coverage_state", lambda f, a: kept(f).update(layers={"a": 3}), id="a map of other layers"),
        pytest.param("coverage_state", lambda f, a: kept(f).update(criterion="nbc"), id="a map of another criterion"),
        pytest.param("coverage_state", lambda f, a: a.update({"kmnc/hit": bitmap([30], 40)}), id="an item beyond those there are"),
        pytest.param("coverage_state", lambda f, a: a.update({"kmnc/hit": a["kmnc/hit"][:-1]}), id="a set that is cut off"),
        pytest.param("coverage_state", lambda f, a: a.update({"kmnc/low": np.zeros(3, np.float32)}), id="a tensor of another shape"),
        pytest.param("open_arms", lambda f, a: f["coverage"].update(kmnc=1.01), id="seeds that cover more than all"),
        pytest.param("open_arms", lambda f, a: f.update(layers=[]), id="no ranges"),
        pytest.param("open_arms", lambda f, a: f["layers"][0].update(name="b"), id="the range of another layer"),
        pytest.param("open_arms", lambda f, a: f["layers"][0].update(neurons=3), id="the range of more neurons"),
        pytest.param("open_arms", lambda f, a: f["layers"][0].update(constant=3), id="more constant neurons than there are"),
        pytest.param("open_arms", lambda f, a: f["layers"][0].update(low=3.0), id="a range that ends below its beginning"),
        pytest.param("open_arms", lambda f, a: f["layers"][0].update(low=None), id="half a range"),
        pytest.param("open_arms", lambda f, a: f["layers"][0].update(high="much"), id="a range in words"),
        pytest.param("open_arms", lambda f, a: f["layers"][0].update(type=5), id="a layer's type in numbers"),
        pytest.param("watch", lambda f, a: f.update(layers={}), id="no layers"),
        pytest.param("watch", lambda f, a: f.pop("steerable"), id="not a word on steering"),
        pytest.param("watch", lambda f, a: f.update(layers={"a": 0}), id="a layer without neurons"),
        pytest.param("watch", lambda f, a: f.update(gradients="yes"), id="gradients in words"),
        pytest.param("load", lambda f, a: f.update(training="yes"), id="training in words"),
        pytest.param("load", lambda f, a: f.update(fingerprint={}), id="no fingerprint"),
        pytest.param("load", lambda f, a: f["fingerprint"].update(amp=16), id="a precision that is no text"),
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


def guided(criteria: list[str], **settings: Any) -> Answers:
    """The state before a campaign with these criteria on two layers, four columns, and the search's arm open."""
    answers = Answers()
    ask(answers, "load", *good("load"))
    ask(answers, "forward", *good("forward"))
    layers = [{**LAYER, "name": name, "neurons": 5} for name in ("a", "b")]
    fields = {"layers": {"a": 5, "b": 5}, "gradients": True, "steerable": False}
    answers.check("watch", {"coverage": {"criteria": criteria, **settings}}, SENT, fields, {})
    answers.check("open_arms", {"arms": ["search"]}, {}, {"coverage": dict.fromkeys(criteria, 0), "layers": layers}, {})
    return answers


def run(answers: Answers, values: dict[str, float], new: list[float], raw_values: dict[str, float] | None = None) -> None:
    fields = {"valid": values, "raw": raw_values or values, "discovery": dict.fromkeys(values)}
    added = np.zeros((3, len(values)))
    added[:, 0] = new
    made = {"raw": raw(), "new_items": np.array(new, dtype=np.float64), "added": added, "signature": SIGNED}
    answers.check("run", {"arm": "search"}, SENT, fields, made)


def test_what_does_not_guide_takes_no_items_away_either() -> None:
    answers = guided(["kmnc", "nbc"], guide=["kmnc"])
    fields: dict[str, Any] = {
        "valid": {"kmnc": 0.0, "nbc": 0.0},
        "raw": {"kmnc": 0.0, "nbc": 0.0},
        "discovery": {"kmnc": None, "nbc": None},
    }
    added = np.array([[0.0, -1.0], [0.0, 0.0], [0.0, 0.0]])
    made = {"raw": raw(), "new_items": np.zeros(3), "added": added, "signature": SIGNED}
    with pytest.raises(WorkerError, match="items taken away"):
        answers.check("run", {"arm": "search"}, SENT, fields, made)


def test_a_count_is_whole_and_grows_beyond_one() -> None:
    answers = guided(["tknp"])
    run(answers, {"tknp": 4}, [2, 2, 0])
    run(answers, {"tknp": 4.0}, [0, 0, 0])
    for wrong in (3, 4.5, -1):
        with pytest.raises(WorkerError, match="tknp"):
            run(answers, {"tknp": wrong}, [0, 0, 0])


@pytest.mark.parametrize(
    ("criterion", "value", "right", "wrong"),
    [
        ("tknp", 4, {"covered": 4, "total": None}, {"covered": 5, "total": None}),
        ("tknp", 4, {"covered": 4, "total": None}, {"covered": 4, "total": 8}),
        ("output", 0.25, {"covered": 10, "total": 40, "by_class": [0.25] * 4}, {"covered": 10, "total": 40, "by_class": [0.25] * 5}),
        ("nlc", 0.5, {"covered": 3, "total": None}, {"covered": 3, "total": 3}),
    ],
)
def test_what_was_covered_adds_up_to_the_value_of_the_last_batch(
    criterion: str, value: float, right: dict[str, Any], wrong: dict[str, Any]
) -> None:
    answers = guided([criterion])
    run(answers, {criterion: value}, [0, 0, 0])
    plain = {"by_layer": {}, "by_class": [], "nonfinite": 0, "unreached": []}
    answers.check("coverage", {}, {}, {"criteria": {criterion: plain | right}}, {})
    with pytest.raises(WorkerError, match="can't be true"):
        answers.check("coverage", {}, {}, {"criteria": {criterion: plain | wrong}}, {})


def test_a_statistic_may_fall_and_its_gain_is_no_whole_number() -> None:
    answers = guided(["nlc"])
    run(answers, {"nlc": 1234.5}, [0.25, 1e6, 0])
    run(answers, {"nlc": -3.0}, [0, 0, 0], {"nlc": -5.0})
    with pytest.raises(WorkerError, match="out of range"):
        run(answers, {"nlc": 1.0}, [-0.5, 0, 0])


@pytest.mark.parametrize(
    ("criterion", "settings", "once"),
    [
        ("nc", {}, 10),
        ("kmnc", {}, 10),
        ("nbc", {}, 10),
        ("snac", {}, 10),
        ("tknc", {"tknc_k": 3}, 6),
        ("tknp", {}, 2),
        ("tknp", {"tknp_joint": True}, 1),
        ("map", {}, 1),
        ("map", {"map_window": 1}, 2),
        ("output", {}, 1),
        ("lsa", {}, 1),
        ("dsa", {}, 1),
        ("mdsa", {}, 1),
    ],
)
def test_one_mutant_covers_no_more_than_its_activations_can(criterion: str, settings: dict[str, Any], once: int) -> None:
    value = {criterion: 0 if criterion in ("tknp", "map") else 0.0}
    run(guided([criterion], **settings), value, [once, 0, 0])
    with pytest.raises(WorkerError, match="that one mutant can cover"):
        run(guided([criterion], **settings), value, [once + 1, 0, 0])


@pytest.mark.parametrize(
    ("criterion", "settings", "items"),
    [
        ("nc", {}, 10),
        ("kmnc", {"kmnc_sections": 2}, 20),
        ("nbc", {}, 20),
        ("tknc", {}, 10),
        ("output", {"output_sections": 3}, 12),
        ("dsa", {"surprise_sections": 7}, 7),
    ],
)
def test_all_mutants_together_cover_no_more_than_there_is(criterion: str, settings: dict[str, Any], items: int) -> None:
    answers = guided([criterion], **settings)
    for _ in range(items):
        run(answers, {criterion: 0.0}, [1, 0, 0])
    with pytest.raises(WorkerError, match="than there are"):
        run(answers, {criterion: 0.0}, [0, 1, 0])


def test_what_does_not_guide_adds_no_room() -> None:
    answers = guided(["dsa", "kmnc"], guide=["dsa"])
    with pytest.raises(WorkerError, match="the 1 items"):
        run(answers, {"dsa": 0.0, "kmnc": 0.0}, [2, 0, 0])


def test_patterns_grow_with_the_mutants_and_no_faster() -> None:
    answers = guided(["tknp", "nc"])
    for _ in range(5):
        run(answers, {"tknp": 0, "nc": 0.0}, [4, 2, 0])  # 30 of 10 neurons and 2 patterns of each of 10 mutants
    with pytest.raises(WorkerError, match="than there are"):
        run(answers, {"tknp": 0, "nc": 0.0}, [4, 4, 0])  # 38 of 34
