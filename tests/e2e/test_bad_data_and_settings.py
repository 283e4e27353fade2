"""Bad data, settings, policies, budgets and folders through the command: exit 2, what is wrong, where, and what to do."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gate_command import Done, Finished, in_process, run_gate
from PIL import Image

SQUARE = np.full((8, 8), 90, np.uint8)


def _pictures(folder: Path, per_class: int = 12) -> Path:
    for label in range(10):
        (folder / str(label)).mkdir(parents=True)
        for row in range(per_class):
            Image.fromarray(SQUARE + label * 10 + row).save(folder / str(label) / f"{row}.png")
    return folder


def _bomb(path: Path) -> None:
    """A PNG of a few kilobytes that says it has 120 megapixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    header = (12_000).to_bytes(4, "big") + (10_000).to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 10_000)) + chunk(b"IEND", b""))


def _bad_data(how: str, folder: Path, data: Any) -> Path:
    npz = folder / "bad.npz"
    x, y = data[1].x, data[1].y
    if how == "an empty folder":
        (folder / "seeds").mkdir()
        return folder / "seeds"
    if how == "nothing there":
        return folder / "nowhere.npz"
    if how == "not an npz":
        npz.write_bytes(b"PK\x03\x04 no")
    elif how == "labels outside":
        np.savez(npz, x=x, y=y + 10)
    elif how == "objects":
        np.savez(npz, x=np.array([None, {}], dtype=object), y=np.array([0, 1]), allow_pickle=True)
    elif how == "nan":
        np.savez(npz, x=np.where(x > 250, np.nan, x / 255.0).astype(np.float32), y=y)
    elif how == "0 to 1 declared as 0 to 255":
        np.savez(npz, x=(x / 255.0).astype(np.float32), y=y)
        (folder / "gate.yaml").write_text("input: {range: [0, 255]}\n")
    elif how == "no labels":
        np.savez(npz, x=x)
    else:
        pictures = _pictures(folder / "pictures")
        bad = pictures / "3" / "bad.png"
        if how == "a corrupt picture":
            whole = (pictures / "3" / "1.png").read_bytes()
            bad.write_bytes(whole[: len(whole) // 2])
        elif how == "one pixel":
            Image.fromarray(SQUARE[:1, :1]).save(bad)
        elif how == "a bomb":
            _bomb(bad)
        return pictures
    return npz


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("an empty folder", ["seeds"]),
        ("nothing there", ["nowhere.npz"]),
        ("not an npz", ["bad.npz"]),
        ("labels outside", ["19", "10 classes"]),
        ("objects", ["bad.npz", "object"]),
        ("nan", ["NaN", "bad.npz"]),
        ("0 to 1 declared as 0 to 255", ["between 0 and 1", "input.range: [0, 1]"]),
        ("no labels", ["'y'"]),
        ("a corrupt picture", ["bad.png"]),
        ("one pixel", ["bad.png"]),
        ("a bomb", ["bad.png"]),
    ],
)
def test_bad_data_is_refused_with_its_place(
    how: str, says: list[str], data: Any, gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = gate_run("--seeds", _bad_data(how, tmp_path, data))
    assert done.code == 2, done.said
    done.explains("ERROR", *says, "what to do:")
    run = Finished(tmp_path / "out")
    run.is_whole()
    assert (run.record["verdict"], run.record["exit_code"]) == ("error", 2)


def test_bad_pictures_can_be_skipped_and_are_counted(data: Any, gate_run: Callable[..., Done], tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    modes: dict[str, Callable[[Any], Any]] = {
        "16 bit": lambda p: Image.fromarray(np.asarray(p).astype(np.uint16) * 257),
        "palette": lambda p: p.convert("P"),
        "alpha": lambda p: p.convert("RGBA"),
        "cmyk": lambda p: p.convert("CMYK"),
    }
    for row in range(160):
        folder = pictures / str(data[1].y[row])
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(data[1].x[row])
        kind = [*modes, "plain"][row % 5]
        picture = modes[kind](picture) if kind in modes else picture
        picture.save(folder / f"{row} {kind}{'.tif' if kind == 'cmyk' else '.png'}")
    for label in range(3):
        _bomb(pictures / str(label) / "bomb.png")
    (tmp_path / "gate.yaml").write_text("data: {on_bad_file: skip}\n")
    done = gate_run("--config", tmp_path / "gate.yaml", "--seeds", pictures)
    record = Finished(tmp_path / "out").record
    assert done.code == 0, done.said
    assert (record["data"]["seeds"]["samples"], record["data"]["seeds"]["skipped"]) == (160, 3)
    # Every kind of file is read as the picture that it is.
    assert record["metrics"]["clean_accuracy"]["value"] > 0.95


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("polcy: smoke\n", ["'polcy'", "'policy'", "gate.yaml:1"]),
        ("seed: 1\nseed: 2\n", ["'seed' stands twice", "gate.yaml:2"]),
        ("budget: {wall: .nan}\n", ["budget.wall", "gate.yaml:1"]),
        ("input: {mean: [.nan]}\n", ["input.mean", "gate.yaml:1"]),
        ("batch_size: many\n", ["batch_size", "'many'", "gate.yaml:1"]),
        ("model: !!python/object:os.system x\n", ["tag", "gate.yaml:1"]),
        ("a: &x [1]\nb: [*x, *x]\n", ["Anchors and aliases", "gate.yaml:1"]),
        ("- model\n", ["mapping"]),
        ("budget: {executions: 0}\n", ["budget.executions", "greater than 0"]),
    ],
)
def test_bad_settings_are_refused_with_their_line(text: str, says: list[str], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(text, encoding="utf-8")
    run = gate_run if "executions" not in text else None
    config: list[str | Path] = ["--config", tmp_path / "gate.yaml"]
    done = gate_run(*config) if run else run_gate("run", *config, "--model", "m", "--seeds", "s", "--out", tmp_path / "out")
    assert done.code == 2, done.said
    done.explains(*says)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ('  - {id: a, metric: defect_rat, fail: "> 0.1"}\n', ["defect_rat", "defect_rate", "policy.yaml:7"]),
        ('  - {id: a, metric: defect_rate, fial: "> 0.1"}\n', ["fial", "fail", "policy.yaml:7"]),
        ("  - {id: a, metric: defect_rate, fail: .nan}\n", ["policy.yaml:7"]),
        ('  - {id: a, metric: defect_rate, fail: "> 0.1", min_samples: lots}\n', ["min_samples", "policy.yaml:7"]),
        ("  []\n", ["rule"]),
        ('  - {id: a, metric: defect_rate, fail: "> 0.1"}\nextends: [policy.yaml]\n', ["extends"]),
        (
            '  - {id: a, metric: defect_rate, fail: "> 0.1"}\nwaivers:\n  - {rule: a, reason: later, expires: 2030-01-01}\n',
            ["owner", "policy.yaml:9"],
        ),
    ],
)
def test_bad_policies_are_refused_before_work_starts(rules: str, says: list[str], gate_run: Callable[..., Done], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"version: 1\nname: mine\ndescription: For tests.\n\n\nrules:\n{rules}", encoding="utf-8")
    done = gate_run("--policy", policy)
    assert done.code == 2, done.said
    done.explains(*says)
    assert not (tmp_path / "out").exists()


