"""Several names in one sentence. Does not import torch."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["listed"]


def listed(names: Sequence[str], most: int | None = None, *, more: str = "more", word: str = "and") -> str:
    """``a, b and c``.

    Args:
        names: at least one.
        most: of these are shown, the others counted: ``a, b and 7 more``; None: all are shown.
        more: what the others are called.
        word: before the last.
    """
    left = 0 if most is None else max(0, len(names) - most)
    shown = [*names[:most], *([f"{left} {more}"] if left else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"
