"""Arms are compared after equally many executions, exactly, also inside a step."""

from __future__ import annotations

import numpy as np
import pytest
from known_model import Scene

from gate.campaign import gain_curve
from gate.campaign.evenly_spaced import EvenlySpaced
from gate.campaign.gain_curve import GainCurve, compare, is_false_coverage
from gate.result import ControlComparison


def curve(*ends: tuple[int, float], initial: float = 0.5, added: str = "even") -> GainCurve:
    """Steps that end after so many executions at such a value; their executions add evenly, or the first of each adds all."""
    made = GainCurve({"kmnc": initial, "nbc": 0.0})
    before = 0
    for executions, value in ends:
        gains = np.zeros((executions - before, 2))
        gains[: None if added == "even" else 1, 0] = 7.0
        made.note({"kmnc": value, "nbc": 0.0}, gains)
        before = executions
    return made


def test_the_gain_is_exact_inside_a_step_too() -> None:
    made = curve((10, 0.6), (30, 0.8), (31, 0.9))
    assert [made.gain("kmnc", n) for n in (0, 10, 30, 31)] == pytest.approx([0, 0.1, 0.3, 0.4])
    assert [made.gain("kmnc", n) for n in (5, 15, 29)] == pytest.approx([0.05, 0.15, 0.29])
    assert made.gain("nbc", 17) == 0
    assert made.executions == 31
    early = curve((10, 0.6), (30, 0.8), added="first")
    assert [early.gain("kmnc", n) for n in (0, 1, 9, 10, 11, 30)] == pytest.approx([0, 0.1, 0.1, 0.1, 0.3, 0.3])


def test_a_statistic_that_falls_is_taken_to_fall_evenly() -> None:
    made = GainCurve({"nlc": 1.0})
    made.note({"nlc": 0.8}, np.array([[-0.3], [-0.1]]))
    assert [made.gain("nlc", n) for n in (1, 2)] == pytest.approx([-0.1, -0.2])


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
    monkeypatch.setattr(gain_curve, "EXACT", 5)
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
    # After as many executions as the random arm has, the search had covered what those of its executions cover.
    found = compare(outcome.gains["search"], outcome.gains["random"], "kmnc")
    assert found is not None
    count = outcome.counts["random"].executions
    assert found.executions == count
    first = np.concatenate([given["x"] for name, asked, given in made.worker.calls if name == "run" and asked["arm"] == "search"])[:count]
    earns = np.concatenate([given["earns"] for name, asked, given in made.worker.calls if name == "run" and asked["arm"] == "search"])[
        :count
    ]
    items = {int(item) for item in first[earns].reshape(-1, 64).mean(axis=1) / 256 * 25}
    assert found.search_gain == pytest.approx(len(items) / 25)
