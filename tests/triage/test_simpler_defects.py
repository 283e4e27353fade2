"""Defects get simpler as long as they fail the same way, within what the model may be asked, and never get lost on the way."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_model import CLASSES, NumpyWorker, images, reads_stripes

from gate.campaign.batch import Finding, families_of
from gate.campaign.loop import Seeds
from gate.campaign.supervisor import Refused
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.models.outputs import OutputKind, probabilities
from gate.oracles import panel
from gate.result import Defect
from gate.triage import defect_files
from gate.triage.allowance import Allowance
from gate.triage.confirm import Confirmer
from gate.triage.merging import settle
from gate.triage.minimise import TOLERANCE, Minimiser, in_turn
from gate.triage.simpler import simplicity

X, Y = images(8)
DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
EDGE = 0.32  # mean brightness, share of the range, above which the model reads the next stripe

Model = Callable[[np.ndarray], np.ndarray]


def dazzled(x: np.ndarray) -> np.ndarray:
    """Reads the next stripe where the picture is bright on the whole."""
    raw = reads_stripes(x)
    bright = x.reshape(len(x), -1).mean(axis=1) / 255 > EDGE
    return np.where(bright[:, None], np.roll(raw, 1, axis=1), raw)


@dataclass
class Bench:
    """A run folder with confirmed defects, and what minimises them."""

    folder: Path
    worker: NumpyWorker
    confirmer: Confirmer
    domain: ImageDomain

    @property
    def defects(self) -> list[Defect]:
        return self.confirmer.defects

    def confirm(self, row: int, recipe: tuple[Any, ...], mutant: np.ndarray | None = None, arm: str = "search", **changes: Any) -> None:
        seed = X[row]
        mutant = self.domain.replay(seed, recipe) if mutant is None else mutant
        families = families_of(recipe, self.domain.family)
        natural = all(step.operator in self.domain.natural for step in recipe)
        found = Finding(
            arm, 1, 1, row, f"s-{row}", mutant, recipe, families, natural, "changed_prediction", int(Y[row]), int(Y[row] + 1) % 4, 0.9, 0.9
        )
        assert self.confirmer.confirm(replace(found, **changes))

    def minimise(self, calls: int = 10_000, replays: int = 2) -> Allowance:
        allowance = Allowance(calls)
        self.worker.calls.clear()
        minimiser = self.minimiser(allowance, replays)
        minimiser.minimise(self.defects)
        return allowance

    def minimiser(self, allowance: Allowance, replays: int = 2) -> Minimiser:
        raw = reads_stripes(X)
        seeds = Seeds(X, Y, tuple(f"s-{row}" for row in range(len(X))), probabilities(raw, OutputKind.LOGITS), raw)
        return Minimiser(
            self.worker, self.domain, seeds, self.folder, OutputKind.LOGITS, panel(), allowance, batch_size=16, replays=replays
        )

    def settle(self) -> Any:
        return settle(self.folder, self.defects, self.confirmer.found_by, CLASSES, self.domain)

    def mutant(self, defect: Defect, name: str = "mutant_data") -> np.ndarray:
        return self.domain.load(self.folder / defect.files[name])

    def on_disk(self) -> dict[str, Defect]:
        """What a reader finds: every described defect, each of whose files must be there."""
        found = {}
        for path in (self.folder / "defects").glob("*/defect.json"):
            defect = Defect.model_validate(json.loads(path.read_text()))
            assert all((self.folder / file).is_file() for file in defect.files.values())
            found[path.parent.name] = defect
        return found


def bench(folder: Path, model: Model = dazzled, domain: ImageDomain = DOMAIN) -> Bench:
    worker = NumpyWorker(model)
    confirmer = Confirmer(worker, domain, X, CLASSES, folder, OutputKind.LOGITS, deterministic=True)
    return Bench(folder, worker, confirmer, domain)


def asked(run: Bench) -> int:
    return sum(len(given["x"]) for operation, _, given in run.worker.calls if operation == "forward")


def brightening(severity: float) -> Any:
    """A step that adds light: of the draws, one which does not take it away."""
    draw = next(draw for draw in range(99) if DOMAIN.step("brightness", 0.5, draw).parameters["added"] > 0)
    return DOMAIN.step("brightness", severity, draw)


def test_operators_that_do_nothing_for_the_failure_go(tmp_path: Path) -> None:
    run = bench(tmp_path)
    run.confirm(0, (DOMAIN.step("rotation", 0.1, 3), brightening(0.7), DOMAIN.step("gaussian_blur", 0.1, 5)))
    run.minimise()
    (defect,) = run.defects
    assert [step["operator"] for step in defect.recipe] == ["brightness"]
    assert (defect.families, defect.family, defect.operator, defect.natural) == (("photometry",), "photometry", "brightness", True)
    assert defect.minimal is not None
    assert defect.minimal.complete
    assert [step["operator"] for step in defect.minimal.found_recipe] == ["rotation", "brightness", "gaussian_blur"]
    assert defect.minimal.found_severity == pytest.approx(0.9)


def test_bisection_finds_the_severity_where_the_answer_turns(tmp_path: Path) -> None:
    run = bench(tmp_path)
    run.confirm(0, (brightening(0.9),))
    run.minimise()
    (defect,) = run.defects

    def fails(severity: float) -> bool:
        return bool(DOMAIN.replay(X[0], [brightening(severity)]).mean() / 255 > EDGE)

    assert fails(defect.severity)
    assert not fails(defect.severity - TOLERANCE)
    assert defect.severity < 0.9
    np.testing.assert_array_equal(run.mutant(defect), DOMAIN.replay(X[0], [brightening(defect.severity)]))


def test_the_found_mutant_stays_beside_the_minimised_one(tmp_path: Path) -> None:
    run = bench(tmp_path)
    recipe = (brightening(0.8), DOMAIN.step("gaussian_blur", 0.1, 5))
    run.confirm(0, recipe)
    before = run.mutant(run.defects[0])
    run.minimise()
    (defect,) = run.defects
    np.testing.assert_array_equal(run.mutant(defect, "found_data"), before)
    assert not np.array_equal(run.mutant(defect), before)
    np.testing.assert_array_equal(run.mutant(defect, "original_data"), X[0])
    assert list(run.on_disk().values()) == [defect]
    assert defect.confidence_after == pytest.approx(float(_probability(dazzled, run.mutant(defect), 1)))


def _probability(model: Model, sample: np.ndarray, label: int) -> float:
    raw = model(sample[None])[0].astype(np.float64)
    return float(np.exp(raw - raw.max())[label] / np.exp(raw - raw.max()).sum())


def attacked(row: int, added: int, rows: slice = slice(None)) -> tuple[tuple[Any, ...], np.ndarray]:
    """A made-up attack: the same number added to some rows of the picture."""
    mutant = X[row].astype(np.int64)
    mutant[rows] += added
    return (STRONG.model_step("pgd", 1),), mutant.clip(0, 255).astype(np.uint8)


STRONG = ImageDomain(Domain.model_validate({"adversarial": {"pgd": 0.3}}), (8, 8, 1), np.uint8, (0.0, 255.0))


def test_the_change_of_an_attack_gets_weaker_and_smaller(tmp_path: Path) -> None:
    def upper_left(x: np.ndarray) -> np.ndarray:
        """Fails where four pixels in the corner are brighter than they should be."""
        raw = reads_stripes(x)
        bright = x[:, :2, :2].reshape(len(x), -1).mean(axis=1) > X[1, :2, :2].mean() + 20
        return np.where(bright[:, None], np.roll(raw, 1, axis=1), raw)

    run = bench(tmp_path, upper_left, STRONG)
    recipe, mutant = attacked(1, 40)
    run.confirm(1, recipe, mutant)
    run.minimise()
    (defect,) = run.defects
    assert defect.minimal is not None
    assert defect.minimal.found_area == 1.0
    assert defect.minimal.area == 4 / 64
    change = run.mutant(defect).astype(int) - X[1]
    assert set(np.unique(change[:2, :2])) <= {21, 22, 23}
    assert not change[2:].any()
    assert not change[:, 2:].any()
    assert [step["operator"] for step in defect.recipe] == ["pgd"]
    assert not defect.natural


def test_an_attack_that_natural_steps_made_superfluous_goes(tmp_path: Path) -> None:
    run = bench(tmp_path, dazzled, STRONG)
    natural = (brightening(0.9),)
    mutant = (STRONG.replay(X[0], natural).astype(int) + 3).clip(0, 255).astype(np.uint8)
    run.confirm(0, (*natural, STRONG.model_step("pgd", 1)), mutant)
    assert run.defects[0].families == ("adversarial", "photometry")
    run.minimise()
    (defect,) = run.defects
    assert [step["operator"] for step in defect.recipe] == ["brightness"]
    assert defect.natural


def test_the_smallest_part_of_a_natural_change_that_is_enough_is_kept_beside_it(tmp_path: Path) -> None:
    def corner(x: np.ndarray) -> np.ndarray:
        raw = reads_stripes(x)
        bright = x[:, :2, :2].reshape(len(x), -1).mean(axis=1) > X[0, :2, :2].mean() + 20
        return np.where(bright[:, None], np.roll(raw, 1, axis=1), raw)

    run = bench(tmp_path, corner)
    run.confirm(0, (brightening(0.9),))
    allowance = run.minimise()
    whole = run.mutant(run.defects[0])
    run.minimiser(allowance).find_parts(run.defects, 3)
    (defect,) = run.defects
    assert defect.minimal is not None
    assert defect.minimal.part == 4 / 64
    part = run.mutant(defect, "part_data")
    np.testing.assert_array_equal(part[:2, :2], whole[:2, :2])
    np.testing.assert_array_equal(part[2:], X[0][2:])
    np.testing.assert_array_equal(run.mutant(defect), whole)  # the mutant is still what its recipe makes
    assert list(run.on_disk().values()) == [defect]


STEPS = st.tuples(
    st.sampled_from([name for name in DOMAIN.natural if DOMAIN.family(name) != "compression"]),
    st.floats(0.05, 0.33),
    st.integers(0, 2**31 - 1),
)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    chains=st.lists(st.tuples(st.integers(0, 7), st.lists(STEPS, min_size=1, max_size=3)), min_size=1, max_size=4),
    calls=st.integers(0, 300),
)
def test_whatever_was_found_what_is_left_is_still_a_defect_and_no_less_simple(
    chains: list[tuple[int, list[tuple[str, float, int]]]], calls: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def touchy(x: np.ndarray) -> np.ndarray:
        """Fails on anything that lies far enough from every seed input, in no simple way."""
        flat = x.reshape(len(x), -1).astype(np.int64)
        near = np.abs(flat[:, None] - X.reshape(len(X), -1)[None].astype(np.int64)).sum(axis=2)
        nearest = near.argmin(axis=1)
        own = Y[nearest]
        fails = (near.min(axis=1) > 100) & (flat.sum(axis=1) % 5 > 0)
        answer = np.where(fails, (own + 1) % 4, own)
        return np.eye(4, dtype=np.float32)[answer] * 5

    folder = tmp_path_factory.mktemp("run")
    run = bench(folder, touchy)
    for row, chain in chains:
        recipe = tuple(DOMAIN.step(name, severity, draw) for name, severity, draw in chain)
        mutant = DOMAIN.replay(X[row], recipe)
        sound = DOMAIN.valid(mutant[None], X[row][None], [recipe])[0]
        if sound and touchy(mutant[None])[0].argmax() == (Y[row] + 1) % 4:
            run.confirm(row, recipe)
    before = {defect.id: (defect, run.mutant(defect)) for defect in run.defects}
    allowance = run.minimise(calls)
    assert asked(run) == allowance.spent <= calls
    for defect in run.defects:
        old, mutant = before[defect.id]
        row = int(defect.seed_id[2:])
        now = run.mutant(defect)
        assert touchy(now[None])[0].argmax() == defect.predicted == old.predicted
        steps = tuple(DOMAIN.step(step["operator"], step["severity"], step["draw"]) for step in defect.recipe)
        assert [step.to_json() for step in steps] == list(defect.recipe)
        np.testing.assert_array_equal(DOMAIN.replay(X[row], steps), now)
        assert DOMAIN.valid(now[None], X[row][None], [steps])[0]
        if not np.array_equal(now, mutant):
            key = simplicity(defect.recipe, defect.families, 0, now, X[row])
            assert key < simplicity(old.recipe, old.families, 0, mutant, X[row])
    assert {defect.id: defect for defect in run.defects} == run.on_disk()
    shutil.rmtree(folder)


def crowded(folder: Path) -> Bench:
    run = bench(folder)
    for row in range(8):
        run.confirm(row, (DOMAIN.step("rotation", 0.1, row), brightening(0.8)))
        run.confirm(row, (brightening(0.7),), arm="judging")
    return run


def test_the_same_twice_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        run = crowded(tmp_path / name)
        run.minimise(200)
        run.settle()
        contents.append({str(path.relative_to(run.folder)): path.read_bytes() for path in run.folder.rglob("*") if path.is_file()})
    assert contents[0] == contents[1]


@pytest.mark.parametrize("calls", [0, 1, 5, 17, 40, 90])
def test_a_small_allowance_is_never_exceeded_and_what_it_did_not_reach_stays_as_it_was(calls: int, tmp_path: Path) -> None:
    run = crowded(tmp_path)
    allowance = run.minimise(calls)
    assert asked(run) == allowance.spent <= calls
    left = [defect for defect in run.defects if defect.minimal is None]
    assert left
    assert all(len(defect.recipe) == len(defect.families) for defect in left)
    assert {defect.id: defect for defect in run.defects} == run.on_disk()


def test_where_the_allowance_ends_in_between_what_was_reached_is_kept_and_said_to_be_unfinished(tmp_path: Path) -> None:
    run = bench(tmp_path)
    run.confirm(0, (DOMAIN.step("rotation", 0.1, 3), brightening(0.9)))
    allowance = run.minimise(7)
    assert allowance.spent <= 7
    (defect,) = run.defects
    assert defect.minimal is not None
    assert not defect.minimal.complete
    assert [step["operator"] for step in defect.recipe] == ["brightness"]


def test_what_the_policy_calls_invalid_is_not_taken(tmp_path: Path) -> None:
    """The validator sees something else in all that is brighter than the seed input by less than 30."""

    def far(mutants: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        result: np.ndarray = (mutants.astype(int) - seeds).reshape(len(mutants), -1).mean(axis=1) > 30
        return result

    run = bench(tmp_path, lambda x: np.roll(reads_stripes(x), 1, axis=1), ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0), far))
    run.confirm(0, (brightening(0.9),))
    run.minimise()
    (defect,) = run.defects
    assert defect.severity < 0.9
    assert far(run.mutant(defect)[None], X[:1])[0]


@pytest.mark.parametrize(("added", "left"), [(15, ["brightness"]), (45, ["rotation", "brightness"])])
def test_a_recipe_is_held_against_the_policy_even_where_its_picture_is_known_to_fail(added: int, left: list[str], tmp_path: Path) -> None:
    """A turn by next to nothing changes no pixel, but without it the policy's bound on values, 40, holds."""
    bounded = ImageDomain(Domain.model_validate({"chain": {"pixel_distance": 0.16, "few_pixels": 0.0}}), (8, 8, 1), np.uint8, (0.0, 255.0))

    def bright(x: np.ndarray) -> np.ndarray:
        raw = reads_stripes(x)
        return np.where((x.reshape(len(x), -1).mean(axis=1) > X[0].mean() + added)[:, None], np.roll(raw, 1, axis=1), raw)

    run = bench(tmp_path, bright, bounded)
    nothing = DOMAIN.step("rotation", 1e-4, 3)
    np.testing.assert_array_equal(DOMAIN.replay(X[0], [nothing]), X[0])
    run.confirm(0, (nothing, brightening(0.9)))
    assert not bounded.valid(run.mutant(run.defects[0])[None], X[:1], [(brightening(0.9),)])[0]
    run.minimise()
    (defect,) = run.defects
    steps = tuple(DOMAIN.step(step["operator"], step["severity"], step["draw"]) for step in defect.recipe)
    assert bounded.valid(run.mutant(defect)[None], X[:1], [steps])[0]
    assert [step.operator for step in steps] == left  # milder, it is valid by itself, or no milder one fails


