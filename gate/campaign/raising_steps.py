"""A campaign's step answered whole, or in parts where it makes the model raise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gate.campaign.batch import Batch
from gate.campaign.raising import Piece, Raising
from gate.campaign.supervisor import Refused, Request, Worker
from gate.campaign.suspects import Suspects
from gate.campaign.wire import Arrays
from gate.models.outputs import OutputKind

__all__ = ["Answered", "RaisingSteps", "no_answers"]


@dataclass(frozen=True)
class Answered:
    """What came of a step's N rows. Rows that raised hold NaN, and cover nothing; without any answer there are no fields and no arrays."""

    number: int  # of the last request that was answered for it: they are answered in the order of their numbers
    fields: dict[str, Any]  # of that request
    arrays: Arrays
    raised: Mapping[int, str] = field(default_factory=dict)  # by row the exception
    wasted: int = 0  # inputs that were run in vain


def no_answers(count: int, classes: int, kind: OutputKind) -> np.ndarray:
    """float32 [count, K] of NaN: raw outputs where there are none."""
    columns = 1 if kind in (OutputKind.SIGMOID, OutputKind.SIGMOID_LOGIT) else classes
    return np.full((count, columns), np.nan, dtype=np.float32)


class RaisingSteps:
    """Reads the answers to steps. Lives in the supervisor.

    Args:
        worker: that the steps were asked of.
        suspects: keeps what is tried alone on disk; None: nothing is kept.
    """

    def __init__(self, worker: Worker, suspects: Suspects | None) -> None:
        self._worker = worker
        self._suspects = suspects
        self._raising = Raising()
        self._numbers: dict[int, int] = {}  # of requests by step
        self._asked = 0

    def asked(self, batch: Batch) -> None:
        """Notes that a step has been asked for."""
        self._asked += 1
        self._numbers[batch.step] = self._asked

    def answer(self, batch: Batch, request: Request, send: Callable[[Batch, slice], Request]) -> Answered:
        """The answer to a step, in parts where it makes the model raise.

        Args:
            batch: the step.
            request: for all of it; ``asked`` was told.
            send: asks for some of its rows.

        Raises:
            Refused: too many inputs in a row raise; or it was one of mutants whose passes were kept, so that there is nothing to run.
            BudgetSpent, Interrupted, WorkerError: as the worker does.
        """
        number = self._numbers.pop(batch.step)
        try:
            fields, arrays = self._worker.answer(request)
        except Refused as error:
            if batch.kept is not None:
                raise
            return self._in_parts(batch, send, error)
        self._raising.answered()
        return Answered(number, fields, arrays)

    def _in_parts(self, batch: Batch, send: Callable[[Batch, slice], Request], error: Refused) -> Answered:
        def ask(rows: slice) -> tuple[dict[str, Any], Arrays]:
            return self._worker.answer(send(batch, rows))

        def alone(row: int) -> AbstractContextManager[object]:
            if self._suspects is None:
                return nullcontext()
            return self._suspects.alone(f"{batch.arm}-{batch.step}-{row}", batch.x[row])

        pieces, raised, wasted = self._raising.halved(len(batch.x), ask, error, alone=alone)
        self._asked += 1
        fields = pieces[-1].answer[0] if pieces else {}
        return Answered(self._asked, fields, _joined(pieces, len(batch.x)), raised, wasted)


def _joined(pieces: Sequence[Piece[tuple[dict[str, Any], Arrays]]], count: int) -> Arrays:
    """The arrays of all rows: NaN where raw outputs are missing, else 0."""
    whole: Arrays = {}
    for piece in pieces:
        for name, part in piece.answer[1].items():
            if name not in whole:
                whole[name] = np.full((count, *part.shape[1:]), np.nan if name == "raw" else 0, dtype=part.dtype)
            whole[name][piece.rows] = part
    return whole
