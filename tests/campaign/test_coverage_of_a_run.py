"""A whole run with every criterion: what its record says of coverage, and that judging it again finds the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_model import CLASSES, TRAP, write_npz
from saved_models import Stripes, save

from gate.afterwards import evaluate_again
from gate.config import CRITERIA, Settings, kind_of
from gate.pipeline import run as run_gate
from gate.result import Result

GUIDE = ("kmnc", "output", "tknp", "nlc")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(Stripes(trap=TRAP).eval(), tmp_path_factory.mktemp("model") / "trapped")


def settings(model: Path, base: Path, **coverage: object) -> Settings:
    return Settings.model_validate(
        {
            "model": str(model),
            "classes": CLASSES,
            "data": {"seeds": str(write_npz(base / "seeds.npz"))},
            "budget": {"executions": 1500},
            "coverage": {"layers": ("hidden",), **coverage},
            "previous": "none",
            "device": "cpu",
            "batch_size": 64,
            "out": str(base / "run"),
        }
    )


@pytest.fixture(scope="module")
def result(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    base = tmp_path_factory.mktemp("every criterion")
    # tknp comes first and has no share, so that coverage_gain must look further.
    criteria = ("tknp", *(name for name in CRITERIA if name != "tknp"))
    return run_gate(settings(model, base, criteria=criteria, guide=GUIDE)).result


def test_every_criterion_is_recorded_with_its_kind_and_whether_it_guided(result: Result) -> None:
    assert set(result.coverage) == set(CRITERIA)
    for name, summary in result.coverage.items():
        assert summary.kind == kind_of(name)
        assert summary.guides is (name in GUIDE)
        assert summary.gain == pytest.approx(summary.final - summary.initial)
        assert (summary.total is None) is (summary.kind != "share")
        if summary.kind == "share":
            assert 0 <= summary.initial <= summary.final <= summary.raw_final <= 1
    assert result.coverage["tknp"].final == result.coverage["tknp"].covered > 1


def test_both_controls_are_compared_after_as_many_executions_as_they_had(result: Result) -> None:
    assert result.campaign is not None
    arms = result.campaign.arms
    for summary in result.coverage.values():
        assert summary.random is not None
        assert summary.noise is not None
        assert summary.random.executions == arms["random"].executions > 50
        assert summary.noise.executions == arms["noise"].executions > 20
        assert summary.false_coverage is (summary.noise.gain > 0 and summary.noise.gain >= summary.noise.search_gain)
    for name, value in arms["noise"].coverage.items():
        noise = result.coverage[name].noise
        assert noise is not None
        assert noise.gain == pytest.approx(value - result.coverage[name].initial)
    shares = [summary for summary in result.coverage.values() if summary.kind == "share"]
    assert all(0 <= summary.random.search_gain <= summary.gain + 1e-12 for summary in shares if summary.random)
    assert any(summary.false_coverage for summary in shares)
    assert any(not summary.false_coverage for summary in shares)


def test_every_criterion_with_items_says_how_much_is_left(result: Result) -> None:
    assert result.campaign is not None
    for name, summary in result.coverage.items():
        if name == "nlc":
            assert summary.discovery is None
            continue
        assert summary.discovery is not None
        assert summary.discovery.executions == result.campaign.arms["search"].valid
        assert 0 <= summary.discovery.chance < 1
    kmnc = result.coverage["kmnc"]
    assert kmnc.discovery is not None
    assert kmnc.discovery.seen is not None
    assert kmnc.final <= kmnc.final / kmnc.discovery.seen <= 1 + 1e-12
    assert 0 <= result.campaign.stalled_for < 1500


def test_classes_and_layers_are_recorded(result: Result) -> None:
    assert result.campaign is not None
    search = result.campaign.arms["search"]
    assert [row.label for row in result.coverage_by_class] == [0, 1, 2, 3]
    assert sum(row.executions for row in result.coverage_by_class) == search.executions
    assert sum(row.valid for row in result.coverage_by_class) == search.valid
    counted = sum(numbers["new_items"] for numbers in result.campaign.operators.values())
    assert sum(row.new_items for row in result.coverage_by_class) == pytest.approx(counted)
    output = result.coverage["output"]
    assert sum(row.output or 0 for row in result.coverage_by_class) / 4 == pytest.approx(output.final)
    (layer,) = result.layers
    assert (layer.name, layer.neurons, layer.head, layer.constant) == ("hidden", 5, False, 0)
    assert layer.low is not None
    assert layer.high is not None
    assert layer.low < 0 < layer.high


def test_the_first_criterion_with_a_share_is_reported_and_judging_again_finds_the_same(result: Result, tmp_path: Path) -> None:
    assert result.metrics["coverage_gain"].value == pytest.approx(result.coverage["nc"].gain)
    written = Path(str(result.data["seeds"].source)).parent / "run"
    again = evaluate_again(written, "baseline")
    assert (again.verdict, again.metrics, again.rules, again.coverage) == (result.verdict, result.metrics, result.rules, result.coverage)
    other = tmp_path / "output.yaml"
    other.write_text("version: 1\nname: other\ncriterion: output\nextends: [baseline]\n")
    assert evaluate_again(written, str(other)).metrics["coverage_gain"].value == pytest.approx(result.coverage["output"].gain)


def test_without_a_share_the_metric_is_missing_and_says_what_to_do(model: Path, tmp_path: Path) -> None:
    said = settings(model, tmp_path, criteria=("nlc", "map")).model_copy(
        update={"budget": Settings().budget.model_copy(update={"executions": 200})}
    )
    metrics = run_gate(said).result.metrics
    for name in ("coverage_gain", "coverage_gain_per_iteration"):
        assert metrics[name].value is None
        assert "nlc is a statistic and has no share to gain; measure a criterion that has one" in (metrics[name].reason or "")


def test_a_stalled_search_is_said_and_can_end_the_run(model: Path, tmp_path: Path) -> None:
    ended = run_gate(settings(model, tmp_path, criteria=("tknc",), tknc_k=5, stall=100, on_stall="end")).result
    assert ended.campaign is not None
    assert ended.campaign.stop_reason == "saturated"
    assert 100 <= ended.campaign.stalled_for < 200
    assert ended.campaign.executions - ended.campaign.arms["canaries"].executions < 400  # those come after it
    # The budget is not what was short.
    assert "coverage no longer grew; a larger budget alone changes nothing" in ended.next_steps[0]
    assert "Give a larger budget." not in ended.next_steps


def test_what_a_stalled_search_did_instead_is_recorded_and_told(model: Path, tmp_path: Path) -> None:
    said = settings(model, tmp_path, criteria=("tknc",), tknc_k=5, stall=100, on_stall="freeze").model_copy(
        update={"budget": Settings().budget.model_copy(update={"executions": 700})}
    )
    ended = run_gate(said).result
    assert ended.campaign is not None
    search, spent = ended.campaign.arms["search"], ended.campaign.objectives
    assert list(spent) == ["coverage", "defects"]
    for what in ("executions", "model_calls", "findings"):
        assert sum(getattr(one, what) for one in spent.values()) == getattr(search, what)
    assert spent["defects"].executions > spent["coverage"].executions
    page = (Path(str(ended.data["seeds"].source)).parent / "run" / "report.html").read_text(encoding="utf-8")
    assert "went for defects and small margins" in page
