"""The stage of a run that compares its defects with the long-tail set: which of them take part."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from known_model import NumpyWorker, images, reads_stripes

from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.metrics.long_tail_hits import MIN_DEFECTS, MIN_ERRORS
from gate.models.outputs import OutputKind
from gate.pipeline import _long_tail
from gate.result import Defect

X, Y = images(40)
DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))


def found(number: int, folder: Path, **more: Any) -> Defect:
    identity = f"d-{number:012x}"
    (folder / "defects" / identity).mkdir(parents=True)
    data = DOMAIN.save(folder / "defects" / identity / "mutant", X[number])
    label = int(Y[number])
    known: dict[str, Any] = {"id": identity, "arm": "search", "seed_id": f"s{number}", "label": label, "predicted": (label + 1) % 4}
    known |= {"confidence_before": 0.9, "confidence_after": 0.8, "oracle": "changed_prediction", "operator": "rotate"}
    known |= {"family": "geometry", "families": ("geometry",), "natural": True, "severity": 0.5, "recipe": (), "root_cause": "rc"}
    return Defect(**{**known, "files": {"mutant_data": f"defects/{identity}/{data.name}"}, **more})


def test_what_the_search_found_takes_part_whatever_arm_its_simplest_form_is_from(tmp_path: Path) -> None:
    defects = [found(number, tmp_path) for number in range(MIN_DEFECTS - 1)]
    defects += [found(20, tmp_path, arm="judging"), found(21, tmp_path, arm="judging"), found(22, tmp_path, natural=False)]
    by = {defect.id: {"search"} for defect in defects}
    by[defects[-3].id] = {"judging", "search"}  # merged: the judging arm's is the simplest
    by[defects[-2].id] = {"judging"}
    tail: Any = SimpleNamespace(x=X[:MIN_ERRORS], y=(Y[:MIN_ERRORS] + 3) % 4, kinds=["fog"] * MIN_ERRORS)
    work: Any = SimpleNamespace(
        seeds=SimpleNamespace(x=X, labels=Y),
        settings=SimpleNamespace(batch_size=16, seed=0),
        confirmer=SimpleNamespace(defects=defects, found_by=by),
        folder=SimpleNamespace(path=tmp_path),
        long_tail=None,
        long_tail_hits={},
    )
    worker: Any = NumpyWorker(reads_stripes)
    _long_tail(work, worker, DOMAIN, tail, OutputKind.LOGITS)
    assert set(work.long_tail_hits) == {defect.id for defect in defects[:-2]}
