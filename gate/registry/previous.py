"""The earlier run whose defects are replayed: found through the baseline's tag, and brought to a local folder."""

from __future__ import annotations

import re
from pathlib import Path

from gate.errors import RegistryError
from gate.registry.archive import DEFECTS, DEFECTS_ARCHIVE, unpack
from gate.registry.copy import make_private
from gate.registry.download import fetch, run_location
from gate.registry.publish import TAG_RUN
from gate.registry.resolve import ModelReference

__all__ = ["fetch_run", "previous_run_id"]

RECORD = "result.json"


def previous_run_id(baseline: ModelReference) -> str | None:
    """The MLflow run in which the gate judged the baseline, or None where it never did."""
    return baseline.tags.get(TAG_RUN) or None


def fetch_run(source: str, into: Path, *, tracking_uri: str | None) -> Path:
    """The folder of an earlier run, with its ``result.json``, defects and campaign.

    Args:
        source: a run folder (used where it lies), ``runs:/<run id>`` or a bare MLflow run id (both copied into ``into``).
        into: a folder that is made (mode 0700) or must be empty; not touched for a run folder.

    Raises:
        RegistryError: there is no such run, it can't be fetched, or the gate did not record it.
        DataError: its archive of defects is damaged or unsafe.
    """
    folder = Path(source)
    if folder.is_dir():
        if not (folder / RECORD).is_file():
            raise RegistryError(
                f"The folder holds no {RECORD}, so it is no finished run.", where=source, hint="Give the output folder of a `gate run`."
            )
        return folder
    run_id = source.removeprefix("runs:/").strip("/")
    if not re.fullmatch(r"[A-Za-z0-9][\w-]{0,255}", run_id):
        raise RegistryError("There is no such run.", where=source, hint="Give a run folder, runs:/<run id>, or an MLflow run id.")
    location = run_location(run_id, tracking_uri=tracking_uri)
    make_private(into)
    fetch(location, into, tracking_uri=tracking_uri, error=RegistryError, shown=f"runs:/{run_id}")
    if not (into / RECORD).is_file():
        raise RegistryError(
            f"The MLflow run holds no {RECORD}, so the gate did not record it.", where=source, hint="Give a run from the gate's experiment."
        )
    if (into / DEFECTS_ARCHIVE).is_file():
        unpack(into / DEFECTS_ARCHIVE, into / DEFECTS)
        (into / DEFECTS_ARCHIVE).unlink()
    return into
