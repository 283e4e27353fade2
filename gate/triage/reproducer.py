"""``test_defect.py`` in a defect's folder: a test that fails while the defect lives, for people who have PyTorch and MLflow and no gate.

The program is plain code with this run's numbers in it: how a file is read, what stands between its values and the model, how the answer
is read. Every text that comes from elsewhere (the model's URI, an output's key) is written as an ASCII literal, so that it can hold nothing
but itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gate.config import InputSettings
from gate.errors import OutputError
from gate.models.outputs import OutputKind
from gate.oracles.saturated import FLOAT16_MAX
from gate.result import Defect
from gate.triage.backends import ALONE, COMPANY, is_backend

__all__ = ["REPRODUCER", "Reader", "reproducer", "write_reproducers"]

REPRODUCER = "test_defect.py"
HANGS = 120  # seconds after which an answer counts as none


@dataclass(frozen=True)
class Reader:
    """How a run read its files and its model."""

    model: str  # resolved URI, or a folder
    tracking_uri: str | None  # without login and query
    input: InputSettings
    value_range: tuple[float, float]
    kind: OutputKind
    key: str | int | None  # of several outputs; None: the one that looks like the answer
    classes: int
    collapse: float = 0.1  # lead in probability below which confidence counts as collapsed
    saturated: float = FLOAT16_MAX  # magnitude of a score from which on it counts as saturated


def write_reproducers(run: Path, defects: tuple[Defect, ...], reader: Reader) -> int:
    """Writes the test of every defect whose folder is there; returns how many.

    Args:
        run: the run folder.
        defects: of the run.
        reader: how it read its files and its model.

    Raises:
        OutputError: a file can't be written.
    """
    written = 0
    for defect in defects:
        folder = run / "defects" / defect.id
        data = Path(defect.files.get("mutant_data", "")).name
        if data in ("mutant.png", "mutant.npz") and folder.is_dir():
            half = folder / f".{REPRODUCER}.part"
            try:
                half.write_text(reproducer(defect, reader), encoding="ascii")
                half.replace(folder / REPRODUCER)
            except OSError as error:
                raise OutputError(
                    f"A defect's reproducer can't be written: {error.strerror or error}.", where=str(half), hint="Check the disk."
                ) from error
            written += 1
    return written


def reproducer(defect: Defect, reader: Reader) -> str:
    """The program, ASCII only.

    Args:
        defect: whose file lies beside the program.
        reader: how the run read its files and its model.
    """
    settings = reader.input
    data = Path(defect.files.get("mutant_data", "mutant.png")).name
    low, high = reader.value_range
    known = defect.label is not None
    parts = [
        _HEAD,
        f"MODEL = os.environ.get('GATE_MODEL', {reader.model!a})",
        f"TRACKING_URI = {reader.tracking_uri!a}  # without the login it may need; MLFLOW_TRACKING_URI counts first",
        f"MUTANT = Path(__file__).with_name({data!a})",
        *([f"LABEL = {defect.label}  # what the picture shows: the class a right model gives"] if known else []),
        f"CLASSES = {reader.classes}",
        f"LOW, HIGH = {low!r}, {high!r}  # lowest and highest value of a file",
        f"SCALE = {tuple(settings.scale)!r}  # the file's range is mapped onto this",
        f"MEAN, STD = {list(settings.mean)!r}, {list(settings.std)!r}  # one for all channels, or one each",
        f"KEY = {reader.key!a}  # which of several outputs is the answer; None: the one that looks like it",
        "",
        "",
        _read(data),
        _inputs(settings),
        _SCORES,
        _run(defect),
        _predicted(reader.kind),
        _test(defect, reader),
    ]
    return "\n".join(parts)


_HEAD = '''"""Fails while this defect lives; passes on a model in which it is fixed.

    pip install torch mlflow pytest
    GATE_MODEL=models:/name/3 pytest test_defect.py

Without GATE_MODEL it asks the model that was tested. Loading a model runs the code that it brings along: try only models that you trust.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import mlflow
import numpy as np
import pytest
import torch
'''


def _read(data: str) -> str:
    if data.endswith(".png"):
        body = """    from PIL import Image

    with Image.open(MUTANT) as picture:
        x = np.array(picture)
    return x[:, :, None] if x.ndim == 2 else x"""
    else:
        body = """    with np.load(MUTANT, allow_pickle=False) as stored:
        return stored["x"]"""
    return f'''def read_file():
    """The mutant as it was saved, [H, W, C] in the file's own dtype."""
{body}

'''


def _inputs(settings: InputSettings) -> str:
    steps = [
        "    x = torch.from_numpy(np.ascontiguousarray(x)).to(torch.float32)",
        "    unit = (x - LOW) / (HIGH - LOW)",
        "    values = (unit * (SCALE[1] - SCALE[0]) + SCALE[0] - torch.tensor(MEAN)) / torch.tensor(STD)",
    ]
    if settings.order == "bgr":
        steps.append("    values = values.flip(3)  # red, green, blue -> blue, green, red")
    steps.append(
        {
            "nhwc": "    return values",
            "nhw": "    return values.squeeze(3)",
            "nchw": "    return values.permute(0, 3, 1, 2).contiguous()",
            "flat": "    return values.permute(0, 3, 1, 2).flatten(1)",
        }[settings.layout]
    )
    body = "\n".join(steps)
    return f'''def inputs(x):
    """What the model sees of files [N, H, W, C]."""
{body}

'''


_SCORES = '''@pytest.fixture(scope="module")
def model():
    if TRACKING_URI is not None and not os.environ.get("MLFLOW_TRACKING_URI"):
        mlflow.set_tracking_uri(TRACKING_URI)
    return mlflow.pytorch.load_model(MODEL, map_location="cpu")


