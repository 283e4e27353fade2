from __future__ import annotations

import hashlib
import os
import shutil
import socket
from pathlib import Path

import pytest

from gate.errors import ModelError
from gate.trust.digest import ManifestEntry, digest, manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "model"
    (root / "data").mkdir(parents=True)
    (root / "MLmodel").write_bytes(b"flavors: {}\n")
    (root / "data" / "model.pth").write_bytes(b"weights")
    (root / "data.txt").write_bytes(b"")
    return root


def test_the_manifest_lists_every_file_by_the_bytes_of_its_path(folder: Path) -> None:
    assert manifest(folder) == (
        ManifestEntry("MLmodel", 12, hashlib.sha256(b"flavors: {}\n").hexdigest()),
        ManifestEntry("data.txt", 0, hashlib.sha256(b"").hexdigest()),  # "." comes before "/"
        ManifestEntry("data/model.pth", 7, hashlib.sha256(b"weights").hexdigest()),
    )


def test_the_digest_can_be_recomputed_from_its_written_form(folder: Path) -> None:
    odd = folder / "a b\\c\né.bin"
    odd.write_bytes(b"x")
    hashes = {content: hashlib.sha256(content).hexdigest().encode() for content in (b"x", b"", b"weights", b"flavors: {}\n")}
    text = (
        b"gate-manifest/1\n"
        + hashes[b"flavors: {}\n"]
        + b" 12 MLmodel\n"
        + hashes[b"x"]
        + " 1 a b\\\\c\\né.bin\n".encode()
        + hashes[b""]
        + b" 0 data.txt\n"
        + hashes[b"weights"]
        + b" 7 data/model.pth\n"
    )
    assert digest(folder) == "sha256:" + hashlib.sha256(text).hexdigest()


def test_a_copy_has_the_same_digest_whatever_its_times_modes_and_empty_folders(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(folder, copy)
    os.utime(copy / "MLmodel", (1, 1))
    (copy / "MLmodel").chmod(0o600)
    (copy / "empty").mkdir()
    assert digest(copy) == digest(folder)


@pytest.mark.parametrize("change", ["content", "name", "added", "moved"])
def test_any_change_changes_the_digest(folder: Path, change: str) -> None:
    before = digest(folder)
    match change:
        case "content":
            (folder / "data" / "model.pth").write_bytes(b"Weights")
        case "name":
            (folder / "data.txt").rename(folder / "data2.txt")
        case "added":
            (folder / ".hidden").write_bytes(b"")
        case "moved":
            (folder / "data" / "model.pth").rename(folder / "model.pth")
    assert digest(folder) != before


def test_a_name_that_is_not_text_is_hashed_by_its_bytes(folder: Path) -> None:
    (folder / os.fsdecode(b"\xff.bin")).write_bytes(b"x")
    assert digest(folder).startswith("sha256:")


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "dangling link", "pipe", "socket"])
def test_what_is_no_ordinary_file_is_refused_by_name(folder: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = folder / "data" / "odd"
    match kind:
        case "link to a file":
            odd.symlink_to(folder / "MLmodel")
        case "link to a folder":
            odd.symlink_to(tmp_path)
        case "dangling link":
            odd.symlink_to("/nowhere")
        case "pipe":
            os.mkfifo(odd)
        case "socket":
            monkeypatch.chdir(odd.parent)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind("odd")
    with pytest.raises(ModelError, match="'data/odd' is") as raised:
        digest(folder)
    assert raised.value.exit_code == 3


def test_a_folder_that_is_missing_or_itself_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    for wrong in (tmp_path / "none", tmp_path / "link", folder / "MLmodel"):
        with pytest.raises(ModelError, match="no such folder"):
            manifest(wrong)
