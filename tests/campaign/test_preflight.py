"""Before any fuzzing: unsteady models, unusual outputs and wrong readings are found, and each complaint says what to change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from known_model import images
from preflight_models import Answering, Centroids, Convolution, Failing, Normed, Primary, Shy, TwoClasses
from saved_models import load_parameters, save
from torch import nn

from gate.campaign.preflight import Preflight, run_preflight
from gate.campaign.supervisor import Refused, Worker
from gate.config import InputSettings
from gate.errors import ConfigError, DataError, EvidenceError, GateError, InputShapeError, ModelError
from gate.result import PreflightCheck

CLASSES = ("first", "second", "third", "fourth")
Check = Callable[..., Preflight]


@pytest.fixture
def check(worker: Worker, tmp_path: Path) -> Check:
    def run(
        module: nn.Module,
        *,
        x: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        classes: Sequence[str] = CLASSES,
        kind: str = "auto",
        key: str | int | None = None,
        training: bool = False,
        batch_size: int = 16,
        **reading: Any,
    ) -> Preflight:
        if x is None:
            x, right = images(60)
            labels = right if labels is None else labels
        assert labels is not None
        settings = InputSettings.model_validate(reading)
        parameters = load_parameters(
            save(module.train(training), tmp_path / "model"),
            reading=settings.model_dump(mode="json"),
            channels=x.shape[3],
            classes=len(classes) or None,
            output_key=key,
        )
        loaded, _ = worker.call("load", parameters)
        return run_preflight(
            worker, x, labels, classes, settings=settings, declared_kind=kind, training=loaded["training"], batch_size=batch_size
        )

    return run


def named(found: Preflight, name: str) -> PreflightCheck:
    return next(one for one in found.checks if one.name == name)


def test_a_good_model_passes_every_check(check: Check) -> None:
    found = check(Answering("logits"))
    assert [one.status for one in found.checks] == ["ok"] * 6
    assert found.faults == 0
    assert found.deterministic
    assert found.probabilities.shape == (60, 4)
    np.testing.assert_array_equal(found.predicted, images(60)[1])
    assert "60 of 60" in named(found, "clean_accuracy").seen


# ---- What the outputs mean


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        ("softmax", "probabilities"),
        ("log_softmax", "log_probabilities"),
        ("logits", "logits"),
        ("dict", "logits"),
        ("tuple", "logits"),
        ("half", "logits"),
        ("double", "logits"),
    ],
)
def test_the_form_of_the_answer_is_recognised(check: Check, way: str, kind: str) -> None:
    found = check(Answering(way))
    assert found.output_kind == kind
    np.testing.assert_array_equal(found.predicted, images(60)[1])
    np.testing.assert_allclose(found.probabilities.sum(1), 1, atol=1e-3)
    assert kind.replace("_", " ") in named(found, "output").seen


@pytest.mark.parametrize(("squash", "kind"), [(False, "sigmoid_logit"), (True, "sigmoid")])
@pytest.mark.parametrize("classes", [("left", "right"), ()])
def test_one_number_is_a_sigmoid_for_two_classes(check: Check, squash: bool, kind: str, classes: tuple[str, ...]) -> None:
    labels = images(60)[1] // 2
    found = check(TwoClasses(squash), labels=labels, classes=classes)
    assert found.output_kind == kind
    assert found.classes == (classes or ("0", "1"))
    np.testing.assert_array_equal(found.predicted, labels)


def test_the_key_picks_one_of_several_outputs(check: Check) -> None:
    assert named(check(Answering("two"), key="main"), "clean_accuracy").status == "ok"


def test_another_key_picks_another_output(check: Check) -> None:
    with pytest.raises(EvidenceError, match="0 of 60"):
        check(Answering("two"), key="auxiliary")


def test_two_outputs_that_both_fit_need_a_key(check: Check) -> None:
    with pytest.raises(GateError, match="main") as caught:
        check(Answering("two"))
    assert "output.key" in str(caught.value)


def test_without_class_names_the_output_decides(check: Check) -> None:
    assert check(Answering("logits"), classes=()).classes == ("0", "1", "2", "3")


def test_a_declared_kind_that_the_values_contradict_is_a_wrong_setting(check: Check) -> None:
    with pytest.raises(ConfigError, match="no probabilities"):
        check(Answering("logits"), kind="probabilities")


def test_some_answers_that_are_not_finite_are_a_fault_and_no_obstacle(check: Check) -> None:
    found = check(Answering("some nan"))
    broken = found.predicted == -1
    assert 0 < broken.sum() < 60
    assert np.isnan(found.probabilities[broken]).all()
    assert named(found, "finite").status == "fault"
    assert f"{broken.sum()} of 60" in named(found, "finite").seen
    assert found.faults == 1
    assert named(found, "deterministic").status == "ok"
    assert named(found, "batch_independent").status == "ok"
    assert f"{60 - broken.sum()} of 60" in named(found, "clean_accuracy").seen


@pytest.mark.parametrize("way", ["all nan", "infinite"])
def test_answers_of_which_none_is_finite_are_an_error(check: Check, way: str) -> None:
    with pytest.raises(ModelError, match="None of the") as caught:
        check(Answering(way))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("three classes", r"\[32, 3\].*\[32, 4\]"),
        ("five classes", r"\[32, 5\].*\[32, 4\]"),
        ("a row too few", r"\[31, 4\].*\[32, 4\]"),
        ("pixels", r"\[32, 4, 8, 8\].*\[32, 4\]"),
        ("numbers", r"int64 \[32\].*\[32, 4\]"),
        ("integers", r"int64 \[32, 4\].*\[32, 4\]"),
        ("one for all", r"\[\].*\[32, 4\]"),
    ],
)
def test_an_output_that_does_not_fit_is_an_error_with_both_shapes(check: Check, way: str, said: str) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        check(Answering(way))
    assert caught.value.exit_code == 3
    assert caught.value.hint


@pytest.mark.parametrize("way", ["none", "text"])
def test_an_output_that_is_no_tensor_is_an_error(check: Check, way: str) -> None:
    with pytest.raises(ModelError) as caught:
        check(Answering(way))
    assert caught.value.exit_code == 3


# ---- Steadiness


def test_dropout_left_on_is_found(check: Check) -> None:
    found = check(Shy(dropout=True), training=True)
    assert named(found, "eval_mode").status == "fault"
    assert "dropout" in named(found, "eval_mode").seen
    assert "model.eval()" in named(found, "eval_mode").advice
    assert named(found, "deterministic").status == "fault"
    assert named(found, "batch_independent").status == "note"
    assert found.faults == 2
    assert not found.deterministic


def test_randomness_in_evaluation_mode_is_found(check: Check) -> None:
    found = check(Shy(always=True))
    assert named(found, "eval_mode").status == "ok"
    assert named(found, "deterministic").status == "fault"
    assert found.faults == 1


def test_batch_statistics_are_found(check: Check) -> None:
    found = check(Normed(), training=True)
    assert named(found, "eval_mode").status == "fault"
    assert named(found, "deterministic").status == "ok"
    assert named(found, "batch_independent").status == "fault"
    assert "normalisation" in named(found, "batch_independent").advice
    assert found.faults == 2


def test_batch_norm_in_evaluation_mode_is_steady(check: Check) -> None:
    assert check(Normed()).faults == 0


def test_answers_that_are_no_numbers_now_and_then_are_found(check: Check) -> None:
    assert named(check(Shy(lapse=True)), "deterministic").status == "fault"


@pytest.mark.parametrize("across", ["neighbours", "late"])
def test_an_operation_across_the_batch_is_found(check: Check, across: str) -> None:
    found = check(Shy(**{across: True}))
    assert named(found, "deterministic").status == "ok"
    assert named(found, "batch_independent").status == "fault"


def test_a_tremble_of_the_arithmetic_is_noted_and_no_fault(check: Check) -> None:
    found = check(Shy(tremble=1e-4))
    assert named(found, "deterministic").status == "note"
    assert found.faults == 0
    assert not found.deterministic


# ---- The input


def test_another_size_is_a_wrong_setting_with_both_shapes(check: Check) -> None:
    with pytest.raises(InputShapeError, match=r"\[8, 8\] pixels, 1 channel .*\[32, 1, 8, 8\].*Linear\(in_features=392") as caught:
        check(_only_linear())
    assert caught.value.exit_code == 2
    assert "input.size" in str(caught.value)


def _only_linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(392, 4))


def test_another_number_of_channels_is_a_wrong_setting_with_both_shapes(check: Check) -> None:
    with pytest.raises(InputShapeError, match=r"\[8, 8\] pixels, 1 channel .*Conv2d\(3, 2") as caught:
        check(Convolution())
    assert caught.value.exit_code == 2


def test_a_model_with_a_bug_of_its_own_is_an_error_and_no_wrong_setting(check: Check) -> None:
    with pytest.raises(Refused, match="no_such_layer") as caught:
        check(Failing())
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("says", ["the licence has expired", "CUDA error: device-side assert triggered", "index out of range in self"])
def test_what_no_other_size_would_help_against_is_the_models_fault_in_its_own_words(check: Check, says: str) -> None:
    with pytest.raises(Refused, match=says) as caught:
        check(Failing(says))
    assert caught.value.exit_code == 3


def test_labels_beyond_the_models_classes_are_a_wrong_data_set(check: Check) -> None:
    with pytest.raises(DataError, match="go up to 7, and the model has 4") as caught:
        check(Answering("logits"), labels=images(60)[1] + 4, classes=())
    assert caught.value.exit_code == 2


# ---- Accuracy, and what a wrong reading looks like


def test_too_few_right_answers_are_too_little_evidence_with_the_likely_causes(check: Check) -> None:
    labels = (images(60)[1] + 1) % 4
    labels[:9] = images(60)[1][:9]
    with pytest.raises(EvidenceError, match=r"9 of 60 .*\(15.0%\); at least 10") as caught:
        check(Answering("logits"), labels=labels)
    assert caught.value.exit_code == 4
    assert caught.value.hint is not None
    assert all(cause in caught.value.hint for cause in ("normalisation", "channel order", "order of the classes"))


def test_too_few_samples_are_not_blamed_on_the_reading(check: Check) -> None:
    x, y = images(8)
    with pytest.raises(EvidenceError, match="8 of 8") as caught:
        check(Answering("logits"), x=x, labels=y)
    assert caught.value.hint is not None
    assert "more samples" in caught.value.hint
    assert "normalisation" not in caught.value.hint


def test_ten_right_answers_are_enough(check: Check) -> None:
    labels = (images(60)[1] + 1) % 4
    labels[:10] = images(60)[1][:10]
    found = check(Answering("logits"), labels=labels)
    assert named(found, "clean_accuracy").status == "note"
    assert "low" in named(found, "clean_accuracy").advice
    assert "it would be" not in named(found, "clean_accuracy").seen  # no other reading makes sense of such labels


def test_a_reading_that_can_not_win_any_more_is_given_up(check: Check, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 samples 6 have a label that no reading gives: after the first part every other reading has too many wrong."""
    shown = 0

    def counting(operation: str, parameters: dict[str, Any], arrays: Any = None, **more: Any) -> Any:
        nonlocal shown
        if operation == "forward" and "reading" in parameters:
            shown += len(arrays["x"])
        return call(operation, parameters, arrays, **more)

    call = worker.call
    monkeypatch.setattr(worker, "call", counting)
    x, labels = images(60)
    labels = labels.copy()
    labels[-6:] = (labels[-6:] + 1) % 4
    found = check(Answering("logits"), x=x, labels=labels)
    assert named(found, "clean_accuracy").status == "ok"
    readings = shown / 12  # a part is a fifth of them
    assert readings == int(readings)
    assert 0 < readings <= 7


