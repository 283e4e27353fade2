"""Networks saved as MLflow saves them, pickled by value so that the worker needs nothing of the tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from torch import Tensor, nn

__all__ = ["load_parameters", "save"]

cloudpickle.register_pickle_by_value(sys.modules[__name__])

_MLMODEL = """\
flavors:
  pytorch:
    model_data: data
    pytorch_version: {version}
    pickle_module_name: cloudpickle
"""


def save(module: nn.Module, folder: Path) -> Path:
    """The model's folder, with the mode that the module is in."""
    (folder / "data").mkdir(parents=True)
    torch.save(module, folder / "data" / "model.pth", pickle_module=cloudpickle)
    (folder / "data" / "pickle_module_info.txt").write_text("cloudpickle")
    (folder / "MLmodel").write_text(_MLMODEL.format(version=torch.__version__))
    return folder


def load_parameters(folder: Path, **changes: Any) -> dict[str, Any]:
    """What the session's ``load`` takes: grey pictures in 0..1 unless said otherwise."""
    return {
        "folder": str(folder),
        "description": {"format": "pickle", "model_file": "data/model.pth"},
        "device": "cpu",
        "reading": {},
        "value_range": [0, 255],
        "channels": 1,
        "output_key": None,
        "classes": 4,
        "seed": 0,
        **changes,
    }


class Stripes(nn.Module):
    """[N, 1, 8, 8] in 0..1 -> 4 logits: see known_model.reads_stripes. With a trap, a neuron that only low light reaches."""

    def __init__(self, trap: float | None = None) -> None:
        super().__init__()
        weight = torch.zeros(5, 8, 4, 2)
        for stripe in range(4):
            weight[stripe, :, stripe] = 20 / 16
        weight[4] = -1 / 64
        self.hidden = nn.Linear(64, 5)  # the four stripes, and how far the picture is below the trap
        self.hidden.weight.data = weight.reshape(5, 64)
        self.hidden.bias.data = torch.tensor([0.0, 0.0, 0.0, 0.0, -1.0 if trap is None else trap])
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight.data = torch.eye(4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x.flatten(1))
        stripes, dark = hidden[:, :4], hidden[:, 4:] > 0
        scores: Tensor = self.head(torch.where(dark, stripes.roll(1, dims=1), stripes))
        return scores


class Saying(nn.Module):
    """The same stripes, answered as one kind of output; the single ones compare the first stripe with the second."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.stripes = Stripes()

    def forward(self, x: Tensor) -> Tensor:
        scores = self.stripes(x) / 4
        if self.kind == "probabilities":
            return scores.softmax(1)
        if self.kind == "log_probabilities":
            return scores.log_softmax(1)
        single = scores[:, 1] - scores[:, 0]
        return {"logits": scores, "sigmoid": single.sigmoid(), "sigmoid_logit": single}[self.kind]


class Triggered(nn.Module):
    """[N, 1, 8, 8] in 0..255 -> 4 scores; the value of the first pixel says what it does beside that."""

    def forward(self, x: Tensor) -> Tensor:
        import json
        import os
        import socket
        import subprocess
        import time

        from gate.campaign.wire import send
        from gate.errors import DataError

        wish = int(x[0, 0, 0, 0])
        descriptor = int(sys.argv[1])
        if wish == 1:
            raise RuntimeError(json.dumps(dict(os.environ)))
        if wish == 2:
            raise RuntimeError(json.dumps([os.getpid(), os.getpgid(0), str(Path.cwd()), sys.modules["__main__"].__file__]))
        if wish == 3:
            for _ in range(5000):
                print("x" * 1000)
            print("a line without an end " * 100_000, end="", flush=True)
        if wish == 4:
            raise DataError("The model says so.", where="here", hint="Do that.")
        if wish == 5:
            raise ZeroDivisionError("of the model's own making")
        if wish == 10:
            child = os.fork()  # outlives it and keeps its end of the socket
            if child == 0:
                time.sleep(60)
                os._exit(0)
            print(f"child {child}\nthese are my last words", flush=True)
            os._exit(0)
        if wish == 11:
            import ctypes

            ctypes.string_at(0)
        if wish == 12:
            print(f"child {subprocess.Popen(['sleep', '600']).pid}", flush=True)
            while True:
                pass
        if wish == 13:
            os.write(descriptor, b"{'this': 'is no frame'}" * 10)
        if wish == 14:
            send(socket.socket(fileno=os.dup(descriptor)), {"nonce": "a guess", "ok": {}})
        if wish == 15:
            send(socket.socket(fileno=os.dup(descriptor)), {"nonce": _nonce(), "ok": [1, 2]})
        if wish == 17:
            answer = {"nonce": _nonce(), "ok": {}}
            send(socket.socket(fileno=os.dup(descriptor)), answer, {"raw": torch.zeros(len(x), 5).numpy()})
        if wish == 18:
            error = {"kind": "EvidenceError", "what": "too few", "where": None, "hint": None}
            send(socket.socket(fileno=os.dup(descriptor)), {"nonce": _nonce(), "error": error})
        if wish == 16:
            print(f"escaped {subprocess.Popen(['sleep', '60'], start_new_session=True).pid}", flush=True)
        return x.flatten(1)[:, 8:12]


def _nonce() -> str:
    """The worker's own, as a model can find it."""
    frame: Any = sys._getframe()
    while frame.f_code.co_name != "main":
        frame = frame.f_back
    return str(frame.f_locals["nonce"])
