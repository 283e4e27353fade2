"""Raw outputs of many inputs, whether or not the model raises on some of them."""

from __future__ import annotations

import numpy as np

from gate.campaign.raising import Raising
from gate.campaign.supervisor import Refused, Worker

__all__ = ["answered"]


def answered(worker: Worker, x: np.ndarray, batch_size: int, raising: Raising) -> tuple[np.ndarray, dict[int, str], int]:
    """Has N >= 1 samples [N, H, W, C] answered in full precision, without touching coverage.

    Returns:
        Raw outputs float32 [N, K], NaN where the model raised (K is 1 where it did on all of them); by such row the exception in words; and
        the samples that were run in vain.

    Raises:
        Refused: it raised on too many in a row.
        BudgetSpent, Interrupted, WorkerError, ModelError: as the worker does.
    """

    parts: list[tuple[slice, np.ndarray]] = []
    raised: dict[int, str] = {}
    wasted = 0
    for start in range(0, len(x), batch_size):
        batch = x[start : start + batch_size]

        def ask(rows: slice, batch: np.ndarray = batch) -> np.ndarray:
            return worker.call("forward", {}, {"x": batch[rows]})[1]["raw"]

        try:
            parts.append((slice(start, start + len(batch)), ask(slice(None))))
            raising.answered()
        except Refused as error:
            pieces, found, vain = raising.halved(len(batch), ask, error)
            parts += [(slice(start + piece.rows.start, start + piece.rows.stop), piece.answer) for piece in pieces]
            raised |= {start + row: said for row, said in found.items()}
            wasted += vain
    raw = np.full((len(x), parts[0][1].shape[1] if parts else 1), np.nan, dtype=np.float32)
    for rows, part in parts:
        raw[rows] = part
    return raw, raised, wasted