def parts(output):
    if isinstance(output, Mapping):
        return dict(output)
    if isinstance(output, (tuple, list)):
        return dict(enumerate(output))
    return {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}


def scores(output, samples):
    """float32 [samples, K]: the tensor that is the answer."""
    if not isinstance(output, torch.Tensor):
        shapes = [(samples, CLASSES)] + ([(samples, 1), (samples,)] if CLASSES == 2 else [])
        found = parts(output)
        fitting = [part for part in found.values() if isinstance(part, torch.Tensor) and tuple(part.shape) in shapes]
        output = found[KEY] if KEY is not None else fitting[0]
    return output.detach().to("cpu", torch.float32).reshape(samples, -1)


def device_of(model):
    return next((tensor.device for tensor in [*model.parameters(), *model.buffers()]), torch.device("cpu"))


def forward(model, x):
    """The answer to files [N, H, W, C]; an exported model that takes no batch so small is asked with copies beside."""
    with torch.no_grad():
        seen = inputs(x).to(device_of(model))
        for copies in (1, 2, 4, 8, 16, 32, 64):
            try:
                return scores(model(torch.cat([seen] * copies)), copies * len(seen))[: len(seen)]
            except Exception as error:
                first = error if copies == 1 else first
        raise first

'''

_ALONE = '''def answer(model, x):
    """Asked alone."""
    return forward(model, x[None])[0]

'''

_COMPANY = '''def answer(model, x):
    """Asked beside another input, its own negative."""
    negative = (LOW + HIGH - x.astype(np.float64)).astype(x.dtype)
    return forward(model, np.stack([x, negative]))[0]

'''

_HANGING = f'''def answer(model, x):
    """Asked alone, with a limit to the time."""
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(forward(model, x[None])[0]), daemon=True)
    thread.start()
    thread.join({HANGS})
    assert found, "the model gives no answer within {HANGS} seconds"
    return found[0]

'''

_PATHS = {
    "bfloat16": """    with torch.autocast(seen.device.type, dtype=torch.bfloat16):
        output = model(seen)""",
    "float16": """    with torch.autocast(seen.device.type, dtype=torch.float16):
        output = model(seen)""",
    "float64": """    def doubled(t):
        return t.double() if t.is_floating_point() else t

    output = torch.func.functional_call(model, weights(model, doubled), (doubled(seen),))""",
    "channels_last": """    def turned(t):
        return t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t

    output = torch.func.functional_call(model, weights(model, turned), (turned(seen),))""",
    "compiled": """    several = torch.cat([seen, seen])
    torch._dynamo.maybe_mark_dynamic(several, 0)
    output = torch.compile(model)(several)""",
    "int8": """    from torch.overrides import TorchFunctionMode

    def rounded(values):
        step = (values.abs().amax(dim=-1, keepdim=True) / 127).clamp_min(torch.finfo(values.dtype).tiny)
        return torch.round(values / step) * step

    class Int8(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            given = kwargs or {}
            if func not in (torch.nn.functional.linear, torch.ops.aten.linear.default):
                return func(*args, **given)
            named = {**dict(zip(("input", "weight", "bias"), args)), **given}
            return func(rounded(named["input"]), rounded(named["weight"]), named.get("bias"))

    with Int8():
        output = model(seen)""",
}


def _run(defect: Defect) -> str:
    if not is_backend(defect):
        return _HANGING if defect.oracle == "timeout" else _ALONE
    if defect.detail in (ALONE, COMPANY):
        return _ALONE if defect.detail == ALONE else _COMPANY
    path = _PATHS.get(defect.detail or "")
    if path is None:
        return _ALONE
    helper = ""
    if "weights(" in path:
        helper = """def weights(model, change):
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: change(values) for name, values in named.items()}


"""
    return f'''{helper}@torch.no_grad()
def answer(model, x):
    """Asked alone, on the numeric path {defect.detail}."""
    seen = inputs(x[None]).to(device_of(model))
{path}
    return scores(output, {2 if defect.detail == "compiled" else 1})[0]

'''


def _predicted(kind: OutputKind) -> str:
    if kind in (OutputKind.SIGMOID, OutputKind.SIGMOID_LOGIT):
        threshold = 0.5 if kind is OutputKind.SIGMOID else 0.0
        return f'''def predicted(row):
    """The class that one score stands for."""
    return int(row[0] > {threshold})

'''
    return '''def predicted(row):
    """The class with the highest score."""
    return int(row.argmax())

'''


_LEADS = {
    OutputKind.LOGITS: "torch.softmax(row.double(), 0)",
    OutputKind.PROBABILITIES: "row.double()",
    OutputKind.LOG_PROBABILITIES: "row.double().exp()",
    OutputKind.SIGMOID: "torch.stack([1 - row[0].double(), row[0].double()])",
    OutputKind.SIGMOID_LOGIT: "torch.stack([1 - torch.sigmoid(row[0].double()), torch.sigmoid(row[0].double())])",
}


def _test(defect: Defect, reader: Reader) -> str:
    lines = [
        "def test_the_defect_is_gone(model):",
        "    row = answer(model, read_file())",
        '    assert torch.isfinite(row).all(), "the output is not finite"',
    ]
    if defect.oracle == "saturated":
        lines.append(f'    assert row.abs().max() < {reader.saturated!r}, "a score is larger than half precision holds"')
    if defect.label is not None:
        lines.append('    assert predicted(row) == LABEL, f"read as class {predicted(row)}, and it shows class {LABEL}"')
    if defect.oracle == "confidence_collapse":
        lines += [
            f"    top = torch.topk({_LEADS[reader.kind]}, 2).values",
            f'    assert top[0] - top[1] >= {reader.collapse!r}, "the class hardly leads the next one"',
        ]
    return "\n".join(lines) + "\n"
