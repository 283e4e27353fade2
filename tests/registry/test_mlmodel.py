from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from logged_models import Logged

from gate.errors import ModelError
from gate.registry.download import download_model
from gate.registry.mlmodel import ModelDescription, describe
from gate.registry.resolve import resolve

ModelFolder = Callable[[str], Path]


@pytest.mark.parametrize(("version", "kind", "file"), [("1", "pickle", "data/model.pth"), ("2", "pt2", "data/model.pt2")])
def test_both_formats_are_told_apart_by_their_file(logged: Logged, tmp_path: Path, version: str, kind: str, file: str) -> None:
    import torch

    folder = download_model(resolve(f"models:/digits/{version}", tracking_uri=logged.url), tmp_path / "model")
    assert describe(folder) == ModelDescription(
        format=kind,
        model_file=file,
        torch_version=str(torch.__version__),
        input_shape=(-1, 1, 8, 8),
        input_dtype="float32",
        output_shape=(-1, 10),
        output_dtype="float32",
    )


def test_a_description_survives_json(model_folder: ModelFolder) -> None:
    found = describe(model_folder("pt2"))
    assert ModelDescription.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    with pytest.raises(ValueError, match="not a model description"):
        ModelDescription.from_dict({**found.to_dict(), "extra": 1})


def test_an_older_bare_pickle_is_accepted(model_folder: ModelFolder) -> None:
    import torch

    folder = model_folder("pickle")
    torch.save(torch.nn.Linear(2, 2), folder / "data" / "model.pth", _use_new_zipfile_serialization=False)
    assert describe(folder).format == "pickle"


def test_code_that_the_model_brings_is_named_and_not_imported(tmp_path: Path) -> None:
    import mlflow
    import torch

    (tmp_path / "brought.py").write_text("raise SystemExit('imported')\n")
    mlflow.pytorch.save_model(
        torch.nn.Linear(2, 2),
        tmp_path / "model",
        serialization_format="pickle",
        code_paths=[str(tmp_path / "brought.py")],
        pip_requirements=["torch"],
    )
    sys.modules.pop("brought", None)
    found = describe(tmp_path / "model")
    assert found.code_paths == ("code",)
    assert (found.input_shape, found.output_shape) == (None, None)
    assert "brought" not in sys.modules


@pytest.mark.parametrize("kind", ["pickle", "pt2"])
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("missing", "model file is missing"),
        ("empty", "model file is empty"),
        ("first bytes only", "cut short"),
        ("half", "cut short"),
        ("last byte gone", "cut short"),
        ("text", "PyTorch didn't write it"),
    ],
)
def test_a_damaged_model_file_is_an_error_that_says_which(model_folder: ModelFolder, kind: str, damage: str, says: str) -> None:
    folder = model_folder(kind)
    file = folder / describe(folder).model_file
    content = file.read_bytes()
    match damage:
        case "missing":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "first bytes only":
            file.write_bytes(content[:3])
        case "half":
            file.write_bytes(content[: len(content) // 2])
        case "last byte gone":
            file.write_bytes(content[:-1])
        case "text":
            file.write_bytes(b"<html>404</html>")
    with pytest.raises(ModelError, match=says) as raised:
        describe(folder)
    assert raised.value.exit_code == 3


def test_a_short_bare_pickle_is_cut_short(model_folder: ModelFolder) -> None:
    folder = model_folder("pickle")
    (folder / "data" / "model.pth").write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(ModelError, match="cut short"):
        describe(folder)


def test_a_missing_mlmodel_is_said(model_folder: ModelFolder) -> None:
    folder = model_folder("pickle")
    (folder / "MLmodel").unlink()
    with pytest.raises(ModelError, match="no MLmodel file"):
        describe(folder)


def test_another_flavour_is_named(tmp_path: Path) -> None:
    import mlflow
    from sklearn.dummy import DummyClassifier

    mlflow.sklearn.save_model(DummyClassifier().fit([[0], [1]], [0, 1]), tmp_path / "model", pip_requirements=["scikit-learn"])
    with pytest.raises(ModelError, match="its flavour is sklearn") as raised:
        describe(tmp_path / "model")
    assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("- a\n", "no mapping"),
        ("flavors: [\n", "malformed"),
        ("flavors: {}\n", "no flavour"),
        ("a: 1\na: 2\n", "malformed"),
        ("a: !!python/object/apply:os.system ['touch ran']\n", "malformed"),
        ("flavors: {pytorch: {model_data: ../data}}\n", "no path inside the model"),
        ("flavors: {pytorch: {model_data: /etc}}\n", "no path inside the model"),
        ("flavors: {pytorch: {model_data: 3}}\n", "no path inside the model"),
        ("flavors: {pytorch: {model_data: data, code: ../../x}}\n", "no path inside the model"),
        ("flavors: {pytorch: {model_data: data, code: none}}\n", "code folder 'none' is missing"),
        ("flavors: {pytorch: {model_data: data}}\nsignature: {inputs: 'x'}\n", "signature's inputs"),
        ('flavors: {pytorch: {model_data: data}}\nsignature: {inputs: \'[{"type": "tensor"}]\'}\n', "signature's inputs"),
        ("a: " + "[" * 5000, "malformed"),
    ],
)
def test_a_malformed_mlmodel_is_an_error(
    model_folder: ModelFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = model_folder("pickle")
    (folder / "MLmodel").write_text(text)
    with pytest.raises(ModelError, match=says):
        describe(folder)
    assert not (tmp_path / "ran").exists()


def test_values_that_mlflow_writes_as_anchors_are_read(model_folder: ModelFolder) -> None:
    folder = model_folder("pickle")
    with (folder / "MLmodel").open("a") as file:
        file.write("metadata:\n  a: &id001 [x]\n  b: *id001\n")
    assert describe(folder).input_shape == (-1, 1, 8, 8)


def test_a_signature_of_columns_says_nothing_about_shapes(model_folder: ModelFolder) -> None:
    folder = model_folder("pickle")
    (folder / "MLmodel").write_text(
        'flavors: {pytorch: {model_data: data}}\nsignature: {inputs: \'[{"type": "double", "name": "x"}]\', outputs: null}\n'
    )
    found = describe(folder)
    assert (found.input_shape, found.input_dtype, found.output_shape, found.torch_version) == (None, None, None, None)
