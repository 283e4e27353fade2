"""`gate run` against a real MLflow server: both formats, three verdicts, and every place that names the verdict agrees."""

from __future__ import annotations

import io
import json
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from candidates import Registered
from gate_command import RENDERINGS, Done, Finished, in_process, run_gate
from playwright.sync_api import Browser, expect

EXIT = {"pass": 0, "fail": 1, "inconclusive": 4}
STATUS = {"pass": {"pass", "warn", "skipped"}, "fail": {"fail"}, "inconclusive": {"inconclusive"}}


@dataclass(frozen=True)
class Case:
    version: str
    verdict: str
    done: Done
    run: Finished


CASES = [(version, verdict) for version in ("1", "2") for verdict in EXIT]


@pytest.fixture(scope="module")
def policies(failing: Path, limits: Callable[[str, str], Path]) -> dict[str, str]:
    unsure = '  - {id: defects, metric: defect_rate, fail: "> 0.9", min_samples: 5000}\n'
    return {"pass": "smoke", "fail": str(failing), "inconclusive": str(limits("unsure", unsure))}


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"version {case[0]} {case[1]}")
def case(
    request: pytest.FixtureRequest,
    registered: Registered,
    seeds: Path,
    policies: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Case:
    version, verdict = request.param
    out = tmp_path_factory.mktemp("verdict") / "out"
    # Two of the six through a process of their own; the others spare its start.
    command = run_gate if (version, verdict) in (("1", "pass"), ("2", "fail")) else in_process
    done = command(
        *("run", "--model", f"models:/{registered.name}/{version}", "--tracking-uri", registered.url, "--seeds", seeds),
        *("--policy", policies[verdict], "--executions", "120", "--out", out, "--device", "cpu"),
    )
    return Case(version, verdict, done, Finished(out))


def _client(registered: Registered) -> Any:
    import mlflow

    return mlflow.MlflowClient(registered.url, registered.url)


def _recorded(case: Case, registered: Registered) -> Any:
    tags = _client(registered).get_model_version(registered.name, case.version).tags
    return _client(registered).get_run(tags["gate.run"])


def test_exit_code_record_and_terminal_say_the_same(case: Case) -> None:
    assert case.done.code == EXIT[case.verdict], case.done.said
    record = case.run.record
    assert (record["verdict"], record["exit_code"]) == (case.verdict, EXIT[case.verdict])
    assert record["candidate"]["format"] == {"1": "pickle", "2": "pt2"}[case.version]
    assert record["campaign"]["executions"] == 120
    assert {rule["status"] for rule in record["rules"]} & STATUS[case.verdict]
    case.done.explains(case.verdict.upper(), f"(exit {EXIT[case.verdict]})", record["reasons"][0])


def test_junit_has_failures_only_where_the_verdict_is_fail_and_errors_only_where_it_is_open(case: Case) -> None:
    junit = case.run.junit
    assert junit.tests > 0
    assert bool(junit.failures) == (case.verdict == "fail")
    assert bool(junit.errors) == (case.verdict == "inconclusive")


def test_page_summary_and_metrics_name_the_verdict(case: Case) -> None:
    case.run.is_whole()
    others = set(EXIT) - {case.verdict}
    page = case.run.text("report.html")
    assert f"verdict-{case.verdict}" in page or case.verdict in page.lower()
    first = case.run.text("summary.md").strip().splitlines()[0].lower()
    assert case.verdict in first
    assert not any(other in first for other in others)
    states = [line for line in case.run.text("metrics.txt").splitlines() if line.startswith("gate_verdict{")]
    assert [line for line in states if line.endswith(" 1")] == [line for line in states if f'"{case.verdict}"' in line]
    assert len(states) > 1


def test_the_version_carries_the_verdict_the_policy_the_digest_and_the_run(case: Case, registered: Registered) -> None:
    tags = _client(registered).get_model_version(registered.name, case.version).tags
    record = case.run.record
    assert tags["gate.verdict"] == case.verdict
    assert tags["gate.policy"] == record["policy"]["name"]
    assert tags["gate.digest"] == record["candidate"]["digest"]
    assert tags["gate.run"] in case.done.out


def test_the_mlflow_run_holds_the_metrics_and_every_file(case: Case, registered: Registered) -> None:
    run = _recorded(case, registered)
    record = case.run.record
    assert run.info.status == "FINISHED"
    assert run.data.tags["gate.verdict"] == run.data.params["verdict"] == case.verdict
    for name, metric in record["metrics"].items():
        assert run.data.metrics.get(name) == metric["value"], name
    assert not [one for one in run.data.metrics if one.split(".")[0] not in record["metrics"]]
    files = {file.path for file in _client(registered).list_artifacts(run.info.run_id)}
    assert {*RENDERINGS, "events.jsonl", "campaign", "defects.zip"} <= files
    where = f"{registered.url}/get-artifact?path=defects.zip&run_uuid={run.info.run_id}"
    with urllib.request.urlopen(where, timeout=10) as answer, zipfile.ZipFile(io.BytesIO(answer.read())) as archive:
        kept = {name.rsplit("/", 2)[-2] for name in archive.namelist() if name.endswith("defect.json")}
    assert kept == {defect["id"] for defect in record["defects"]}
    assert kept


def test_the_record_that_mlflow_serves_is_the_record_on_disk(case: Case, registered: Registered) -> None:
    run_id = _recorded(case, registered).info.run_id
    with urllib.request.urlopen(f"{registered.url}/get-artifact?path=result.json&run_uuid={run_id}", timeout=10) as answer:
        assert json.loads(answer.read()) == case.run.record


@pytest.mark.browser
def test_the_report_opens_inside_mlflow(case: Case, registered: Registered, browser: Browser) -> None:
    if case.verdict != "fail":
        pytest.skip("looked at once per format")
    run = _recorded(case, registered)
    with urllib.request.urlopen(f"{registered.url}/get-artifact?path=report.html&run_uuid={run.info.run_id}", timeout=10) as answer:
        assert answer.headers.get_content_type() == "text/html"
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    try:
        page.goto(f"{registered.url}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}/artifacts/report.html")
        frame = page.frame_locator("iframe").first
        expect(frame.get_by_role("heading", level=1)).to_be_visible(timeout=30_000)
        of_the_rule = case.run.record["reasons"][0].partition(" is ")[2]  # the page names the metric in words for people
        assert of_the_rule
        expect(frame.locator("body")).to_contain_text(of_the_rule)
        page.screenshot(path=case.run.folder.parent / "mlflow.png")
    finally:
        page.close()
