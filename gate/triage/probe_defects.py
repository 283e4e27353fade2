"""A probe that makes the model raise, or whose output is not finite, becomes a defect like any other: confirmed from its file.

It has no true class, so it can be replayed and come back, and is never anything to train with.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from PIL import Image

from gate.campaign.supervisor import Worker
from gate.domains.domain import InputDomain
from gate.domains.probe import Probe
from gate.models.outputs import OutputKind
from gate.oracles.flaky import Flaky
from gate.result import Defect
from gate.triage.confirm import Confirmer, replay
from gate.triage.identity import NON_FINITE, defect_id, root_cause_id

__all__ = ["confirm_probe"]

NO_LABEL = "no class"
NOBODY = -1  # the label that the oracles are given


def confirm_probe(
    confirmer: Confirmer, worker: Worker, domain: InputDomain, probe: Probe, oracle: str, folder: Path, output_kind: OutputKind, times: int
) -> Defect | None:
    """The defect, on disk when this returns; None where it was another answer in one of ``times`` runs, and then it counts as flaky.

    Args:
        confirmer: counts and keeps what is flaky.
        worker: runs the model.
        domain: reads and writes samples.
        probe: one that an oracle complains about.
        oracle: which: crash or non_finite.
        folder: the run folder.
        output_kind: how to read the model's output.
        times: how often it is run.
    """
    family = f"probe_{probe.group}"
    seed_id = f"probe:{probe.name}"
    identity = defect_id(seed_id, oracle, NON_FINITE, (family,))
    place = folder / "defects" / identity
    place.mkdir(parents=True, exist_ok=True)
    known = False
    try:
        data = domain.save(place / "mutant", probe.x)
        seen = replay(worker, domain.load(data), NOBODY, output_kind, times)
        if Flaky().complains(seen, oracle):
            samples = {"mutant": probe.x}
            confirmer.set_aside(identity, seed_id=seed_id, label=None, oracle=oracle, families=(family,), seen=seen, samples=samples)
            return None
        if data.name != "mutant.png":  # the sample's own file may be a picture already
            Image.fromarray(domain.picture(probe.x)).save(place / "mutant.png")
        base = f"defects/{identity}"
        defect = Defect(
            id=identity,
            arm="probes",
            seed_id=seed_id,
            label=None,
            predicted=None,
            confidence_before=None,
            confidence_after=None,
            oracle=oracle,
            detail=seen[0].raised.get(0),
            operator="probe",
            family=family,
            families=(family,),
            natural=False,
            severity=0.0,
            recipe=({"operator": "probe", "parameters": {"name": probe.name}},),
            root_cause=root_cause_id(oracle, NO_LABEL, NON_FINITE, family),
            files={
                "mutant": f"{base}/mutant.png",
                "mutant_data": f"{base}/{data.name}",
                # A probe is made from nothing, so what it was before is itself.
                "original_data": f"{base}/{data.name}",
            },
        )
        (place / "defect.json").write_text(json.dumps(defect.model_dump(mode="json"), indent=2, allow_nan=False) + "\n", encoding="utf-8")
        known = True
        return defect
    finally:
        if not known:
            shutil.rmtree(place, ignore_errors=True)
