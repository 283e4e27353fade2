"""What a root cause's card says, and what is said where something was not explained."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from page_visit import Visit
from playwright.sync_api import expect
from sample import make_run

from gate.report import html, junit, markdown
from gate.report.cause_words import heat_in_words, type_meaning, type_name
from gate.report.causes import causes_page
from gate.result import Heat, RootCause, TriageSummary, Verdict
from gate.triage.classify import TYPES


def test_a_card_shows_an_explained_defect_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 60)
    by_id = {defect.id: defect for defect in result.defects}
    page = causes_page(result, tmp_path, {})
    card = next(card for card in page["cards"] if by_id[card["example"]].attribution is not None)
    cause = next(cause for cause in result.root_causes if cause.id == card["id"])
    example = by_id[card["example"]]
    assert [caption for caption, _ in card["pictures"]][:5] == ["Seed input", "Mutant", "Difference × 100", "Heat before", "Heat after"]
    assert all(picture for _, picture in card["pictures"])
    assert card["badges"] == [("note", "known")]
    assert card["size_words"].startswith(f"{cause.size} defects, ")
    assert "The change hit what the model looks at. 58.0 % of the heat" in card["heat"]["words"]
    assert "Grad-CAM++" in card["heat"]["method"]
    assert [(row["layer"], row["restores"]) for row in card["neurons"]["rows"]][:2] == [("features.3", True), ("features.6", False)]
    assert card["neurons"]["rows"][3]["words"] == "\u22124.0 %"
    facts = dict(card["facts"])
    assert facts["What is enough"].startswith("Found with ")
    assert "baseline" in facts["The baseline's answer"].lower() or "It reads" in facts["The baseline's answer"]
    commands = [command for _, command in card["commands"]]
    assert commands == [f"gate replay RUN {example.id}", f"pytest RUN/defects/{example.id}/test_defect.py"]


def test_heat_is_told_beside_what_an_even_spread_would_give_and_means_nothing_where_the_change_is_everywhere() -> None:
    heat = Heat(method="occlusion", layer=None, overlap=0.74, chance=0.59, focus_before=0.2, focus_after=0.3, moved=0.1, where="unclear")
    assert "nearly everywhere, so heat can't tell" in heat_in_words(heat)
    assert "74.0 % of the heat lies on the change, and 59.0 % would if it were spread evenly" in heat_in_words(heat)
    local = heat.model_copy(update={"chance": 0.1})
    assert heat_in_words(local).startswith("Whether the change hit what the model looks at is unclear. ")
    assert "evenly" not in heat_in_words(heat.model_copy(update={"chance": None}))


def test_every_type_has_a_name_and_a_meaning_of_its_own() -> None:
    assert len({type_name(kind) for kind in TYPES}) == len(TYPES)
    assert all(type_meaning(kind) for kind in TYPES)


def test_a_card_tells_how_strong_its_minimised_defects_are_beside_the_limit(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    said = []
    for known in ({"severity": (0.1894, 0.3131), "added": (-0.07, -0.05)}, {"severity": (0.25, 0.25)}, {}):
        cause = result.root_causes[0].model_copy(update={"range": known})
        said.append(causes_page(result.model_copy(update={"root_causes": (cause,)}), tmp_path, {})["cards"][0]["severity"])
    assert said == ["severity 0.19 to 0.31 of 1", "severity 0.25 of 1", ""]


def test_the_summary_and_the_test_file_name_type_and_status_in_the_same_words(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    cause = result.root_causes[0].model_copy(update={"status": "back", "type": "concept-confusion"})
    changed = result.model_copy(update={"root_causes": (cause,)})
    assert "(back again, confused classes)" in markdown.render(changed)
    assert "back again, confused classes, " in junit.render(changed, tmp_path)


def test_the_commands_offer_to_explain_what_was_not_and_no_test_that_is_not_there(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    plain = tuple(defect.model_copy(update={"attribution": None}) for defect in result.defects)
    for defect in plain:
        (tmp_path / "defects" / defect.id / "test_defect.py").unlink()
    card = causes_page(result.model_copy(update={"defects": plain}), tmp_path, {})["cards"][0]
    name = card["example"]
    assert [command for _, command in card["commands"]] == [f"gate replay RUN {name}", f"gate replay RUN {name} --explain"]
    assert card["neurons"] is None
    assert card["heat"] is None


def test_the_example_is_an_explained_defect_where_the_records_own_is_not(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 2)
    first, second = (defect.model_copy(update={"root_cause": "rc-1"}) for defect in result.defects)
    first = first.model_copy(update={"attribution": None})
    cause = RootCause(id="rc-1", title="both", size=2, example=first.id)
    page = causes_page(result.model_copy(update={"defects": (first, second), "root_causes": (cause,)}), tmp_path, {})
    assert page["cards"][0]["example"] == second.id


def test_what_the_baseline_says_tells_a_new_weakness_from_an_old_one(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 1)
    defect = result.defects[0]
    said = {}
    for answer in (defect.label, defect.predicted, 9):
        changed = result.model_copy(update={"defects": (defect.model_copy(update={"baseline": answer}),)})
        said[answer] = dict(causes_page(changed, tmp_path, {})["cards"][0]["facts"])["The baseline's answer"]
    assert "the candidate's own" in said[defect.label]
    assert "has this weakness already" in said[defect.predicted]
    assert "wrong as well" in said[9]
    alone = result.model_copy(update={"baseline": None})
    assert "The baseline's answer" not in dict(causes_page(alone, tmp_path, {})["cards"][0]["facts"])


def test_what_was_not_explained_is_named_with_the_reason(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 60)
    named = tuple(cause.id for cause in result.root_causes[:10])
    triage = TriageSummary(
        share=0.25, allowed=100, spent=99, minimised=1, attributed=7, not_explained=named, reason="the share was used up"
    )
    page = causes_page(result.model_copy(update={"triage": triage}), tmp_path, {})["triage"]
    assert page["missing"] == "10 root causes were not explained. The share was used up."
    assert page["titles"] == [cause.title for cause in result.root_causes[:8]]
    assert page["left_out"] == 2
    assert page["words"].startswith("Of the defects found, 1 was made simpler, 7 were traced to neurons and places. ")
    assert "99 model calls; 100 were allowed, 25.0 % of all the work" in page["words"]


def test_earlier_root_causes_say_what_became_of_them(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    earlier = causes_page(result, tmp_path, {})["earlier"]
    new = sum(cause.status == "new" for cause in result.root_causes)
    assert earlier["summary"].startswith(f"Beside the earlier run, {new} root causes are new, ")
    assert "1 fixed" in earlier["summary"]
    assert [row["status"] for row in earlier["rows"]] == ["back again", "known", "not known", "fixed"]
    assert earlier["rows"][0]["when"] == "2 runs ago"


def test_a_repair_shows_commands_as_such_and_runs_nothing(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    said = "Use `gate corpus export` for `<script>`, <b>not</b> `this."
    page = html.render(result.model_copy(update={"root_causes": (result.root_causes[0].model_copy(update={"repair": said}),)}), tmp_path)
    assert "Use <code>gate corpus export</code> for <code>&lt;script&gt;</code>, &lt;b&gt;not&lt;/b&gt; `this." in page


def test_faults_come_first_then_the_reasons_then_root_causes(tmp_path: Path) -> None:
    page = html.render(make_run(tmp_path, Verdict.FAIL, 12, faults=True), tmp_path)
    order = re.findall(r'<section id="(\w+)"', page)
    assert order[:5] == ["faults", "why", "causes", "map", "numbers"]
    assert order[-1] == "run"
    assert {"margins", "defects", "quarantine", "coverage", "operators"} <= set(order)


@pytest.mark.browser
def test_printing_folds_nothing_away_and_shows_the_pictures(run_named: Callable[[str], Path], visit: Visit) -> None:
    page = visit.page
    page.goto((run_named("fail with 300 defects") / "report.html").as_uri())
    assert page.locator("details:not([open])").count() > 3
    page.emulate_media(media="print")
    folded = page.locator("details:not([open])")
    expect(folded).to_have_count(0)
    for hidden in (".filters", ".pages", "nav", ".row-of-choices", "#viewer"):
        assert not page.locator(hidden).first.is_visible(), hidden
    assert page.locator(".defect:visible img:visible").count() >= 72
    assert page.locator(".cause:visible img:visible").count() >= 36
    assert page.locator("svg.map").is_visible()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    page.emulate_media(media="screen")
    expect(page.locator("details:not([open])")).not_to_have_count(0)
