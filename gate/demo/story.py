"""The demo's story, told by doing: champion, faulty successor, the gate blocks it, the fix, the gate lets it through.

Nothing is staged: models are trained here, verdicts are computed. If they come out otherwise, the demo says so and fails.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from gate.config import Settings, load
from gate.corpus.export import export
from gate.demo import digits as data
from gate.demo.digits import Digits
from gate.domains.image import picture
from gate.errors import GateError, OutputError
from gate.pipeline import Outcome, run
from gate.registry.connection import session
from gate.result import Verdict
from gate.terminal.progress import Progress
from gate.terminal.verdict import show_verdict

__all__ = ["UnexpectedVerdict", "tell"]

MODEL = "digits"
SEED = 4
EXECUTIONS = 5000
_MARK = ".gate-demo"


class UnexpectedVerdict(GateError):
    """A verdict came out otherwise than the story needs: exit 3."""


@dataclass(frozen=True)
class _Place:
    """Where the demo keeps its things."""

    folder: Path

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    @property
    def seeds(self) -> Path:
        return self.folder / "seeds.npz"


def tell(folder: Path, stop: Callable[[], bool], console: Console) -> None:
    """Runs the whole demo in ``folder``, which is new, empty, or an earlier demo's (which is then replaced).

    Raises:
        OutputError: the folder holds something else.
        UnexpectedVerdict: the gate did not block version 2, or did not release version 3.
    """
    started = time.monotonic()
    place = _Place(_prepare(folder))
    training, test = data.load(SEED)
    np.savez_compressed(place.seeds, x=test.x, y=test.y)
    _write_settings(place)

    _say(console, "1", "The champion", "Version 1 reads handwritten digits. It was trained on 1,197 pictures and serves as `champion`.")
    night = data.night_shift(training, SEED, counted_from=0)
    _register(place, training.times(3) + night, test, 1, stop, console)
    _point_champion_at(place, 1)

    text = (
        "Version 2 was trained on as many pictures. For those of the night shift somebody counted the digits from one, so each of "
        "their labels is one too high. On the test set nobody sees that."
    )
    _say(console, "2", "Its successor, with a fault that clean accuracy can't see", text)
    _register(place, training.times(4) + data.night_shift(training, SEED, counted_from=1), test, 2, stop, console)

    _say(console, "3", "The gate on version 2", f"gate run --config {place.folder / 'gate.yaml'} --model models:/{MODEL}/2")
    blocked = _gate(place, 2, "none", "all", stop, console)
    _expect(blocked, Verdict.FAIL, 2)
    _show_causes(blocked, console)

    text = (
        f"gate corpus export {blocked.folder} --half a --out {place.folder / 'export'}\n"
        "Half of the seed inputs give their defects to the training set; the other half stays unseen, to tell a fix from memorised "
        "examples. The root causes (each digit read as the next one) led to the night shift's labels, which are put right."
    )
    _say(console, "4", "The fix", text)
    exported = export(blocked.result, blocked.folder, place.folder / "export", half="a", load=picture.load)
    with np.load(exported.folder / "train.npz") as arrays:
        defects = Digits(arrays["x"][..., 0], arrays["y"])
    console.print(f"  {exported.exported} defects exported, {exported.held_out} held out")
    _register(place, training.times(3) + night + defects.times(2), test, 3, stop, console)

    command = (
        f"gate run --config {place.folder / 'gate.yaml'} --model models:/{MODEL}/3 --previous {blocked.folder} --judge-half b\n"
        "Its rates come from the half of the seed inputs whose defects it has not seen."
    )
    _say(console, "5", "The gate on version 3", command)
    released = _gate(place, 3, str(blocked.folder), "b", stop, console)
    _expect(released, Verdict.PASS, 3)
    _point_champion_at(place, 3)
    _say(console, "6", "Released", f"`champion` is now version 3. All of this took {time.monotonic() - started:.0f} s.")
    _show_next(place, blocked, released, console)


def _prepare(folder: Path) -> Path:
    folder = folder.resolve()
    try:
        if folder.exists() and any(folder.iterdir()):
            if not (folder / _MARK).is_file():
                raise OutputError("The folder is not empty and holds no demo.", where=str(folder), hint="Give another folder with --out.")
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARK).write_text("Made by `gate demo`, which replaces this folder when it runs again.\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"The folder can't be written: {error.strerror or error}.", where=str(folder), hint="Give --out.") from error
    return folder


def _write_settings(place: _Place) -> None:
    text = f"""# Settings of the demo's gate runs; see docs/configuration.md.
