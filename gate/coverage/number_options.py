"""Options that are numbers, checked at the door. Does not import torch."""

from __future__ import annotations

from numbers import Real
from typing import Any, cast

from gate.config import FLOAT32_MAX

__all__ = ["checked_number", "checked_whole", "shortened"]


def checked_number(option: str, value: Any, *, least: float = -FLOAT32_MAX, most: float = FLOAT32_MAX) -> float:
    """``value`` as a float.

    Raises:
        ValueError: no number (truth values are none), or not between ``least`` and ``most``.
    """
    # Of whole numbers too large for a float, comparing is exact and converting is not possible.
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= cast(float, value) <= most:
        raise ValueError(f"{option} must be a finite number{'' if least < 0 else f' from {least:g} on'}, not {shortened(value)}")
    return float(value)


def checked_whole(option: str, value: Any) -> int:
    """``value``, or ValueError where it is no whole number (truth values are none) of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{option} must be a whole number of at least 1, not {value!r}")
    return value


def shortened(value: Any) -> str:
    """``value`` as it is written, the middle left out where it is long."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 400:  # of thousands of digits Python writes none
        return f"a whole number of {value.bit_length()} bits"
    written = repr(value)
    return written if len(written) <= 100 else f"{written[:60]} … {written[-20:]}"