def test_a_waiver_past_its_date_no_longer_waives(limits: Callable[[str, str], Path], finished: Finished, tmp_path: Path) -> None:
    today = datetime.datetime.now(tz=datetime.UTC).date()
    rules = '  - {id: known, metric: executions, fail: "< 1"}\n  - {id: no-defect, metric: defect_rate, fail: ">= 0"}\nwaivers:\n'
    waiver = '  - {{rule: no-defect, reason: "known", owner: "@team", expires: {}}}\n'
    expired = limits("expired", rules + waiver.format(today - datetime.timedelta(days=1)))
    done = in_process("evaluate", finished.folder, "--policy", expired, "--out", tmp_path / "out")
    assert done.code == 1, done.said
    text = str(Finished(tmp_path / "out").record["rules"])
    assert "@team" in text
    assert "expired" in text
    in_force = limits("waived", rules + waiver.format(today + datetime.timedelta(days=1)))
    done = in_process("evaluate", finished.folder, "--policy", in_force)
    assert done.code == 0, done.said


def test_a_rule_on_what_this_run_can_not_measure_follows_its_on_missing(limits: Callable[[str, str], Path], finished: Finished) -> None:
    expected = {"inconclusive": 4, "skip": 0, "fail": 1}
    for choice, code in expected.items():
        rules = '  - {id: known, metric: executions, fail: "< 1"}\n'
        rules += f'  - {{id: canaries, metric: canary_recall, fail: "< 0.5", on_missing: {choice}}}\n'
        done = in_process("evaluate", finished.folder, "--policy", limits(f"missing {choice}", rules))
        assert done.code == code, done.said


