"""Findings that did not come back every time: kept apart, with what was answered over the replays. None of them is a defect."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gate.domains.domain import InputDomain
from gate.oracles import Observation
from gate.oracles.flaky import answers
from gate.result import FlakyFinding

__all__ = ["MOST_KEPT", "Quarantine"]

MOST_KEPT = 50  # findings with files; more are only counted


class Quarantine:
    """Owns ``quarantine/`` of the run folder. Lives in the supervisor.

    Args:
        folder: the run folder.
        domain: writes samples.
    """

    def __init__(self, folder: Path, domain: InputDomain) -> None:
        self._folder = folder
        self._domain = domain
        self.kept: list[FlakyFinding] = []

    def keep(
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
        """Keeps a finding, unless there are ``MOST_KEPT`` already, or one of the same identity.

        Args:
            identity: that it would have had as a defect, ``d-`` and 12 hex digits.
            seed_id: the seed input's.
            label: its class; None for a probe.
            oracle: who complained.
            families: of the recipe, sorted.
            seen: the replays.
            samples: [H, W, C] each, by name: the mutant, and the original where there is one.
        """
        name = "f-" + identity.removeprefix("d-")
        if len(self.kept) >= MOST_KEPT or any(one.id == name for one in self.kept):
            return
        place = self._folder / "quarantine" / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        files: dict[str, str] = {}
        for part, sample in samples.items():
            data = self._domain.save(place / part, sample)
            files |= {part: f"quarantine/{name}/{part}.png", f"{part}_data": f"quarantine/{name}/{data.name}"}
            if data.suffix != ".png":
                Image.fromarray(self._domain.picture(sample)).save(place / f"{part}.png")
        found = FlakyFinding(
            id=name, seed_id=seed_id, label=label, oracle=oracle, families=tuple(families), seen=answers(seen), files=files
        )
        (place / "finding.json").write_text(json.dumps(found.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8")
        self.kept.append(found)
