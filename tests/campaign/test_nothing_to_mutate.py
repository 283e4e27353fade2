"""Policies that leave the gate nothing natural to do with the pictures at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_model import CLASSES, write_npz
from saved_models import Stripes, save

from gate.config import Settings
from gate.domains.image.limits import Domain
from gate.pipeline import run
from gate.result import Verdict


@pytest.mark.parametrize("left", [None, "hue", "fgsm"])
def test_without_a_natural_operator_that_fits_the_pictures_the_policy_is_refused(left: str | None, tmp_path: Path) -> None:
    families = {name: part for name, part in Domain() if name not in ("chain", "marks")}
    off = [f"  {name}: {{{', '.join(f'{key}: null' for key, _ in part if key != left)}}}" for name, part in families.items()]
    policy = tmp_path / "policy.yaml"
    rule = "rules: [{id: rate, metric: defect_rate, fail: '> 0.9'}]"
    policy.write_text("\n".join(["version: 1", "name: off", "domain:", *off, rule]), encoding="utf-8")
    settings = {
        "model": str(save(Stripes().eval(), tmp_path / "model")),
        "classes": CLASSES,
        "data": {"seeds": str(write_npz(tmp_path / "seeds.npz"))},
        "budget": {"executions": 100},
        "coverage": {"layers": ("hidden",), "criteria": ("kmnc",)},
        "previous": "none",
        "device": "cpu",
        "policy": str(policy),
        "out": str(tmp_path / "run"),
    }
    result = run(Settings.model_validate(settings)).result
    assert (result.verdict, result.exit_code) == (Verdict.ERROR, 2)
    assert "The policy leaves no natural operator for these pictures" in result.reasons[0]
