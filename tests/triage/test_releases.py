"""A root cause is new, known, fixed or back again over a chain of runs, and nothing is called fixed without proof."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gate.report.releases import releases_in_words, status_counts
from gate.result import EarlierCause, ModelInfo, Result, RootCause, Verdict
from gate.triage import history
from gate.triage.history import across_releases

INFO = ModelInfo(uri="models:/m/1", resolved_uri="models:/m/1")


def run(found: Sequence[str], earlier: Result | None = None, *, recurs: Sequence[str] = (), replayed: bool = True) -> Result:
    """A run that found these root causes; of the earlier one's, these recur in the replay."""
    causes = [RootCause(id=one, title=f"title of {one}", size=3, example="d-1") for one in found]
    seen = {cause.id: cause.id in recurs for cause in earlier.root_causes} if earlier is not None and replayed else None
    told = across_releases(causes, earlier, seen)
    return Result(
        verdict=Verdict.FAIL, exit_code=1, reasons=("r",), candidate=INFO, root_causes=told.causes, earlier_causes=told.earlier
    )  # fmt: skip


def own(result: Result) -> dict[str, str | None]:
    return {cause.id: cause.status for cause in result.root_causes}


def before(result: Result) -> dict[str, tuple[str | None, int]]:
    return {one.id: (one.status, one.runs_ago) for one in result.earlier_causes}


def test_without_an_earlier_run_nothing_has_a_status() -> None:
    first = run(["a", "b"])
    assert own(first) == {"a": None, "b": None}
    assert first.earlier_causes == ()
    assert releases_in_words(first) is None


def test_the_same_model_twice_knows_everything() -> None:
    second = run(["a", "b"], run(["a", "b"]), recurs=["a", "b"])
    assert own(second) == {"a": "known", "b": "known"}
    assert releases_in_words(second) == "Beside the earlier run, 2 root causes are known."


def test_what_comes_back_after_a_fix_is_back_again_over_three_runs() -> None:
    first = run(["a", "b"])
    second = run(["b"], first, recurs=["b"])
    assert own(second) == {"b": "known"}
    assert before(second) == {"a": ("fixed", 1), "b": ("known", 1)}
    assert releases_in_words(second) == "Beside the earlier run, 1 root cause is known, 1 fixed."
    third = run(["a", "b"], second, recurs=["b"])
    assert own(third) == {"a": "back", "b": "known"}
    assert before(third)["a"] == ("back", 2)
    assert releases_in_words(third) == "Beside the earlier run, 1 root cause is known, 1 back again."
    # What came back is an ordinary one from then on, and can be fixed again.
    assert own(run(["a"], third))["a"] == "known"
    assert before(run(["b"], third, recurs=["b"]))["a"] == ("fixed", 1)


def test_what_was_fixed_is_remembered_over_many_releases() -> None:
    chain = run(["a"])
    for ago in range(1, 6):
        chain = run(["other"], chain, recurs=["other"])
        assert before(chain)["a"] == ("fixed", ago)
    assert status_counts(chain) == {"new": 0, "known": 1, "fixed": 0, "back": 0, "open": 0}  # fixed long ago is no news
    assert own(run(["a"], chain)) == {"a": "back"}


def test_what_was_not_found_but_recurs_is_not_fixed() -> None:
    second = run(["c"], run(["a", "b"]), recurs=["a"])
    assert before(second) == {"a": ("known", 1), "b": ("fixed", 1)}
    assert own(second) == {"c": "new"}
    assert releases_in_words(second) == "Beside the earlier run, 1 root cause is new, 1 known, 1 fixed."


def test_without_the_replay_nothing_is_fixed_and_nothing_is_forgotten() -> None:
    second = run(["b"], run(["a", "b"]), replayed=False)
    assert before(second) == {"a": (None, 1), "b": ("known", 1)}
    assert "1 not known to be there still" in str(releases_in_words(second))
    third = run(["b"], second, recurs=["b"])
    assert before(third)["a"] == (None, 2)  # its defects are not in that run's record, so that nothing could be replayed
    assert own(run(["a"], third)) == {"a": "known"}


def test_one_whose_defects_were_only_partly_replayed_is_not_fixed() -> None:
    first = run(["a", "b"])
    told = across_releases([], first, {"b": False})
    assert {one.id: one.status for one in told.earlier} == {"a": None, "b": "fixed"}


def test_what_was_fixed_stays_so_without_a_replay_until_it_is_found() -> None:
    second = run([], run(["a"]))
    assert before(run([], second, replayed=False))["a"] == ("fixed", 2)
    assert own(run(["a"], run([], second, replayed=False))) == {"a": "back"}


def test_a_known_one_that_recurred_and_is_found_later_is_known() -> None:
    second = run([], run(["a"]), recurs=["a"])
    assert before(second)["a"] == ("known", 1)
    assert own(run(["a"], second)) == {"a": "known"}


def test_a_record_remembers_so_many_and_those_seen_last_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_REMEMBERED", 3)
    chain = run(["old"])
    chain = run(["a", "b"], chain)
    chain = run([], chain)
    assert list(before(chain)) == ["a", "b", "old"]
    chain = run(["c"], chain)
    chain = run([], chain)
    assert list(before(chain)) == ["c", "a", "b"]


def test_titles_and_sizes_are_those_of_the_run_that_found_it_last() -> None:
    old = EarlierCause(id="a", title="old", size=9, status="fixed", runs_ago=4)
    first = run(["b"]).model_copy(update={"earlier_causes": (old,)})
    assert run([], first).earlier_causes[1] == old.model_copy(update={"runs_ago": 5})


def test_two_clean_runs_say_that_there_is_nothing() -> None:
    first = run(["a"])
    second = run([], first)
    third = run([], second)
    assert releases_in_words(third) == "Neither this run nor the earlier one found any root cause."
