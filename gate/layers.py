"""Lists the layers of a model that could be watched, with what they put out and what goes wrong with them: what ``gate layers`` does."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gate.campaign.supervisor import Worker
from gate.config import InputSettings, Settings
from gate.coverage.traps import LayerFacts, LayerRange, Trap, traps
from gate.domains.image.dataset import load_images
from gate.domains.image.signature import complete_input
from gate.errors import ConfigError
from gate.registry.connection import redacted
from gate.registry.download import download_artifact, download_model
from gate.registry.mlmodel import describe
from gate.registry.resolve import resolve
from gate.trust.digest import digest

__all__ = ["SCHEMA", "Listing", "list_model_layers"]

SCHEMA = "gate.layers/1"
PROBES = 4  # made-up inputs where there are no samples
ELEMENTS_BATCH = 16  # samples at once where every number is a neuron: the outputs of all layers are kept side by side


@dataclass(frozen=True)
class Listing:
    """A model's layers in the order of execution."""

    model: str  # resolved URI, without logins
    digest: str
    layers: tuple[LayerFacts, ...]
    traps: tuple[Trap, ...]
    neuron: str
    samples: int = 0  # that ranges come from; 0: no ranges are known
    source: str | None = None  # of these samples
    problem: ConfigError | None = None  # with coverage.layers

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "digest": self.digest,
            "neuron": self.neuron,
            "samples": self.samples,
            "source": self.source,
            "layers": [asdict(layer) for layer in self.layers],
            "traps": [asdict(trap) for trap in self.traps],
            "problem": None if self.problem is None else str(self.problem),
        }


def list_model_layers(settings: Settings, *, samples: int = 1000) -> Listing:
    """Loads the model in a worker and runs it on clean samples.

    Without ``data.seeds`` the layers are found by running noise of the input's size through it, and no ranges are told: those of noise
    would say nothing.

    Args:
        settings: as of a run; model, data.seeds, input, output, coverage, device, batch_size and tracking_uri matter.
        samples: the most that are used of the seeds, evenly spread over the set.

    Raises:
        ConfigError: no model, or neither seeds nor an input size.
        GateError: whatever fetching, loading and running a model, and reading data, can raise.
    """
    if settings.model is None:
        raise ConfigError("No model is given.", where="model", hint="Name it: gate layers models:/name/3, or a local MLflow model folder.")
    reference = resolve(settings.model, tracking_uri=settings.tracking_uri)
    with tempfile.TemporaryDirectory(prefix="gate-") as private:
        folder = download_model(reference, Path(private) / "model")
        description = describe(folder)
        reading = complete_input(settings.input, description.input_shape)
        x, value_range = _inputs(settings, reading, Path(private), samples)
        ranged = settings.data.seeds is not None
        with Worker(Path(private) / "worker") as worker:
            loaded, _ = worker.call(
                "load",
                {
                    "folder": str(folder),
                    "description": description.to_dict(),
                    "device": settings.device,
                    "reading": reading.model_dump(mode="json"),
                    "value_range": list(value_range),
                    "channels": int(x.shape[3]),
                    "output_key": settings.output.key,
                    "classes": len(settings.classes) if isinstance(settings.classes, tuple) else None,
                    "seed": settings.seed,
                },
            )
            first = np.resize(x[:PROBES], (PROBES, *x.shape[1:]))  # a single sample would not tell the batch axis from others
            fields, _ = worker.call("layers", {"coverage": settings.coverage.model_dump(mode="json")}, {"x": first})
            ranges: dict[str, Any] = {}
            size = min(settings.batch_size, ELEMENTS_BATCH) if settings.coverage.neuron == "element" else settings.batch_size
            for start in range(0, len(x) if ranged else 0, size):
                ranges = worker.call("layer_ranges", {}, {"x": x[start : start + size]})[0]["ranges"]
        found = digest(folder)
    layers = tuple(_facts(row, ranges.get(row["name"])) for row in fields["layers"])
    problem = None if fields["problem"] is None else ConfigError(fields["problem"]["what"], **_place(fields["problem"]))
    return Listing(
        redacted(reference.resolved_uri),
        found,
        layers,
        traps(layers, settings.coverage, training=loaded["training"]),
        settings.coverage.neuron,
        len(x) if ranged else 0,
        redacted(str(settings.data.seeds)) if ranged else None,
        problem,
    )


def _inputs(settings: Settings, reading: InputSettings, private: Path, samples: int) -> tuple[np.ndarray, Sequence[float]]:
    """(x [N, H, W, C] in the file dtype, lowest and highest value): clean samples, or noise where there are none."""
    source = settings.data.seeds
    if source is not None:
        place = Path(source)
        if ":" in source and not place.exists():
            place = download_artifact(source, private / "seeds", tracking_uri=settings.tracking_uri)
        loaded = load_images(place, settings=reading, classes=None, on_bad_file=settings.data.on_bad_file, role="seeds")
        # Evenly spread: files often stand there class by class.
        rows = np.unique(np.linspace(0, len(loaded.x) - 1, min(samples, len(loaded.x))).round().astype(np.int64))
        return loaded.x[rows], loaded.value_range
    if reading.size is None or reading.channels is None:
        raise ConfigError(
            "The size of the model's input is not known: its signature does not say, and there are no seeds.",
            where="input.size" if reading.size is None else "input.channels",
            hint="Give clean samples with --seeds (then ranges are shown, too), or set input.size and input.channels in gate.yaml.",
        )
    low, high = reading.range or (0.0, 255.0)
    noise = np.random.default_rng(settings.seed).uniform(low, high, (PROBES, *reading.size, reading.channels))
    return noise.round().astype(np.uint8) if reading.range is None else noise.astype(np.float32), (low, high)


def _facts(row: Mapping[str, Any], said: Mapping[str, Any] | None) -> LayerFacts:
    facts = LayerFacts(**row)
    if said is None:
        return facts
    found = None if said["range"] is None else LayerRange(**said["range"])
    return replace(facts, range=found, constant=said["constant"], nonfinite=said["nonfinite"])


def _place(problem: Mapping[str, str]) -> dict[str, str]:
    return {"where": problem["where"], "hint": problem["hint"]}
