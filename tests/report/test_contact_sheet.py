"""The contact sheet of a policy in a real browser: it loads nothing, and no name on it does anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from page_visit import Visit

from gate.domains.image.image_set import ImageSet
from gate.domains.image.limits import Domain
from gate.policy.preview import preview
from gate.report.contact_sheet import contact_sheet

pytestmark = pytest.mark.browser

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e{{ 7*7 }}"


def page(path: Path, *, channels: int = 3, side: int = 24, name: str = "cat") -> Path:
    x = np.random.default_rng(0).integers(0, 256, size=(3, side, side, channels), dtype=np.uint8)
    y = np.array([0, 1, 1])
    seeds = ImageSet(x, y, None, ("a", "b", "c"), (name, name + " 2"), (0.0, 255.0), "seeds", "sha256:0", 0, ("s-1", "s-2", "s-3"))
    limits = Domain.model_validate({"chain": {"similarity": 0.9}})
    text = contact_sheet(preview(limits, seeds, samples=2), policy=name, source=name)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sheet_loads_nothing_complains_of_nothing_and_fits_its_window(tmp_path: Path, visit: Visit, scheme: str) -> None:
    file = page(tmp_path / "sheet.html")
    visit.page.emulate_media(color_scheme=scheme)
    visit.page.goto(file.as_uri())
    for width in (1280, 390):
        visit.page.set_viewport_size({"width": width, "height": 900})
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    pictures = visit.page.evaluate("Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth, () => 0)))")
    assert len(pictures) > 300
    assert all(width > 0 for width in pictures)
    assert visit.complaints == []
    assert [url for url in visit.requests if not url.startswith("data:")] == [file.as_uri()]
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(","))
    assert (red + green + blue < 150) == (scheme == "dark")


def test_hostile_names_are_text(tmp_path: Path, visit: Visit) -> None:
    visit.page.goto(page(tmp_path / "sheet.html", name=HOSTILE).as_uri())
    assert visit.complaints == []
    assert visit.page.evaluate("document.scripts.length") == 0
    assert visit.page.evaluate("[...document.images].filter(i => !i.src.startsWith('data:')).length") == 0
    heading = visit.page.inner_text("h1")
    assert "<script>" in heading
    assert "{{ 7*7 }}" in heading
    assert "\u202e" not in heading


def test_invalid_pictures_are_outlined_and_say_why(tmp_path: Path, visit: Visit) -> None:
    visit.page.goto(page(tmp_path / "sheet.html", channels=1, side=16).as_uri())
    captions = visit.page.locator("figure.invalid figcaption").all_inner_texts()
    assert captions
    assert set(captions) <= {"too little structure left", "too little contrast left"}
    outline = visit.page.evaluate("getComputedStyle(document.querySelector('figure.invalid img')).outlineWidth")
    assert outline == "3px"
