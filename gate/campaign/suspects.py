"""An input that may be what makes the model raise is a file before it is tried alone: should it end the process, it is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gate.errors import WorkerError

__all__ = ["Suspects"]


class Suspects:
    """Owns ``campaign/suspects`` of the run folder. Lives in the supervisor.

    Args:
        folder: where the files are; made with the first.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def alone(self, name: str, sample: np.ndarray) -> Iterator[None]:
        """Holds one sample [H, W, C] on disk while it is tried; it stays there where the worker does not survive it.

        Raises:
            WorkerError: as it came, with the file named.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{name}.npy"
        np.save(path, sample, allow_pickle=False)
        try:
            yield
        except WorkerError as error:
            error.what = f"{error.what.rstrip('.')}. The input in flight, alone, is {path}."
            raise
        except BaseException:
            path.unlink()
            raise
        path.unlink()
