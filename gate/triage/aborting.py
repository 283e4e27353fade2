"""Which defects end a campaign at once, where the policy wants to hear of them first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gate.oracles.crash import Crash
from gate.oracles.non_finite import NonFinite
from gate.result import Defect

__all__ = ["aborting"]

_ORACLES = {"crashes": Crash.name, "nonfinite_outputs": NonFinite.name}


def aborting(kinds: Iterable[Literal["crashes", "nonfinite_outputs"]], defects: Iterable[Defect]) -> Defect | None:
    """The first defect of one of these kinds, whichever arm found it; None where there is none."""
    wanted = {_ORACLES[kind] for kind in kinds}
    return next((defect for defect in defects if wanted & {defect.oracle, *defect.also}), None) if wanted else None
