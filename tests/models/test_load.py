"""Models come back from MLflow's folders as they were saved, and what is wrong with a file is told."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import cloudpickle
import loaded_networks
import numpy as np
import pytest
import torch
from loaded_networks import Attending, Digits, Hidden, digits
from torch import nn

from gate.coverage import criterion
from gate.coverage.layers import choose_layers, list_layers
from gate.coverage.recorder import Recorder
from gate.errors import ModelError
from gate.models.load import expected_input, load_module, training_modules

EXAMPLE = np.random.default_rng(0).random((4, 1, 8, 8), dtype=np.float32)
PICKLE = {"format": "pickle", "model_file": "data/model.pth", "code_paths": []}
PT2 = {"format": "pt2", "model_file": "data/model.pt2", "code_paths": []}


def _save(module: nn.Module, folder: Path, form: str, **options: Any) -> Path:
    import mlflow.pytorch

    mlflow.pytorch.save_model(
        module,
        folder,
        serialization_format=form,
        input_example=options.pop("input_example", EXAMPLE),
        pip_requirements=["torch"],
        **options,
    )
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("models")
    return {form: _save(digits().eval(), base / form, form) for form in ("pickle", "pt2")}


@pytest.mark.parametrize("description", [PICKLE, PT2], ids=["pickle", "pt2"])
def test_both_formats_give_the_saved_answers_for_any_batch_with_names_and_gradients(
    saved: dict[str, Path], description: dict[str, Any]
) -> None:
    module = load_module(saved[description["format"]], description)
    original = digits().eval()
    for batch in (1, 2, 9):
        x = torch.rand(batch, 1, 8, 8, requires_grad=True)
        torch.testing.assert_close(module(x), original(x), rtol=1e-5, atol=1e-6)
        assert torch.autograd.grad(module(x).sum(), x)[0].abs().sum() > 0
    assert {"conv", "norm", "head"} <= {name for name, _ in module.named_modules()}
    assert training_modules(module) == []
    assert expected_input(module) == (None if description is PICKLE else (None, 1, 8, 8))


def test_both_formats_cover_the_same(saved: dict[str, Path]) -> None:
    x = torch.rand(30, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    counts = []
    for description in (PICKLE, PT2):
        module = load_module(saved[description["format"]], description)
        recorder = Recorder(module, choose_layers(list_layers(module, x, 10)))
        with torch.no_grad(), recorder.recording():
            module(x)
        acts = recorder.activations()
        c = criterion("kmnc", sections=50).fit({name: values[:10] for name, values in acts.items()})
        counts.append((list(acts), c.update(acts).tolist()))
    assert counts[0] == counts[1]
    assert sum(counts[0][1]) > 50


def test_loading_needs_no_mlflow(saved: dict[str, Path]) -> None:
    code = (
        f"import sys, pathlib; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from gate.models.load import load_module\n"
        f"load_module(pathlib.Path({str(saved['pickle'])!r}), {PICKLE!r}); load_module(pathlib.Path({str(saved['pt2'])!r}), {PT2!r})\n"
        "sys.exit('mlflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_model_saved_in_training_mode_stays_so_and_is_found_out(tmp_path: Path) -> None:
    module = load_module(_save(digits().train(), tmp_path / "p", "pickle"), PICKLE)
    assert module.training
    assert training_modules(module) == ["(root)", "dropout", "norm"]
    exported = load_module(_save(digits().train(), tmp_path / "e", "pt2"), PT2)
    assert training_modules(exported) == ["dropout", "norm"]
    x = torch.rand(4, 1, 8, 8)
    assert not torch.equal(exported(x), exported(x))


def test_dropout_in_a_function_is_found_in_an_exported_program() -> None:
    for module, x in ((Hidden(), torch.rand(4, 8)), (Attending(), torch.rand(4, 5, 8))):
        for training in (True, False):
            program = torch.export.unflatten(torch.export.export(module.train(training), (x,)))
            assert training_modules(program) == (["(root)"] if training else [])
    rnn = nn.LSTM(4, 4, num_layers=2, dropout=0.5)
    assert training_modules(nn.Sequential(rnn).train()) == ["(root)", "0"]
    assert training_modules(nn.Sequential(nn.LSTM(4, 4), nn.Linear(4, 4)).train()) == ["(root)"]


def test_a_class_pickled_by_value_needs_no_code(tmp_path: Path) -> None:
    cloudpickle.register_pickle_by_value(loaded_networks)
    try:
        folder = _save(digits().eval(), tmp_path / "m", "pickle")
    finally:
        cloudpickle.unregister_pickle_by_value(loaded_networks)
    code = (
        "import pathlib; from gate.models.load import load_module\n"
        f"print(type(load_module(pathlib.Path({str(folder)!r}), {PICKLE!r})).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "Digits"


def test_code_that_travels_with_the_model_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "their_network.py"
    source.write_text("from torch import nn\nclass Theirs(nn.Linear):\n    pass\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    import their_network  # type: ignore[import-not-found]

    folder = _save(their_network.Theirs(3, 2), tmp_path / "m", "pickle", code_paths=[str(source)], input_example=EXAMPLE[:, 0, 0, :3])
    sys.path.remove(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_network")
    with pytest.raises(ModelError, match=r"needs the Python module 'their_network'(.|\n)*code_paths"):
        load_module(folder, PICKLE)
    assert type(load_module(folder, {**PICKLE, "code_paths": ["code"]})).__name__ == "Theirs"
    monkeypatch.delitem(sys.modules, "their_network")


def test_a_missing_class_is_named(tmp_path: Path, saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(loaded_networks, "Digits")
    with pytest.raises(ModelError, match=r"class or function that is not there: .*Digits(.|\n)*model\.pth"):
        load_module(saved["pickle"], {**PICKLE, "torch_version": "1.2.3"})


@pytest.mark.parametrize("description", [PICKLE, PT2], ids=["pickle", "pt2"])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.97])
def test_a_file_that_was_cut_short_is_named(tmp_path: Path, saved: dict[str, Path], description: dict[str, Any], keep: float) -> None:
    whole = (saved[description["format"]] / description["model_file"]).read_bytes()
    (tmp_path / "data").mkdir()
    (tmp_path / description["model_file"]).write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(ModelError, match="is empty" if not keep else "damaged or cut short") as caught:
        load_module(tmp_path, description)
    assert caught.value.where == str(tmp_path / description["model_file"])


def test_a_cut_legacy_pickle_and_text_are_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / PICKLE["model_file"]
    torch.save(digits(), file, _use_new_zipfile_serialization=False)
    assert isinstance(load_module(tmp_path, PICKLE), Digits)
    for content in (file.read_bytes()[:-900], b"no model at all"):
        file.write_bytes(content)
        with pytest.raises(ModelError, match="damaged or cut short"):
            load_module(tmp_path, PICKLE)


def test_what_is_no_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / PICKLE["model_file"]
    with pytest.raises(ModelError, match="missing"):
        load_module(tmp_path, PICKLE)
    torch.save(digits().state_dict(), file)
    with pytest.raises(ModelError, match="state_dict"):
        load_module(tmp_path, PICKLE)
    torch.jit.trace(digits().eval(), torch.rand(1, 1, 8, 8)).save(str(file))
    with pytest.raises(ModelError, match="TorchScript"):
        load_module(tmp_path, PICKLE)
    torch.save(digits(), file)
    (file.parent / "pickle_module_info.txt").write_text("evil_pickle")
    with pytest.raises(ModelError, match="'evil_pickle', which the gate does not import"):
        load_module(tmp_path, PICKLE)
    assert "evil_pickle" not in sys.modules


def test_other_contents_of_a_pt2_file_are_told_with_both_versions(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with zipfile.ZipFile(tmp_path / PT2["model_file"], "w") as archive:
        archive.writestr("m/version", "999")
    with pytest.raises(ModelError, match=r"saved with torch 99\.0"):
        load_module(tmp_path, {**PT2, "torch_version": "99.0"})


def test_paths_out_of_the_folder_are_refused(tmp_path: Path, saved: dict[str, Path]) -> None:
    (tmp_path / "link").symlink_to(saved["pickle"])
    for bad in ("../model.pth", str(saved["pickle"] / "data/model.pth"), "link/data/model.pth"):
        with pytest.raises(ModelError, match="outside of its folder"):
            load_module(tmp_path, {**PICKLE, "model_file": bad})
    with pytest.raises(ModelError, match="outside of its folder"):
        load_module(saved["pickle"], {**PICKLE, "code_paths": [".."]})


def test_a_program_exported_with_a_batch_of_one_says_so() -> None:
    program = torch.export.export(digits().eval(), (torch.rand(1, 1, 8, 8),), dynamic_shapes=[{0: torch.export.Dim.AUTO}])
    assert expected_input(torch.export.unflatten(program)) == (1, 1, 8, 8)
