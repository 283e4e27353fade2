"""The demo's training."""

from __future__ import annotations

import numpy as np
import pytest

from gate.demo.digits import Digits
from gate.demo.network import train


def test_training_hears_a_stop() -> None:
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    random = np.random.default_rng(0)
    digits = Digits(random.integers(0, 256, (640, 8, 8)).astype(np.uint8), np.arange(640) % 10)
    with pytest.raises(KeyboardInterrupt):
        train(digits, 0, stop)
    assert len(asked) == 4
