"""Every picture opens large: the same data, larger pixels, and the keyboard leads from one to the next and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from page_visit import Visit

pytestmark = pytest.mark.browser


def test_a_tiny_picture_opens_with_whole_pixels_and_the_arrow_keys_lead_on(run_named: Callable[[str], Path], visit: Visit) -> None:
    page = visit.page
    page.goto((run_named("fail with a shortcut") / "report.html").as_uri())
    first = page.locator("#defects .defect:not([data-label=''])").first  # the first of all may be a probe, which has one picture
    first.locator("button.open").first.click()
    large = page.locator("#viewer img")
    assert large.get_attribute("src") == first.locator("img").first.get_attribute("src")
    assert large.evaluate("img => [img.width % 8, img.width >= 320, getComputedStyle(img).imageRendering]") == [0, True, "pixelated"]
    title = page.locator("#viewer-title")
    assert title.inner_text().endswith(": Seed input")
    page.keyboard.press("ArrowRight")
    assert title.inner_text().endswith(": Mutant")
    assert large.get_attribute("src") == first.locator("img").nth(1).get_attribute("src")
    page.keyboard.press("ArrowLeft")
    before = first.evaluate("card => [...document.querySelectorAll('#defects button.open')].indexOf(card.querySelector('button.open'))")
    for _ in range(before + 1):
        page.keyboard.press("ArrowLeft")  # round to the last one
    total = page.locator("#defects button.open").count()
    assert page.locator(".viewer-count").inner_text() == f"{total} of {total}"
    page.keyboard.press("Escape")
    assert not page.locator("#viewer").is_visible()
    assert page.evaluate("document.activeElement.className") == "open"
    assert visit.complaints == []


def test_every_picture_of_the_page_opens(run_named: Callable[[str], Path], visit: Visit) -> None:
    page = visit.page
    page.goto((run_named("fail with a shortcut") / "report.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    assert page.evaluate("[...document.images].filter(img => !img.closest('button.open')).length") == 0
    for section in ("causes", "defects", "marks", "probes"):
        page.locator(f"#{section} button.open").last.click()
        assert page.locator("#viewer img").evaluate("img => img.complete && img.naturalWidth > 0")
        page.get_by_role("button", name="Close").click()


def test_a_photograph_fits_the_window_of_a_telephone(run_named: Callable[[str], Path], visit: Visit) -> None:
    page = visit.page
    page.set_viewport_size({"width": 375, "height": 700})
    page.goto((run_named("fail with photographs") / "report.html").as_uri())
    page.locator("#causes button.open").first.click()
    box = page.locator("#viewer").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 375
    assert box["y"] + box["height"] <= 700
    assert page.locator("#viewer img").evaluate("img => img.width") >= 224
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    dialog = "(dialog => dialog.scrollWidth <= dialog.clientWidth && dialog.scrollHeight <= dialog.clientHeight)"
    assert page.evaluate(f"{dialog}(document.querySelector('#viewer'))")
