"""Tries the gate on a CUDA device and prints a table: ``python -m benchmarks.gpu_check`` (or ``make gpu-check``).

Every check compares with the CPU or with itself, so it can fail. Takes a minute or two on a current GPU. ``--device cpu`` runs the same
checks without one, to try the checks themselves. Exit 0: all passed, or there is no CUDA device (said so); 1: a check failed.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gate.campaign.ascent_options import Ascent
from gate.campaign.supervisor import Worker
from gate.config import CoverageSettings, InputSettings, load
from gate.demo import digits as data

__all__ = ["CHECKS", "Place", "prepare"]

SEED = 4
EXECUTIONS = 3000
FORMATS = ("pickle", "pt2")


@dataclass
class Place:
    """What the checks share: a trained model in both formats and its data."""

    folder: Path
    device: str
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def seeds(self) -> Path:
        return self.folder / "seeds.npz"

    def model(self, form: str) -> Path:
        return self.folder / form


def prepare(folder: Path, device: str) -> Place:
    """Trains a digits model on the CPU and saves it both ways that MLflow knows."""
    import mlflow

    from gate.demo.network import tensor, train

    place = Place(folder, device)
    training, test = data.load(SEED)
    np.savez(place.seeds, x=test.x, y=test.y)
    model = train(training, SEED)
    for form in FORMATS:
        mlflow.pytorch.save_model(model, place.model(form), serialization_format=form, input_example=tensor(test.x[:4]).numpy())
    return place


EVERY: dict[str, dict[str, Any]] = {
    "nc": {},
    "kmnc": {"sections": 1000},
    "nbc": {},
    "snac": {},
    "tknc": {"k": 3},
    "tknp": {"k": 3},
    "map": {"window": 2},
    "output": {},
    "nlc": {},
    "lsa": {},
    "dsa": {},
    "mdsa": {},
}
ROUNDED = ("lsa", "dsa", "mdsa")  # go through products of matrices, whose last digits are each device's own


def criteria_agree(place: Place) -> str:
    """Every criterion counts the same, sample by sample, as on the CPU, and goes on with what was counted there."""
    import torch

    from gate.coverage import criterion

    generator = torch.Generator().manual_seed(SEED)
    # Layers in a row that are equally wide, ties, and what is not finite.
    shapes = {"conv": 64, "conv.relu": 64, "wide": 512, "narrow": 5}
    profile, samples = ({name: torch.randn(300, width, generator=generator) for name, width in shapes.items()} for _ in range(2))
    samples["conv.relu"].relu_()
    samples["wide"][7, 3], samples["wide"][8, :510] = float("nan"), float("inf")
    labels, logits = torch.arange(300) % 4, torch.randn(300, 4, generator=generator)
    earns = torch.rand(300, generator=generator) < 0.7
    totals = []
    for name, options in EVERY.items():
        here, there = criterion(name, **options), criterion(name, **options)
        here.fit(profile, labels)
        there.fit({layer: values.to(place.device) for layer, values in profile.items()}, labels.to(place.device))
        for start in range(0, 300, 64):
            rows = slice(start, start + 64)
            batch = {layer: values[rows] for layer, values in samples.items()}
            moved = {layer: values.to(place.device) for layer, values in batch.items()}
            new = there.update(moved, logits[rows].to(place.device), earns=earns[rows])
            assert new.device.type == torch.device(place.device).type, f"{name} answers on {new.device}"
            expected = here.update(batch, logits[rows], earns=earns[rows])
            if name in ROUNDED:
                assert abs(int(new.sum()) - int(expected.sum())) <= 2, f"{name} counts other items"
            elif expected.is_floating_point():
                torch.testing.assert_close(new.cpu(), expected)
            else:
                assert torch.equal(new.cpu(), expected), f"{name} counts other items"
        assert here.nonfinite == there.nonfinite, name
        if name == "nlc":
            assert math.isclose(here.value, there.value, rel_tol=1e-9), f"nlc: {here.value} and {there.value}"
        elif name not in ROUNDED:
            assert (here.value, here.raw_value) == (there.value, there.raw_value), f"{name}: {here.value} and {there.value}"
            assert here.merge(there).value == there.value, f"{name}: the maps of the two devices differ"
        totals.append(f"{name} {there.value:.4g}")
    return ", ".join(totals)


def recording_memory(place: Place) -> str:
    """Recording adds at most a tenth to the memory that the forward pass of a batch needs."""
    from benchmarks.coverage import EIGHT, MIB, recording_peaks
    from benchmarks.subjects import resnet

    bare, recorded, updated = recording_peaks(resnet(18, 224, 16, place.device), EIGHT)
    assert recorded <= 1.1 * bare, f"{recorded / MIB:.1f} MiB instead of {bare / MIB:.1f}"
    return f"bare {bare / MIB:.1f} MiB, recorded {recorded / MIB:.1f}, with the update of eight criteria {updated / MIB:.1f}"


def coverage_cost(place: Place) -> str:
    """What eight criteria together cost, over the bare forward pass: shown, for no target is stated for this device."""
    from benchmarks.coverage import EIGHT, updating
    from benchmarks.pairs import median
    from benchmarks.subjects import digits, resnet

    shown = []
    for subject in (resnet(18, 64, 32, place.device), resnet(18, 224, 128, place.device), digits(256, place.device)):
        pairs = updating(subject, EIGHT, 30)
        bare, both = (1e3 * median(seconds).value for seconds in (pairs.bare, pairs.with_coverage))
        assert both > bare > 0
        shown.append(f"{subject.name}: x {median(pairs.ratios)} ({bare:.1f} -> {both:.1f} ms)")
    return "; ".join(shown)


def preprocessing_agrees(place: Place) -> str:
    """Input settings give the model the same numbers as on the CPU."""
    import torch

    from gate.domains.image.preprocess import Preprocess

    x = torch.from_numpy(np.random.default_rng(SEED).integers(0, 256, (16, 9, 7, 3), dtype=np.uint8))
    worst = 0.0
    for layout in ("nchw", "nhwc", "flat"):
        settings = InputSettings(layout=layout, order="bgr", mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
        here = Preprocess(settings, (0.0, 255.0), 3)(x)
        there = Preprocess(settings, (0.0, 255.0), 3).to(place.device)(x.to(place.device)).cpu()
        worst = max(worst, float((here - there).abs().max()))
    assert worst < 1e-5, f"differs by {worst}"
    return f"largest difference {worst:.1e}"


def _loaded(worker: Worker, place: Place, form: str, device: str, **changes: Any) -> dict[str, Any]:
    from gate.registry.mlmodel import describe

    parameters = {
        "folder": str(place.model(form)),
        "description": describe(place.model(form)).to_dict(),
        "device": device,
        "reading": InputSettings(size=(8, 8), channels=1).model_dump(mode="json"),
        "value_range": [0, 255],
        "channels": 1,
        "output_key": None,
        "classes": 10,
        "seed": SEED,
        **changes,
    }
    return worker.call("load", parameters)[0]


def worker_answers(place: Place, form: str) -> str:
    """The worker loads the model onto the device, repeats itself bit for bit, and agrees with the CPU."""
    with np.load(place.seeds) as arrays:
        x = arrays["x"][:256, :, :, None]
    answers = {}
    for device in ("cpu", place.device):
        with Worker(place.folder / f"worker-{form}-{device.replace(':', '-')}") as worker:
            loaded = _loaded(worker, place, form, device)
            once, again = (worker.call("forward", {}, {"x": x})[1]["raw"] for _ in range(2))
            assert np.array_equal(once, again), f"{device}: the same batch gives other answers"
            answers[device] = once
    worst = float(np.abs(answers["cpu"] - answers[place.device]).max())
    same = float((answers["cpu"].argmax(1) == answers[place.device].argmax(1)).mean())
    assert worst < 0.05, f"logits differ by {worst}"
    assert same == 1.0, f"only {same:.1%} of the predictions agree"
    return f"{loaded['fingerprint']['device']}: logits within {worst:.1e} of the CPU's"


def copies(place: Place) -> str:
    """Batches of many sizes arrive whole on the device, although one buffer serves all and the copies are not waited for."""
    import torch

    from gate.campaign.staging import Staging

    staging, random = Staging(torch.device(place.device)), np.random.default_rng(SEED)
    batches = [
        random.integers(0, 256, (size, 64, 64, 3)).astype(dtype) for size in (128, 3, 500, 1, 64) for dtype in (np.uint8, np.float32)
    ]
    moved = [staging.take(batch) for batch in batches]
    assert all(np.array_equal(there.cpu().numpy(), here) for there, here in zip(moved, batches, strict=True)), "a batch arrives changed"
    return f"{len(batches)} batches, {sum(batch.nbytes for batch in batches) / 2**20:.0f} MiB"


def search_precision(place: Place) -> str:
    """In mixed precision the search hardly answers otherwise; the judging arm answers as without."""
    with np.load(place.seeds) as arrays:
        x, y = arrays["x"][:256, :, :, None], arrays["y"][:256]
    earns, shown = np.ones(len(x), dtype=bool), []
    for amp in ("bf16", "fp16") if place.device.startswith("cuda") else ("bf16",):
        with Worker(place.folder / f"worker-{amp}") as worker:
            _loaded(worker, place, "pt2", place.device, amp=amp)
            worker.call("watch", {"coverage": CoverageSettings().model_dump(mode="json"), "kind": "logits"}, {"x": x[:3]})
            worker.call("profile", {}, {"x": x, "y": y})
            worker.call("cover_seeds", {}, {"x": x})
            worker.call("open_arms", {"arms": ["search"]})
            full = worker.call("forward", {}, {"x": x})[1]["raw"]
            judged = worker.call("run", {"arm": None}, {"x": x, "earns": earns})[1]["raw"]
            searched = worker.call("run", {"arm": "search"}, {"x": x, "earns": earns})[1]["raw"]
        assert np.array_equal(full, judged), f"{amp}: judging is not in full precision"
        assert not np.array_equal(full, searched), f"{amp}: the search is in full precision"
        same = float((full.argmax(1) == searched.argmax(1)).mean())
        assert same > 0.97, f"{amp}: only {same:.1%} of the predictions agree"
        shown.append(f"{amp} logits within {float(np.abs(full - searched).max()):.1e}")
    return ", ".join(shown)


def compiled_search(place: Place) -> str:
    """A compiled model is used, or the plain one with a reason; either way the answers are the plain model's."""
    with np.load(place.seeds) as arrays:
        x, y = arrays["x"][:256, :, :, None], arrays["y"][:256]
    with Worker(place.folder / "worker-compiled") as worker:
        _loaded(worker, place, "pt2", place.device, compiled=True)
        worker.call("watch", {"coverage": CoverageSettings().model_dump(mode="json"), "kind": "logits"}, {"x": x[:3]})
        worker.call("profile", {}, {"x": x, "y": y})
        worker.call("cover_seeds", {}, {"x": x})
        worker.call("open_arms", {"arms": ["search"]})
        full = worker.call("forward", {}, {"x": x})[1]["raw"]
        for count in (len(x), 100, 7):
            sent = {"x": x[:count], "earns": np.ones(count, dtype=bool)}
            worst = float(np.abs(worker.call("run", {"arm": "search"}, sent)[1]["raw"] - full[:count]).max())
            assert worst < 0.05, f"logits of {count} differ by {worst}"
        return f"{worker.call('describe')[0]['compile']}: logits within {worst:.1e}"


