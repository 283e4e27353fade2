"""The page as axe-core judges it, and its use by keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from page_visit import Visit

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [
        ("fail with photographs", "light", 1280),
        ("fail with photographs", "light", 375),
        ("fail with photographs", "dark", 1280),
        ("fail with photographs", "dark", 375),
        ("fail with a shortcut", "light", 1280),
        ("hostile", "dark", 1280),
    ],
)
def test_axe_finds_nothing(run_named: Callable[[str], Path], visit: Visit, name: str, scheme: str, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    visit.page.goto((run_named(name) / "report.html").as_uri())
    visit.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    assert _violations(visit) == []
    visit.page.locator("#causes button.open").first.click()
    assert visit.page.locator("#viewer").is_visible()
    assert _violations(visit) == []
    assert visit.complaints == []


def test_by_keyboard_alone_defects_are_filtered_and_a_picture_is_opened_and_closed(run_named: Callable[[str], Path], visit: Visit) -> None:
    page = visit.page
    page.goto((run_named("fail with 300 defects") / "report.html").as_uri())
    page.locator("nav a[href='#defects']").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.filter") == "label"
    page.keyboard.press("t")  # the first option that begins so
    assert page.evaluate("document.activeElement.selectedOptions[0].textContent") in ("two", "three")
    shown = page.locator(".defect:visible")
    assert 0 < int(page.locator(".filters output").inner_text().split()[0]) < 300
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "open":
            break
    card = shown.first
    assert page.evaluate("document.activeElement.closest('article').id") == card.get_attribute("id")
    page.keyboard.press("Enter")
    assert page.locator("#viewer").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#viewer").is_visible()
    assert page.evaluate("document.activeElement.closest('article').id") == card.get_attribute("id")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.closest('figure').innerText") == "Mutant"
    page.keyboard.press("Tab")  # on to the next card, not through every picture of this one
    assert page.evaluate("document.activeElement.closest('article').id") == shown.nth(1).get_attribute("id")


def _violations(visit: Visit) -> list[tuple[str, str]]:
    found = Axe().run(visit.page).response["violations"]
    return [(one["id"], node["html"][:160]) for one in found for node in one["nodes"][:3]]
