"""Margins by family are those of the robust margin, family by family."""

from __future__ import annotations

import numpy as np
from known_model import Scene, fails_in_the_dark

from gate.campaign.judging import JudgedSeedRows
from gate.domains.image.limits import Domain
from gate.metrics.evidence import Evidence, JudgedSeed
from gate.metrics.judging import robust_margin_p05
from gate.triage.margins import family_margins


def row(seed: int, *mutants: tuple[str, float, bool, bool]) -> JudgedSeedRows:
    operators, severities, valid, failed = zip(*mutants, strict=True)
    fields = {"predicted": (0,) * len(mutants), "confidence": (0.9,) * len(mutants)}
    known = JudgedSeedRows.__dataclass_fields__
    return JudgedSeedRows(
        seed=seed, operators=operators, severities=severities, valid=valid, failed=failed, **{k: v for k, v in fields.items() if k in known}
    )


def family(operator: str) -> str:
    return {"fog": "weather", "rain": "weather", "rotation": "geometry"}[operator]


def test_the_smallest_severity_that_failed_counts_once_for_each_seed_input() -> None:
    rows = [
        row(0, ("fog", 0.8, True, True), ("rain", 0.5, True, True), ("rotation", 0.9, True, False)),
        row(1, ("fog", 0.3, True, True), ("rain", 0.2, True, False), ("rotation", 0.4, True, True)),
        row(2, ("fog", 0.1, True, False), ("rain", 0.1, False, True), ("rotation", 0.6, False, False)),
    ]
    geometry, weather = family_margins(rows, family, 3)
    assert (geometry.family, geometry.seeds, geometry.failed, geometry.severities) == ("geometry", 2, 1, (0.4,))
    assert (weather.family, weather.seeds, weather.failed, weather.severities) == ("weather", 3, 2, (0.3, 0.5))


def test_seed_inputs_whose_mutants_did_not_all_run_are_left_out() -> None:
    assert family_margins([row(0, ("fog", 0.8, True, True))], family, 2) == ()
    assert family_margins([], family, 2) == ()


def test_they_agree_with_the_robust_margin() -> None:
    off = {"jpeg": 100, "webp": 100, "downscale": 1}
    others = {name: part for name, part in Domain().model_dump().items() if name not in ("chain", "photometry")}
    limits = Domain.model_validate({name: {key: off.get(key, 0.0) for key in part} for name, part in others.items()})
    scene = Scene(fails_in_the_dark, executions=400, limits=limits, shares={"judging": 1.0, "random": 0.0, "noise": 0.0})
    scene.campaign.run()
    rows = scene.judging.rows
    margins = family_margins(rows, scene.domain.family, scene.judging.mutants_per_seed)
    assert [one.family for one in margins] == ["photometry"]
    judged = tuple(
        JudgedSeed(
            seed_id=str(one.seed),
            label=0,
            operators=one.operators,
            families=tuple(scene.domain.family(name) for name in one.operators),
            severities=one.severities,
            valid=one.valid,
            failed=one.failed,
            predicted=one.predicted,
        )
        for one in rows
    )
    metric = robust_margin_p05(Evidence(seed=0, classes=(), judged=judged, judging_mutants_per_seed=scene.judging.mutants_per_seed), 0.95)
    (margin,) = margins
    assert margin.failed >= 0.05 * margin.seeds  # so that the percentile is the severity of a real mutant
    stood = np.sort([*margin.severities, *[1.0] * (margin.seeds - margin.failed)])
    assert metric.value == stood[-(-len(stood) * 5 // 100) - 1]
