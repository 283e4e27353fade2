"""metrics.txt under a strict reader."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from open_metrics import parse
from sample import HOSTILE, hostile_run, make_run

from gate.report import junit, openmetrics
from gate.report.releases import STATUSES
from gate.result import Verdict

NONE: frozenset[tuple[str, str]] = frozenset()


def test_values_intervals_and_samples_are_read_back(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    samples = parse(openmetrics.render(result))
    for name, metric in result.metrics.items():
        assert samples.get((f"gate_metric_{name}", NONE)) == metric.value
        assert samples.get((f"gate_metric_{name}_lower", NONE)) == metric.lower
        assert samples.get((f"gate_metric_{name}_upper", NONE)) == metric.upper
        assert samples.get((f"gate_metric_{name}_samples", NONE)) == (metric.n if metric.value is not None else None)
    assert samples["gate_metrics_missing", NONE] == sum(metric.value is None for metric in result.metrics.values())
    assert samples["gate_coverage_final", frozenset({("criterion", "kmnc")})] == result.coverage["kmnc"].final


def test_root_causes_are_counted_by_what_became_of_them_as_in_the_test_file(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    samples = parse(openmetrics.render(result))
    suite = ET.fromstring(junit.render(result, tmp_path))[0]
    said = {item.get("name"): item.get("value") for item in suite.iter("property")}
    for status in STATUSES:
        number = samples["gate_root_causes", frozenset({("status", status)})]
        assert said[f"gate.root_causes.{status}"] == str(int(number))
    assert sum(samples["gate_root_causes", frozenset({("status", status)})] for status in STATUSES) >= len(result.root_causes)
    alone = result.model_copy(update={"earlier_causes": (), "previous": None, "root_causes": ()})
    assert "gate_root_causes{" not in openmetrics.render(alone)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_run_is_well_formed(tmp_path: Path, verdict: Verdict) -> None:
    text = openmetrics.render(make_run(tmp_path, verdict, 3))
    parse(text)
    assert text.endswith("\n# EOF\n")


def test_hostile_names_stay_inside_their_labels(tmp_path: Path) -> None:
    samples = parse(openmetrics.render(hostile_run(tmp_path)))
    rules = {dict(labels)["rule"] for name, labels in samples if name == "gate_rule"}
    assert len(rules) == len(HOSTILE)
    assert HOSTILE[0] in rules
    assert "line\\n::error::stop\\r\\n##[error]stop" in rules


@pytest.mark.parametrize(
    "text",
    [
        "a 1\n",
        "# TYPE a gauge\na 1\n\n# EOF\n",
        '# TYPE a gauge\na{b="x\\q"} 1\n# EOF\n',
        "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\na 2\n# EOF\n",
        "# TYPE a gauge\nb 1\n# EOF\n",
        "# TYPE a gauge\na 1\na 1\n# EOF\n",
    ],
)
def test_the_reader_used_here_is_strict(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        parse(text)