def short_memory(place: Place) -> str:
    """A batch that does not fit is halved until it does, and the memory comes back."""
    import torch

    from gate.campaign.forward import Forward
    from gate.demo.network import DigitsNet
    from gate.domains.image.preprocess import Preprocess

    if not place.device.startswith("cuda"):
        return "only on CUDA"
    device = torch.device(place.device)
    forward = Forward(DigitsNet(512).eval().to(device), device)
    read = Preprocess(InputSettings(), (0.0, 255.0), 1).to(device)
    x = torch.randint(0, 256, (200_000, 8, 8, 1), dtype=torch.uint8, device=device)
    torch.cuda.empty_cache()
    allowed = torch.cuda.memory_allocated(device) + (2 << 30)
    torch.cuda.set_per_process_memory_fraction(allowed / torch.cuda.get_device_properties(device).total_memory, device)
    try:
        with torch.no_grad():
            raw = forward.answer(x, read)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)
    size = forward.state()["micro_batch"]
    assert size is not None, "the memory was large enough, so nothing was tried"
    assert size < len(x)
    with torch.no_grad():
        torch.testing.assert_close(raw[:1000], forward.once(x[:1000], read), rtol=1e-3, atol=1e-3)
    return f"{len(x):,} samples in parts of {size:,}"


