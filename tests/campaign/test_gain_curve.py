"""Arms are compared after equally many executions, exactly where both have a step end there."""

from __future__ import annotations

import numpy as np
import pytest
from known_model import Scene

from gate.campaign import gain_curve
from gate.campaign.evenly_spaced import EvenlySpaced
from gate.campaign.gain_curve import GainCurve, compare, is_false_coverage
from gate.result import ControlComparison


def curve(*ends: tuple[int, float], initial: float = 0.5) -> GainCurve:
    made = GainCurve({"kmnc": initial, "nbc": 0.0})
    for executions, value in ends:
        made.note(executions, {"kmnc": value, "nbc": 0.0})
    return made


def test_the_gain_is_exact_at_the_end_of_a_step_and_even_in_between() -> None:
    made = curve((10, 0.6), (30, 0.8), (31, 0.9))
    assert [made.gain("kmnc", n) for n in (0, 10, 30, 31)] == pytest.approx([0, 0.1, 0.3, 0.4])
    assert [made.gain("kmnc", n) for n in (5, 15, 29)] == pytest.approx([0.05, 0.15, 0.29])
    assert made.gain("nbc", 17) == 0
    assert made.executions == 31


def test_arms_are_compared_after_as_many_executions_as_both_have() -> None:
    search, control = curve((64, 0.6), (128, 0.7), (192, 0.72)), curve((100, 0.55))
    found = compare(search, control, "kmnc")
    assert found is not None
    assert (found.executions, found.gain, found.search_gain) == (100, pytest.approx(0.05), pytest.approx(0.1 + 0.1 * 36 / 64))
    other = compare(control, search, "kmnc")  # the control arm may have more
    assert other is not None
    assert (other.executions, other.gain, other.search_gain) == (100, pytest.approx(0.1 + 0.1 * 36 / 64), pytest.approx(0.05))


def test_an_arm_without_executions_is_compared_with_nothing() -> None:
    assert compare(curve((10, 0.6)), curve(), "kmnc") is None
    assert compare(curve(), curve((10, 0.6)), "kmnc") is None


@pytest.mark.parametrize(
    ("noise", "search", "false"),
    [(0.2, 0.1, True), (0.1, 0.1, True), (0.09, 0.1, False), (0.0, 0.0, False), (0.0, -0.1, False), (-0.1, -0.2, False), (0.1, 0.0, True)],
)
def test_coverage_is_false_where_noise_gains_as_much_and_anything_at_all(noise: float, search: float, false: bool) -> None:
    assert is_false_coverage(ControlComparison(executions=5, gain=noise, search_gain=search)) is false
    assert is_false_coverage(None) is False


@pytest.mark.parametrize("steps", [3, 16, 17, 33, 1000])
def test_a_long_campaign_keeps_few_points_and_interpolates_between_them(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gain_curve, "POINTS", 16)
    at = np.cumsum(np.random.default_rng(steps).integers(1, 9, size=steps))
    made = curve(*((int(n), float(n)) for n in at), initial=0.0)
    for n in (0, 1, int(at[-1]) // 3, int(at[-1])):
        assert made.gain("kmnc", n) == pytest.approx(n)
    assert len(made._ends.points) <= 16


@pytest.mark.parametrize("added", [1, 7, 8, 9, 16, 17, 200])
def test_points_are_evenly_spaced_with_first_and_newest_among_them(added: int) -> None:
    kept: EvenlySpaced[int] = EvenlySpaced(8)
    for point in range(added):
        kept.add(point)
        assert (kept.points[0], kept.points[-1]) == (0, point)
        assert len(kept.points) <= 8
        assert len(set(np.diff(kept.points[:-1]).tolist())) <= 1


def test_every_arm_with_a_map_is_followed_from_the_start() -> None:
    made = Scene(executions=800)
    outcome = made.run()
    for arm in ("search", "random", "noise"):
        followed = outcome.gains[arm]
        assert followed.executions == outcome.counts[arm].executions > 0
        assert followed.gain("kmnc", followed.executions) == pytest.approx(len(made.worker.covered[arm]) / 25)
    assert set(outcome.gains) == {"search", "random", "noise"}
    # After as many executions as the random arm has, the search covers what its first steps had covered.
    found = compare(outcome.gains["search"], outcome.gains["random"], "kmnc")
    assert found is not None
    ends = {0: 0.0}
    for event in made.events:
        if event["arm"] == "search":
            ends[max(ends) + event["of"]] = event["coverage"]["kmnc"]
    assert found.search_gain == pytest.approx(np.interp(outcome.counts["random"].executions, list(ends), list(ends.values())))
