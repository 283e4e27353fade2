"""``gate policy preview``: what it shows of a policy's domain, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from gate.cli.policy import command
from gate.domains.image.dataset import load_images
from gate.domains.image.domain import ImageDomain
from gate.domains.image.image_set import ImageSet
from gate.domains.image.limits import Domain
from gate.domains.model_operators import MODEL_OPERATORS
from gate.errors import ConfigError, UsageError
from gate.policy.preview import SEVERITIES, preview


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).integers(30, 220, size=(12, 8, 8, 1), dtype=np.uint8)
    np.savez(tmp_path / "digits.npz", x=x, y=np.array([0] * 8 + [1, 2, 2, 2]))
    return tmp_path / "digits.npz"


@pytest.fixture
def seeds(digits: Path) -> ImageSet:
    from gate.config import InputSettings

    return load_images(digits, settings=InputSettings(), classes=None, on_bad_file="error", role="seeds")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["preview", *arguments])


def limits(**given: Any) -> Domain:
    return Domain.model_validate(given)


def test_every_operator_that_is_switched_on_is_shown_at_four_severities_of_the_same_draw(seeds: ImageSet) -> None:
    domain = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
    sheet = preview(Domain(), seeds, samples=3)
    assert {row.operator for row in sheet.rows if row.family != "marks"} == {*domain.natural, *domain.splicing, *domain.model_bounds}
    assert sheet.operators == len(domain.natural) + len(domain.splicing) + len(domain.model_bounds)
    splice = next(row for row in sheet.rows if row.operator == "splice")
    assert splice.family == "splicing"
    # Of other pictures of their classes: no more pixels than the limit says, and some of them.
    pixels = [
        int((sample[-1].mutant != original).any(axis=2).sum()) for original, sample in zip(sheet.originals, splice.samples, strict=True)
    ]
    assert 0 < max(pixels) <= 64 * (Domain().splicing.splice or 0.0)
    assert all(row.words for row in sheet.rows)
    for row in sheet.rows:
        for original, sample in zip(sheet.originals, row.samples, strict=True):
            assert [one.severity for one in sample] == list(SEVERITIES)
            assert all(one.mutant.shape == original.shape and one.mutant.dtype == original.dtype for one in sample)
    turned = next(row for row in sheet.rows if row.operator == "brightness")
    for original, sample in zip(sheet.originals, turned.samples, strict=True):
        moved = [one.mutant.astype(float).mean() - original.mean() for one in sample]
        assert abs(moved[0]) < abs(moved[1]) < abs(moved[2]) < abs(moved[3])
        assert len({np.sign(change) for change in moved}) == 1


def test_samples_are_of_different_classes_and_repeat_with_the_seed(seeds: ImageSet) -> None:
    sheet = preview(Domain(), seeds, operators=["rotation"], samples=3, seed=5)
    assert sorted(sheet.names) == ["0", "1", "2"]
    again = preview(Domain(), seeds, operators=["rotation"], samples=3, seed=5)
    assert all(np.array_equal(a, b) for a, b in zip(sheet.originals, again.originals, strict=True))
    for a, b in zip(sheet.rows[0].samples, again.rows[0].samples, strict=True):
        assert all(np.array_equal(one.mutant, other.mutant) for one, other in zip(a, b, strict=True))


def test_what_would_be_invalid_is_marked_with_its_reason(seeds: ImageSet) -> None:
    kept = limits(photometry={"contrast": 0.9}, chain={"contrast_kept": 0.9})
    rows = {row.operator: row for row in preview(kept, seeds, operators=["contrast", "rotation"], samples=4, seed=1).rows}
    reasons = [one.reason for sample in rows["contrast"].samples for one in sample]
    assert "contrast" in reasons
    assert set(reasons) <= {None, "contrast"}


def test_marks_are_shown_at_shares_of_their_limits(seeds: ImageSet) -> None:
    sheet = preview(limits(marks={"patch": 0.25, "border": None, "blend": 0.4}), seeds, samples=3)
    assert "marks.border" in sheet.off
    rows = {row.operator: row for row in sheet.rows if row.family == "marks"}
    assert set(rows) == {"patch", "blend"}
    for original, sample in zip(sheet.originals, rows["patch"].samples, strict=True):
        covered = [(one.mutant != original).any(axis=2).sum() for one in sample]
        assert covered == sorted(covered)
        assert covered[0] <= 4
        assert 12 <= covered[-1] <= 16, "a quarter of 8 x 8 pixels, of which one may have been as it is"
    for original, sample in zip(sheet.originals, rows["blend"].samples, strict=True):
        change = [np.abs(one.mutant.astype(float) - original).max() / 255 for one in sample]
        assert change == sorted(change)
        assert change[-1] <= 0.4 + 1 / 255
    only = preview(Domain(), seeds, operators=["blend"])
    assert [(row.family, row.operator) for row in only.rows] == [("marks", "blend")]


@pytest.mark.parametrize("name", sorted(MODEL_OPERATORS))
def test_a_change_by_the_model_is_shown_by_a_random_one_as_large_as_its_bound(seeds: ImageSet, name: str) -> None:
    family = MODEL_OPERATORS[name].family
    sheet = preview(limits(**{family: {name: 0.1}}), seeds, operators=[name], samples=2)
    for original, sample in zip(sheet.originals, sheet.rows[0].samples, strict=True):
        change = np.abs(sample[-1].mutant.astype(float) - original) / 255
        size = change.max() if MODEL_OPERATORS[name].norm == "linf" else np.sqrt(np.square(change).mean())
        assert 0.08 < size <= 0.1
        assert sample[-1].reason is None


def test_the_page_is_written_without_any_model(digits: Path, tmp_path: Path) -> None:
    page = tmp_path / "new folder" / "sheet.html"
    result = call("--policy", "strict", "--seeds", str(digits), "--out", str(page), "--operators", "rotation, fog", "--samples", "2")
    assert result.exit_code == 0, result.output
    assert "2 operators on 2 seed inputs" in result.output
    text = page.read_text(encoding="utf-8")
    assert "domain.geometry.rotation: " in text
    assert text.count("<img") == 2 * 2 * 5


def test_settings_say_where_seeds_and_policy_are(digits: Path, tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(f"policy: smoke\nclasses: [none, one, two]\ndata: {{seeds: {digits}}}\n")
    page = tmp_path / "sheet.html"
    result = call("--config", str(tmp_path / "gate.yaml"), "--out", str(page), "--operators", "fog")
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert "<h1>smoke</h1>" in text
    assert "<figcaption>none</figcaption>" in text


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        ("rotatoin", "Did you mean rotation"),
        ("horizontal_flip", "switched off"),
        ("hue", "three channels"),
        ("boarder", "Did you mean border"),
    ],
)
def test_operators_that_can_not_be_shown_are_named(digits: Path, tmp_path: Path, operators: str, said: str) -> None:
    result = call("--seeds", str(digits), "--out", str(tmp_path / "sheet.html"), "--operators", operators)
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)
    assert not (tmp_path / "sheet.html").exists()


def test_without_seeds_it_says_how_to_give_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call()
    assert isinstance(result.exception, ConfigError)
    assert result.exception.where == "data.seeds"