def model_operators(place: Place) -> str:
    """Attacks stay within their bound and fool the model; the coverage gradient covers more than its seeds."""
    with np.load(place.seeds) as arrays:
        x, y = arrays["x"][:128, :, :, None], arrays["y"][:128]
    with Worker(place.folder / "worker-operators") as worker:
        _loaded(worker, place, "pickle", place.device)
        worker.call("watch", {"coverage": CoverageSettings().model_dump(mode="json"), "kind": "logits"}, {"x": x[:3]})
        worker.call("profile", {}, {"x": x, "y": y})
        worker.call("cover_seeds", {}, {"x": x})
        before = worker.call("open_arms", {"arms": ["search"]})[0]["coverage"]
        clean = (worker.call("forward", {}, {"x": x})[1]["raw"].argmax(1) == y).mean()
        bound, shown = 0.2, []
        for operator, steps in (("fgsm", 1), ("pgd", 10)):
            parameters = {"operator": operator, "bound": bound, "steps": steps, "seed": SEED}
            mutants = worker.call("mutate", parameters, {"x": x, "labels": y})[1]["x"]
            most = int(np.abs(mutants.astype(int) - x.astype(int)).max())
            assert most <= np.ceil(bound * 255), f"{operator} goes {most} far"
            accuracy = (worker.call("forward", {}, {"x": mutants})[1]["raw"].argmax(1) == y).mean()
            assert accuracy < clean - 0.3, f"{operator} leaves {accuracy:.0%} of {clean:.0%} right"
            shown.append(f"{operator} leaves {accuracy:.0%} right")
        aimed = worker.call("aim", {"count": len(x), "seed": SEED})[1]  # at places that are the seed inputs' positions
        parameters = {"token": 1, "bound": bound, "seed": SEED, "ascent": asdict(Ascent())}
        climbed = worker.call("climb", parameters, {"x": x[aimed["places"]], "targets": aimed["targets"]})[1]
        most = int(np.abs(climbed["x"].astype(int) - x[aimed["places"]][climbed["rows"]].astype(int)).max())
        assert most <= np.ceil(bound * 255), f"the coverage gradient goes {most} far"
        after = worker.call("run_kept", {"arm": "search", "token": 1}, {"earns": np.ones(len(climbed["x"]), dtype=bool)})[0]["valid"]
        assert after["kmnc"] > before["kmnc"], "the coverage gradient covers nothing new"
    return f"{', '.join(shown)} of {clean:.0%}; kmnc {before['kmnc']:.1%} -> {after['kmnc']:.1%}"