def _digits() -> tuple[np.ndarray, np.ndarray, Centroids]:
    from sklearn.datasets import load_digits

    data = load_digits()
    x = np.rint(data.images * (255 / 16)).astype(np.uint8)[:, :, :, None]
    scaled = torch.from_numpy(x.reshape(len(x), 64).astype(np.float32) / 127.5 - 1)
    y = torch.from_numpy(data.target)
    means = torch.stack([scaled[y == label].mean(0) for label in range(10)])
    return x, data.target.astype(np.int64), Centroids(means)


def test_a_wrong_normalisation_is_recognised_by_the_one_that_fits(check: Check) -> None:
    x, y, model = _digits()
    digits = [str(number) for number in range(10)]
    with_ones = check(model, x=x[:400], labels=y[:400], classes=digits, batch_size=128)
    wrong = named(with_ones, "clean_accuracy")
    assert wrong.status == "note"
    assert "With input.scale [-1, 1], mean 0, std 1 it would be 8" in wrong.seen
    assert "training code" in wrong.advice


def test_the_right_normalisation_gives_no_advice(check: Check) -> None:
    x, y, model = _digits()
    found = check(model, x=x[:400], labels=y[:400], classes=[str(number) for number in range(10)], scale=(-1.0, 1.0))
    assert "it would be" not in named(found, "clean_accuracy").seen


def coloured(count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(count, dtype=np.int64) % 3
    x = np.random.default_rng(0).integers(0, 90, size=(count, 8, 8, 3))
    x[np.arange(count), :, :, y] += 120
    return x.astype(np.uint8), y


@pytest.mark.parametrize(("order", "other"), [("bgr", "rgb"), ("rgb", None)])
def test_a_wrong_channel_order_is_recognised(check: Check, order: str, other: str | None) -> None:
    x, y = coloured()
    found = check(Primary(), x=x, labels=y, classes=("red", "green", "blue"), order=order)
    seen = named(found, "clean_accuracy")
    if other is None:
        assert seen.status == "ok"
    else:
        assert seen.status == "note"
        assert "20 of 60" in seen.seen
        assert f"With input.order {other} it would be 100.0%." in seen.seen


def test_the_advice_also_stands_where_nothing_is_right(check: Check) -> None:
    x, y = coloured()
    red_and_blue = y != 1
    with pytest.raises(EvidenceError, match=r"With input\.order rgb it would be 100\.0%"):
        check(Primary(), x=x[red_and_blue], labels=y[red_and_blue], classes=("red", "green", "blue"), order="bgr")
