"""A finding becomes a defect only here: saved as a file, loaded again, run alone, and seen again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gate.campaign.batch import Finding
from gate.campaign.raising import exception_in_words
from gate.campaign.raising_steps import no_answers
from gate.campaign.supervisor import Refused, Silent, Worker
from gate.domains.domain import InputDomain
from gate.models.outputs import OutputKind
from gate.oracles import ORACLES, Observation, Oracle, observe
from gate.oracles.crash import Crash
from gate.oracles.flaky import NON_FINITE, Flaky, answers
from gate.result import Defect, FlakyFinding
from gate.triage.identity import class_name, defect_id, outcome_of, root_cause_id
from gate.triage.quarantine import Quarantine

__all__ = ["Confirmer", "replay"]

REPLAYS = 2  # of a model that preflight found deterministic
REPLAYS_UNSTEADY = 10  # of one that it did not


def replay(
    worker: Worker,
    sample: np.ndarray,
    label: int,
    output_kind: OutputKind,
    times: int,
    *,
    before: np.ndarray | None = None,
    raw_before: np.ndarray | None = None,
) -> list[Observation]:
    """Runs one sample [H, W, C] ``times`` times at batch size 1, without touching coverage.

    A run in which the model raises is one, too. So is one without an answer in time; it is the last, for it ends the worker.

    Args:
        worker: runs the model.
        sample: as loaded from its file.
        label: its class; -1 where nobody knows.
        output_kind: how to read the model's output.
        times: how often it is run.
        before: float64 [1, C], the probabilities of the seed input; None where there is none.
        raw_before: float32 [1, K], what the model answered to it.
    """
    seen: list[Observation] = []
    nothing = no_answers(1, max(2, label + 1), output_kind)  # as many classes as anybody asks about
    labels = np.array([label])
    for _ in range(times):
        try:
            _, arrays = worker.call("forward", {}, {"x": sample[None]})
        except Refused as error:
            seen.append(observe(nothing, output_kind, labels, raised={0: exception_in_words(error)}))
        except Silent:
            seen.append(observe(nothing, output_kind, labels, silent=frozenset({0})))
            break
        else:
            seen.append(observe(arrays["raw"], output_kind, labels, before=before, raw_before=raw_before))
    return seen


class Confirmer:
    """Turns findings into defects on disk. Lives in the supervisor and owns ``defects/`` of the run folder.

    A defect is written whole before it counts: its pictures first, ``defect.json`` last. What did not reproduce is counted, and kept apart
    where it is flaky.

    Args:
        worker: runs the model.
        domain: reads and writes samples.
        seeds: [S, H, W, C] seed inputs.
        classes: names.
        folder: the run folder.
        output_kind: how to read the model's output.
        deterministic: what preflight found; decides how often a finding is replayed.
        mixed: whether the search runs in mixed precision. Then the replays, which are in full precision, may agree on another answer.
        oracles: those that are on.
        clean: float64 [S, C], the probabilities of the seed inputs; None: not known, so that no oracle can compare with them.
        clean_raw: float32 [S, K], the model's own answers to them; likewise.
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
        oracles: Sequence[Oracle] = ORACLES,
        clean: np.ndarray | None = None,
        clean_raw: np.ndarray | None = None,
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
        self._oracles = tuple(oracles)
        self._clean, self._clean_raw = clean, clean_raw
        self._quarantine = Quarantine(folder, domain)
        self.flaky = 0
        self.precision_only = 0  # of the search: every replay says the same, and something else than mixed precision did
        self.too_close = 0  # seen again, but with a lead so small that another machine might see the label

    @property
    def quarantine(self) -> list[FlakyFinding]:
        """Flaky findings that are kept: the first ``gate.triage.quarantine.MOST_KEPT``."""
        return self._quarantine.kept

    def confirm(self, finding: Finding) -> bool:
        """Whether the finding is a defect; if so it is on disk and in ``defects`` when this returns."""
        outcome = outcome_of(finding.predicted, self._classes)
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
        oracle = next(oracle for oracle in self._oracles if oracle.name == finding.oracle)
        before, raw_before = (None if known is None else known[finding.seed][None] for known in (self._clean, self._clean_raw))
        sample = self._domain.load(data)
        seen = replay(self._worker, sample, finding.label, self._output_kind, self._replays, before=before, raw_before=raw_before)
        if Flaky().complains(seen, _wanted(finding)):
            if self._mixed and finding.arm == "search" and len(answers(seen)) == 1:
                self.precision_only += 1
            else:
                self.set_aside(
                    identity,
                    seed_id=finding.seed_id,
                    label=finding.label,
                    oracle=finding.oracle,
                    families=finding.families,
                    seen=seen,
                    samples={"mutant": finding.mutant, "original": self._seeds[finding.seed]},
                )
            return False
        if not all(bool(oracle.holds(one)[0]) for one in seen):
            self.too_close += 1
            return False
        defect = self._describe(finding, identity, outcome, data, seen)
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

    def set_aside(
        self,
        identity: str,
        *,
        seed_id: str,
        label: int | None,
        oracle: str,
        families: Sequence[str],
        seen: Sequence[Observation],
        samples: dict[str, np.ndarray],
    ) -> None:
        """Counts a finding as flaky, and keeps it apart where there is room; see ``Quarantine.keep`` for the arguments."""
        self.flaky += 1
        self._quarantine.keep(identity, seed_id=seed_id, label=label, oracle=oracle, families=families, seen=seen, samples=samples)

    def _describe(self, finding: Finding, identity: str, outcome: str, data: Path, seen: Sequence[Observation]) -> Defect:
        family = "+".join(finding.families)
        base = f"defects/{identity}"
        return Defect(
            id=identity,
            arm=finding.arm,
            seed_id=finding.seed_id,
            label=finding.label,
            predicted=finding.predicted,
            confidence_before=finding.confidence_before,
            confidence_after=None if finding.predicted is None else float(seen[0].probabilities[0, finding.predicted]),
            oracle=finding.oracle,
            also=tuple(
                oracle.name for oracle in self._oracles if oracle.name != finding.oracle and all(bool(oracle.holds(one)[0]) for one in seen)
            ),
            detail=seen[0].raised.get(0),
            operator=finding.recipe[-1].operator,
            family=family,
            families=finding.families,
            natural=finding.natural,
            severity=round(float(sum(step.severity for step in finding.recipe)), 6),
            recipe=tuple(step.to_json() for step in finding.recipe),
            root_cause=root_cause_id(finding.oracle, class_name(finding.label, self._classes), outcome, family),
            files={
                "original": f"{base}/original.png",
                "mutant": f"{base}/mutant.png",
                "diff": f"{base}/diff.png",
                "original_data": f"{base}/original{data.suffix}",
                "mutant_data": f"{base}/{data.name}",
            },
        )


def _wanted(finding: Finding) -> str:
    """The finding's own answer, as ``answers`` names it."""
    if finding.oracle == Crash.name:
        return Crash.name
    return NON_FINITE if finding.predicted is None else str(finding.predicted)
