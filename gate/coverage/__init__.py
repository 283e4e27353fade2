"""How much of a network's internal behaviour has been seen: criteria over neuron activations.

>>> from gate.coverage import criterion
>>> c = criterion("kmnc", sections=1000)
>>> c.fit(profile)          # {layer: float tensor [P, neurons]}
>>> c.update(activations)   # int64 tensor [N]: newly covered items each sample added, in order
>>> c.value, c.covered, c.total

Importing this package does not import torch; making a criterion does. What each criterion counts stands in its own file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gate.config import CoverageSettings
from gate.strict_yaml import nearest

if TYPE_CHECKING:
    from gate.coverage.items import Criterion

__all__ = ["criteria_from", "criterion"]


def criterion(name: str, **options: Any) -> Criterion:
    """A new criterion, nothing covered yet.

    Args:
        name: nc | kmnc | nbc | snac | tknc.
        options: of that criterion: ``threshold`` and ``scale`` (nc), ``sections`` (kmnc), ``margin`` and ``bounds`` (nbc, snac),
            ``k`` (tknc).

    Raises:
        ValueError: an unknown name, or an option out of range.
        TypeError: an option which that criterion does not have.
    """
    from gate.coverage.kmnc import KMultisection
    from gate.coverage.nbc import Boundary
    from gate.coverage.nc import NeuronCoverage
    from gate.coverage.snac import StrongActivation
    from gate.coverage.tknc import TopK

    classes: dict[str, type[Criterion]] = {c.name: c for c in (NeuronCoverage, KMultisection, Boundary, StrongActivation, TopK)}
    if name not in classes:
        close = nearest(name, classes)
        raise ValueError(f"{name!r} is no criterion; " + (f"did you mean {close!r}?" if close else f"known: {', '.join(classes)}"))
    return classes[name](**options)


def criteria_from(settings: CoverageSettings) -> dict[str, Criterion]:
    """One new criterion for each of ``settings.criteria``, in that order, with the options the settings give."""
    options: dict[str, dict[str, Any]] = {
        "nc": {"threshold": settings.nc_threshold},
        "kmnc": {"sections": settings.kmnc_sections},
        "tknc": {"k": settings.tknc_k},
    }
    return {name: criterion(name, **options.get(name, {})) for name in settings.criteria}
