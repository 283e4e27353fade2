"""A finding becomes a defect only here: saved as a file, loaded again, run alone, and seen again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gate.campaign.batch import Finding
from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.models.outputs import OutputKind, predictions, probabilities
from gate.oracles import ORACLES, Observation
from gate.result import Defect
from gate.triage.identity import defect_id, root_cause_id

__all__ = ["Confirmer", "replay"]

REPLAYS = 2  # of a model that preflight found deterministic
REPLAYS_UNSTEADY = 10  # of one that it did not


def replay(worker: Worker, sample: np.ndarray, label: int, output_kind: OutputKind, times: int) -> list[Observation]:
    """Runs one sample [H, W, C] ``times`` times at batch size 1, without touching coverage."""
    seen = []
    for _ in range(times):
        _, arrays = worker.call("forward", {}, {"x": sample[None]})
        raw = arrays["raw"]
        seen.append(Observation(raw, probabilities(raw, output_kind), predictions(raw, output_kind), np.array([label])))
    return seen


class Confirmer:
    """Turns findings into defects on disk. Lives in the supervisor and owns ``defects/`` of the run folder.

    A defect is written whole before it counts: its pictures first, ``defect.json`` last. What did not reproduce is removed and counted.

    Args:
        worker: runs the model.
        domain: reads and writes samples.
        seeds: [S, H, W, C] seed inputs.
        classes: names.
        folder: the run folder.
        output_kind: how to read the model's output.
        deterministic: what preflight found; decides how often a finding is replayed.
        mixed: whether the search runs in mixed precision. Then the replays, which are in full precision, may agree on another answer.
    """

    def __init__(
        self,
        worker: Worker,
        domain: InputDomain,
        seeds: np.ndarray,
        classes: Sequence[str],
        folder: Path,
        output_kind: OutputKind,
        *,
        deterministic: bool,
        mixed: bool = False,
    ) -> None:
        self._worker = worker
        self._domain = domain
        self._seeds = seeds
        self._classes = classes
        self._folder = folder
        self._output_kind = output_kind
        self._replays = REPLAYS if deterministic else REPLAYS_UNSTEADY
        self.defects: list[Defect] = []
        self.found_by: dict[str, set[str]] = {}  # the arms that found each defect, by its id
        self._mixed = mixed
        self.flaky = 0
        self.precision_only = 0  # of the search: every replay says the same, and something else than mixed precision did
        self.too_close = 0  # seen again, but with a lead so small that another machine might see the label

    def confirm(self, finding: Finding) -> bool:
        """Whether the finding is a defect; if so it is on disk and in ``defects`` when this returns."""
        outcome = "non-finite" if finding.predicted is None else self._name(finding.predicted)
        identity = defect_id(finding.seed_id, finding.oracle, outcome, finding.families)
        if identity in self.found_by:
            # Another arm has found and confirmed this very defect: one defect, found twice.
            self.found_by[identity].add(finding.arm)
            return True
        folder = self._folder / "defects" / identity
        try:
            return self._confirm_in(folder, finding, identity, outcome)
        finally:
            if identity not in self.found_by:  # not a defect, or not known to be one when the time was up
                shutil.rmtree(folder, ignore_errors=True)

    def _confirm_in(self, folder: Path, finding: Finding, identity: str, outcome: str) -> bool:
        folder.mkdir(parents=True, exist_ok=True)
        data = self._domain.save(folder / "mutant", finding.mutant)
        oracle = next(oracle for oracle in ORACLES if oracle.name == finding.oracle)
        seen = replay(self._worker, self._domain.load(data), finding.label, self._output_kind, self._replays)
        wanted = -1 if finding.predicted is None else finding.predicted
        again = all(int(one.predicted[0]) == wanted for one in seen)
        if not again or not all(bool(oracle.holds(one)[0]) for one in seen):
            if again:
                self.too_close += 1
            elif self._mixed and finding.arm == "search" and len({int(one.predicted[0]) for one in seen}) == 1:
                self.precision_only += 1
            else:
                self.flaky += 1
            return False
        defect = self._describe(finding, identity, outcome, data, seen[0])
        files = {name: self._folder / path for name, path in defect.files.items()}
        original = self._domain.save(folder / "original", self._seeds[finding.seed])
        assert original == files["original_data"]
        for name, picture in (
            ("original", self._domain.picture(self._seeds[finding.seed])),
            ("mutant", self._domain.picture(finding.mutant)),
            ("diff", self._domain.difference(self._seeds[finding.seed], finding.mutant)),
        ):
            if files[name] not in (data, original):  # the sample's own file may be a picture already
                Image.fromarray(picture).save(files[name])
        text = json.dumps(defect.model_dump(mode="json"), indent=2, allow_nan=False)
        (folder / "defect.json").write_text(text + "\n", encoding="utf-8")
        self.defects.append(defect)
        self.found_by[identity] = {finding.arm}
        return True

    def _describe(self, finding: Finding, identity: str, outcome: str, data: Path, seen: Observation) -> Defect:
        family = "+".join(finding.families)
        base = f"defects/{identity}"
        return Defect(
            id=identity,
            arm=finding.arm,
            seed_id=finding.seed_id,
            label=finding.label,
            predicted=finding.predicted,
            confidence_before=finding.confidence_before,
            confidence_after=None if finding.predicted is None else float(seen.probabilities[0, finding.predicted]),
            oracle=finding.oracle,
            operator=finding.recipe[-1].operator,
            family=family,
            families=finding.families,
            natural=finding.natural,
            severity=round(float(sum(step.severity for step in finding.recipe)), 6),
            recipe=tuple(step.to_json() for step in finding.recipe),
            root_cause=root_cause_id(finding.oracle, self._name(finding.label), outcome, family),
            files={
                "original": f"{base}/original.png",
                "mutant": f"{base}/mutant.png",
                "diff": f"{base}/diff.png",
                "original_data": f"{base}/original{data.suffix}",
                "mutant_data": f"{base}/{data.name}",
            },
        )

    def _name(self, index: int) -> str:
        return self._classes[index] if index < len(self._classes) else str(index)
