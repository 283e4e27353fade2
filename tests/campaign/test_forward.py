"""How the worker runs the model: in which precision, in how large pieces, compiled or not, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from known_model import Scene, images
from limited_models import Broken, Precise, Roomy
from saved_models import Stripes, load_parameters, save
from torch import Tensor, nn

from gate.campaign.ascent_options import Ascent
from gate.campaign.compiled import Compiled
from gate.campaign.forward import Forward
from gate.campaign.halving import Halving
from gate.campaign.kept import KeptPasses
from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings, InputSettings
from gate.coverage.layers import choose_layers, list_layers
from gate.coverage.recorder import Recorder
from gate.demo.network import DigitsNet
from gate.domains.image.preprocess import Preprocess
from gate.errors import ConfigError, ModelError

X, Y = images(40)
CPU = torch.device("cpu")
READ = Preprocess(InputSettings(), (0.0, 255.0), 1)


def recorder(module: nn.Module) -> Recorder:
    inputs = READ(torch.from_numpy(X[:3]))
    return Recorder(module, choose_layers(list_layers(module, inputs, 4), ("*",)))


def watch(worker: Worker, folder: Path, x: np.ndarray, *, profile: np.ndarray | None = None, **load: Any) -> dict[str, Any]:
    """Loads, measures the ranges, counts the seeds; what ``open_arms`` said."""
    worker.call("load", load_parameters(folder, **load))
    settings = CoverageSettings(criteria=("kmnc",), layers=("*",)).model_dump(mode="json")
    worker.call("watch", {"coverage": settings, "kind": "logits"}, {"x": x[:3]})
    profile = x if profile is None else profile
    worker.call("profile", {}, {"x": profile, "y": np.arange(len(profile)) % 4})
    worker.call("cover_seeds", {}, {"x": x})
    return worker.call("open_arms", {"arms": ["search", "random", "noise"]})[0]


def said(worker: Worker) -> dict[str, Any]:
    return worker.call("describe")[0]


# Precision.


def test_only_what_searches_and_what_it_is_measured_against_runs_in_mixed_precision(worker: Worker, tmp_path: Path) -> None:
    torch.manual_seed(0)
    opened = watch(worker, save(Precise().eval(), tmp_path / "model"), X, amp="bf16")

    def class_of(operation: str, **parameters: Any) -> int:
        arrays = {"x": X, "earns": np.ones(len(X), dtype=bool)} if operation == "run" else {"x": X}
        (chosen,) = set(worker.call(operation, parameters, arrays)[1]["raw"].argmax(1).tolist())
        return int(chosen)

    assert [class_of("run", arm=arm) for arm in ("search", "random", "noise")] == [2, 2, 2]
    assert class_of("run", arm=None) == 0
    assert class_of("forward") == 0
    hidden = next(layer for layer in opened["layers"] if layer["name"] == "hidden")
    full = watch(worker, tmp_path / "model", X)
    assert (hidden["low"], hidden["high"]) != tuple(full["layers"][0][end] for end in ("low", "high"))
    assert hidden["low"] == float(torch.tensor(hidden["low"]).bfloat16())
    assert class_of("run", arm="search") == 0


def test_what_the_search_ran_in_is_in_the_fingerprint(worker: Worker, tmp_path: Path) -> None:
    folder = save(Stripes().eval(), tmp_path / "model")
    assert worker.call("load", load_parameters(folder, amp="bf16"))[0]["fingerprint"]["amp"] == "bf16"


@pytest.mark.parametrize("amp", ["off", "bf16"])
def test_activations_and_answers_are_float32_whatever_the_model_computes_in(amp: str) -> None:
    module = Precise().eval()
    forward, watching = Forward(module, CPU, amp=amp), recorder(module)
    acts, raw = forward.recorded(torch.from_numpy(X), READ, watching)
    assert {values.dtype for values in (*acts.values(), raw)} == {torch.float32}
    assert bool((raw.argmax(1) == (0 if amp == "off" else 2)).all())


def test_half_precision_on_the_cpu_is_refused_with_what_to_do(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fp16") as caught:
        worker.call("load", load_parameters(save(Stripes().eval(), tmp_path / "model"), amp="fp16"))
    assert "bf16" in str(caught.value.hint)
    assert caught.value.exit_code == 2


def test_gradients_for_the_search_are_taken_in_its_precision() -> None:
    module = Precise().eval()
    for amp, expected in (("off", 0), ("bf16", 2)):
        forward = Forward(module, CPU, amp=amp)

        def ahead(rows: slice, forward: Forward = forward) -> Tensor:
            return forward.run(torch.from_numpy(X[rows]), READ)

        (raw,) = forward.with_gradients(len(X), ahead)
        assert bool((raw.argmax(1) == expected).all())
        assert raw.requires_grad


def test_an_overflow_that_only_mixed_precision_sees_is_not_the_models(tmp_path: Path) -> None:
    def overflows(x: np.ndarray) -> np.ndarray:
        raw = np.zeros((len(x), 4), dtype=np.float32)
        raw[:] = np.nan
        return raw

    shares = {"judging": 0.0, "random": 0.2, "noise": 0.0}
    unseen = Scene(overflows, executions=200, shares=shares, mixed=True, confirm=lambda _: False).run()
    assert unseen.counts["search"].findings > 0
    assert unseen.nonfinite == 0
    seen = Scene(overflows, executions=200, shares=shares, mixed=True).run()
    assert seen.nonfinite == seen.counts["search"].defects > 0
    judged = Scene(overflows, executions=200, mixed=True, confirm=lambda _: False).run()
    assert judged.nonfinite == judged.counts["judging"].findings > 0


# Memory.


def test_a_batch_that_does_not_fit_is_halved_until_it_does_and_stays_small() -> None:
    module = Roomy(5).eval()
    whole = Roomy(1000).eval()
    whole.load_state_dict(module.state_dict())
    forward, watching = Forward(module, CPU), recorder(module)
    x = torch.from_numpy(X)
    acts, raw = forward.recorded(x, READ, watching)
    expected, plain = Forward(whole, CPU).recorded(x, READ, recorder(whole))
    torch.testing.assert_close(raw, plain)
    assert {name: values.shape for name, values in acts.items()} == {name: values.shape for name, values in expected.items()}
    for name, values in expected.items():
        torch.testing.assert_close(acts[name], values)
    assert forward.state()["micro_batch"] == 5
    assert forward.model_calls == len(X)
    module.most = 1000
    sizes: list[int] = []
    forward.in_parts(len(x), lambda rows: sizes.append(rows.stop - rows.start))
    assert sizes == [5] * 8


def test_the_way_down_is_by_halves() -> None:
    tried: list[int] = []

    def work(rows: slice) -> int:
        tried.append(rows.stop - rows.start)
        if tried[-1] > 3:
            raise torch.OutOfMemoryError
        return tried[-1]

    released: list[int] = []
    halving = Halving(CPU, lambda: released.append(len(tried)))
    assert halving.parts(13, work) == [3, 3, 3, 3, 1]
    assert tried == [13, 6, 3, 3, 3, 3, 1]
    assert released == [1, 2]


@pytest.mark.parametrize("look", ["answer", "recorded"])
def test_where_not_even_one_sample_fits_the_error_says_what_to_do(look: str) -> None:
    module = Roomy(0).eval()
    forward = Forward(module, CPU)
    watching = recorder(Roomy(9))
    looks = {"answer": lambda x: forward.answer(x, READ), "recorded": lambda x: forward.recorded(x, READ, watching)}
    with pytest.raises(ModelError, match="even one sample") as caught:
        looks[look](torch.from_numpy(X))
    assert caught.value.where == "cpu"
    assert caught.value.hint


def test_every_request_gets_through_where_memory_is_short(worker: Worker, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = Roomy(9, most_with_gradients=3).eval()
    whole = Roomy(1000).eval()
    whole.load_state_dict(model.state_dict())
    requests: list[tuple[str, dict[str, Any], dict[str, np.ndarray]]] = [
        ("forward", {}, {"x": X}),
        ("run", {"arm": None}, {"x": X, "earns": np.ones(len(X), dtype=bool)}),
        ("run", {"arm": "search"}, {"x": 255 - X, "earns": np.ones(len(X), dtype=bool)}),
        ("features", {}, {"x": X}),
        ("mutate", {"operator": "fgsm", "bound": 0.1, "steps": 1, "seed": 1}, {"x": X, "labels": Y}),
        ("climb", {"token": 0, "bound": 0.1, "seed": 1, "ascent": asdict(Ascent())}, {"x": X, "targets": np.arange(40) % 10}),
        ("numeric_path", {"path": "float64"}, {"x": X}),
    ]
    answers: list[list[dict[str, np.ndarray]]] = []
    for number, one in enumerate((model, whole)):
        watch(worker, save(one, tmp_path / str(number)), X)
        answers.append([worker.call(*request)[1] for request in requests])
    for got, expected, (operation, _, _) in zip(*answers, requests, strict=True):
        if operation == "climb":  # in parts, its mutants come in another order
            assert sorted(got["rows"]) == sorted(expected["rows"])
            continue
        assert got.keys() == expected.keys()
        for name in got:
            np.testing.assert_allclose(got[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=operation)
    assert said(worker)["micro_batch"] is None
    watch(worker, tmp_path / "0", X)
    worker.call(*requests[4])
    assert (said(worker)["micro_batch"], said(worker)["gradient_batch"]) == (5, 2)


def test_a_numeric_path_that_needs_more_memory_leaves_the_searchs_batches_alone_and_may_be_too_much(worker: Worker, tmp_path: Path) -> None:
    watch(worker, save(Roomy(9).eval(), tmp_path / "model"), X[:9])
    calls = said(worker)["model_calls"]
    assert worker.call("numeric_path", {"path": "float64"}, {"x": X})[0]["supported"]
    assert said(worker)["micro_batch"] is None
    assert said(worker)["model_calls"] == calls + len(X)
    worker.call("load", load_parameters(save(Roomy(0).eval(), tmp_path / "huge")))
    assert not worker.call("numeric_path", {"path": "float64"}, {"x": X})[0]["supported"]


def test_a_look_that_is_not_cut_in_parts_ends_in_an_error_and_not_in_half_an_answer() -> None:
    forward = Forward(Roomy(5).eval(), CPU)
    with pytest.raises(ModelError, match="batch of 40"):
        forward.once(torch.from_numpy(X), READ)


# The clean pass.


def test_seeds_that_are_the_profile_set_run_once_for_both(worker: Worker, tmp_path: Path) -> None:
    folder = save(Stripes(trap=0.15).eval(), tmp_path / "model")
    calls = []
    covered = []
    for profile in (X, X[::-1].copy()):  # the same samples in another order are other batches
        opened = watch(worker, folder, X, profile=profile)
        calls.append(said(worker)["model_calls"])
        covered.append(opened["coverage"])
    assert calls[1] - calls[0] == len(X)
    assert covered[0] == covered[1]


def test_what_is_kept_is_bounded_and_let_go() -> None:
    kept = KeptPasses(limit=100)
    small = {"a": torch.ones(2, 5)}
    kept.keep(X[:2], small, torch.ones(2, 4))
    found = kept.find(X[:2].copy())
    assert found is not None
    assert found[0] is small
    kept.keep(X[2:4], {"a": torch.ones(2, 5)}, torch.ones(2, 4))
    assert kept.find(X[2:4]) is None
    assert kept.find(X[:1]) is None
    assert kept.find(X[:2].astype(np.float32)) is None
    kept.clear()
    assert kept.find(X[:2]) is None
    kept.keep(X[2:4], {"a": torch.ones(2, 5)}, torch.ones(2, 4))
    assert kept.find(X[2:4]) is not None


# Compiled.


def compiled(module: nn.Module, backend: Any) -> tuple[Compiled, Recorder]:
    watching = recorder(module)
    made = Compiled(module, watching, backend)
    with torch.no_grad():
        made.compare(READ(torch.from_numpy(X[:3])), torch.float32)
    return made, watching


def run(program: Callable[[Tensor], Any], watching: Recorder, x: np.ndarray) -> tuple[Tensor, dict[str, Tensor]]:
    with torch.no_grad(), watching.recording():
        answer = program(READ(torch.from_numpy(x)))
    return answer, watching.activations()


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_compiled_model_answers_and_is_watched_as_the_plain_one(backend: str) -> None:
    torch.manual_seed(0)
    module = DigitsNet().eval()
    made, watching = compiled(module, backend)
    assert made.state == backend
    for count in (40, 7, 23):
        answer, acts = run(made, watching, X[:count])
        plain, expected = run(module, watching, X[:count])
        torch.testing.assert_close(answer, plain)
        assert list(acts) == list(expected)
        for name, values in expected.items():
            torch.testing.assert_close(acts[name], values)
    assert made.state == backend


def test_a_model_that_the_compiler_can_follow_in_pieces_only_is_watched_whole() -> None:
    module = Broken().eval()
    made, watching = compiled(module, "eager")
    assert made.state == "eager"
    answer, acts = run(made, watching, X)
    plain, expected = run(module, watching, X)
    torch.testing.assert_close(answer, plain)
    assert set(acts) == set(expected) == {"hidden", "head"}
    for name, values in expected.items():
        torch.testing.assert_close(acts[name], values)


def refuses(_: torch.fx.GraphModule, __: Any) -> Any:
    raise RuntimeError("no compiler is here")


def adds_one(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    return lambda *inputs: tuple(value + 1 if isinstance(value, Tensor) else value for value in graph(*inputs))


@pytest.mark.parametrize(("backend", "reason"), [(refuses, "no compiler is here"), (adds_one, "differs from the plain model's")])
def test_where_the_compiler_fails_or_changes_the_numbers_the_plain_model_runs_and_the_reason_is_told(backend: Any, reason: str) -> None:
    module = DigitsNet().eval()
    made, watching = compiled(module, backend)
    assert made.state.startswith("off: ")
    assert reason in made.state
    torch.testing.assert_close(run(made, watching, X)[0], run(module, watching, X)[0])


def test_a_compiler_that_loses_the_hooks_is_not_used() -> None:
    module = DigitsNet().eval()
    watching = recorder(module)
    made = Compiled(module, watching, "eager")
    twin = DigitsNet().eval()
    twin.load_state_dict(module.state_dict())
    made._program = twin
    with torch.no_grad():
        made.compare(READ(torch.from_numpy(X[:3])), torch.float32)
    assert "not recorded" in made.state
    assert set(run(made, watching, X)[1]) == {layer.name for layer in watching.layers}


def test_a_compiled_model_that_fails_later_goes_on_plain_and_the_models_own_errors_stay_its_own() -> None:
    module = DigitsNet().eval()
    made, watching = compiled(module, "eager")
    with pytest.raises(RuntimeError), torch.no_grad(), watching.recording():
        made(torch.zeros(2, 3, 8, 8))
    assert made.state == "eager"

    def broken(inputs: Tensor) -> Any:
        module(0 * inputs)  # which leaves something behind in the recorder
        raise RuntimeError("of the compiler's making")

    made._program = broken
    answer, acts = run(made, watching, X)
    plain, expected = run(module, watching, X)
    torch.testing.assert_close(answer, plain)
    for name, values in expected.items():
        torch.testing.assert_close(acts[name], values)
    assert "of the compiler's making" in made.state


def test_without_being_asked_for_nothing_is_compiled() -> None:
    module = DigitsNet().eval()
    forward, watching = Forward(module, CPU), recorder(module)
    forward.watched_by(watching, torch.from_numpy(X[:3]), READ)
    assert forward.state()["compile"] == "off"
    assert forward.model_calls == 0


@pytest.mark.slow
def test_the_worker_compiles_with_what_the_machine_has_and_covers_the_same(worker: Worker, tmp_path: Path) -> None:
    torch.manual_seed(0)
    folder = save(DigitsNet().eval(), tmp_path / "model")
    raw = []
    for compiled in (False, True):
        opened = watch(worker, folder, X, compiled=compiled, classes=10)
        raw.append(
            (opened["coverage"]["kmnc"], worker.call("run", {"arm": "search"}, {"x": X, "earns": np.ones(40, dtype=bool)})[1]["raw"])
        )
    assert said(worker)["compile"] == "inductor"
    np.testing.assert_allclose(raw[0][1], raw[1][1], rtol=1e-4, atol=1e-4)
    assert raw[0][0] == pytest.approx(raw[1][0], rel=0.01)
