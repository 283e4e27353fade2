"""Where the corpus lies that somebody names: a file, a run's folder, or a run that MLflow keeps."""

from __future__ import annotations

import re
from pathlib import Path

from gate.corpus.corpus_file import CORPUS
from gate.errors import DataError
from gate.registry.previous import fetch_run

__all__ = ["corpus_of"]


def corpus_of(source: str, into: Path | None = None, *, tracking_uri: str | None = None) -> Path:
    """The path of a corpus file.

    Args:
        source: a corpus file, the output folder of a run (a finished one or not), ``runs:/<run id>``, or a bare MLflow run id.
        into: a folder for what has to be fetched, not touched otherwise; None: nothing is fetched.
        tracking_uri: MLflow's; its default where None.

    Raises:
        DataError: there is no such file, or the run has no corpus.
        RegistryError: there is no such run, or it can't be fetched.
    """
    place = Path(source)
    try:
        if place.is_file():
            return place
        folder = place if place.is_dir() else None
    except (OSError, ValueError):  # a name that can't be a path's
        folder = None
    if folder is None:
        # A name of another form is more likely a path that is not there: a store would be searched for it, and be blamed.
        named = source.startswith("runs:/") or re.fullmatch(r"[0-9a-f]{32}", source) is not None
        if into is None or not named:
            kinds = "a run folder or a corpus file" if into is None else "a run folder, a corpus file, or runs:/<run id>"
            raise DataError("There is no such corpus.", where=source, hint=f"Give {kinds}.")
        folder = fetch_run(source, into, tracking_uri=tracking_uri)
    path = folder / "campaign" / CORPUS
    # A folder may come from somebody else, and a link in it may lead anywhere.
    if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
        raise DataError("The run has no corpus.", where=str(path), hint="Give the whole output folder of a run that began to fuzz.")
    return path
