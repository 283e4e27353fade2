"""Coverage maps survive as files, belong to one model and one profile set, and nothing in a file is taken on trust."""

from __future__ import annotations

import bz2
import itertools
import json
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from same_state import same_state

from gate.coverage import criterion
from gate.coverage.base import Criterion
from gate.coverage.combination import Combination
from gate.coverage.map_file import read_map
from gate.coverage.store import load, merge, save
from gate.errors import CoverageMapError

OPTIONS: dict[str, dict[str, Any]] = {
    "nc": {"threshold": 0.5},
    "kmnc": {"sections": 7},
    "nbc": {"margin": 0.1},
    "snac": {"bounds": [-0.5, 0.5]},
    "tknc": {"k": 2},
    "tknp": {"k": 2},
    "map": {"threshold": 0.1},
    "output": {"sections": 4},
    "nlc": {},
    "lsa": {"sections": 20},
    "dsa": {"sections": 20},
    "mdsa": {"sections": 20},
}
SETS = [name for name in OPTIONS if name != "nlc"]  # whose merge is a union


def _acts(seed: int, samples: int) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    acts = {"a": torch.randn(samples, 9, generator=g), "b": torch.randn(samples, 4, generator=g)}
    acts["a"][torch.rand(samples, 9, generator=g) < 0.01] = torch.nan
    return acts


def _fitted(name: str) -> Criterion:
    acts = _acts(0, 60)
    return criterion(name, **OPTIONS[name]).fit({layer: values.nan_to_num() for layer, values in acts.items()}, torch.arange(60) % 3)


def _updated(one: Criterion, seed: int) -> Criterion:
    logits = torch.randn(12, 3, generator=torch.Generator().manual_seed(seed))
    one.update(_acts(seed, 12), logits, earns=torch.arange(12) % 4 != seed % 4)
    return one


def _maps(seed: int, names: list[str]) -> dict[str, Criterion]:
    return {name: _updated(_fitted(name), seed) for name in names}


def _same(one: Criterion, other: Criterion) -> bool:
    numbers = [(c.covered, c.raw_covered, c.value, c.raw_value, c.nonfinite, c.by_layer()) for c in (one, other)]
    return same_state(one, other) and numbers[0] == numbers[1]


def _save(path: Path, maps: dict[str, Criterion], model: str = "sha256:m", profile: str = "sha256:p") -> Path:
    save(path, maps, model=model, profile=profile)
    return path


def test_every_criterion_goes_on_from_a_file_as_if_nothing_had_happened(tmp_path: Path) -> None:
    maps = _maps(3, list(OPTIONS))
    assert any(one.raw_covered > one.covered > 0 for one in maps.values())
    again = load(_save(tmp_path / "coverage.map", maps), model="sha256:m", profile="sha256:p")
    assert set(again) == set(maps)
    for name, one in maps.items():
        assert _same(one, again[name]), name
        assert _same(_updated(one, 8), _updated(again[name], 8)), name


def test_what_is_not_yet_fitted_or_has_seen_nothing_is_kept_as_that(tmp_path: Path) -> None:
    maps = {"nothing": criterion("nc"), "fitted": _fitted("kmnc"), "unfitted": criterion("kmnc"), "patterns": criterion("tknp")}
    again = load(_save(tmp_path / "m", maps), model=None, profile=None)
    assert all(_same(one, again[name]) for name, one in maps.items())
    with pytest.raises(ValueError, match="call fit"):
        again["unfitted"].update(_acts(1, 2))


@settings(max_examples=8, deadline=None)
@given(seeds=st.lists(st.integers(1, 10**6), min_size=3, max_size=3, unique=True))
def test_joining_files_is_a_union_whatever_their_order(tmp_path_factory: pytest.TempPathFactory, seeds: list[int]) -> None:
    folder = tmp_path_factory.mktemp("maps")
    files = [_save(folder / f"{seed}.map", _maps(seed, SETS)) for seed in seeds]
    together = {name: _fitted(name) for name in SETS}
    for seed in seeds:
        for one in together.values():
            _updated(one, seed)
    expected = _save(folder / "together.map", together).read_bytes()
    for order in itertools.permutations(files):
        joined = merge(order, model="sha256:m", profile="sha256:p")
        assert all(_same(joined[name], one) for name, one in together.items())
        assert _save(folder / "joined.map", joined).read_bytes() == expected
    again = merge([*files, files[0]], model=None, profile=None)
    assert _save(folder / "again.map", again).read_bytes() == expected
    # Step by step through files is the same, too.
    half = _save(folder / "half.map", merge(files[:2], model=None, profile=None))
    assert _save(folder / "whole.map", merge([files[2], half], model=None, profile=None)).read_bytes() == expected


