"""Loads a model from the folder MLflow saved it in, in the worker and without MLflow.

This runs the model's own code: call it only in a process that may be lost. A module comes back in the mode it was saved in; whether that
is the mode it should be judged in is for others to say.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import nn
from torch.export.unflatten import UnflattenedModule

from gate.errors import ModelError
from gate.models.trace import named_modules, type_of

__all__ = ["expected_input", "load_module", "training_modules"]

# Ways of pickling whose files Python's own unpickler reads; MLflow's default is its own pickle_module, which is cloudpickle.
_PICKLERS = ("mlflow.pytorch.pickle_module", "cloudpickle", "cloudpickle.cloudpickle", "pickle", "torch.serialization")
_MODE_MATTERS = ("Dropout", "BatchNorm", "RReLU", "StochasticDepth", "DropPath", "DropBlock")
_ROOT = "(root)"
_END_RECORD = 22  # bytes of the record that ends a zip archive without a comment


def load_module(folder: Path, description: Mapping[str, Any], device: torch.device | str = "cpu") -> nn.Module:
    """The model as a module whose layers have names, take hooks and pass gradients.

    Args:
        folder: the model's folder, the one with ``MLmodel`` in it.
        description: ``format`` ("pickle" or "pt2"), ``model_file`` and ``code_paths`` (relative to the folder), optionally
            ``torch_version``: a ``ModelDescription`` as a dict. The code paths go to the front of ``sys.path`` and stay there, since a
            model may import more when it runs.
        device: where its parameters go.

    Raises:
        ModelError: which file is at fault, why, and what to do.
    """
    file = _inside(folder, str(description["model_file"]))
    for path in description.get("code_paths") or ():
        entry = str(_inside(folder, str(path)))
        if entry not in sys.path:
            sys.path.insert(0, entry)
    try:
        size = file.stat().st_size
    except OSError as error:
        raise ModelError("The model file is missing.", where=str(file), hint="Log the model again.") from error
    if not size:
        raise ModelError("The model file is empty.", where=str(file), hint="Log the model again.")
    device = torch.device(device)
    if description["format"] == "pickle":
        return _unpickled(file, description, device)
    if description["format"] == "pt2":
        return _exported(file, description, device)
    raise ModelError(
        f"The model's format {description['format']!r} is unknown.",
        where=str(folder),
        hint="Save it with mlflow.pytorch, serialization_format pickle or pt2.",
    )


def training_modules(module: nn.Module) -> list[str]:
    """What is in training mode and may change the answers: sorted names; ``(root)`` for the model itself.

    Of an ordinary module: dropout, batch normalisation and the like, attention and recurrent layers with dropout inside, and the root's own
    flag, which custom code may read. Of an exported program the flags say nothing; there the mode is written into the operators.
    """
    if isinstance(module, UnflattenedModule):
        return sorted({name or _ROOT for name, child in named_modules(module) if _trains_inside(child)})
    found = {name for name, child in module.named_modules() if name and child.training and _mode_matters(child)}
    return ([_ROOT] if module.training else []) + sorted(found)


def expected_input(module: nn.Module) -> tuple[int | None, ...] | None:
    """The input shape that an exported program insists on, None for an axis of any size; None for an ordinary module.

    One exported with an example batch of one takes batches of one only.
    """
    if not isinstance(module, UnflattenedModule):
        return None
    value = next((node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"), None)
    return None if value is None else tuple(side if isinstance(side, int) else None for side in value.shape)


def _inside(folder: Path, relative: str) -> Path:
    plain = PurePosixPath(relative)
    path = folder / plain
    if plain.is_absolute() or ".." in plain.parts or not path.resolve().is_relative_to(folder.resolve()):
        raise ModelError(f"The model names {relative!r}, which lies outside of its folder.", where=str(folder), hint="Log the model again.")
    return path


def _unpickled(file: Path, description: Mapping[str, Any], device: torch.device) -> nn.Module:
    note = file.with_name("pickle_module_info.txt")
    if note.is_file():
        pickler = note.read_text(encoding="utf-8", errors="replace").strip()
        if pickler not in _PICKLERS:
            raise ModelError(
                f"The model was pickled with {pickler[:200]!r}, which the gate does not import.",
                where=str(note),
                hint="Log it with MLflow's default pickle module, or with serialization_format='pt2'.",
            )
    if _is_torchscript(file):
        raise ModelError(
            "The model is a TorchScript archive, whose layers can't be watched.",
            where=str(file),
            hint="Log the original nn.Module (serialization_format 'pickle' or 'pt2').",
        )
    try:
        loaded = torch.load(file, map_location=device, weights_only=False)
    except Exception as error:
        raise _explained(error, file, description) from error
    if not isinstance(loaded, nn.Module):
        told = " (a state_dict?)" if isinstance(loaded, Mapping) else ""
        raise ModelError(
            f"The file holds a {type(loaded).__name__}{told}, not a torch.nn.Module.",
            where=str(file),
            hint="Log the module itself with mlflow.pytorch.log_model.",
        )
    return loaded.to(device)


def _exported(file: Path, description: Mapping[str, Any], device: torch.device) -> nn.Module:
    from torch.export.passes import move_to_device_pass

    try:
        program = torch.export.load(file)
        tensors = [*program.state_dict.values(), *program.constants.values()]
        if any(isinstance(tensor, torch.Tensor) and tensor.device != device for tensor in tensors):
            # The devices also stand inside the graph, where Module.to does not reach.
            program = move_to_device_pass(program, device)
        return torch.export.unflatten(program)
    except Exception as error:
        raise _explained(error, file, description) from error


def _explained(error: Exception, file: Path, description: Mapping[str, Any]) -> ModelError:
    saved, here = description.get("torch_version"), torch.__version__
    versions = f"The model was saved with torch {saved}; {here} is installed." if saved and saved != here else ""
    first = (str(error).strip().splitlines() or [""])[0][:300]
    said = f"{type(error).__name__}: {first}"
    if isinstance(error, ModuleNotFoundError):
        return ModelError(
            f"The model needs the Python module {error.name!r}, which is not there.",
            where=str(file),
            hint=f"Log it with code_paths=[…] so that its code travels with it, or install that module beside the gate. {versions}".strip(),
        )
    if isinstance(error, (AttributeError, ImportError)):
        return ModelError(
            f"The model needs a class or function that is not there: {first}.",
            where=str(file),
            hint=(
                "Log it with code_paths=[…] holding the code it was trained with, or with serialization_format='pt2', which needs none. "
                + versions
            ).strip(),
        )
    if _is_damaged(file, error):
        return ModelError(f"The model file is damaged or cut short ({said}).", where=str(file), hint="Log or download the model again.")
    return ModelError(
        f"The model can't be loaded ({said}).",
        where=str(file),
        hint=versions or "Try mlflow.pytorch.load_model on it; where that fails too, log the model again.",
    )


def _is_damaged(file: Path, error: Exception) -> bool:
    if isinstance(error, (EOFError, zipfile.BadZipFile)) or any(word in str(error) for word in ("unexpected EOF", "corrupted")):
        return True
    content = file.read_bytes() if file.stat().st_size < _END_RECORD else _ends_of(file)
    if content[:2] != b"PK":
        return content[:1] != b"\x80"  # every pickle of protocol 2 or later begins so
    # The archives that torch writes have no comment, so the record that ends a zip is the last thing in the file. Looking for it anywhere
    # else would find the one of an archive inside this archive.
    if content[-_END_RECORD:][:4] != b"PK\x05\x06":
        return True
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.testzip() is not None
    except (zipfile.BadZipFile, OSError, NotImplementedError):
        return True


def _ends_of(file: Path) -> bytes:
    with file.open("rb") as stream:
        start = stream.read(2)
        stream.seek(-_END_RECORD, 2)
        return start + stream.read()


def _is_torchscript(file: Path) -> bool:
    if not zipfile.is_zipfile(file):
        return False
    try:
        with zipfile.ZipFile(file) as archive:
            return any(PurePosixPath(name).name == "constants.pkl" for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _mode_matters(module: nn.Module) -> bool:
    if isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
        return module.dropout > 0
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    if isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)):
        return module.running_mean is not None
    return any(word in type_of(module).rpartition(".")[2] for word in _MODE_MATTERS)


def _trains_inside(module: nn.Module) -> bool:
    graph = getattr(module, "graph", None)
    return graph is not None and any(node.op == "call_function" and _trains(node) for node in graph.nodes)


def _trains(node: Any) -> bool:
    """Whether an operator of an exported graph behaves as in training: it drops out, or uses the batch's own statistics."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    values = {}
    for position, argument in enumerate(schema.arguments):
        given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
        values[argument.name] = given
    if values.get("dropout_p"):
        return True
    operator = schema.name.rpartition("::")[2]
    if not (values.get("train") is True or values.get("training") is True):
        return operator in ("bernoulli", "bernoulli_", "rrelu_with_noise")
    share = values.get("p", values.get("dropout"))  # of the dropping operators; batch_norm and rrelu have none
    return share is None or bool(share)
