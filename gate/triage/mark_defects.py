"""A universal mark that is a shortcut becomes defects like any other: held-out seed inputs that carry it, each confirmed from its file.

They have one root cause for each kind of mark and class that it leads to, whatever their true classes are.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gate.campaign.loop import Seeds
from gate.campaign.marks import FoundMark
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.domains.mark import Mark, lay
from gate.models.outputs import OutputKind
from gate.oracles import Oracle
from gate.oracles.flaky import Flaky
from gate.oracles.universal_mark import AnyMark
from gate.result import Defect, UniversalMark
from gate.triage.confirm import Confirmer, replay
from gate.triage.defect_files import write_description
from gate.triage.identity import class_name, defect_id, root_cause_id
from gate.triage.titles import ANY_CLASS, MARK_STEP

__all__ = ["MOST", "MarkConfirmer", "read_mark"]

MOST = 8  # defects of one mark
TRIES = 2  # inputs that are tried for each of them, where some do not come back


class MarkConfirmer:
    """Makes defects of marks. Lives in the supervisor; they are on disk before they are handed out.

    Args:
        confirmer: counts and keeps what is flaky, and what lies too near to a threshold.
        worker: runs the model.
        domain: reads and writes samples.
        seeds: that marks were measured on.
        classes: names.
        folder: the run folder.
        output_kind: how to read the model's output.
        times: how often each input is run.
        oracles: those that are on, for what they say beside it.
    """

    def __init__(
        self,
        confirmer: Confirmer,
        worker: Worker,
        domain: InputDomain,
        seeds: Seeds,
        classes: Sequence[str],
        folder: Path,
        output_kind: OutputKind,
        times: int,
        oracles: Sequence[Oracle],
    ) -> None:
        self._confirmer = confirmer
        self._worker = worker
        self._domain = domain
        self._seeds = seeds
        self._classes = classes
        self._folder = folder
        self._output_kind = output_kind
        self._times = times
        self._oracles = tuple(oracles)

    def confirm(self, found: FoundMark, described: UniversalMark, note: Callable[[Defect], None]) -> None:
        """Hands up to ``MOST`` defects of one mark to ``note``, one after the other; true classes take turns.

        Args:
            found: the mark, with the seed inputs that it moves.
            described: the same as the record has it, with its files.
            note: gets each defect as soon as it is whole.

        Raises:
            BudgetSpent, Interrupted, WorkerError: as the worker was asked; what was handed out until then stays.
        """
        made = 0
        for row in self._in_turns(found.rows)[: TRIES * MOST]:
            if made == MOST:
                return
            defect = self._confirm(row, found, described)
            if defect is not None:
                made += 1
                note(defect)

    def root_cause(self, found: FoundMark) -> str:
        """The id of the root cause that all defects of a mark have."""
        return root_cause_id(AnyMark.name, ANY_CLASS, class_name(found.target, self._classes), _family(found))

    def _in_turns(self, rows: Sequence[int]) -> list[int]:
        """One of each true class before any has its second, in the order of the search's draw."""
        seen: dict[int, int] = {}
        turns = []
        for place, row in enumerate(rows):
            label = int(self._seeds.labels[row])
            turns.append((seen.get(label, 0), place, row))
            seen[label] = seen.get(label, 0) + 1
        return [row for _, _, row in sorted(turns)]

    def _confirm(self, row: int, found: FoundMark, described: UniversalMark) -> Defect | None:
        family, label, seed_id = _family(found), int(self._seeds.labels[row]), self._seeds.ids[row]
        identity = defect_id(seed_id, AnyMark.name, class_name(found.target, self._classes), (family,))
        before = self._seeds.x[row]
        after = lay(before[None], found.mark.weight, found.mark.picture)[0]
        place, base, known = self._folder / "defects" / identity, f"defects/{identity}", False
        place.mkdir(parents=True, exist_ok=True)
        try:
            data = self._domain.save(place / "mutant", after)
            clean = self._seeds.probabilities[row][None]
            raw = None if self._seeds.raw is None else self._seeds.raw[row][None]
            sample = self._domain.load(data)
            seen = replay(self._worker, sample, label, self._output_kind, self._times, before=clean, raw_before=raw)
            if Flaky().complains(seen, str(found.target)):
                samples = {"mutant": after, "original": before}
                self._confirmer.set_aside(
                    identity, seed_id=seed_id, label=label, oracle=AnyMark.name, families=(family,), seen=seen, samples=samples
                )
                return None
            if not all(bool(AnyMark().holds(one, found.target)[0]) for one in seen):
                self._confirmer.too_close += 1
                return None
            original = self._domain.save(place / "original", before)
            pictures = {
                "original": self._domain.picture(before),
                "mutant": self._domain.picture(after),
                "diff": self._domain.difference(before, after),
            }
            for name, picture in pictures.items():
                if place / f"{name}.png" not in (data, original):  # the sample's own file may be a picture already
                    Image.fromarray(picture).save(place / f"{name}.png")
            defect = Defect(
                id=identity,
                arm="marks",
                seed_id=seed_id,
                label=label,
                predicted=found.target,
                confidence_before=float(clean[0, label]),
                confidence_after=float(seen[0].probabilities[0, found.target]),
                oracle=AnyMark.name,
                also=tuple(oracle.name for oracle in self._oracles if all(bool(oracle.holds(one)[0]) for one in seen)),
                detail=f"the same mark moves {found.moved} of {found.inputs} held-out inputs of other classes to this class",
                operator=MARK_STEP,
                family=family,
                families=(family,),
                natural=False,
                severity=0.0,
                recipe=({"operator": MARK_STEP, "parameters": {"kind": found.mark.kind}},),
                root_cause=self.root_cause(found),
                files={
                    **{name: f"{base}/{name}.png" for name in pictures},
                    "original_data": f"{base}/{original.name}",
                    "mutant_data": f"{base}/{data.name}",
                    "mark": described.files["mark"],
                    "mark_data": described.files["data"],
                },
            )
            write_description(self._folder, defect)
            known = True
            return defect
        finally:
            if not known:
                shutil.rmtree(place, ignore_errors=True)


def read_mark(path: Path, kind: str, shape: tuple[int, ...]) -> Mark | None:
    """A mark from its file, for inputs [H, W, C]; None where the file is missing, broken, or of another input."""
    try:
        with np.load(path, allow_pickle=False) as file:
            weight, picture = file["weight"], file["picture"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    fits = weight.shape == (*shape[:-1], 1) and picture.shape == tuple(shape) and weight.dtype == picture.dtype == np.float32
    if not fits or not (np.isfinite(picture).all() and ((weight >= 0) & (weight <= 1)).all()):
        return None
    return Mark(kind, weight, picture)


def _family(found: FoundMark) -> str:
    return f"mark_{found.mark.kind}"
