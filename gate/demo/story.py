"""The demo's story, told by doing: champion, faulty successor, the gate blocks it, the fix, the gate lets it through.

Nothing is staged: models are trained here, verdicts are computed. If they come out otherwise, the demo says so and fails.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

from gate.corpus.export import export
from gate.demo import digits as data
from gate.demo.digits import Digits
from gate.demo.place import Place, prepare
from gate.demo.telling import UnexpectedVerdict, run_gate, say, show_causes, show_next
from gate.domains.image import picture
from gate.pipeline import Outcome
from gate.registry.connection import session
from gate.result import Verdict

__all__ = ["tell"]

MODEL = "digits"
SEED = 4
EXECUTIONS = 8000  # 300 of the test pictures are judged, so that the verdict on version 2 is no matter of luck


def tell(folder: Path, stop: Callable[[], bool], console: Console) -> None:
    """Runs the whole demo in ``folder``, which is new, empty, or an earlier demo's (which is then replaced).

    Raises:
        OutputError: the folder holds something else.
        UnexpectedVerdict: the gate did not block version 2, or did not release version 3.
    """
    started = time.monotonic()
    place = prepare(folder)
    training, test = data.load(SEED)
    np.savez_compressed(place.folder / "seeds.npz", x=test.x, y=test.y)
    _write_settings(place)

    say(console, "1", "The champion", "Version 1 reads handwritten digits. It was trained on 1,197 pictures and serves as `champion`.")
    night = data.night_shift(training, SEED, counted_from=0)
    _register(place, training.times(3) + night, test, 1, stop, console)
    _point_champion_at(place, 1)

    text = (
        "Version 2 was trained on as many pictures. For those of the night shift somebody counted the digits from one, so each of "
        "their labels is one too high. On the test set nobody sees that."
    )
    say(console, "2", "Its successor, with a fault that clean accuracy can't see", text)
    _register(place, training.times(4) + data.night_shift(training, SEED, counted_from=1), test, 2, stop, console)

    say(console, "3", "The gate on version 2", f"gate run --config {place.settings} --model models:/{MODEL}/2")
    blocked = _gate(place, 2, "none", "all", stop, console)
    _expect(blocked, Verdict.FAIL, 2)
    show_causes(blocked, console)

    text = (
        f"gate corpus export {blocked.folder} --half a --out {place.folder / 'export'}\n"
        "Half of the seed inputs give their defects to the training set; the other half stays unseen, to tell a fix from memorised "
        "examples. Whatever the change is, digits are read as the next one: that led to the night shift's labels, which are put right."
    )
    say(console, "4", "The fix", text)
    exported = export(blocked.result, blocked.folder, place.folder / "export", half="a", load=picture.load)
    with np.load(exported.folder / "train.npz") as arrays:
        defects = Digits(arrays["x"][..., 0], arrays["y"])
    console.print(
        f"  {exported.exported} defects exported, {exported.held_out} held out, {exported.kept_back} kept back (found by the arm that "
        "judges, which asks the next version the same, or nothing that training would change)",
        soft_wrap=True,
    )
    _register(place, training.times(3) + night + defects.times(2), test, 3, stop, console)

    command = (
        f"gate run --config {place.settings} --model models:/{MODEL}/3 --previous {blocked.folder} --judge-half b\n"
        "Its rates come from the half of the seed inputs whose defects it has not seen."
    )
    say(console, "5", "The gate on version 3", command)
    released = _gate(place, 3, str(blocked.folder), "b", stop, console)
    _expect(released, Verdict.PASS, 3)
    _point_champion_at(place, 3)
    fixed = sum(cause.status == "fixed" for cause in released.result.earlier_causes)
    text = (
        f"`champion` is now version 3. Of the {len(blocked.result.root_causes)} root causes of version 2 {fixed} are fixed: their defects, "
        f"replayed, are read rightly. All of this took {time.monotonic() - started:.0f} s."
    )
    say(console, "6", "Released", text)
    _show_next(place, blocked, released, console)


def _write_settings(place: Place) -> None:
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
    place.settings.write_text(text, encoding="utf-8")


def _register(place: Place, training: Digits, test: Digits, version: int, stop: Callable[[], bool], console: Console) -> None:
    """Trains a model and registers it as the next version."""
    from gate.demo.network import accuracy, tensor, train

    with console.status("training"):
        model = train(training, SEED, stop)
    reached = accuracy(model, test)
    with console.status("registering"):
        example = tensor(test.x[:4]).numpy()
        place.register(MODEL, version, model, example, run_name=f"train version {version}", metrics={"clean_accuracy": reached})
    console.print(f"  registered as models:/{MODEL}/{version}: clean accuracy {reached:.1%} on {len(test.x)} test pictures")


def _point_champion_at(place: Place, version: int) -> None:
    with session(place.store) as client:
        client.set_registered_model_alias(MODEL, "champion", str(version))


def _gate(place: Place, version: int, previous: str, half: str, stop: Callable[[], bool], console: Console) -> Outcome:
    out = place.folder / f"gate-version-{version}"
    options = {"model": f"models:/{MODEL}/{version}", "previous": previous, "data.judge_half": half, "out": str(out)}
    return run_gate(place, options, f"version {version}", stop, console)


def _expect(outcome: Outcome, verdict: Verdict, version: int) -> None:
    if outcome.result.verdict is not verdict:
        raise UnexpectedVerdict(
            f"Version {version} was expected to {verdict}, and the gate says {outcome.result.verdict}.",
            where=str(outcome.folder / "report.html"),
            hint="The models of the demo are trained on this machine and may come out otherwise here; the report says what was measured.",
        )


def _show_next(place: Place, blocked: Outcome, released: Outcome, console: Console) -> None:
    defect = blocked.result.root_causes[0].example
    blocked_run, released_run, page = (
        shlex.quote(str(path)) for path in (blocked.folder, released.folder, place.folder / "difference.html")
    )
    lines = [
        ("the report that blocked version 2", str(blocked.folder / "report.html")),
        ("the report that released version 3", str(released.folder / "report.html")),
        ("one defect on the faulty model, and the neurons it comes from", f"gate replay {blocked_run} {defect} --explain"),
        ("the same on the fixed one", f"gate replay {blocked_run} {defect} --model models:/{MODEL}/3"),
        ("what is fixed and what was only learnt by heart, by fresh mutants", f"gate regress {blocked_run} --model models:/{MODEL}/3"),
        ("both runs side by side", f"gate diff {blocked_run} {released_run} --out {page}"),
        ("version 3 under a stricter policy", f"gate evaluate {released_run} --policy strict"),
        ("the registry, with reports and tags", f"mlflow server --port 5000 --backend-store-uri {shlex.quote(place.store)}"),
    ]
    show_next(lines, console)
