"""Fashion-MNIST as Debian's package ``dataset-fashion-mnist`` has it, for the smaller set of the power benchmark."""

from __future__ import annotations

import functools

import numpy as np
import torch

from benchmarks.guidance_subjects import idx
from benchmarks.healthy import PICTURES, Data

__all__ = ["fashion"]

TRAINING, EPOCHS = 6_000, 8  # of 60,000 pictures; each epoch has as many augmented ones


@functools.cache
def fashion() -> Data:
    """The first pictures of both parts.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    x, y = idx("train-images-idx3-ubyte.gz"), idx("train-labels-idx1-ubyte.gz")
    test_x, test_y = idx("t10k-images-idx3-ubyte.gz"), idx("t10k-labels-idx1-ubyte.gz")
    pictures = [torch.from_numpy(part).float().div(255).unsqueeze(1) for part in (x[:TRAINING], test_x[:PICTURES])]
    labels = [torch.from_numpy(part.astype(np.int64)) for part in (y[:TRAINING], test_y[:PICTURES])]
    return Data(pictures[0], labels[0], pictures[1], labels[1], EPOCHS)