def test_statistics_of_disjoint_samples_add_up_through_files(tmp_path: Path) -> None:
    files = [_save(tmp_path / f"{seed}.map", _maps(seed, ["nlc"])) for seed in (1, 2, 3)]
    together = _fitted("nlc")
    for seed in (1, 2, 3):
        _updated(together, seed)
    for order in itertools.permutations(files):
        assert _same(merge(order, model=None, profile=None)["nlc"], together)


def test_a_map_of_another_model_or_profile_set_is_refused(tmp_path: Path) -> None:
    path = _save(tmp_path / "m", _maps(1, ["nc"]))
    for wanted, what in (({"model": "sha256:x", "profile": None}, "model"), ({"model": None, "profile": "sha256:x"}, "profile set")):
        with pytest.raises(CoverageMapError, match=f"belongs to another {what}: 'sha256:") as caught:
            load(path, **wanted)
        assert caught.value.where == str(path)
        assert caught.value.hint
        assert caught.value.exit_code == 2
    other = _save(tmp_path / "other", _maps(2, ["nc"]), model="sha256:other")
    with pytest.raises(CoverageMapError, match="another model"):
        merge([path, other], model=None, profile=None)


def test_maps_that_do_not_belong_together_are_not_joined(tmp_path: Path) -> None:
    one = _save(tmp_path / "one", _maps(1, ["nc", "kmnc"]))
    with pytest.raises(CoverageMapError, match=r"other criteria \(kmnc\) than the first map \(kmnc, nc\)"):
        merge([one, _save(tmp_path / "two", _maps(1, ["kmnc"]))], model=None, profile=None)
    ranged = criterion("kmnc", **OPTIONS["kmnc"]).fit(_acts(5, 9))
    with pytest.raises(CoverageMapError, match="another profile set"):
        merge([one, _save(tmp_path / "three", {"nc": _fitted("nc"), "kmnc": ranged})], model=None, profile=None)
    with pytest.raises(ValueError, match="no maps"):
        merge([], model=None, profile=None)


def test_a_map_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = _save(tmp_path / "m", _maps(1, ["nc"]))
    before = path.read_bytes()
    for maps in ({"../nc": _fitted("nc")}, {"both": Combination([_fitted("nc"), _fitted("kmnc")])}):
        with pytest.raises(ValueError, match=r"no name for a criterion|save its parts"):
            _save(path, maps)
    with pytest.raises(OSError, match="No such file"):
        _save(tmp_path / "missing" / "m", _maps(1, ["nc"]))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_state_makes_the_same_bytes(tmp_path: Path) -> None:
    maps = _maps(4, list(OPTIONS))
    one = _save(tmp_path / "one", maps).read_bytes()
    assert _save(tmp_path / "two", dict(reversed(maps.items()))).read_bytes() == one
    assert _save(tmp_path / "three", load(tmp_path / "one", model=None, profile=None)).read_bytes() == one


def test_a_set_in_the_file_is_a_plain_roaring_bitmap(tmp_path: Path) -> None:
    from pyroaring import BitMap

    one = _maps(1, ["kmnc"])["kmnc"]
    with zipfile.ZipFile(_save(tmp_path / "m", {"kmnc": one})) as archive:
        (name,) = [name for name in archive.namelist() if name.startswith("kmnc/hit.roaring")]
        data = archive.read(name)
    data = bz2.decompress(data) if name.endswith("bz2") else zlib.decompress(data, wbits=31)
    assert len(BitMap.deserialize(data)) == one.covered


def test_a_map_after_a_campaign_is_small(tmp_path: Path) -> None:
    """A tenth of a ResNet-50's 27,560 neurons: 8 MiB in memory and 4 MiB on disk are allowed for all of them."""
    g, neurons = torch.Generator().manual_seed(1), 2756
    one = criterion("kmnc", sections=1000).fit({"l": torch.randn(500, neurons, generator=g)})
    for step in range(10):
        spread = 0.3 + 0.8 * torch.rand(100, 1, generator=g)
        earns = torch.rand(100, generator=g) < 0.8
        spread[~earns] *= 1.5
        one.update({"l": torch.randn(100, neurons, generator=g) * spread}, earns=earns)
        if step in (4, 9):  # a quarter covered, and two fifths
            assert 0.2 < one.value < one.raw_value - 0.02 < 0.7, (one.value, one.raw_value)
            assert _save(tmp_path / "m", {"kmnc": one}).stat().st_size < 0.39 * (1 << 20)
    assert one._hit.words.nbytes + one._raw.words.nbytes < 0.8 * (1 << 20)


# Files that were changed.


def _rewritten(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The file with other members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _head(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, bytes]], None]:
    def rewrite(members: dict[str, bytes]) -> None:
        head = json.loads(members["head.json"])
        change(head)
        members["head.json"] = json.dumps(head).encode()

    return rewrite


