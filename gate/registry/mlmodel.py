"""What a model folder says of itself: the ``MLmodel`` file, read as plain data. Nothing that it names is imported or unpickled here.

MLflow writes the same ``MLmodel`` for both ways of saving a PyTorch model; the file in its data folder tells them apart:

- ``model.pth``: a pickled module ("pickle"), as a zip archive, or as the older bare pickle;
- ``model.pt2``: an exported program ("pt2"), always a zip archive.

Where both are there, ``model.pth`` counts, because it is the one that MLflow loads.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gate.errors import ModelError
from gate.registry.copy import plain_relative

__all__ = ["ModelDescription", "describe"]

MAX_BYTES = 4 << 20
MIN_PICKLE_BYTES = 64  # the bare pickle of even an empty module is longer
_FILES = {"model.pth": "pickle", "model.pt2": "pt2"}


@dataclass(frozen=True)
class ModelDescription:
    """A PyTorch model as its folder describes it. Shapes have -1 where any size fits; None where the signature says nothing."""

    format: str  # "pickle" | "pt2"
    model_file: str  # relative to the folder, with "/"
    code_paths: tuple[str, ...] = ()  # folders with Python code which the model brings along, relative
    torch_version: str | None = None  # that the model was saved with
    input_shape: tuple[int, ...] | None = None  # of the first tensor input, batch first
    input_dtype: str | None = None  # numpy's name, such as "float32"
    output_shape: tuple[int, ...] | None = None
    output_dtype: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelDescription:
        """The inverse of :meth:`to_dict`.

        Raises:
            ValueError: unknown or missing keys.
        """
        unknown = set(data) - {item.name for item in fields(cls)}
        if unknown or not {"format", "model_file"} <= set(data):
            raise ValueError(f"not a model description: {sorted(data)}")
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
        return cls(**values)


def describe(folder: Path) -> ModelDescription:
    """Reads ``MLmodel`` and looks at the model file's beginning and end.

    A file that is cut short in the middle of an archive is found here; damage inside the archive is for the loader to report.

    Raises:
        ModelError: ``MLmodel`` is missing or malformed, the model is of another flavour than PyTorch, or the model file is missing, empty,
            cut short or no PyTorch file.
    """
    document = _read(folder / "MLmodel")
    flavors = document.get("flavors")
    if not isinstance(flavors, dict) or not flavors:
        raise ModelError(
            "The MLmodel file names no flavour.", where=str(folder / "MLmodel"), hint="Log the model again with mlflow.pytorch.log_model."
        )
    flavor = flavors.get("pytorch")
    if not isinstance(flavor, dict):
        others = ", ".join(sorted(str(name) for name in flavors if name != "python_function")) or "python_function"
        raise ModelError(
            f"This is no PyTorch model; its flavour is {others}.",
            where=str(folder / "MLmodel"),
            hint="The gate tests models logged with mlflow.pytorch.log_model.",
        )
    model_file, kind = _model_file(folder, _inside(folder, flavor.get("model_data", "data"), "model_data"))
    inputs = _tensor(document, "inputs", folder)
    outputs = _tensor(document, "outputs", folder)
    version = flavor.get("pytorch_version")
    return ModelDescription(
        kind,
        model_file,
        code_paths=_code_paths(folder, flavors),
        torch_version=None if version is None else str(version),
        input_shape=inputs[0] if inputs else None,
        input_dtype=inputs[1] if inputs else None,
        output_shape=outputs[0] if outputs else None,
        output_dtype=outputs[1] if outputs else None,
    )


def _read(path: Path) -> dict[str, Any]:
    # Not gate.strict_yaml: MLflow's own writer uses anchors where one value stands twice, which that reader refuses. They can't blow up
    # here: an alias shares its value, and nothing walks the document.
    if not path.is_file():
        raise ModelError(
            "There is no MLmodel file, so this is no MLflow model.", where=str(path.parent), hint="Name the folder that holds MLmodel."
        )
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_BYTES:
            raise ModelError(
                f"The MLmodel file is {len(raw)} bytes long; {MAX_BYTES} are allowed.",
                where=str(path),
                hint="Log the model again; an MLmodel file is a few kilobytes long.",
            )
        document = YAML(typ="safe", pure=True).load(raw.decode("utf-8"))
    except OSError as error:
        raise ModelError(
            f"The MLmodel file can't be read: {error.strerror}.", where=str(path), hint="Make it readable for whoever runs the gate."
        ) from error
    except (YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or type(error).__name__
        raise ModelError(
            f"The MLmodel file is malformed: {problem}.",
            where=f"{path}:{mark.line + 1}" if mark else str(path),
            hint="Log the model again, or restore the file that MLflow wrote.",
        ) from error
    if not isinstance(document, dict):
        raise ModelError("The MLmodel file is empty or no mapping.", where=str(path), hint="Log the model again.")
    return document


def _inside(folder: Path, path: Any, key: str) -> str:
    if not isinstance(path, str) or not plain_relative(path):
        raise ModelError(
            f"{key} in MLmodel is {path!r}, which is no path inside the model.", where=str(folder / "MLmodel"), hint="Log the model again."
        )
    return path.rstrip("/")


def _model_file(folder: Path, data: str) -> tuple[str, str]:
    """(relative path, format) of the model file in the folder that ``model_data`` names."""
    for name, kind in _FILES.items():
        relative = f"{data}/{name}"
        path = folder / relative
        if path.is_file() and not path.is_symlink():
            _check_start_and_end(path, kind)
            return relative, kind
    there = sorted(path.name for path in (folder / data).iterdir()) if (folder / data).is_dir() else []
    raise ModelError(
        f"The model file is missing: neither {data}/model.pth nor {data}/model.pt2 is there.",
        where=str(folder),
        hint=f"The folder {data} holds: {', '.join(there[:10])}." if there else "Log the model again; the upload may have been cut short.",
    )


def _check_start_and_end(path: Path, kind: str) -> None:
    size = path.stat().st_size
    again = "Log the model again; the upload may have been cut short."
    if size == 0:
        raise ModelError("The model file is empty.", where=str(path), hint=again)
    with path.open("rb") as file:
        start = file.read(4)
    if zipfile.is_zipfile(path):
        return
    if b"PK\x03\x04".startswith(start):
        raise ModelError(f"The model file is cut short: {size} bytes of an archive without its end.", where=str(path), hint=again)
    if kind == "pickle" and start.startswith(b"\x80"):
        if size < MIN_PICKLE_BYTES:
            raise ModelError(f"The model file is cut short: it has only {size} bytes.", where=str(path), hint=again)
        return
    wanted = "a zip archive" if kind == "pt2" else "neither a zip archive nor a pickle"
    raise ModelError(
        f"The model file is {'not ' if kind == 'pt2' else ''}{wanted}, so PyTorch didn't write it or it is damaged.",
        where=str(path),
        hint=again,
    )


def _code_paths(folder: Path, flavors: dict[str, Any]) -> tuple[str, ...]:
    named = {
        _inside(folder, code, "code")
        for name in ("pytorch", "python_function")
        if isinstance(flavor := flavors.get(name), dict) and (code := flavor.get("code")) is not None
    }
    missing = next((path for path in sorted(named) if not (folder / path).is_dir()), None)
    if missing is not None:
        raise ModelError(f"The model's code folder {missing!r} is missing.", where=str(folder), hint="Log the model again.")
    return tuple(sorted(named))


def _tensor(document: dict[str, Any], key: str, folder: Path) -> tuple[tuple[int, ...], str | None] | None:
    """(shape, dtype) of the signature's first tensor; None where there is no signature or it describes columns."""
    signature = document.get("signature")
    text = signature.get(key) if isinstance(signature, dict) else None
    if not isinstance(text, str):
        return None
    try:
        columns = json.loads(text)
        for column in columns:
            if column.get("type") == "tensor":
                spec = column["tensor-spec"]
                dtype = spec.get("dtype")
                return tuple(int(side) for side in spec["shape"]), None if dtype is None else str(dtype)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"The signature's {key} in MLmodel are malformed.", where=str(folder / "MLmodel"), hint="Log the model again."
        ) from error
    return None