@pytest.mark.parametrize("budget", ["0s", "-5m", "10 minutes", "", "1e3", "nan"])
def test_a_budget_that_is_none_is_refused(budget: str, gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--budget", budget)
    assert done.code == 2, done.said
    done.explains("budget.wall", "command line")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("executions", ["0", "-1", "many"])
def test_executions_that_are_none_are_refused(executions: str, gate_run: Callable[..., Done], tmp_path: Path) -> None:
    done = gate_run("--executions", executions)
    assert done.code == 2, done.said
    done.explains("executions")
    assert not (tmp_path / "out").exists()


def test_an_output_folder_with_other_things_is_left_alone(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    done = gate_run()
    assert done.code == 2, done.said
    done.explains("not empty", str(tmp_path / "out"), "--out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_an_output_folder_of_another_campaign_is_left_alone(finished: Finished, gate_run: Callable[..., Done]) -> None:
    before = {path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()}
    done = gate_run("--seed", "99", "--out", finished.folder)
    assert done.code == 2, done.said
    done.explains("another campaign", str(finished.folder))
    assert {path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()} == before


def test_a_file_in_the_way_is_left_alone(gate_run: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    for out in (tmp_path / "taken", tmp_path / "taken" / "below"):
        done = gate_run("--out", out)
        assert done.code == 2, done.said
        done.explains(str(out), "--out")
    assert (tmp_path / "taken").read_text() == "a file"


def test_a_read_only_folder_is_refused_before_work_starts(model: Path, seeds: Path, tmp_path: Path) -> None:
    # Permissions do not bind a superuser; a read-only mount in a namespace of its own does.
    script = 'mount -t tmpfs -o ro none "$1" && shift && exec "$@"'
    there = tmp_path / "read only"
    there.mkdir()
    unshare = ["unshare", "-rm", "sh", "-c", script, "sh", str(there)]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces on this machine")
    from gate_command import GATE, environment

    done = subprocess.run(
        [*unshare, str(GATE), "run", "--model", str(model), "--seeds", str(seeds), "--out", str(there / "out")],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    Done(done.returncode, done.stdout, done.stderr).explains("Read-only file system", str(there / "out"), "--out")
    assert done.returncode == 2


NAME = "a space, \u00fcn\u00ef \u96ea \U0001f418, new\nline, 'quoted\" $(touch x) %s {0} [red]"


def test_odd_paths_on_another_device_work_and_nothing_else_is_written(
    model: Path, seeds: Path, gate_run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(path.stat().st_mtime_ns for path in model.rglob("*"))
    (tmp_path / NAME).mkdir()
    shutil.copyfile(seeds, tmp_path / NAME / "seeds.npz")
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        out = Path(folder) / NAME / "out"
        done = gate_run("--seeds", tmp_path / NAME / "seeds.npz", "--out", out, "--executions", "24")
        assert done.code in (0, 4), done.said
        run = Finished(out)
        run.is_whole()
        assert run.record["campaign"]["executions"] == 24
        assert [path.name for path in Path(folder).iterdir()] == [path.name for path in tmp_path.iterdir()] == [NAME]
    assert sorted(path.stat().st_mtime_ns for path in model.rglob("*")) == before
