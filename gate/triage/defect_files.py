"""A defect's folder, changed so that whatever ends the process in between leaves a whole one: the old or the new.

``defect.json`` is replaced by a rename. Where pictures change with it, a whole new folder is made beside the old one, hidden, and the two
change places by renames; the old one is removed last.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from gate.result import Defect

__all__ = ["clear_unfinished", "remade", "remove_folder", "with_id", "write_description"]

_UNFINISHED = re.compile(r"\.d-[0-9a-f]{12}\.(new|old)")


def write_description(run: Path, defect: Defect) -> None:
    """Writes ``defect.json``, whole: a reader sees the old text or the new one.

    Args:
        run: the run folder.
        defect: whose folder is there.
    """
    _describe(run / "defects" / defect.id, defect)


def with_id(defect: Defect, identity: str) -> Defect:
    """The same defect under another id; its files are where ``remade`` puts them."""
    old, new = f"defects/{defect.id}/", f"defects/{identity}/"
    files = {name: new + path.removeprefix(old) if path.startswith(old) else path for name, path in defect.files.items()}
    return defect.model_copy(update={"id": identity, "files": files})


def remade(run: Path, old: Defect, new: Defect, change: Callable[[Path], None] = lambda folder: None) -> None:
    """Makes the folder of ``new`` out of that of ``old``, and removes the latter; the ids may be the same.

    Whatever lies in the folder of ``new`` is replaced. An exception leaves the folder of ``old`` as it was, or that of ``new`` whole.

    Args:
        run: the run folder.
        old: the defect as it is on disk.
        new: as it shall be.
        change: writes the files that differ into the folder that it is given.
    """
    place = run / "defects"
    made, aside, target = place / f".{new.id}.new", place / f".{new.id}.old", place / new.id
    for path in (made, aside):
        shutil.rmtree(path, ignore_errors=True)
    try:
        shutil.copytree(place / old.id, made)
        change(made)
        _describe(made, new)
        if target.exists():
            target.rename(aside)
        made.rename(target)
    except BaseException:
        if aside.exists() and not target.exists():
            aside.rename(target)
        shutil.rmtree(made, ignore_errors=True)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    if old.id != new.id:
        remove_folder(run, old.id)


def remove_folder(run: Path, identity: str) -> None:
    """Removes a defect's folder: the description first, so that a rest is no defect."""
    folder = run / "defects" / identity
    (folder / "defect.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def clear_unfinished(run: Path) -> None:
    """Puts right what a process that was killed in the middle of ``remade`` has left: a folder that was set aside comes back."""
    for path in sorted((run / "defects").iterdir()):
        if not _UNFINISHED.fullmatch(path.name) or path.is_symlink():
            continue
        target = path.with_name(path.name[1:].removesuffix(path.suffix))
        if path.suffix == ".old" and not target.exists():
            path.rename(target)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _describe(folder: Path, defect: Defect) -> None:
    text = json.dumps(defect.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"
    half = folder / "defect.json.tmp"
    half.write_text(text, encoding="utf-8")
    half.replace(folder / "defect.json")
