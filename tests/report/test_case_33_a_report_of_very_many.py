"""A hundred thousand defects, ten thousand classes, five hundred defects with five large pictures each: still one small page."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from page_visit import Visit
from PIL import Image, ImageFilter
from sample import make_run
from weighed_sample import paired

from gate.report import html
from gate.report.gallery import MOST
from gate.result import FamilyMargin, FeatureMap, MapPoint, Metric, Result, Verdict

LIMIT = 15 << 20
_PARTS = ("original", "mutant", "diff", "cam_before", "cam")


def _with_photographs(folder: Path, number: int, *, noise: bool) -> Result:
    """Defects with five different pictures each of 224 pixels, of photographs or of what compresses worst."""
    base = make_run(folder, Verdict.FAIL, 3, photographs=True)
    random = np.random.default_rng(0)
    seen = Image.open(folder / base.defects[0].files["original"]).convert("RGB").resize((448, 448))
    defects = []
    for i in range(number):
        place = folder / "defects" / f"d-{i:012x}"
        place.mkdir(parents=True)
        top, left = (int(value) for value in random.integers(0, 224, 2))
        picture = seen.crop((left, top, left + 224, top + 224))
        for part in _PARTS:
            if noise or part == "diff":
                shown = Image.fromarray(random.integers(0, 256, (224, 224, 3), dtype=np.uint8))
            else:
                shown = picture.filter(ImageFilter.GaussianBlur(_PARTS.index(part)))
            shown.save(place / f"{part}.png", compress_level=1)
        files = {part: f"defects/d-{i:012x}/{part}.png" for part in _PARTS}
        update = {"id": f"d-{i:012x}", "seed_id": f"s-{i}", "files": files, "root_cause": f"rc-{i % 40:012x}"}
        defects.append(base.defects[0].model_copy(update=update))
    causes = tuple(
        base.root_causes[0].model_copy(update={"id": f"rc-{i:012x}", "size": number // 40, "example": f"d-{i:012x}"}) for i in range(40)
    )
    return base.model_copy(update={"defects": tuple(defects), "root_causes": causes})


@pytest.mark.slow
@pytest.mark.parametrize("noise", [False, True])
def test_five_hundred_defects_with_heat_maps_stay_under_fifteen_mebibytes(tmp_path: Path, noise: bool) -> None:
    page = html.render(_with_photographs(tmp_path, MOST, noise=noise), tmp_path)
    assert len(page.encode("utf-8")) < LIMIT
    assert page.count('<article class="defect"') == MOST
    assert page.count("no picture") == 0


@pytest.mark.slow
@pytest.mark.browser
def test_five_hundred_defects_open_within_two_seconds(tmp_path: Path, visit: Visit) -> None:
    page_file = tmp_path / "report.html"
    page_file.write_text(html.render(_with_photographs(tmp_path, MOST, noise=False), tmp_path), encoding="utf-8")
    visit.page.goto("about:blank")
    times = []
    for _ in range(3):
        started = time.monotonic()
        visit.page.goto(page_file.as_uri(), wait_until="load")
        assert visit.page.locator(".filters output").inner_text() == f"{MOST} of {MOST} defects match"
        times.append(time.monotonic() - started)
    assert min(times) < 2, times
    assert visit.page.evaluate("document.images.length") < 300  # the pictures of later pages wait


def test_a_hundred_thousand_defects_and_ten_thousand_classes_make_a_small_page(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 12)
    classes = tuple(f"class {i}" for i in range(10_000))
    defects = tuple(
        result.defects[i % 12].model_copy(update={"id": f"d-{i:012x}", "root_cause": f"rc-{i % 5000}", "label": i % 10_000})
        for i in range(100_000)
    )
    causes = tuple(result.root_causes[0].model_copy(update={"id": f"rc-{i}", "size": 20, "example": f"d-{i:012x}"}) for i in range(5000))
    rate = result.metrics["defect_rate"]
    part = Metric(value=0.1, lower=0.05, upper=0.2, confidence=0.95, n=30, unit="share", paired=paired(0.1, 0.05, 0.02, 30))
    metrics = {**result.metrics, "defect_rate": rate.model_copy(update={"slices": {"class": dict.fromkeys(classes, part)}})}
    seeds = [MapPoint(x=i % 100 / 100, y=i / 10_000, label=i) for i in range(10_000)]
    mutants = [MapPoint(x=0.5, y=0.5, label=i % 10_000, defect=defects[i].id) for i in range(0, 100_000, 50)]
    margins = tuple(
        FamilyMargin(family=f"family {i}", seeds=10_000, failed=10_000, severities=tuple(j / 10_000 for j in range(10_000)))
        for i in range(40)
    )
    big = result.model_copy(
        update={
            "classes": classes,
            "defects": defects,
            "root_causes": causes,
            "metrics": metrics,
            "feature_map": FeatureMap(method="tsne", points=(*seeds, *mutants)),
            "margins": margins,
            "earlier_causes": result.earlier_causes * 2000,
            "quarantine": result.quarantine * 5000,
        }
    )
    started = time.process_time()
    page = html.render(big, tmp_path)
    assert time.process_time() - started < 20
    assert len(page) < 4 << 20
    assert f"{MOST} of 100,000 defects are shown" in page
    assert page.count("9,970 more are in result.json") == 2  # of the slices, and of those beside the baseline
    assert page.count("<option") < 1000