def _part(name: str, data: bytes) -> Callable[[dict[str, bytes]], None]:
    """Puts other bytes, uncompressed, into a part."""

    def rewrite(members: dict[str, bytes]) -> None:
        (old,) = [member for member in members if member.startswith(name + ".")]
        form = old.removeprefix(name + ".").split(".")[0]
        del members[old]
        members[f"{name}.{form}.bz2"] = bz2.compress(data)

    return rewrite


def _npy(array: np.ndarray, claimed: tuple[int, ...] | None = None) -> bytes:
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": claimed or array.shape}
    text = repr(header).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + array.tobytes()


def _object_array() -> bytes:
    import io

    stream = io.BytesIO()
    np.save(stream, np.array([print, 1], dtype=object), allow_pickle=True)
    return stream.getvalue()


def _kmnc(head: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = head["criteria"]["kmnc"]
    return described


CHANGES: dict[str, Callable[[dict[str, bytes]], object]] = {
    "no head": lambda m: m.pop("head.json"),
    "a head that is no JSON": lambda m: m.update({"head.json": b"{"}),
    "a head of endless brackets": lambda m: m.update({"head.json": b"[" * 100_000}),
    "a head that is a list": lambda m: m.update({"head.json": b"[]"}),
    "another version": _head(lambda h: h.update(format="gate.coverage/2")),
    "one field more": _head(lambda h: h.update(more=1)),
    "a digest that is a list": _head(lambda h: h.update(model=["sha256:m"])),
    "no criteria": _head(lambda h: h.update(criteria=[])),
    "a name that leads elsewhere": _head(lambda h: h["criteria"].update({"../x": h["criteria"].pop("kmnc")})),
    "an unknown criterion": _head(lambda h: _kmnc(h).update(criterion="os.system")),
    "another criterion": _head(lambda h: _kmnc(h).update(criterion="nbc", options={})),
    "unknown options": _head(lambda h: _kmnc(h).update(options={"evil": 1})),
    "options out of range": _head(lambda h: _kmnc(h).update(options={"sections": -1})),
    "other options": _head(lambda h: _kmnc(h).update(options={"sections": 8})),
    "an endless number of sections": _head(lambda h: _kmnc(h).update(options={"sections": 1 << 60})),
    "layers without a width": _head(lambda h: _kmnc(h).update(layers={"a": 0, "b": 4})),
    "an endless layer": _head(lambda h: _kmnc(h).update(layers={"a": 1 << 50})),
    "a layer fewer": _head(lambda h: _kmnc(h).update(layers={"a": 9})),
    "a part of no kind": _head(lambda h: _kmnc(h)["parts"]["hit"].update(kind=["items"])),
    "an endless set": _head(lambda h: _kmnc(h)["parts"]["hit"].update(size=1 << 60)),
    "a set of half of the size": _head(lambda h: _kmnc(h)["parts"]["hit"].update(size=45)),
    "a set besides itself": _head(lambda h: _kmnc(h)["parts"]["hit"].update(besides="hit")),
    "raw of another size": _head(lambda h: _kmnc(h)["parts"]["raw"].update(size=_kmnc(h)["parts"]["raw"]["size"] + 1)),
    "a part fewer": _head(lambda h: _kmnc(h)["parts"].pop("low")),
    "a part that is a value": _head(lambda h: _kmnc(h)["parts"].update(low={"kind": "value", "value": 1})),
    "numbers of a dtype that runs code": _head(lambda h: _kmnc(h)["parts"]["low"].update(dtype="object")),
    "an endless tensor": _head(lambda h: _kmnc(h)["parts"]["low"].update(shape=[1 << 31, 1 << 31])),
    "a state of another format": _head(lambda h: _kmnc(h).update(state=1)),
    "a member too many": lambda m: m.update({"kmnc/more.npy.gz": b""}),
    "a member fewer": lambda m: m.pop(next(name for name in m if "low" in name)),
    "a set that is a tensor": lambda m: m.update({"kmnc/hit.npy.gz": m.pop(next(name for name in m if "/hit." in name))}),
    "a set that is no bitmap": _part("kmnc/hit", b"nothing of the kind"),
    "a member of the wrong compression": lambda m: m.update({"kmnc/low.npy.bz2": m.pop("kmnc/low.npy.gz")}),
    "a pickle": _part("kmnc/low", _object_array()),
    "a tensor of another shape": _part("kmnc/low", _npy(np.zeros(5, np.float32))),
    "a tensor of another dtype": _part("kmnc/low", _npy(np.zeros(13, np.float64))),
    "a tensor that claims to be endless": _part("kmnc/low", _npy(np.zeros(13, np.float32), (1 << 40,))),
    "a tensor whose header never ends": _part("kmnc/low", _npy(np.zeros(13, np.float32)).replace(b")", b"(", 1)),
    "a tensor whose header is no Python": _part("kmnc/low", _npy(np.zeros(13, np.float32)).replace(b"'descr'", b"'desc r", 1)),
    "a number that no float can hold": _head(
        lambda h: h["criteria"].update(kmnc={**_kmnc(h), "criterion": "nbc", "options": {"margin": 10**400}})
    ),
    "a set of zeros": _part("kmnc/hit", bytes(8)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_map_that_was_changed_is_refused_with_what_where_and_what_to_do(
    tmp_path: Path, change: Callable[[dict[str, bytes]], object]
) -> None:
    path = _rewritten(_save(tmp_path / "m", _maps(1, ["kmnc"])), change)  # type: ignore[arg-type]
    with pytest.raises(CoverageMapError, match=r"^The coverage map is refused\. It|^The coverage map is refused\. What it says") as caught:
        load(path, model="sha256:m", profile="sha256:p")
    assert caught.value.where == str(path)
    assert caught.value.hint


def test_codes_that_are_no_rising_numbers_are_refused(tmp_path: Path) -> None:
    maps = _maps(1, ["tknp"])
    count = maps["tknp"].covered
    for codes in (np.zeros(count, np.int64), np.full(count, 1 << 62, np.int64), np.full(count, -1, np.int64)):
        path = _rewritten(_save(tmp_path / "m", maps), _part("tknp/hit", _npy(codes)))
        with pytest.raises(CoverageMapError, match="What it says of 'tknp' can't be true: 'hit'"):
            load(path, model=None, profile=None)


def test_what_is_missing_or_cut_off_or_no_map_is_refused(tmp_path: Path) -> None:
    path = _save(tmp_path / "m", _maps(1, ["kmnc"]))
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CoverageMapError, match="damaged"):
            load(path, model=None, profile=None)
    with pytest.raises(CoverageMapError, match="can't be read: No such file"):
        load(tmp_path / "missing", model=None, profile=None)
    with pytest.raises(CoverageMapError, match="can't be read: Is a directory"):
        load(tmp_path, model=None, profile=None)


def test_no_flipped_bit_ends_in_anything_but_a_refusal(tmp_path: Path) -> None:
    path = _save(tmp_path / "m", _maps(1, ["kmnc", "tknp", "output"]))
    whole, rng, refusals = path.read_bytes(), np.random.default_rng(5), 0
    for _ in range(300):
        broken = bytearray(whole)
        broken[rng.integers(len(broken))] ^= 1 << rng.integers(8)
        path.write_bytes(broken)
        try:
            load(path, model="sha256:m", profile="sha256:p")
        except CoverageMapError:
            refusals += 1
    assert refusals > 200  # what remains lies where a zip archive does not look


@pytest.mark.parametrize("bomb", ["a set", "a tensor", "the archive's own compression", "that, hidden"])
def test_a_small_file_that_unpacks_to_a_large_one_is_refused_before_it_does(tmp_path: Path, bomb: str) -> None:
    path, size = _save(tmp_path / "m", _maps(1, ["kmnc"])), 200 << 20
    if bomb not in ("a set", "a tensor"):
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                bomb_here = "low" in name
                archive.writestr(name, bytes(size) if bomb_here else data, zipfile.ZIP_BZIP2 if bomb_here else zipfile.ZIP_STORED)
        if bomb == "that, hidden":  # by sizes in the directory that say there is nothing to unpack
            raw = bytearray(path.read_bytes())
            entry = raw.rindex(b"kmnc/low.npy.gz") - 46
            raw[entry + 24 : entry + 28] = raw[entry + 20 : entry + 24]
            path.write_bytes(raw)
    else:
        _rewritten(path, _part("kmnc/hit" if bomb == "a set" else "kmnc/low", bytes(size)))
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(CoverageMapError, match="damaged"):
            read_map(path, model=None, profile=None)
        assert tracemalloc.get_traced_memory()[1] < size / 20
    finally:
        tracemalloc.stop()


def test_a_head_that_asks_for_all_memory_is_refused(tmp_path: Path) -> None:
    def many(head: dict[str, Any]) -> None:
        # Nothing but empty sets, each of half a gibibyte.
        for number in range(20):
            head["criteria"][f"k{number}"] = {**_kmnc(head), "parts": {"hit": {"kind": "items", "size": 1 << 32}}}

    path = _rewritten(_save(tmp_path / "m", _maps(1, ["kmnc"])), _head(many))
    with pytest.raises(CoverageMapError, match="bytes in memory"):
        load(path, model=None, profile=None)
