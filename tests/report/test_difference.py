"""Two runs side by side: what is called fixed, what counts as a change, and what must be said before anything is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Ran
from page_visit import Visit
from sample import HOSTILE, hostile_run, make_run

from gate.cli import cli
from gate.metrics import Evidence
from gate.report.difference import Difference, Run, as_json, compare
from gate.report.difference_page import page
from gate.result import Metric, PreviousInfo, Result, RootCause, Status, Verdict

CAUSES = ("rc-a", "rc-b", "rc-c")


@pytest.fixture
def run_a(tmp_path: Path) -> Result:
    """Six defects of three root causes, two each."""
    base = make_run(tmp_path / "a", Verdict.FAIL, 6)
    defects = tuple(one.model_copy(update={"root_cause": CAUSES[i % 3]}) for i, one in enumerate(base.defects))
    return base.model_copy(update={"defects": defects, "root_causes": tuple(cause(name, defects[i].id) for i, name in enumerate(CAUSES))})


def cause(name: str, example: str, **more: Any) -> RootCause:
    return RootCause(id=name, title=f"title of {name}", size=2, example=example, **more)


def later(run: Result, folder: Path, **more: Any) -> Result:
    """A run that found only the first root cause of ``run``."""
    made = make_run(folder, Verdict.PASS, 6)
    kept = tuple(one for one in run.defects if one.root_cause == "rc-a")
    return made.model_copy(update={"defects": kept, "root_causes": run.root_causes[:1], "previous": None, **more})


def replayed(run: Result, *recurring: str) -> PreviousInfo:
    return PreviousInfo(
        source="a", verdict=run.verdict, candidate="m", defects=6, remaining=len(recurring), recurring=recurring, digest=run.digest
    )


def between(a: Result, b: Result, folder: Path) -> Difference:
    return compare(Run(a, folder / "a"), Run(b, folder / "b"))


def statuses(difference: Difference) -> dict[str, str]:
    return {one.id: one.status for one in difference.causes}


def test_what_b_did_not_find_is_fixed_only_where_b_replayed_a_and_nothing_recurs(run_a: Result, tmp_path: Path) -> None:
    of_b = next(one.id for one in run_a.defects if one.root_cause == "rc-b")
    b = later(run_a, tmp_path / "b", previous=replayed(run_a, of_b))
    found = between(run_a, b, tmp_path)
    assert found.replayed
    assert statuses(found) == {"rc-a": "known", "rc-b": "remains", "rc-c": "fixed"}
    assert next(one.basis for one in found.causes if one.id == "rc-b") == (
        "B's search did not find it, but 1 of A's 2 defects of it recur when B replays them."
    )


@pytest.mark.parametrize("how", ["no replay", "of another run", "digest not noted"])
def test_without_a_replay_of_this_very_run_nothing_is_called_fixed(run_a: Result, tmp_path: Path, how: str) -> None:
    previous = {
        "no replay": None,
        "of another run": replayed(run_a.model_copy(update={"partial": True})),
        "digest not noted": replayed(run_a).model_copy(update={"digest": None}),
    }[how]
    found = between(run_a, later(run_a, tmp_path / "b", previous=previous), tmp_path)
    assert not found.replayed
    assert statuses(found) == {"rc-a": "known", "rc-b": "not found again", "rc-c": "not found again"}


def test_a_root_cause_of_b_alone_is_new_unless_bs_own_record_says_that_it_came_back(run_a: Result, tmp_path: Path) -> None:
    extra = (cause("rc-x", "d", status="new"), cause("rc-y", "d", status="back"))
    b = later(run_a, tmp_path / "b", root_causes=(*run_a.root_causes[:1], *extra))
    assert statuses(between(run_a, b, tmp_path)) | {"rc-a": "known"} == {
        "rc-x": "new",
        "rc-y": "back",
        "rc-a": "known",
        "rc-b": "not found again",
        "rc-c": "not found again",
    }


def rate(value: float, lower: float | None, upper: float | None, confidence: float = 0.95) -> Metric:
    return Metric(value=value, lower=lower, upper=upper, confidence=confidence, n=100, unit="share")


@pytest.mark.parametrize(
    ("name", "before", "after", "change", "certainty"),
    [
        ("defect_rate", rate(0.1, 0.05, 0.15), rate(0.3, 0.2, 0.4), "worse", "real change"),
        ("defect_rate", rate(0.1, 0.05, 0.2), rate(0.3, 0.2, 0.4), "worse", "within noise"),
        ("defect_rate", rate(0.3, 0.2, 0.4), rate(0.1, 0.05, 0.15), "better", "real change"),
        ("clean_accuracy", rate(0.1, 0.05, 0.15), rate(0.3, 0.2, 0.4), "better", "real change"),
        ("defect_rate", rate(0.1, 0.1, 0.1), rate(0.3, 0.2, 0.4, 0.9), "worse", "no interval"),
        ("defect_rate", rate(0.1, None, None), rate(0.3, None, None), "worse", "no interval"),
        ("defect_rate", rate(0.1, 0.05, 0.15), rate(0.1, 0.0, 0.2), "same", ""),
        ("coverage_gain", rate(0.1, None, None), rate(0.3, None, None), "more", "no interval"),
    ],
)
def test_a_change_goes_the_metrics_way_and_is_real_only_beyond_both_intervals(
    run_a: Result, tmp_path: Path, name: str, before: Metric, after: Metric, change: str, certainty: str
) -> None:
    a, b = (run.model_copy(update={"metrics": {name: metric}}) for run, metric in ((run_a, before), (run_a, after)))
    (found,) = between(a, b, tmp_path).metrics
    assert (found.change, found.certainty) == (change, certainty)


def test_a_rule_tells_of_its_status_and_compares_values_only_of_the_same_slice(run_a: Result, tmp_path: Path) -> None:
    rule = next(one for one in run_a.rules if one.metric == "defect_rate")
    warned = rule.model_copy(update={"status": Status.WARN, "value": 0.1, "lower": 0.05, "upper": 0.15})
    failed = rule.model_copy(update={"status": Status.FAIL, "value": 0.3, "lower": 0.2, "upper": 0.4})
    a, b = (run_a.model_copy(update={"rules": (one,)}) for one in (warned, failed))
    (found,) = between(a, b, tmp_path).rules
    assert (found.change, found.certainty, found.moved_status) == ("worse", "real change", (Status.WARN, Status.FAIL))
    other = run_a.model_copy(update={"rules": (failed.model_copy(update={"status": Status.WARN, "slice": "seven"}),)})
    (found,) = between(a, other, tmp_path).rules
    assert (found.change, found.certainty) == ("same", "")


def evidence(folder: Path, each: int, domain: str = "d") -> None:
    (folder / "campaign").mkdir(parents=True, exist_ok=True)
    made = Evidence(seed=1, classes=(), judging_mutants_per_seed=each, domain_digest=domain)
    (folder / "campaign" / "evidence.json").write_text(made.model_dump_json(), encoding="utf-8")


def test_runs_of_the_same_campaign_need_no_remark(run_a: Result, tmp_path: Path) -> None:
    for name in "ab":
        evidence(tmp_path / name, 8)
    assert between(run_a, run_a, tmp_path).remarks == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"policy": {"digest": "sha256:0"}}, "policies differ"),
        ({"campaign": {"seed": 18}}, "campaign seeds differ (17 and 18)"),
        ({"campaign": {"executions": 500}}, "12,000 and 500 executions"),
        ({"campaign": {"judge_half": "a"}}, "half a of the seed inputs"),
        ({"campaign": {"fingerprint": {"torch": "3", "threads": 2, "micro_batch": 128}}}, "differ (torch)"),
        ({"campaign": {"stop_reason": "interrupted"}}, "Run B was cut short"),
        ({"classes": ("a", "b")}, "classes are not the same"),
        ({"data": {}}, "The seeds are other data"),
        ({"campaign": None}, "ended before any campaign"),
    ],
)
def test_what_makes_two_runs_no_fair_comparison_is_said(run_a: Result, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    update = {
        key: getattr(run_a, key).model_copy(update=value) if isinstance(value, dict) and value else value for key, value in change.items()
    }
    b = run_a.model_copy(update=update)
    assert any(said in remark for remark in between(run_a, b, tmp_path).remarks)


def test_other_effort_and_other_limits_of_the_judging_arm_are_said(run_a: Result, tmp_path: Path) -> None:
    evidence(tmp_path / "a", 8)
    evidence(tmp_path / "b", 3, "e")
    remarks = " ".join(between(run_a, run_a, tmp_path).remarks)
    assert "8 mutants in A and 3 in B" in remarks
    assert "domains differ" in remarks
    (tmp_path / "b" / "campaign" / "evidence.json").unlink()
    assert "is not known of B" in " ".join(between(run_a, run_a, tmp_path).remarks)


def test_defects_are_sorted_into_those_of_both_and_those_of_one_with_the_same_seed_input_beside(run_a: Result, tmp_path: Path) -> None:
    other = run_a.defects[5].model_copy(update={"id": "d-other"})
    b = run_a.model_copy(update={"defects": (*run_a.defects[:4], other)})
    found = between(run_a, b, tmp_path)
    assert {one.after.id for one in found.both if one.after} == {one.id for one in run_a.defects[:4]}
    assert {one.before.id for one in found.only_a if one.before} == {one.id for one in run_a.defects[4:]}
    (alone,) = found.only_b
    assert alone.after == other
    assert alone.before is not None
    assert alone.before.seed_id == other.seed_id


# ---------------------------------------------------------------------------------------------------------------------------------
# The command and the page


def call(*arguments: str | Path) -> Ran:
    return CliRunner().invoke(cli, ["diff", *map(str, arguments)], env={"COLUMNS": "200"})


@pytest.fixture
def folders(run_a: Result, tmp_path: Path) -> tuple[Path, Path]:
    b = later(run_a, tmp_path / "b", previous=replayed(run_a))
    for name, run in (("a", run_a), ("b", b)):
        (tmp_path / name / "result.json").write_text(run.to_json(), encoding="utf-8")
        evidence(tmp_path / name, 8)
    return tmp_path / "a", tmp_path / "b"


def test_the_command_prints_tables_and_exits_with_nothing_whatever_it_found(folders: tuple[Path, Path]) -> None:
    done = call(*folders)
    assert done.exit_code == 0, done.output
    assert "Root causes: 1 known, 2 fixed." in done.output
    assert "Defects: 2 in both, 4 only in A, 0 only in B." in done.output
    assert "worse" in done.output or "better" in done.output


def test_the_json_says_the_same_and_stands_alone_on_the_output(folders: tuple[Path, Path], tmp_path: Path) -> None:
    done = call(*folders, "--json", "--out", tmp_path / "page.html")
    said = json.loads(done.stdout)
    assert said == json.loads(json.dumps(as_json(compare(*map(Run.load, folders)))))
    assert said["schema"] == "gate.difference/1"
    assert {one["id"]: one["status"] for one in said["root_causes"]} == {"rc-a": "known", "rc-b": "fixed", "rc-c": "fixed"}
    assert (tmp_path / "page.html").is_file()


@pytest.mark.parametrize("broken", ["absent", "other schema", "inside"])
def test_what_is_no_run_and_a_page_inside_a_run_are_refused(folders: tuple[Path, Path], tmp_path: Path, broken: str) -> None:
    a, b = folders
    if broken == "absent":
        done = call(a, tmp_path / "nowhere")
    elif broken == "other schema":
        (b / "result.json").write_text((b / "result.json").read_text(encoding="utf-8").replace("gate.result/1", "gate.result/9"))
        done = call(a, b)
    else:
        done = call(a, b, "--out", b / "report.html")
    assert done.exit_code != 0
    said = str(done.exception)
    assert {"absent": "No finished run", "other schema": "not a gate.result/1 record", "inside": "inside a run's folder"}[broken] in said
    assert getattr(done.exception, "exit_code", None) == 2


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("hostile", [False, True])
def test_the_page_loads_nothing_complains_of_nothing_and_fits_its_window(
    folders: tuple[Path, Path], tmp_path: Path, visit: Visit, hostile: bool, scheme: str
) -> None:
    if hostile:
        (tmp_path / "h").mkdir()
        b = Run(hostile_run(tmp_path / "h"), tmp_path / "h")
    else:
        b = Run.load(folders[1])
    file = tmp_path / "page.html"
    file.write_text(page(compare(Run.load(folders[0]), b)), encoding="utf-8")
    visit.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    visit.page.goto(file.as_uri())
    visit.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    for width in (1280, 390):
        visit.page.set_viewport_size({"width": width, "height": 900})
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = visit.page.evaluate("Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth, () => 0)))")
    assert sizes
    assert all(width > 0 for width in sizes)
    assert visit.complaints == []
    assert [url for url in visit.requests if not url.startswith("data:")] == [file.as_uri()]
    assert visit.page.evaluate("'pwned' in window || document.scripts.length > 0") is False
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 200) is (scheme == "dark")
    shown = visit.page.locator("body").inner_text()
    assert (HOSTILE[0] in shown) is hostile


@pytest.mark.browser
def test_the_page_shows_as_mutant_beside_bs(folders: tuple[Path, Path], tmp_path: Path, visit: Visit) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(compare(*map(Run.load, folders))), encoding="utf-8")
    visit.page.goto(file.as_uri())
    captions = visit.page.locator("#defects article").first.locator("figcaption").all_inner_texts()
    assert captions == ["Seed input", "A's mutant", "B's mutant"]
    assert visit.page.locator("#causes .badge").all_inner_texts() == ["known", "fixed", "fixed"]


def test_pictures_outside_the_run_are_never_read(folders: tuple[Path, Path], tmp_path: Path) -> None:
    a = Run.load(folders[0])
    (tmp_path / "secret.png").write_bytes((folders[0] / a.result.defects[0].files["mutant"]).read_bytes())
    outside = tuple(one.model_copy(update={"files": dict.fromkeys(one.files, "../secret.png")}) for one in a.result.defects)
    stolen = Run(a.result.model_copy(update={"defects": outside}), a.folder)
    assert "data:image" not in page(compare(stolen, stolen))


def test_every_kind_of_run_can_be_compared(tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [{"verdict": Verdict.ERROR}, {"verdict": Verdict.FAIL, "defects": 9, "shortcut": True}]
    runs = []
    for number, options in enumerate(kinds):
        (tmp_path / str(number)).mkdir()
        runs.append(Run(make_run(tmp_path / str(number), **options), tmp_path / str(number)))
    for a in runs:
        for b in runs:
            assert page(compare(a, b))
            json.dumps(as_json(compare(a, b)), allow_nan=False)
