"""The page in a real browser: nothing loaded, nothing complained, everything to be seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from page_visit import Visit
from sample import HOSTILE

pytestmark = pytest.mark.browser

WIDTHS = (1280, 375)
NAMES = (
    "pass without defects",
    "fail with photographs",
    "fail with a shortcut",
    "fail with 300 defects",
    "inconclusive, advisory, partial",
    "error before any campaign",
    "hostile",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_from_disk_loads_nothing_complains_of_nothing_and_fits_its_window(
    run_named: Callable[[str], Path], visit: Visit, name: str
) -> None:
    page_file = run_named(name) / "report.html"
    visit.page.goto(page_file.as_uri())
    # Cards that wait for "Show all" count too, and so does what lies inside a closed part.
    visit.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    for width in WIDTHS:
        visit.page.set_viewport_size({"width": width, "height": 900})
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    pictures = visit.page.evaluate("Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth, () => 0)))")
    assert all(width > 0 for width in pictures)
    expected = {"fail with photographs": 27, "fail with 300 defects": 100, "inconclusive, advisory, partial": 9}.get(name, 0)
    assert len(pictures) >= expected
    assert visit.complaints == []
    assert [url for url in visit.requests if not url.startswith("data:")] == [page_file.as_uri()]


def test_on_a_telephone_every_table_about_coverage_is_read_without_moving_it_sideways(
    run_named: Callable[[str], Path], visit: Visit
) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 900})
    visit.page.goto((run_named("fail with photographs") / "report.html").as_uri())
    visit.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    boxes = "[...document.querySelectorAll('#coverage .scroll')]"
    heads = f"{boxes}.filter(box => box.scrollWidth > box.clientWidth).map(box => box.innerText.slice(0, 60))"
    assert visit.page.evaluate(f"{boxes}.length") >= 6
    assert visit.page.evaluate(heads) == []


@pytest.mark.parametrize("name", ["fail with photographs", "hostile"])
def test_the_page_works_inside_a_sandboxed_frame_without_storage(run_named: Callable[[str], Path], visit: Visit, name: str) -> None:
    text = (run_named(name) / "report.html").read_text(encoding="utf-8")
    visit.page.set_content('<iframe sandbox="allow-scripts" width="1200" height="800"></iframe>')
    visit.page.eval_on_selector("iframe", "(frame, text) => new Promise(done => { frame.onload = done; frame.srcdoc = text })", text)
    frame = visit.page.frames[1]
    assert frame.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    assert frame.evaluate("document.images.length") > 0
    assert frame.locator(".filters").is_visible()
    frame.locator('nav a[href="#defects"]').click()
    deadline = time.monotonic() + 10
    while frame.evaluate("document.querySelector('#defects').getBoundingClientRect().top") > 400:  # it scrolls smoothly
        assert time.monotonic() < deadline
    assert frame.locator("#verdict").inner_text() == "Fail"
    assert visit.complaints == []
    assert [url for url in visit.requests if not url.startswith(("data:", "about:"))] == []


def test_hostile_names_run_nothing_and_stand_there_as_text(run_named: Callable[[str], Path], visit: Visit) -> None:
    visit.page.goto((run_named("hostile") / "report.html").as_uri())
    assert visit.page.evaluate("'pwned' in window") is False
    assert visit.page.evaluate("document.scripts.length") == 1
    assert (
        visit.page.evaluate("[...document.querySelectorAll('*')].some(e => [...e.attributes].some(a => a.name.startsWith('on')))") is False
    )
    assert set(visit.page.evaluate("[...document.links].map(a => a.getAttribute('href')[0])")) == {"#"}
    shown = visit.page.locator("body").inner_text()
    assert HOSTILE[0] in shown
    assert "nul\\x00esc\\x1b[31mred" in shown
    assert "lone\\ud800surrogate" in shown
    assert "\\u202eevil" in shown
    assert "A" * 700 not in shown


def test_an_injected_script_would_not_run_either(run_named: Callable[[str], Path], visit: Visit, tmp_path: Path) -> None:
    text = (run_named("inconclusive, advisory, partial") / "report.html").read_text(encoding="utf-8")
    page_file = tmp_path / "report.html"
    page_file.write_text(
        text.replace("</main>", '<script>window.pwned = 1</script><img src="data:," onerror="window.pwned = 1"></main>'), encoding="utf-8"
    )
    visit.page.goto(page_file.as_uri())
    visit.page.wait_for_timeout(100)
    assert visit.page.evaluate("'pwned' in window") is False


def test_the_gallery_is_paged_and_filters_by_class_and_mutation_and_counts_aloud(run_named: Callable[[str], Path], visit: Visit) -> None:
    visit.page.goto((run_named("fail with 300 defects") / "report.html").as_uri())
    cards, output = visit.page.locator(".defect:visible"), visit.page.locator(".filters output")
    assert cards.count() == 24
    assert output.get_attribute("aria-live") == "polite"
    assert output.inner_text() == "300 of 300 defects match"
    pages = visit.page.get_by_role("navigation", name="Pages of defects")
    assert "Page 1 of 13" in pages.inner_text()
    seen = set(visit.page.eval_on_selector_all(".defect", "cards => cards.map(card => card.id)"))
    for _ in range(12):
        pages.get_by_role("button", name="Next").click()
        seen |= set(visit.page.eval_on_selector_all(".defect", "cards => cards.map(card => card.id)"))
    assert len(seen) == 300
    assert pages.get_by_role("button", name="Next").is_disabled()
    assert cards.count() == 12
    assert visit.page.evaluate("[...document.querySelectorAll('.defect img')].every(img => img.complete && img.naturalWidth > 0)")

    visit.page.locator(".filters").get_by_label("True class").select_option(label="three")
    assert cards.count() > 0
    assert set(visit.page.locator(".defect:visible h3 > span:first-child").all_inner_texts()) == {"three"}
    visit.page.locator(".filters").get_by_label("Mutation").select_option(label="rotation")
    assert all("rotation" in text for text in cards.all_inner_texts())
    assert 0 < cards.count() < 24
    assert output.inner_text() == f"{cards.count()} of 300 defects match"
    assert not pages.is_visible()


def test_the_gallery_filters_by_predicted_class_type_status_and_root_cause_and_searches(
    run_named: Callable[[str], Path], visit: Visit
) -> None:
    visit.page.goto((run_named("fail with 300 defects") / "report.html").as_uri())
    filters, cards, output = visit.page.locator(".filters"), visit.page.locator(".defect:visible"), visit.page.locator(".filters output")
    numbers = {}
    for name, choice in (("Predicted", "seven"), ("Type", "Global drift"), ("Status", "new")):
        filters.get_by_label(name).select_option(label=choice)
        numbers[name] = int(output.inner_text().split()[0])
        assert 0 < numbers[name] < 300
        if name == "Predicted":
            assert set(visit.page.locator(".defect:visible .wrong").all_inner_texts()) == {"seven"}
        filters.get_by_role("button", name="Clear").click()
        assert output.inner_text() == "300 of 300 defects match"
    filters.get_by_label("Root cause").select_option(index=1)
    causes = {text.split("root cause ")[1][:15] for text in cards.all_inner_texts()}
    assert len(causes) == 1
    filters.get_by_role("button", name="Clear").click()
    wanted = visit.page.locator(".defect").nth(5).get_attribute("id") or ""
    filters.get_by_label("Search").fill(wanted.upper())
    assert output.inner_text() == "1 of 300 defects match"
    filters.get_by_label("Search").fill("no such words")
    assert output.inner_text() == "0 of 300 defects match"
    assert cards.count() == 0


def test_the_gallery_filters_defects_and_leaves_marks_alone(run_named: Callable[[str], Path], visit: Visit) -> None:
    visit.page.goto((run_named("fail with a shortcut") / "report.html").as_uri())
    marks, cards = visit.page.locator("#marks .defect:visible"), visit.page.locator("#defects .defect:visible")
    assert (marks.count(), cards.count()) == (2, 10)
    output = visit.page.locator(".filters output")
    assert output.inner_text() == "10 of 10 defects match"
    assert "a probe" in visit.page.locator("#defects").inner_text()
    choice = visit.page.locator(".filters").get_by_label("True class")
    assert "no class" not in choice.inner_text()
    choice.select_option(index=1)
    assert output.inner_text() == f"{cards.count()} of 10 defects match"
    assert 0 < cards.count() < 10
    assert marks.count() == 2
    assert visit.complaints == []


def test_a_link_to_a_defect_finds_it_though_it_was_hidden(run_named: Callable[[str], Path], visit: Visit) -> None:
    visit.page.goto((run_named("fail with 300 defects") / "report.html").as_uri())
    visit.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    link = visit.page.locator("#causes table a").last
    target = (link.get_attribute("href") or "")[1:]
    card = visit.page.locator(f"[id='{target}']")
    assert card.count() == 0
    visit.page.locator(".filters").get_by_label("True class").select_option(index=1)
    link.click()
    assert card.is_visible()
    assert visit.page.evaluate("document.activeElement.id") == target
    assert visit.page.locator(".filters output").inner_text() == "300 of 300 defects match"


def test_without_scripts_the_first_page_and_every_root_cause_are_there(run_named: Callable[[str], Path], visit: Visit) -> None:
    browser = visit.page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((run_named("fail with 300 defects") / "report.html").as_uri())
    assert page.locator(".defect:visible").count() == 24
    assert "Without scripts the first 24 of them are shown" in page.locator("#defects").inner_text()
    assert page.locator(".cause:visible").count() == 12
    assert not page.locator(".filters").is_visible()
    assert not page.locator(".pages").is_visible()
    context.close()


def test_text_stands_out_from_its_ground_in_light_and_dark(run_named: Callable[[str], Path], visit: Visit) -> None:
    page_file = run_named("fail with photographs") / "report.html"
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        visit.page.goto(page_file.as_uri())
        worst = visit.page.evaluate(_WORST_CONTRAST)
        assert worst["ratio"] >= 4.5, (scheme, worst)


def test_the_keyboard_reaches_the_parts_in_order(run_named: Callable[[str], Path], visit: Visit) -> None:
    visit.page.goto((run_named("inconclusive, advisory, partial") / "report.html").as_uri())
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.textContent") == "Skip to the reasons"
    visit.page.keyboard.press("Enter")
    assert visit.page.evaluate("document.activeElement.id") == "why"


# WCAG 2.1, contrast of relative luminances; every visible text against the nearest ground that is not transparent.
_WORST_CONTRAST = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  let worst = { ratio: 99 };
  const walker = document.createTreeWalker(document.querySelector('body'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility() || element.closest('script, svg, .skip')) continue;
    let ground = element;
    while (ground && (parse(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) ground = ground.parentElement;
    const a = light(parse(getComputedStyle(element).color)), b = light(parse(getComputedStyle(ground ?? document.body).backgroundColor));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) worst = { ratio, text: element.textContent.slice(0, 60), tag: element.className };
  }
  return worst;
}"""
