"""The archive that a run's defects travel in."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from gate.errors import DataError
from gate.registry.archive import pack, unpack

NAMES = ("d-1", "d-2")


def _folder(path: Path) -> Path:
    (path / "d-1").mkdir(parents=True)
    (path / "d-1" / "mutant.png").write_bytes(b"\x89PNG\x00\xff")
    (path / "d-2").mkdir()
    (path / "d-2" / "defect.json").write_text("{}")
    return path


def test_a_folder_comes_back_as_it_was(tmp_path: Path) -> None:
    assert pack(_folder(tmp_path / "defects"), tmp_path / "a.zip", NAMES) == 2
    unpack(tmp_path / "a.zip", tmp_path / "back")
    assert (tmp_path / "back" / "d-1" / "mutant.png").read_bytes() == b"\x89PNG\x00\xff"
    assert (tmp_path / "back" / "d-2" / "defect.json").read_text() == "{}"


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "defects")
    pack(folder, tmp_path / "a.zip", NAMES)
    (folder / "d-1" / "mutant.png").touch()
    pack(folder, tmp_path / "b.zip", NAMES)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_links_stay_behind(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "defects")
    (folder / "d-1" / "secret").symlink_to("/etc/hostname")
    (folder / "d-3").symlink_to("/etc")
    assert pack(folder, tmp_path / "a.zip", (*NAMES, "d-3")) == 2


def test_only_the_named_folders_travel(tmp_path: Path) -> None:
    assert pack(_folder(tmp_path / "defects"), tmp_path / "a.zip", ["d-2", "d-absent"]) == 1


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "a/../../out.txt", "folder/", "a\\..\\b"])
def test_a_name_that_leads_out_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("good.txt", "good")
        file.writestr(zipfile.ZipInfo(name), "" if name.endswith("/") else "bad")
    with pytest.raises(DataError, match="no plain file inside"):
        unpack(tmp_path / "a.zip", tmp_path / "in" / "back")
    assert not (tmp_path / "in").exists()
    assert not (tmp_path / "out.txt").exists()


def test_a_link_in_the_archive_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr(link, "/etc/passwd")
    with pytest.raises(DataError, match="no plain file"):
        unpack(tmp_path / "a.zip", tmp_path / "back")


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(8 << 20))
    with pytest.raises(DataError, match="far more than it should"):
        unpack(tmp_path / "a.zip", tmp_path / "back")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_repeated_and_clashing_names_are_refused(tmp_path: Path) -> None:
    for names in (("a", "a"), ("a", "a/b")):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
            for name in names:
                file.writestr(name, "x")
        with pytest.raises(DataError, match="twice"):
            unpack(tmp_path / "a.zip", tmp_path / "back")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    pack(_folder(tmp_path / "defects"), tmp_path / "a.zip", NAMES)
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    raw[raw.index(b"\x89PNG")] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(raw)
    with pytest.raises(DataError, match=r"damaged|can't be read"):
        unpack(tmp_path / "a.zip", tmp_path / "back")
    (tmp_path / "b.zip").write_bytes(b"no archive")
    with pytest.raises(DataError, match="can't be read"):
        unpack(tmp_path / "b.zip", tmp_path / "back")
    assert not (tmp_path / "back").exists()
