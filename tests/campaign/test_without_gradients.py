"""A whole run on a saved model that lets no gradient through finds its defects all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_model import CLASSES, TRAP, write_npz
from no_gradient_models import Decided, Frozen
from PIL import Image
from saved_models import save
from torch import nn

from gate.cli import main
from gate.domains.image.limits import Domain
from gate.result import Result

KEPT = {"brightness", "contrast", "boundary"}


def ran(base: Path, module: nn.Module, **settings: Any) -> Path:
    """The folder of a run by the command."""
    said = {
        "model": str(save(module.eval(), base / "model")),
        "classes": list(CLASSES),
        "data": {"seeds": str(write_npz(base / "seeds.npz"))},
        "budget": {"executions": 2000},
        "coverage": {"layers": ["net.hidden"], "criteria": ["kmnc", "nbc"]},
        "previous": "none",
        "device": "cpu",
        "batch_size": 64,
        "out": str(base / "run"),
        **settings,
    }
    (base / "gate.yaml").write_text(json.dumps(said))
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", str(base / "gate.yaml")])
    assert ended.value.code in (1, 4)
    return base / "run"


@pytest.mark.parametrize("model", [Frozen, Decided])
def test_a_model_without_gradients_is_searched_by_its_answers_alone(model: type[nn.Module], tmp_path: Path) -> None:
    domain = {
        family: {name: value if name in KEPT else None for name, value in fields.items()}
        for family, fields in Domain().model_dump(mode="json").items()
        if family not in ("chain", "marks")
    }
    domain["adversarial"]["boundary"] = 0.3
    policy = {"version": 1, "name": "few operators", "extends": ["baseline"], "domain": domain, "arms": {"canaries": 0}}
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    folder = ran(tmp_path, model(TRAP), policy=str(tmp_path / "policy.yaml"))
    searched = [defect for defect in Result.load(folder).defects if defect.arm == "search"]
    assert {step["operator"] for defect in searched for step in defect.recipe} <= KEPT
    assert any(defect.operator == "boundary" for defect in searched)
    natural = [defect for defect in searched if defect.natural]
    assert len({defect.seed_id for defect in natural}) >= 10
    for defect in natural:
        assert np.asarray(Image.open(folder / defect.files["mutant"])).mean() / 255 < TRAP