baseline: models:/{MODEL}@champion
tracking_uri: {place.store}
data: {{seeds: seeds.npz}}
input: {{size: [8, 8], channels: 1}}
classes: [zero, one, two, three, four, five, six, seven, eight, nine]
budget: {{executions: {EXECUTIONS}}}
policy: baseline
seed: {SEED}
"""
    (place.folder / "gate.yaml").write_text(text, encoding="utf-8")


def _register(place: _Place, training: Digits, test: Digits, version: int, stop: Callable[[], bool], console: Console) -> None:
    """Trains a model and registers it as the next version."""
    import mlflow

    from gate.demo.network import accuracy, tensor, train

    with console.status("training"):
        model = train(training, SEED, stop)
    reached = accuracy(model, test)
    # MLflow prints its successes to standard error past its own log levels.
    with console.status("registering"), session(place.store, create=True), contextlib.redirect_stderr(io.StringIO()):
        mlflow.set_tracking_uri(place.store)
        if mlflow.get_experiment_by_name(MODEL) is None:
            mlflow.create_experiment(MODEL, artifact_location=(place.folder / "artifacts").as_uri())
        mlflow.set_experiment(MODEL)
        with mlflow.start_run(run_name=f"train version {version}"):
            mlflow.log_metric("clean_accuracy", reached)
            logged = mlflow.pytorch.log_model(
                model, name="model", registered_model_name=MODEL, input_example=tensor(test.x[:4]).numpy(), serialization_format="pt2"
            )
    if str(logged.registered_model_version) != str(version):
        raise OutputError(f"The registry made version {logged.registered_model_version} where {version} was due.", where=place.store)
    console.print(f"  registered as models:/{MODEL}/{version}: clean accuracy {reached:.1%} on {len(test.x)} test pictures")


def _point_champion_at(place: _Place, version: int) -> None:
    with session(place.store) as client:
        client.set_registered_model_alias(MODEL, "champion", str(version))


def _gate(place: _Place, version: int, previous: str, half: str, stop: Callable[[], bool], console: Console) -> Outcome:
    out = place.folder / f"gate-version-{version}"
    options = {"model": f"models:/{MODEL}/{version}", "previous": previous, "data.judge_half": half, "out": str(out)}
    settings: Settings = load(place.folder / "gate.yaml", environment={}, command_line=options).settings
    with Progress(Console(stderr=True), title=f"version {version}") as progress:
        outcome = run(settings, observers=(progress.observe,), stop=stop)
    show_verdict(outcome, console)
    return outcome


def _expect(outcome: Outcome, verdict: Verdict, version: int) -> None:
    if outcome.result.partial:
        raise KeyboardInterrupt
    if outcome.result.verdict is not verdict:
        raise UnexpectedVerdict(
            f"Version {version} was expected to {verdict}, and the gate says {outcome.result.verdict}.",
            where=str(outcome.folder / "report.html"),
            hint="The models of the demo are trained on this machine and may come out otherwise here; the report says what was measured.",
        )


def _show_causes(outcome: Outcome, console: Console) -> None:
    result = outcome.result
    console.print(Text(f"  {len(result.defects)} defects with {len(result.root_causes)} root causes; the largest:"))
    for cause in result.root_causes[:5]:
        console.print(Text(f"    {cause.size:3d} x {cause.title}"))


def _show_next(place: _Place, blocked: Outcome, released: Outcome, console: Console) -> None:
    defect = blocked.result.defects[0].id
    lines = [
        ("the report that blocked version 2", str(blocked.folder / "report.html")),
        ("the report that released version 3", str(released.folder / "report.html")),
        ("one defect on the faulty model", f"gate replay {blocked.folder} {defect}"),
        ("the same on the fixed one", f"gate replay {blocked.folder} {defect} --model models:/{MODEL}/3"),
        ("version 3 under a stricter policy", f"gate evaluate {released.folder} --policy strict"),
        ("the registry, with reports and tags", f"mlflow server --port 5000 --backend-store-uri {place.store}"),
    ]
    for title, command in lines:
        console.print(Text.assemble(f"  {title}:\n    ", (command, "bold")), soft_wrap=True)


def _say(console: Console, number: str, title: str, text: str) -> None:
    console.print()
    console.print(Rule(Text(f"{number}. {title}", style="bold"), align="left"))
    console.print(Text(text), soft_wrap=text.startswith("gate "))
