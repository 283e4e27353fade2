"""The output folder of a run: prepared before work starts, and never one that holds something else."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate.errors import OutputError

__all__ = ["RunFolder"]

_IDENTITY = "campaign/identity.json"
_DEFECT = re.compile(r"d-[0-9a-f]{12}")
_EVIDENCE = "campaign/evidence.json"


@dataclass(frozen=True)
class RunFolder:
    """A folder that belongs to one campaign."""

    path: Path

    @property
    def campaign(self) -> Path:
        """Checkpoint, corpus, coverage map and evidence."""
        return self.path / "campaign"

    @classmethod
    def prepare(cls, path: Path, identity: Mapping[str, Any]) -> RunFolder:
        """Makes the folder, or takes an earlier run of the same campaign over.

        Args:
            path: new, empty, or the folder of a run with the same identity (whose files are then replaced one by one).
            identity: what makes a campaign the same: model, data, policy, seed and budget.

        Raises:
            OutputError: it holds something else, or can't be written.
        """
        folder = cls(path)
        text = json.dumps(dict(identity), indent=2, sort_keys=True, default=str) + "\n"
        try:
            if path.exists() and not path.is_dir():
                raise OutputError("The output folder is a file.", where=str(path), hint="Give another folder with --out.")
            if path.exists() and any(path.iterdir()):
                folder._refuse_foreign(text)
            folder.campaign.mkdir(parents=True, exist_ok=True)
            (path / "defects").mkdir(exist_ok=True)
            probe = path / f".write-test-{os.getpid()}"
            probe.write_bytes(b"")
            probe.unlink()
            (path / _IDENTITY).write_text(text, encoding="utf-8")
            # What an earlier run measured must never be judged as if this one had.
            (path / _EVIDENCE).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(
                f"The output folder can't be written: {error.strerror or error}.", where=str(path), hint="Give another folder with --out."
            ) from error
        return folder

    def drop_other_defects(self, kept: Collection[str]) -> None:
        """Removes the defects of an earlier run in this folder, whose record has been replaced, and keeps those with these ids."""
        for folder in (self.path / "defects").iterdir():
            if _DEFECT.fullmatch(folder.name) and folder.name not in kept and not folder.is_symlink():
                shutil.rmtree(folder)

    def _refuse_foreign(self, identity: str) -> None:
        recorded = self.path / _IDENTITY
        if not recorded.is_file():
            raise OutputError(
                "The output folder is not empty and holds no run of the gate.", where=str(self.path), hint="Give a new folder with --out."
            )
        if recorded.read_text(encoding="utf-8", errors="replace") != identity:
            raise OutputError(
                "The output folder holds a run of another campaign (other model, data, policy, seed or budget).",
                where=str(self.path),
                hint="Give a new folder with --out, or remove this one if you no longer need it.",
            )
