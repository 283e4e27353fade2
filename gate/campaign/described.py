"""What several workers say of how they run one model, in one description. Lives in the supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["joined"]


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two answers to ``describe`` as one: the calls of both, the smaller batches, and why a model is not compiled where either is not.

    The rest is as ``one`` has it.
    """
    sizes = {}
    for name in ("micro_batch", "gradient_batch"):
        known = [said[name] for said in (one, other) if said[name] is not None]
        sizes[name] = min(known, default=None)
    plain = [said["compile"] for said in (one, other) if said["compile"].startswith("off")]
    compiled = plain[0] if plain else one["compile"]
    return {**one, "model_calls": one["model_calls"] + other["model_calls"], "compile": compiled, **sizes}
