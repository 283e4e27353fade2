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

__all__ = ["AnotherCampaignError", "RunFolder"]

_IDENTITY = "campaign/identity.json"
_DEFECT = re.compile(r"d-[0-9a-f]{12}")
_FLAKY = re.compile(r"f-[0-9a-f]{12}")
# What an earlier run says, and what it measured: neither must ever be taken for this run's. In the order in which they are set aside.
_RECORD = ("result.json", "junit.xml", "report.html", "summary.md", "metrics.txt", "events.jsonl", "campaign/evidence.json")
_ASIDE = "campaign/.earlier"  # hidden, so that it is not published


class AnotherCampaignError(OutputError):
    """The folder belongs to a campaign with another model or other data. Nothing may be written to it."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that belongs to one campaign."""

    path: Path

    @property
    def campaign(self) -> Path:
        """Checkpoint, corpus, coverage map and evidence."""
        return self.path / "campaign"

    @classmethod
    def prepare(cls, path: Path, settings: Mapping[str, Any]) -> RunFolder:
        """Makes the folder, or takes an earlier run of the same campaign over.

        The record of an earlier run is set aside at once: were this run killed, nobody must take its predecessor's verdict for its own.

        Args:
            path: new, empty, or the folder of a run with the same settings.
            settings: JSON values of all that the user and the policy say about the campaign, without secrets.

        Raises:
            OutputError: it holds something else, or can't be written.
        """
        folder = cls(path)
        try:
            if path.exists() and not path.is_dir():
                raise OutputError("The output folder is a file.", where=str(path), hint="Give another folder with --out.")
            if path.exists() and any(path.iterdir()):
                folder._refuse_foreign(settings)
            folder.campaign.mkdir(parents=True, exist_ok=True)
            (path / "defects").mkdir(exist_ok=True)
            probe = path / f".write-test-{os.getpid()}"
            probe.write_bytes(b"")
            probe.unlink()
            if not (path / _IDENTITY).exists():
                folder._identify(settings, None)
            for name in _RECORD:
                if (path / name).exists():
                    (path / _ASIDE).mkdir(exist_ok=True)
                    (path / name).replace(path / _ASIDE / Path(name).name)
        except OSError as error:
            raise OutputError(
                f"The output folder can't be written: {error.strerror or error}.", where=str(path), hint="Give another folder with --out."
            ) from error
        return folder

    def settle(self, content: Mapping[str, Any]) -> None:
        """Says what the names in the settings have turned out to mean; call it before any model code runs.

        Args:
            content: JSON values: resolved names and digests of the model and the data.

        Raises:
            AnotherCampaignError: an earlier run in this folder had other content; its record is in place again.
        """
        known = self._identity()
        settled = json.loads(json.dumps(dict(content)))
        if known["content"] is not None and known["content"] != settled:
            names = sorted(name for name in {*known["content"], *settled} if known["content"].get(name) != settled.get(name))
            for name in _RECORD:
                if (self.path / _ASIDE / Path(name).name).exists():
                    (self.path / _ASIDE / Path(name).name).replace(self.path / name)
            self.forget_earlier()
            raise AnotherCampaignError(
                f"The output folder holds a run of another campaign: meanwhile the {' and the '.join(names)} changed.",
                where=str(self.path),
                hint="Give a new folder with --out, or remove this one if you no longer need it.",
            )
        self._identify(known["settings"], settled)
        self.forget_earlier()

    def forget_earlier(self) -> None:
        """Removes the record of an earlier run that was set aside."""
        if (self.path / _ASIDE).exists():
            shutil.rmtree(self.path / _ASIDE)

    def drop_other_defects(self, kept: Collection[str]) -> None:
        """Removes the defects of an earlier run in this folder, whose record has been replaced, and keeps those with these ids."""
        _drop_others(self.path / "defects", _DEFECT, kept)

    def drop_other_flaky(self, kept: Collection[str]) -> None:
        """The same for the findings in ``quarantine/``."""
        _drop_others(self.path / "quarantine", _FLAKY, kept)

    def _refuse_foreign(self, settings: Mapping[str, Any]) -> None:
        if not (self.path / _IDENTITY).is_file():
            raise OutputError(
                "The output folder is not empty and holds no run of the gate.", where=str(self.path), hint="Give a new folder with --out."
            )
        wanted = json.loads(json.dumps(dict(settings)))
        try:
            known = self._identity()["settings"]
            other = sorted(name for name in {*known, *wanted} if known.get(name) != wanted.get(name))
        except (ValueError, TypeError, KeyError, AttributeError):
            other = ["record of its settings, which can't be read"]
        if other:
            raise OutputError(
                f"The output folder holds a run of another campaign; what differs: {', '.join(other)}.",
                where=str(self.path),
                hint="Give a new folder with --out, or remove this one if you no longer need it.",
            )

    def _identity(self) -> dict[str, Any]:
        said = json.loads((self.path / _IDENTITY).read_text(encoding="utf-8"))
        return {"settings": said["settings"], "content": said["content"]}

    def _identify(self, settings: Mapping[str, Any], content: Mapping[str, Any] | None) -> None:
        said = {"settings": dict(settings), "content": content}
        half = self.path / f"{_IDENTITY}.tmp"
        half.write_text(json.dumps(said, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        half.replace(self.path / _IDENTITY)


def _drop_others(place: Path, ours: re.Pattern[str], kept: Collection[str]) -> None:
    """Removes the folders in ``place`` that have a name of ours and are not among those to keep."""
    if not place.is_dir():
        return
    for folder in place.iterdir():
        if ours.fullmatch(folder.name) and folder.name not in kept and not folder.is_symlink():
            shutil.rmtree(folder)
