"""How much of a network's internal behaviour has been seen: criteria over neuron activations.

>>> from gate.coverage import criterion
>>> c = criterion("kmnc", sections=1000)
>>> c.fit(profile)          # {layer: float tensor [P, neurons]}
>>> c.update(activations)   # int64 tensor [N]: newly covered items each sample added, in order
>>> c.value, c.covered, c.total

Importing this package does not import torch; making a criterion does. What each criterion counts stands in its own file.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from gate.config import CoverageSettings, joined_by_plus
from gate.strict_yaml import nearest

if TYPE_CHECKING:
    from gate.coverage.base import Criterion

__all__ = ["criteria_from", "criterion"]

_CLASSES = {
    "nc": "nc.NeuronCoverage",
    "kmnc": "kmnc.KMultisection",
    "nbc": "nbc.Boundary",
    "snac": "snac.StrongActivation",
    "tknc": "tknc.TopK",
    "tknp": "tknp.TopKPatterns",
    "map": "map.ActivationPatterns",
    "output": "output.OutputCoverage",
    "nlc": "nlc.LayerCovariance",
    "lsa": "lsa.LikelihoodSurprise",
    "dsa": "dsa.DistanceSurprise",
    "mdsa": "mdsa.MahalanobisSurprise",
}


def criterion(name: str, **options: Any) -> Criterion:
    """A new criterion, nothing covered yet.

    Args:
        name: nc | kmnc | nbc | snac | tknc | tknp | map | output | nlc | lsa | dsa | mdsa, or several joined by ``+``.
        options: of that criterion: the keyword arguments of its class, see docs/coverage.md; of several, ``{name: {option: value}}``.

    Raises:
        ValueError: an unknown name, or an option out of range.
        TypeError: an option which that criterion does not have.
    """
    if "+" in name:
        from gate.coverage.combination import Combination

        parts = joined_by_plus(name)
        unknown = [key for key in options if key not in parts]
        if unknown:
            raise TypeError(
                f"options of several criteria are given by criterion, such as {parts[0]}={{...}}; {unknown[0]!r} is none of them"
            )
        return Combination([criterion(part, **options.get(part, {})) for part in parts])
    if name not in _CLASSES:
        close = nearest(name, _CLASSES)
        raise ValueError(f"{name!r} is no criterion; " + (f"did you mean {close!r}?" if close else f"known: {', '.join(_CLASSES)}"))
    module, _, cls = _CLASSES[name].partition(".")
    kind = getattr(import_module(f"gate.coverage.{module}"), cls)
    known = list(signature(kind).parameters)
    for option in options:
        if option not in known:
            close = nearest(option, known)
            raise TypeError(f"{name} has no option {option!r}; " + (f"did you mean {close!r}?" if close else f"it has {', '.join(known)}"))
    made: Criterion = kind(**options)
    return made


def criteria_from(settings: CoverageSettings) -> dict[str, Criterion]:
    """One new criterion for each of ``settings.criteria``, in that order, with the options the settings give."""
    surprise = {"sections": settings.surprise_sections, "references": settings.surprise_references}
    options: dict[str, dict[str, Any]] = {
        "nc": {"threshold": settings.nc_threshold, "scale": settings.nc_scale},
        "kmnc": {"sections": settings.kmnc_sections, "edges": settings.kmnc_edges},
        "nbc": {"margin": settings.nbc_margin, "bounds": settings.nbc_bounds},
        "snac": {"margin": settings.snac_margin, "bounds": settings.snac_bounds},
        "tknc": {"k": settings.tknc_k},
        "tknp": {"k": settings.tknp_k, "joint": settings.tknp_joint},
        "map": {"threshold": settings.map_threshold, "window": settings.map_window},
        "output": {"sections": settings.output_sections},
        "lsa": surprise,
        "dsa": surprise,
        "mdsa": surprise,
    }
    return {name: criterion(name, **options.get(name, {})) for name in settings.criteria}
