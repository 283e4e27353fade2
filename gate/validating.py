"""Fetches the validator model and holds its worker for as long as the campaign runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gate.campaign.preflight import predict_all
from gate.campaign.supervisor import Refused, Worker
from gate.campaign.validator import Validator, named_as_validator
from gate.config import InputSettings, Settings
from gate.domains.image.image_set import ImageSet
from gate.domains.image.signature import complete_input
from gate.errors import ConfigError
from gate.models.outputs import class_count, recognise
from gate.registry.download import download_model
from gate.registry.mlmodel import ModelDescription, describe
from gate.registry.resolve import resolve
from gate.result import ModelInfo
from gate.trust.digest import digest
from gate.work import Work

__all__ = ["FetchedValidator", "fetch_validator", "validating"]

_FIRST = 64  # seed inputs from which it is seen what the outputs are


@dataclass(frozen=True)
class FetchedValidator:
    """The validator on disk."""

    info: ModelInfo
    folder: Path
    description: ModelDescription


def fetch_validator(settings: Settings, folder: Path) -> FetchedValidator | None:
    """The model of the setting ``validator``, downloaded into ``folder``; None where there is none.

    Raises:
        RegistryError, ModelError: it can't be found, fetched or read.
    """
    if settings.validator is None:
        return None
    with named_as_validator():
        reference = resolve(settings.validator, tracking_uri=settings.tracking_uri)
        place = download_model(reference, folder)
        description = describe(place)
    info = ModelInfo(
        uri=settings.validator,
        resolved_uri=reference.resolved_uri,
        name=reference.name,
        version=reference.version,
        digest=digest(place),
        format=description.format,
    )
    return FetchedValidator(info, place, description)


@contextmanager
def validating(work: Work, fetched: FetchedValidator | None, private: Path, seeds: ImageSet) -> Iterator[Validator | None]:
    """Inside, the validator can be asked; ``work`` knows it, for how often it was.

    It gets the same pictures as the candidate, read by the same input settings (what these leave open follows from its own signature),
    and its classes must be the candidate's in the same order.

    Raises:
        ConfigError: it tells apart another number of classes, or can't take the seed inputs.
        WorkerError, ModelError: as the worker or the model failed.
    """
    if fetched is None:
        yield None
        return
    settings = work.settings
    height, width, channels = seeds.x.shape[1:]
    known = settings.input.model_copy(update={"size": (height, width), "channels": channels})
    work.deadline.begin("the validator was loaded")
    with Worker(private / "validator-worker", deadline=work.deadline) as worker:
        with named_as_validator():
            _load(work, worker, fetched, complete_input(known, fetched.description.input_shape), seeds)
        try:
            with named_as_validator():
                raw = predict_all(worker, seeds.x[:_FIRST], settings.batch_size)
        except Refused as error:
            raise ConfigError(
                f"{error.what.rstrip('.')}. It can't take the seed inputs.",
                where="validator",
                hint="Take a model of the candidate's input size and channels: it gets the same pictures, read by the same input settings.",
            ) from error
        if class_count(raw) != len(work.classes):
            raise ConfigError(
                f"The validator tells {class_count(raw)} classes apart, and the candidate {len(work.classes)}.",
                where="validator",
                hint="Take a model with the candidate's classes in the same order.",
            )
        work.asked = Validator(worker, recognise(raw, len(work.classes)), settings.batch_size)
        yield work.asked


def _load(work: Work, worker: Worker, fetched: FetchedValidator, reading: InputSettings, seeds: ImageSet) -> None:
    worker.call(
        "load",
        {
            "folder": str(fetched.folder),
            "description": fetched.description.to_dict(),
            "device": work.settings.device,
            "reading": reading.model_dump(mode="json"),
            "value_range": list(seeds.value_range),
            "channels": int(seeds.x.shape[3]),
            "output_key": None,
            "classes": None,
            "seed": work.settings.seed,
            "amp": "off",
            "compiled": False,
            "threads": work.settings.threads,
        },
    )
