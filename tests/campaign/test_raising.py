"""A model that raises on some inputs: which they are is found by halving, the others count as usual, and the campaign goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_model import NumpyWorker, Scene, fails_in_the_dark, images, reads_stripes

from gate.campaign.answered import answered
from gate.campaign.raising import MOST_IN_A_ROW, Raising
from gate.campaign.supervisor import Refused
from gate.campaign.suspects import Suspects
from gate.errors import WorkerError
from gate.oracles import Switches, panel

BRIGHT = 0.42  # share of full brightness from which on it raises; no clean picture is so bright


def raises_when_bright(x: np.ndarray) -> np.ndarray:
    if (x.reshape(len(x), -1).mean(axis=1) / 255 > BRIGHT).any():
        raise Refused("ValueError: too bright", where="the model, in the worker")
    return fails_in_the_dark(x)


def bright(x: np.ndarray) -> np.ndarray:
    return np.asarray(x.reshape(len(x), -1).mean(axis=1) / 255 > BRIGHT)


def ran(model: Callable[[np.ndarray], np.ndarray] = raises_when_bright, **more: Any) -> tuple[Scene, list[Any]]:
    found: list[Any] = []
    scene = Scene(model, confirm=lambda finding: found.append(finding) is None, executions=600, batch_size=32, **more)
    scene.campaign.run()
    return scene, found


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_halving_finds_exactly_the_inputs_at_fault_and_answers_all_others_in_order(case: tuple[int, set[int]]) -> None:
    count, faulty = case
    asked: list[slice] = []
    tried: list[int] = []

    class Alone:
        def __init__(self, row: int) -> None:
            tried.append(row)

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    def ask(rows: slice) -> list[int]:
        asked.append(rows)
        if faulty & set(range(rows.start, rows.stop)):
            raise Refused("ValueError: no\nand more")
        return list(range(rows.start, rows.stop))

    pieces, raised, wasted = Raising(most=100).halved(count, ask, Refused("ValueError: no\nand more"), alone=Alone)
    assert set(raised) == faulty
    assert set(raised.values()) == {"ValueError: no"}
    assert [row for piece in pieces for row in piece.answer] == sorted(set(range(count)) - faulty)
    in_vain = [rows for rows in asked if faulty & set(range(rows.start, rows.stop))]
    assert wasted == sum(size for size in (count, *(rows.stop - rows.start for rows in in_vain)) if size > 1)
    assert faulty <= set(tried) or count == 1
    assert len(asked) <= 2 * len(faulty) * max(1, int(np.ceil(np.log2(count))))


def test_the_campaign_goes_on_and_every_kind_of_crash_is_a_finding() -> None:
    scene, found = ran()
    outcome = scene.campaign.outcome
    crashes = [finding for finding in found if finding.oracle == "crash"]
    assert outcome.stop_reason == "executions"
    assert outcome.executions == 600
    assert len(crashes) > 3
    assert all(finding.detail == "ValueError: too bright" and finding.predicted is None for finding in crashes)
    assert all(bright(finding.mutant[None])[0] for finding in crashes)
    assert {finding.oracle for finding in found} == {"crash", "changed_prediction"}
    assert outcome.crashes >= len(crashes)
    assert outcome.nonfinite == outcome.vanished == 0


def test_what_does_not_raise_is_found_and_covered_as_without() -> None:
    scene, found = ran()
    calm, other = ran(lambda x: np.where(bright(x)[:, None], np.nan, fails_in_the_dark(x)).astype(np.float32))
    # The judging arm asks every model the same: only the fault differs.
    ours, theirs = scene.judging.rows, calm.judging.rows
    assert [(row.seed, row.failed, row.predicted) for row in ours] == [(row.seed, row.failed, row.predicted) for row in theirs]
    assert any(all((row.predicted[slot] < 0, row.failed[slot], row.valid[slot])) for row in ours for slot in range(len(row.valid)))
    wrong = [
        [one.mutant.tobytes() for one in many if one.arm == "judging" and one.oracle == "changed_prediction"] for many in (found, other)
    ]
    assert wrong[0] == wrong[1] != []


def test_every_pass_in_vain_is_model_work_of_its_arm() -> None:
    scene, _ = ran()
    counts = scene.campaign.outcome.counts
    run = sum(len(given["x"]) for operation, asked, given in scene.worker.calls if operation == "run" and asked["arm"] is None)
    assert counts["judging"].model_calls == run > counts["judging"].executions


def test_it_repeats_to_the_last_byte() -> None:
    (first, one), (second, other) = ran(), ran()
    assert [finding.mutant.tobytes() for finding in one] == [finding.mutant.tobytes() for finding in other]
    assert first.campaign.outcome.counts == second.campaign.outcome.counts
    assert [first.corpus.inputs(np.arange(len(first.corpus))).tobytes()] == [second.corpus.inputs(np.arange(len(second.corpus))).tobytes()]


def test_coverage_never_falls_although_parts_are_counted_late() -> None:
    scene, _ = ran()
    shares = [point.coverage["kmnc"] for point in scene.campaign.outcome.curve]
    assert shares == sorted(shares)
    assert shares[-1] == len(scene.worker.covered["search"]) / 25


def test_a_model_that_raises_on_everything_ends_the_campaign() -> None:
    def never(x: np.ndarray) -> np.ndarray:
        raise Refused("ValueError: never")

    with pytest.raises(Refused, match=f"on {MOST_IN_A_ROW} inputs in a row, each alone"):
        ran(never, gradients=False)


def test_a_batch_that_raises_although_no_input_does_alone_is_counted_and_taken() -> None:
    scene, found = ran(lambda x: raises_when_bright(x) if len(x) > 20 and bright(x).any() else fails_in_the_dark(x))
    assert scene.campaign.outcome.vanished > 0
    assert scene.campaign.outcome.crashes == 0
    assert "crash" not in {finding.oracle for finding in found}
    assert scene.campaign.outcome.executions == 600


def test_no_switch_changes_a_rate() -> None:
    def rows(oracles: dict[str, Any]) -> tuple[list[Any], set[str]]:
        found: list[Any] = []
        switches = Switches.model_validate(oracles)
        scene = Scene(blurred, confirm=lambda one: found.append(one) is None, executions=400, oracles=panel(switches))
        scene.campaign.run()
        return [(row.seed, row.failed) for row in scene.judging.rows], {finding.oracle for finding in found}

    usual, kinds = rows({})
    assert kinds == {"changed_prediction"}
    collapse, more = rows({"confidence_collapse": {"below": 0.3, "clean": 0.5}})
    assert more == {"changed_prediction", "confidence_collapse"}
    off, less = rows({"changed_prediction": False, "confident_misclassification": False})
    assert not less
    assert usual == collapse == off
    assert any(failed for _, slots in usual for failed in slots)
    assert not all(failed for _, slots in usual for failed in slots)


def blurred(x: np.ndarray) -> np.ndarray:
    return np.asarray(fails_in_the_dark(x) * np.float32(0.1))


def test_an_input_is_a_file_while_it_is_tried_alone_and_stays_one_where_the_worker_dies(tmp_path: Path) -> None:
    suspects, x = Suspects(tmp_path / "suspects"), images(1)[0][0]
    with suspects.alone("search-3-7", x):
        np.testing.assert_array_equal(np.load(tmp_path / "suspects" / "search-3-7.npy"), x)
    with pytest.raises(Refused), suspects.alone("search-3-7", x):
        raise Refused("ValueError: no")
    assert not list((tmp_path / "suspects").iterdir())
    with pytest.raises(WorkerError, match=r"in flight, alone, is .*search-3-7\.npy"), suspects.alone("search-3-7", x):
        raise WorkerError("The worker died.")
    assert list((tmp_path / "suspects").iterdir())


def test_many_inputs_are_answered_around_those_that_raise() -> None:
    x = images(50)[0]
    x[[3, 31, 32, 49]] = 250
    raw, raised, wasted = answered(NumpyWorker(raises_when_bright), x, 16, Raising())  # type: ignore[arg-type]
    assert set(raised) == {3, 31, 32, 49} == set(np.flatnonzero(np.isnan(raw).any(axis=1)).tolist())
    calm = np.delete(np.arange(50), list(raised))
    np.testing.assert_array_equal(raw[calm], reads_stripes(x[calm]))
    assert wasted > 4
    assert answered(NumpyWorker(raises_when_bright), x[[3, 31]], 16, Raising())[0].shape == (2, 1)  # type: ignore[arg-type]


def test_nothing_is_climbed_from_that_was_answered_in_parts() -> None:
    """The worker numbers the search's batches; of one that raised it knows no rows."""
    scene, _ = ran()
    whole: list[bool] = []
    told: set[int] = set()
    for operation, asked, arrays in scene.worker.calls:
        if operation == "run_kept" or (operation == "run" and asked["arm"] == "search" and not asked.get("part")):
            whole.append(operation == "run_kept" or not bright(arrays["x"]).any())
        elif operation == "join":
            told |= set(arrays["fresh"][:, 0].tolist())
    assert not all(whole)
    assert told
    assert all(whole[number] for number in told)