@pytest.mark.parametrize("calls", [10, 30, 70, 10_000])
def test_an_input_on_which_the_model_raises_gets_milder_as_long_as_it_raises_the_same(calls: int, tmp_path: Path) -> None:
    def raises(x: np.ndarray) -> np.ndarray:
        means = x.reshape(len(x), -1).mean(axis=1)
        if (means > 110).any():
            raise Refused(f"ValueError: {means.max():.1f} is too bright")
        if (means > 90).any():
            raise Refused("MemoryError: bright")
        return reads_stripes(x)

    run = bench(tmp_path, raises)
    for row in (0, 1, 2, 3, 4):
        step = DOMAIN.step("rotation", 0.1, row), brightening(0.9)
        crash = {"oracle": "crash", "predicted": None, "confidence_after": None}
        run.confirm(row, step, **crash)
    found = {defect.id: defect.severity for defect in run.defects}
    assert all((defect.detail or "").startswith("ValueError") for defect in run.defects)
    allowance = run.minimise(calls)
    assert asked(run) == allowance.spent <= calls
    for defect in run.defects:
        assert (defect.detail or "").startswith("ValueError")
        assert run.mutant(defect).mean() > 110
        if calls == 10_000:
            assert defect.severity < found[defect.id]
            assert len(defect.recipe) == 1


