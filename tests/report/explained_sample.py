"""What explaining leaves in a run, made up: simpler recipes, heat maps, neurons, a map, margins, and what became of earlier root causes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gate.result import (
    Attribution,
    Defect,
    EarlierCause,
    FamilyMargin,
    FeatureMap,
    FlakyFinding,
    Heat,
    MapPoint,
    Minimal,
    NeuronEffect,
    Result,
    RootCause,
    Subgroup,
    TriageSummary,
)

__all__ = ["explained", "hostile_evidence"]

_TYPES = {
    "geometry": ("local-sensitive", "The change covers 3.4 % of the picture, and half of the heat lies within 12 % of it."),
    "photometry": ("global-drift", "The change covers 97 % of the picture, and the heat is spread over 61 % of it."),
    "noise": ("concept-confusion", "Both classes answer strongly to the parts that the heat lies on."),
}
_KINDS = ("fog", "low_light", "occlusion")


def explained(result: Result, folder: Path) -> Result:
    """The run with everything that explaining fills in, and the pictures in its folder."""
    draw = random.Random(11)
    members: dict[str, list[Defect]] = {}
    for defect in result.defects:
        members.setdefault(defect.root_cause, []).append(defect)
    changed: dict[str, Defect] = {}
    causes = []
    for number, cause in enumerate(result.root_causes):
        group = members[cause.id]
        for place, defect in enumerate(group):
            changed[defect.id] = _defect(defect, folder, draw, attributed=number < 9 and place < 3)
        causes.append(_cause(cause, group, number, draw))
    defects = tuple(changed.get(defect.id, defect) for defect in result.defects)
    return result.model_copy(
        update={
            "defects": defects,
            "root_causes": tuple(causes),
            "earlier_causes": tuple(
                EarlierCause(id=f"rc-00000000000{i}", title=title, size=size, status=status, runs_ago=1 + (status == "back"))
                for i, (title, size, status) in enumerate(
                    (
                        ("seven read as one when it is darker than 0.3", 14, "fixed"),
                        ("four read as nine when rotated by more than 12 degrees", 11, "known"),
                        ("eight read as three under noise", 3, "back"),
                        ("two read as seven behind a patch", 2, None),
                    )
                )
            ),
            "quarantine": (
                FlakyFinding(
                    id="f-4b1de77a0c1e",
                    seed_id="s-1",
                    label=3,
                    oracle="changed_prediction",
                    families=("noise",),
                    seen={"3": 7, "5": 3},
                ),
            ),
            "triage": TriageSummary(
                share=0.25,
                allowed=9000,
                spent=8991,
                minimised=len(defects),
                merged=4,
                attributed=sum(d.attribution is not None for d in defects),
                not_explained=tuple(cause.id for cause in causes[9:]),
                reason="triage's share of the budget was used up" if len(causes) > 9 else None,
            ),
            "feature_map": _map(defects, len(result.classes), draw),
            "margins": _margins(draw),
        }
    )


def hostile_evidence(result: Result, folder: Path, names: tuple[str, ...]) -> Result:
    """The run with every text that explaining brings in replaced by one of ``names``; two pictures have such names as files, too."""

    def pick(i: int) -> str:
        return names[i % len(names)]

    for name in (names[0], names[1], names[5]):  # what a file can be called
        if "/" not in name:
            Image.new("L", (8, 8), 128).save(folder / f"{name}.png")
    defects = tuple(
        defect.model_copy(
            update={
                "oracle": pick(i) if i % 3 == 0 else defect.oracle,
                "also": names,
                "detail": pick(i),
                "type": pick(i + 1),
                "type_reason": pick(i + 2),
                "long_tail_kind": pick(i + 3),
                "baseline": i,
                "files": {**defect.files, "cam_before": f"{pick(i)}.png", "cam": f"{pick(i + 1)}.png", "long_tail": pick(i + 2)},
                "minimal": Minimal(
                    found_recipe=({"operator": pick(i)},), found_severity=1.0, found_area=1.0, area=0.5, model_calls=1, complete=False
                ),
                "attribution": Attribution(
                    neurons=tuple(NeuronEffect(layer=name, neuron=i, effect=0.5, restores=True) for name in names),
                    patched=1,
                    of=2,
                    neurons_reason=pick(i) if i % 2 else None,
                    heat=Heat(
                        method=pick(i), layer=pick(i + 1), overlap=0.5, focus_before=0.5, focus_after=0.5, moved=0.5, where="elsewhere"
                    )
                    if i % 2
                    else None,
                    heat_reason=pick(i),
                ),
            }
        )
        for i, defect in enumerate(result.defects)
    )
    causes = tuple(
        cause.model_copy(
            update={
                "type": pick(i + 1),
                "type_reason": pick(i + 2),
                "range": {pick(i): (0.0, 1.0), pick(i + 1): (-1e300, 1e300)},
                "status": "new",
                "label": i,
                "predicted": i + 1,
                "subgroups": (Subgroup(size=1, example=pick(i + 3)), Subgroup(size=1, example=result.defects[i].id)) if i % 2 else (),
                "subgroups_reason": pick(i),
            }
        )
        for i, cause in enumerate(result.root_causes)
    )
    return result.model_copy(
        update={
            "defects": defects,
            "root_causes": causes,
            "earlier_causes": tuple(EarlierCause(id=name, title=name, size=1, status="fixed") for name in names),
            "quarantine": tuple(
                FlakyFinding(id=name, seed_id=name, label=2, oracle=name, families=names, seen={name: 1, "4": 2, "-1": 3}) for name in names
            ),
            "triage": TriageSummary(share=0.25, allowed=1, spent=2, not_explained=names, reason=pick(1)),
            "feature_map": FeatureMap(
                method=pick(0),
                points=tuple(MapPoint(x=0.5, y=0.5, label=i, defect=name if i % 2 else None) for i, name in enumerate(names)),
            ),
            "margins": tuple(FamilyMargin(family=name, seeds=3, failed=1, severities=(0.5,)) for name in names),
        }
    )


def _cause(cause: RootCause, group: list[Defect], number: int, draw: random.Random) -> RootCause:
    first = group[0]
    kind, reason = _TYPES.get(first.families[0], (None, "Its defects have no heat map to judge by."))
    return cause.model_copy(
        update={
            "type": "numeric" if first.predicted is None else kind,
            "type_reason": reason,
            "oracle": first.oracle,
            "label": first.label,
            "predicted": first.predicted,
            "family": first.family,
            "status": ("known", "new", "new", "back")[number % 4],
            "range": {"angle": (11.6, 17.25)} if "geometry" in first.families else {},
            "explained": min(3, len(group)) if number < 9 else 0,
            "subgroups": (Subgroup(size=len(group) - 1, example=first.id), Subgroup(size=1, example=group[-1].id))
            if len(group) > 3
            else (),
            "subgroups_reason": None if len(group) > 3 else "there are too few defects",
            "grouped": len(group),
            "outside": 1 if len(group) > 4 else 0,
        }
    )


def _defect(defect: Defect, folder: Path, draw: random.Random, *, attributed: bool) -> Defect:
    place = f"defects/{defect.id}"
    files = dict(defect.files)
    (folder / place / "test_defect.py").write_text("def test_defect(): ...\n", encoding="utf-8")
    attribution = None
    if attributed:
        for part, picture in (("cam_before", "original"), ("cam", "mutant")):
            _heat(folder / files[picture], folder / place / f"{part}.png", draw)
            files[part] = f"{place}/{part}.png"
        attribution = Attribution(
            neurons=tuple(
                NeuronEffect(layer=layer, neuron=draw.randrange(44), effect=effect, restores=effect > 0.5)
                for layer, effect in (("features.3", 0.81), ("features.6", 0.34), ("classifier.0", 0.22), ("features.0", -0.04))
            ),
            patched=176,
            of=176,
            heat=Heat(
                method="grad_cam_pp",
                layer="features.6",
                overlap=0.58,
                focus_before=0.12,
                focus_after=0.19,
                moved=0.31,
                where="on_the_change",
            ),
            model_calls=352,
        )
    kind = None
    if draw.random() < 0.3 and defect.predicted is not None:
        kind = draw.choice(_KINDS)
        Image.open(folder / files["mutant"]).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(folder / place / "long_tail.png")
        files["long_tail"] = f"{place}/long_tail.png"
    found: tuple[dict[str, Any], ...] = (*defect.recipe, {"operator": "gaussian_blur", "severity": 0.2, "draw": 1, "parameters": {}})
    return defect.model_copy(
        update={
            "files": files,
            "attribution": attribution,
            "long_tail_kind": kind,
            "neurons": tuple(f"{one.layer}[{one.neuron}]" for one in attribution.neurons) if attribution else (),
            "type": _TYPES.get(defect.families[0], (None,))[0],
            "baseline": defect.label if draw.random() < 0.6 else defect.predicted,
            "minimal": Minimal(
                found_recipe=found,
                found_severity=defect.severity + 0.2,
                found_area=0.91,
                area=0.62,
                model_calls=41,
                complete=draw.random() < 0.8,
            ),
        }
    )


def _heat(source: Path, target: Path, draw: random.Random) -> None:
    picture = np.asarray(Image.open(source).convert("RGB")).astype(float)
    height, width = picture.shape[:2]
    y, x = np.mgrid[0:height, 0:width]
    middle = (draw.uniform(0.3, 0.7) * height, draw.uniform(0.3, 0.7) * width)
    heat = np.exp(-(((y - middle[0]) / (0.22 * height)) ** 2 + ((x - middle[1]) / (0.22 * width)) ** 2))[:, :, None]
    colour = np.concatenate([255 * heat, 90 * heat, 255 * (1 - heat)], axis=2)
    Image.fromarray(np.clip(0.5 * picture + 0.5 * colour, 0, 255).astype(np.uint8)).save(target)


def _map(defects: tuple[Defect, ...], classes: int, draw: random.Random) -> FeatureMap:
    centres = [(draw.uniform(0.1, 0.9), draw.uniform(0.1, 0.9)) for _ in range(classes)]

    def near(label: int, spread: float = 0.045) -> tuple[float, float]:
        x, y = centres[label]
        return min(1.0, max(0.0, draw.gauss(x, spread))), min(1.0, max(0.0, draw.gauss(y, spread)))

    points = [MapPoint(x=x, y=y, label=label) for label in range(classes) for x, y in (near(label) for _ in range(30))]
    for defect in defects:
        if defect.label is not None and defect.predicted is not None:
            x, y = near(draw.choice((defect.label, defect.predicted, defect.predicted)))
            points.append(MapPoint(x=x, y=y, label=defect.label, defect=defect.id))
    return FeatureMap(method="tsne", points=tuple(points))


def _margins(draw: random.Random) -> tuple[FamilyMargin, ...]:
    made = []
    for family, part in (("geometry", 0.31), ("photometry", 0.22), ("noise", 0.12), ("blur", 0.04), ("occlusion", 0.0)):
        failed = round(300 * part)
        severities = tuple(sorted(round(draw.triangular(0.1, 1.0, 0.9), 3) for _ in range(failed)))
        made.append(FamilyMargin(family=family, seeds=300, failed=failed, severities=severities))
    return tuple(made)
