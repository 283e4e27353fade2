"""What defects are once they have been minimised: their ids and root causes anew, and those that turned out to be the same made one.

Distinct means by (seed input, oracle, predicted class or fault, dominant family after minimising). A defect that was not minimised keeps
the sorted families of its recipe, and with them its id.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from gate.domains.domain import InputDomain
from gate.result import Defect
from gate.triage.defect_files import remade, remove_folder, with_id
from gate.triage.identity import class_name, defect_id, outcome_of, root_cause_id
from gate.triage.simpler import Simplicity, simplicity

__all__ = ["Settled", "settle"]


@dataclass
class Settled:
    """What changed."""

    renamed: dict[str, str] = field(default_factory=dict)  # ids before and after, of defects that are still there
    merged: dict[str, str] = field(default_factory=dict)  # ids of duplicates, and of the defects that stand for them now


def settle(run: Path, defects: list[Defect], found_by: dict[str, set[str]], classes: tuple[str, ...], domain: InputDomain) -> Settled:
    """Gives minimised defects the ids and root causes of what is left of them, and merges duplicates into the simplest of each.

    The list and ``found_by`` are changed group by group, each as soon as the folder that stays is whole; the folders of duplicates go after
    that.

    Args:
        run: the run folder.
        defects: all of the run.
        found_by: the arms that found each, by id.
        classes: names.
        domain: reads samples, and knows the families of operators.
    """
    settled = Settled()
    groups: dict[str, list[Defect]] = defaultdict(list)
    for defect in defects:
        groups[_identity(defect, classes, domain)].append(defect)
    # Families only get fewer, so an id that another defect gives up is given up before it is taken.
    for identity, group in sorted(groups.items(), key=lambda item: (len(item[1][0].families), item[0])):
        kept = group[0] if len(group) == 1 else min(group, key=lambda defect: _simplicity(run, defect, domain))
        others = [defect for defect in group if defect is not kept]
        cause = _root_cause(kept, classes, domain)
        if kept.id == identity and cause == kept.root_cause and not others:
            continue
        new = with_id(kept, identity).model_copy(update={"root_cause": cause})
        if new != kept:
            remade(run, kept, new)
        defects[:] = [new if defect is kept else defect for defect in defects if not any(defect is other for other in others)]
        arms = set[str]().union(*(found_by.pop(defect.id, set()) for defect in group))
        found_by[identity] = arms
        if kept.id != identity:
            settled.renamed[kept.id] = identity
        for other in others:
            settled.merged[other.id] = identity
            if other.id != identity:
                remove_folder(run, other.id)
    return settled


def _moved(defect: Defect, domain: InputDomain) -> bool:
    """Whether minimising took families away."""
    if defect.minimal is None:
        return False
    found = {domain.family(str(step["operator"])) for step in defect.minimal.found_recipe}
    return set(defect.families) != found


def _identity(defect: Defect, classes: tuple[str, ...], domain: InputDomain) -> str:
    if not _moved(defect, domain):
        return defect.id
    return defect_id(defect.seed_id, defect.oracle, outcome_of(defect.predicted, classes), defect.families)


def _root_cause(defect: Defect, classes: tuple[str, ...], domain: InputDomain) -> str:
    if not _moved(defect, domain):
        return defect.root_cause
    assert defect.label is not None
    return root_cause_id(defect.oracle, class_name(defect.label, classes), outcome_of(defect.predicted, classes), defect.family)


def _simplicity(run: Path, defect: Defect, domain: InputDomain) -> Simplicity:
    mutant, seed = (domain.load(run / defect.files[name]) for name in ("mutant_data", "original_data"))
    return simplicity(defect.recipe, defect.families, int(not defect.natural), mutant, seed)
