"""How far seed inputs stand each family of natural mutants: the margins of ``robust_margin_p05``, family by family.

From the judging arm alone, whose mutants are drawn blindly; the search hunts, so its severities are no margins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from gate.campaign.judging import JudgedSeedRows
from gate.result import FamilyMargin

__all__ = ["family_margins"]


def family_margins(rows: Sequence[JudgedSeedRows], family: Callable[[str], str], mutants_per_seed: int) -> tuple[FamilyMargin, ...]:
    """The margins by family, in the order of their names.

    As in the metric, only valid mutants count, of seed inputs whose mutants all ran, and the margin of a seed input is the smallest
    severity that failed. So the metric is the 5th percentile of the smallest of each seed input's margins, where one that never failed
    stands at 1.

    Args:
        rows: of the judging arm; each mutant is made by one operator.
        family: of an operator.
        mutants_per_seed: of a seed input whose mutants all ran.
    """
    seeds: dict[str, int] = defaultdict(int)
    severities: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if len(row.valid) < mutants_per_seed:
            continue
        smallest: dict[str, float | None] = {}
        for operator, severity, valid, failed in zip(row.operators, row.severities, row.valid, row.failed, strict=True):
            if not valid:
                continue
            name = family(operator)
            known = smallest.setdefault(name, None)
            if failed:
                smallest[name] = severity if known is None else min(known, severity)
        for name, margin in smallest.items():
            seeds[name] += 1
            if margin is not None:
                severities[name].append(margin)
    return tuple(
        FamilyMargin(family=name, seeds=count, failed=len(severities[name]), severities=tuple(sorted(severities[name])))
        for name, count in sorted(seeds.items())
    )
