"""Writing, choosing and shrinking: what lands in the folder and what does not."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from sample import make_run

from gate.cli.report import command
from gate.errors import GateError, OutputError
from gate.report import FILES, atomic, html, write
from gate.report.gallery import choose
from gate.report.pictures import PictureReader
from gate.result import Result, Verdict


def test_a_run_folder_is_made_and_holds_every_rendering_and_no_leftover(tmp_path: Path) -> None:
    result = make_run(tmp_path / "a folder" / "ünïcode\nline", Verdict.PASS, 0)
    paths = write(result, tmp_path / "a folder" / "ünïcode\nline")
    assert [path.name for path in paths] == list(FILES)
    assert sorted(p.name for p in paths[0].parent.iterdir()) == sorted(FILES)
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in paths)


def test_rendering_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    first = [path.read_bytes() for path in write(result, tmp_path)]
    assert [path.read_bytes() for path in write(Result.load(tmp_path), tmp_path)] == first


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, GateError), (errno.EROFS, OutputError)])
def test_a_failed_write_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[GateError]
) -> None:
    atomic.write_text(tmp_path / "file", "old")

    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(kind) as caught:
        atomic.write_text(tmp_path / "file", "new")
    assert caught.value.exit_code == (3 if number == errno.ENOSPC else 2)
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_record_is_there_even_if_a_later_rendering_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> str:
        raise RuntimeError("no page today")

    result = make_run(tmp_path, Verdict.PASS, 0)
    monkeypatch.setattr(html, "render", breaks)
    with pytest.raises(RuntimeError):
        write(result, tmp_path)
    assert Result.load(tmp_path).verdict is Verdict.PASS


def test_gate_report_renders_again_from_the_record(tmp_path: Path) -> None:
    write(make_run(tmp_path, Verdict.FAIL, 3), tmp_path)
    before = (tmp_path / "report.html").read_bytes()
    for name in FILES[1:]:
        (tmp_path / name).unlink()
    done = CliRunner().invoke(command, [str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "verdict: fail" in done.output
    assert (tmp_path / "report.html").read_bytes() == before
    assert all((tmp_path / name).is_file() for name in FILES)


def test_gate_report_refuses_a_folder_without_a_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(tmp_path)])
    assert isinstance(done.exception, OutputError)
    assert done.exception.exit_code == 2


def test_importing_the_command_imports_neither_torch_nor_the_renderings() -> None:
    code = "import sys, gate.cli.report; print([m for m in ('torch', 'mlflow', 'jinja2', 'gate.report') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_rendering_imports_neither_torch_nor_mlflow() -> None:
    code = "import sys, gate.report; print([m for m in ('torch', 'mlflow', 'albumentations') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_every_root_cause_is_seen_before_any_is_seen_twice(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 60)
    chosen = choose(result, len(result.root_causes))
    assert len({defect.root_cause for defect in chosen}) == len(result.root_causes)
    assert [d.id for d in choose(result, 10)] == [d.id for d in chosen[:10]]
    assert {d.id for d in choose(result, 1000)} == {d.id for d in result.defects}


def test_pictures_keep_their_pixels_when_tiny_and_shrink_when_large(tmp_path: Path) -> None:
    tiny = np.arange(64, dtype=np.uint8).reshape(8, 8)
    Image.fromarray(tiny).save(tmp_path / "tiny.png")
    Image.new("RGBA", (1000, 500), (255, 0, 0, 0)).save(tmp_path / "large.png")
    reader = PictureReader(tmp_path)
    small, large = reader.read("tiny.png"), reader.read("large.png")
    assert small is not None
    assert large is not None
    assert (small.width, small.height, small.pixelated) == (8, 8, True)
    assert (large.width, large.height, large.pixelated) == (224, 112, False)


def test_a_picture_takes_its_share_of_the_room_and_counts_once_under_all_its_names(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    for i in range(40):
        Image.fromarray(noise.integers(0, 256, (300, 300, 3), dtype=np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "again.png").write_bytes((tmp_path / "0.png").read_bytes())
    reader = PictureReader(tmp_path, most=200_000, expected=40)
    made = [reader.read(f"{i}.png") for i in range(40)]
    assert reader.read("again.png") is made[0]
    assert all(one is not None and len(one.uri) <= 8000 for one in made)
    assert sum(len(one.uri) for one in made if one) <= 200_000
    alone = PictureReader(tmp_path, most=200_000, expected=1).read("0.png")
    assert alone is not None
    assert alone.width == 224


def test_no_picture_is_read_from_outside_the_run_folder_or_from_what_is_none(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "secret.png")
    (run / "link.png").symlink_to(tmp_path / "secret.png")
    (run / "text.png").write_text("no picture")
    (run / "cut.png").write_bytes((tmp_path / "secret.png").read_bytes()[:40])
    reader = PictureReader(run)
    for name in ("../secret.png", str(tmp_path / "secret.png"), "link.png", "text.png", "cut.png", "absent.png", "nul\x00.png", "", None):
        assert reader.read(name) is None


def test_a_defect_whose_pictures_are_gone_is_still_shown(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    page = html.render(result, tmp_path / "elsewhere")
    assert page.count("no picture") >= 9
    assert all(defect.id in page for defect in result.defects)