@pytest.mark.parametrize("name", ["defect.json", "defect.json.tmp"])
def test_a_description_that_is_written_by_half_leaves_the_old_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench(tmp_path)
    run.confirm(0, (brightening(0.8),))
    (defect,) = run.defects
    write = Path.write_text

    def half(path: Path, text: str, **options: Any) -> int:
        if path.name != name:
            return write(path, text, **options)
        write(path, text[: len(text) // 2], **options)
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "write_text", half)
    changed = defect.model_copy(update={"type": "global_drift"})
    with contextlib.suppress(OSError):
        defect_files.write_description(tmp_path, changed)
    assert run.on_disk() in ({defect.id: defect}, {defect.id: changed})


def test_a_defect_of_each_root_cause_comes_first_and_the_largest_before_all(tmp_path: Path) -> None:
    run = crowded(tmp_path)
    run.confirm(0, (DOMAIN.step("gaussian_blur", 0.1, 3), brightening(0.7)))
    turns = in_turn(run.defects)
    causes = len({defect.root_cause for defect in turns})
    assert len({defect.root_cause for defect in turns[:causes]}) == causes
    sizes = [sum(defect.root_cause == one.root_cause for defect in turns) for one in turns[:causes]]
    assert sizes == sorted(sizes, reverse=True)


def test_defects_are_asked_about_in_whole_batches(tmp_path: Path) -> None:
    run = crowded(tmp_path)
    run.minimise()
    sizes = [len(given["x"]) for operation, _, given in run.worker.calls if operation == "forward"]
    assert max(sizes) == 16
    assert sum(size for size in sizes if size > 1) > 0.6 * sum(sizes)


def test_what_holds_in_company_only_is_not_taken(tmp_path: Path) -> None:
    def only_together(x: np.ndarray) -> np.ndarray:
        weak = x.reshape(len(x), -1).mean(axis=1) / 255 < 0.38
        raw = dazzled(x)
        return np.where(weak[:, None] & (len(x) == 1), reads_stripes(x), raw)

    run = bench(tmp_path, only_together)
    for row in (0, 4):
        run.confirm(row, (brightening(0.99),))
    before = [defect.recipe for defect in run.defects]
    run.minimise()
    for defect, recipe in zip(run.defects, before, strict=True):
        assert only_together(run.mutant(defect)[None])[0].argmax() == defect.predicted
        assert defect.minimal is None or not defect.minimal.complete or defect.recipe == recipe


def test_a_stage_that_is_stopped_at_any_rename_or_write_leaves_whole_defects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(BaseException):
        pass

    rename, write, put, copy = Path.rename, Path.write_text, Path.replace, shutil.copytree
    for turn in itertools.count():
        folder = tmp_path / str(turn)
        run = bench(folder)
        run.confirm(0, (DOMAIN.step("rotation", 0.1, 3), brightening(0.7)))
        run.confirm(0, (brightening(0.8),), arm="judging")
        found = {defect.id: defect for defect in run.defects}
        count = itertools.count()

        def maybe(function: Any, count: Any = count, turn: int = turn) -> Any:
            def checked(*arguments: Any, **options: Any) -> Any:
                if next(count) == turn:
                    raise Stop
                return function(*arguments, **options)

            return checked

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", maybe(rename))
            patch.setattr(Path, "replace", maybe(put))
            patch.setattr(Path, "write_text", maybe(write))
            patch.setattr(defect_files.shutil, "copytree", maybe(copy))
            try:
                run.minimise()
                run.settle()
                stopped = False
            except Stop:
                stopped = True
        whole = run.on_disk()
        assert all(defect.id == name for name, defect in whole.items())
        for defect in run.defects:  # what the record would say is on disk, or a newer whole form of it
            assert defect.id in whole
            assert whole[defect.id].seed_id == found.get(defect.id, defect).seed_id
        assert whole
        if not stopped:
            assert turn > 5
            return


def test_what_a_killed_process_set_aside_comes_back(tmp_path: Path) -> None:
    run = bench(tmp_path)
    run.confirm(0, (brightening(0.8),))
    (defect,) = run.defects
    place = tmp_path / "defects"
    shutil.copytree(place / defect.id, place / f".{defect.id}.new")
    (place / defect.id).rename(place / f".{defect.id}.old")
    defect_files.clear_unfinished(tmp_path)
    assert [path.name for path in place.iterdir()] == [defect.id]
    assert run.on_disk() == {defect.id: defect}


def lightening() -> int:
    """A draw with which gamma lightens."""
    return next(draw for draw in range(99) if DOMAIN.step("gamma", 0.5, draw).parameters["gamma"] < 1)


def test_defects_that_turn_out_to_be_the_same_become_the_simplest_of_them(tmp_path: Path) -> None:
    run = bench(tmp_path)
    run.confirm(0, (DOMAIN.step("rotation", 0.1, 3), brightening(0.7)))
    run.confirm(0, (DOMAIN.step("gaussian_blur", 0.1, 3), DOMAIN.step("gamma", 0.8, lightening())), arm="judging")
    run.confirm(1, (brightening(0.9),))
    ids = [defect.id for defect in run.defects]
    run.minimise()
    simplest = min(
        (simplicity(one.recipe, one.families, 0, run.mutant(one), X[0]), one.recipe) for one in run.defects if one.seed_id == "s-0"
    )[1]
    settled = run.settle()
    assert len(run.defects) == 2
    kept = next(defect for defect in run.defects if defect.seed_id == "s-0")
    assert kept.recipe == simplest
    assert run.confirmer.found_by == {kept.id: {"search", "judging"}, ids[2]: {"search"}}
    assert kept.id not in ids
    assert set(settled.renamed) | set(settled.merged) == set(ids[:2])
    assert set(settled.merged.values()) == {kept.id}
    assert run.on_disk() == {defect.id: defect for defect in run.defects}
    assert not list((tmp_path / "defects").glob(".*"))


def test_a_minimised_defect_has_the_id_and_root_cause_of_one_that_was_found_simple(tmp_path: Path) -> None:
    chain, alone = bench(tmp_path / "chain"), bench(tmp_path / "alone")
    chain.confirm(0, (DOMAIN.step("rotation", 0.1, 3), brightening(0.7)))
    alone.confirm(0, (brightening(0.9),))
    for run in (chain, alone):
        run.minimise()
        run.settle()
    assert chain.defects[0].id == alone.defects[0].id
    assert chain.defects[0].root_cause == alone.defects[0].root_cause
