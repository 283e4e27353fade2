"""The user's validator model: a mutant that it takes for something else than the seed input is none that keeps its label."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from gate.campaign.supervisor import Worker
from gate.errors import ModelError, RegistryError, WorkerError
from gate.models.outputs import OutputKind, predictions

__all__ = ["Validator", "named_as_validator"]


@contextmanager
def named_as_validator() -> Iterator[None]:
    """Inside, what goes wrong with a model is said to be the validator's fault: nobody should look for it in the candidate."""
    try:
        yield
    except (ModelError, RegistryError, WorkerError) as error:
        told = f"validator, {error.where}" if error.where else "validator"
        raise type(error)(f"The validator: {error.what}", where=told, hint=error.hint, details=error.details) from error


class Validator:
    """Asks a model in a worker of its own. Lives in the supervisor.

    Compared is with the validator's own answer to the seed input, not with the label: where it does not know a seed input, it would
    else refuse every mutant of it. An answer that is not finite is none: nothing is valid by it. Every mutant that the policy's domain
    lets through is asked about, whatever the arm: coverage, findings and rates are then about the same mutants.

    Args:
        worker: with the validator loaded.
        output_kind: how to read its output.
        batch_size: the most samples in one request.
    """

    def __init__(self, worker: Worker, output_kind: OutputKind, batch_size: int) -> None:
        self._worker = worker
        self._output_kind = output_kind
        self._batch_size = batch_size
        self._of_seeds: dict[bytes, int] = {}  # by digest of the sample
        self.calls = 0  # forward passes

    def __call__(self, mutants: npt.NDArray[Any], seeds: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """bool [N]: whether the validator answers the same to a mutant [...] as to its seed input [...]."""
        digests = [hashlib.blake2b(sample.tobytes(), digest_size=16).digest() for sample in seeds]
        new = {digest: row for row, digest in enumerate(digests) if digest not in self._of_seeds}
        asked = np.concatenate([mutants, seeds[list(new.values())]])
        answers = self._predicted(asked)
        self._of_seeds.update(zip(new, answers[len(mutants) :].tolist(), strict=True))
        of_mutants = answers[: len(mutants)]
        same: npt.NDArray[np.bool_] = of_mutants == np.array([self._of_seeds[digest] for digest in digests], dtype=np.int64)
        return same & (of_mutants >= 0)

    def _predicted(self, x: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        parts = []
        for start in range(0, len(x), self._batch_size):
            part = x[start : start + self._batch_size]
            with named_as_validator():
                raw = self._worker.call("forward", {}, {"x": part})[1]["raw"]
            parts.append(predictions(raw, self._output_kind))
            self.calls += len(part)
        return np.concatenate(parts)