def whole_run(place: Place, form: str) -> str:
    """A whole gate run on the device; twice with the same seed gives the same record."""
    from gate.pipeline import run

    results = []
    for attempt in (1, 2):
        options = {
            "model": str(place.model(form)),
            "data.seeds": str(place.seeds),
            "classes": tuple(map(str, range(10))),
            "device": place.device,
            "budget.executions": EXECUTIONS,
            "seed": SEED,
            "out": str(place.folder / f"run-{form}-{attempt}"),
        }
        started = time.monotonic()
        outcome = run(load(None, environment={}, command_line=options).settings)
        results.append((outcome.result, time.monotonic() - started))
    first, second = results[0][0], results[1][0]
    assert first.campaign is not None, first.reasons
    assert second.campaign is not None, second.reasons
    assert first.verdict == second.verdict
    assert [defect.id for defect in first.defects] == [defect.id for defect in second.defects], "the two runs found other defects"
    assert first.coverage == second.coverage, "the two runs covered other items"
    searched = first.campaign.arms["search"].executions / (first.campaign.device_hours * 3600)
    place.seen[form] = first
    return (
        f"{first.verdict}, {len(first.defects)} defects, {searched:.0f} search executions/s on {first.campaign.device}, "
        f"{results[0][1]:.0f} s in all; the same twice"
    )


CHECKS: dict[str, Callable[[Place], str]] = {
    "criteria": criteria_agree,
    "memory of recording": recording_memory,
    "cost of coverage": coverage_cost,
    "preprocessing": preprocessing_agrees,
    "worker, pickle": lambda place: worker_answers(place, "pickle"),
    "worker, pt2": lambda place: worker_answers(place, "pt2"),
    "copies to the device": copies,
    "mixed precision": search_precision,
    "compiled": compiled_search,
    "short memory": short_memory,
    "attacks and gradient": model_operators,
    "whole run, pickle": lambda place: whole_run(place, "pickle"),
    "whole run, pt2": lambda place: whole_run(place, "pt2"),
}


def main() -> int:
    """Runs all checks and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu to try the checks themselves")
    device: str = parser.parse_args().device
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        built = torch.version.cuda
        print(
            f"gpu-check: skipped: torch {torch.__version__} sees no CUDA device ({f'built for CUDA {built}' if built else 'a CPU build'})"
        )
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("check", "result", "seconds", "seen", title=f"gate on {device}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="gate-gpu-") as folder:
        place = prepare(Path(folder), device)
        for name, check in CHECKS.items():
            started = time.monotonic()
            try:
                seen, result = check(place), "[green]pass[/]"
            except Exception as error:
                seen, result, failed = f"{type(error).__name__}: {error}", "[bold red]FAIL[/]", failed + 1
            table.add_row(name, result, f"{time.monotonic() - started:.1f}", seen)
    Console(width=160).print(table)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
