"""Realistic finished runs with real pictures, as a campaign leaves them: scikit-learn's digits and foolbox's sample pictures."""

from __future__ import annotations

import hashlib
import random
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from explained_sample import explained, hostile_evidence
from PIL import Image, ImageFilter
from weighed_sample import hostile_weights, weighed

from gate.metrics.catalogue import CATALOGUE
from gate.result import (
    ArmSummary,
    CampaignSummary,
    ClassCoverage,
    ControlComparison,
    CoverageSummary,
    CurvePoint,
    DataSetInfo,
    Defect,
    Discovery,
    LayerSummary,
    MarksSummary,
    Metric,
    ModelInfo,
    PolicyInfo,
    PreflightCheck,
    PreviousInfo,
    ProbeOracle,
    ProbesSummary,
    Result,
    RootCause,
    RuleResult,
    Status,
    UniversalMark,
    Unreached,
    Verdict,
    exit_code_of,
)

__all__ = ["DIGITS", "HOSTILE", "hostile_run", "make_run", "with_verdict"]

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_IMAGENET = ("goldfish", "tabby cat", "school bus", "folding chair", "beaker")
_SHA = "sha256:" + hashlib.sha256(b"sample").hexdigest()

HOSTILE = (
    "<script>window.pwned = 1</script>",
    '"><img src=x onerror="window.pwned = 1">',
    "nul\x00esc\x1b[31mred\x07bell",
    "lone\ud800surrogate",
    "line\n::error::stop\r\n##[error]stop",
    "pi|pe `tick` **bold** [link](javascript:alert(1)) https://example.invalid",
    '=HYPERLINK("http://example.invalid")',
    "A" * 10_000,
    "\u202eevil\u202c שלום עולם مرحبا",
    "]]> &amp; {{ 7 * 7 }} {% raw %} \ufffe\uffff 🐈‍⬛",
)

_MORE = (
    "About 2,400 seed inputs (300 so far) would decide it if the value stays: about 64,000 executions (--executions 64000), where there "
    "are seed inputs enough."
)
_OPERATORS = {
    "rotation": "geometry",
    "gaussian_noise": "noise",
    "gaussian_blur": "blur",
    "brightness": "photometry",
    "patch": "occlusion",
}


@cache
def _digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return (x.reshape(-1, 8, 8) * 15.9375).astype(np.uint8), y


@cache
def _photographs() -> tuple[list[Image.Image], list[int]]:
    spec = find_spec("foolbox")  # found, not imported: importing it would import torch
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "data"
    files = sorted(folder.glob("imagenet_*"))[:5]
    return [Image.open(file).convert("RGB") for file in files], list(range(len(files)))


def _mutated(image: Image.Image, operator: str, severity: float, draw: random.Random) -> tuple[Image.Image, dict[str, Any]]:
    array = np.asarray(image).astype(float)
    side = min(image.size)
    if operator == "rotation":
        angle = draw.choice((-15, 15)) * severity
        return image.rotate(angle, Image.Resampling.BILINEAR), {"angle": angle}
    if operator == "gaussian_blur":
        return image.filter(ImageFilter.GaussianBlur(max(0.4, 0.04 * side * severity))), {"sigma": 0.04 * side * severity}
    if operator == "gaussian_noise":
        seed = draw.randrange(2**31)
        array += np.random.default_rng(seed).normal(0, 25.5 * severity, array.shape)
        parameters: dict[str, Any] = {"deviation": 0.1 * severity, "seed": seed}
    elif operator == "brightness":
        array += 0.35 * severity * 255
        parameters = {"added": 0.35 * severity}
    else:
        size = max(2, round(side * 0.25 * severity))
        top, left = draw.randrange(side - size), draw.randrange(side - size)
        array[top : top + size, left : left + size] = 128
        parameters = {"top": top, "left": left, "size": size}
    return Image.fromarray(np.clip(np.rint(array), 0, 255).astype(np.uint8)), parameters


def _defects(folder: Path, number: int, classes: tuple[str, ...], photographs: bool) -> tuple[Defect, ...]:
    draw = random.Random(7)
    made = []
    for i in range(number):
        if photographs:
            images, labels = _photographs()
            image, label = images[i % len(images)], labels[i % len(images)]
        else:
            x, y = _digits()
            row = draw.randrange(len(x))
            image, label = Image.fromarray(x[row]), int(y[row])
        operator = draw.choice(sorted(_OPERATORS))
        second = draw.choice((None, None, "brightness")) if operator != "brightness" else None
        severity = round(draw.uniform(0.3, 1.0) * (0.7 if second else 1.0), 3)
        mutant, parameters = _mutated(image, operator, severity, draw)
        recipe: list[dict[str, Any]] = [{"operator": operator, "severity": severity, "draw": i, "parameters": parameters}]
        if second:
            mutant, parameters = _mutated(mutant, second, 0.25, draw)
            recipe.append({"operator": second, "severity": 0.25, "draw": i, "parameters": parameters})
        families = tuple(sorted({_OPERATORS[step["operator"]] for step in recipe}))
        broken = i % 29 == 28
        predicted = None if broken else (label + draw.choice((1, 1, 1, 5))) % len(classes)
        name = "d-" + hashlib.sha256(f"{i}".encode()).hexdigest()[:12]
        place = folder / "defects" / name
        place.mkdir(parents=True, exist_ok=True)
        difference = np.abs(np.asarray(mutant).astype(int) - np.asarray(image).astype(int)) * 100
        image.save(place / "original.png")
        mutant.save(place / "mutant.png")
        Image.fromarray(np.clip(difference, 0, 255).astype(np.uint8)).save(place / "diff.png")
        oracle = "non_finite" if broken else "changed_prediction"
        cause = f"{oracle}/{label}/{predicted}/{'+'.join(families)}"
        made.append(
            Defect(
                id=name,
                arm="search" if i % 4 else "judging",
                seed_id="s-" + hashlib.sha256(f"seed {i}".encode()).hexdigest()[:12],
                label=label,
                predicted=predicted,
                confidence_before=round(draw.uniform(0.7, 1.0), 4),
                confidence_after=None if broken else round(draw.uniform(0.4, 0.999), 4),
                oracle=oracle,
                operator=recipe[-1]["operator"],
                family="+".join(families),
                families=families,
                natural=True,
                severity=sum(step["severity"] for step in recipe),
                recipe=tuple(recipe),
                root_cause="rc-" + hashlib.sha256(cause.encode()).hexdigest()[:12],
                files={part: f"defects/{name}/{part}.png" for part in ("original", "mutant", "diff")},
            )
        )
    return tuple(made)


def _root_causes(defects: tuple[Defect, ...], classes: tuple[str, ...]) -> tuple[RootCause, ...]:
    groups: dict[str, list[Defect]] = {}
    for defect in defects:
        groups.setdefault(defect.root_cause, []).append(defect)
    made = []
    for name, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        first = group[0]
        became = "an output that is not finite" if first.predicted is None else classes[first.predicted]
        made.append(
            RootCause(
                id=name,
                title=f"{classes[first.label]} becomes {became} under {first.family.replace('+', ' and ')}",
                size=len(group),
                example=first.id,
                repair=f"Add {first.family.replace('+', ' and ')} mutants of {classes[first.label]} to the training data."
                if len(group) > 1
                else None,
            )
        )
    return tuple(made)


def _metric(name: str, value: float | None, lower: float | None = None, upper: float | None = None, **more: Any) -> Metric:
    return Metric(value=value, lower=lower, upper=upper, confidence=None if lower is None else 0.95, unit=CATALOGUE[name].unit, **more)


def _metrics(defects: tuple[Defect, ...], classes: tuple[str, ...]) -> dict[str, Metric]:
    draw = random.Random(3)
    bad = len(defects) > 10
    rate = 0.34 if bad else 0.031
    by_class = {}
    for name in classes:
        value = min(0.95, max(0.01, draw.gauss(rate, rate * 0.6)))
        by_class[name] = _metric("defect_rate", value, max(0.0, value - 0.09), min(1.0, value + 0.11), n=draw.randrange(20, 40))
    by_family = {
        family: _metric("defect_rate", rate * factor, rate * factor * 0.8, min(1.0, rate * factor * 1.25), n=300)
        for family, factor in zip(sorted(set(_OPERATORS.values())), (0.3, 1.1, 1.9, 0.7, 0.4), strict=True)
    }
    measured = {
        "defect_density": _metric("defect_density", 36.4 * len(defects), 30.1 * len(defects), 42.7 * len(defects), n=298)
        if defects
        else _metric("defect_density", 0.0, 0.0, 0.0, n=298),
        "defects_per_1k_executions": _metric("defects_per_1k_executions", len(defects) / 8, len(defects) / 10, len(defects) / 7, n=8000),
        "defect_rate": _metric("defect_rate", rate, rate * 0.855, rate * 1.155, n=300, slices={"class": by_class, "family": by_family}),
        "mutant_failure_rate": _metric("mutant_failure_rate", rate / 4.1, rate / 5, rate / 3.4, n=300),
        "robust_margin_p05": _metric("robust_margin_p05", 0.22, 0.18, 0.27, n=300),
        "coverage_gain": _metric("coverage_gain", 0.213, n=8000),
        "coverage_gain_per_iteration": _metric("coverage_gain_per_iteration", 0.000142, n=1000),
        "long_tail_hit_rate": _metric("long_tail_hit_rate", 0.62, 0.51, 0.72, n=len(defects), extra={"chance": 0.21})
        if bad
        else _metric("long_tail_hit_rate", None, reason="No long-tail set was given; give one with --long-tail."),
        "regression_rate": _metric("regression_rate", 0.08, 0.03, 0.19, n=48)
        if bad
        else _metric("regression_rate", None, reason="No earlier run was given; give one with --previous."),
        "clean_accuracy": _metric("clean_accuracy", 0.968, 0.953, 0.979, n=719),
        "long_tail_accuracy": _metric("long_tail_accuracy", 0.81, 0.76, 0.85, n=240)
        if bad
        else _metric("long_tail_accuracy", None, reason="No long-tail set was given; give one with --long-tail."),
        "root_causes": _metric("root_causes", float(len({d.root_cause for d in defects}))),
        "nonfinite_outputs": _metric("nonfinite_outputs", float(sum(d.predicted is None for d in defects))),
        "preflight_faults": _metric("preflight_faults", 0.0),
        "executions": _metric("executions", 12_000.0),
    }
    missing = {
        name: _metric(name, None, reason="This version of the gate does not measure it.") for name in CATALOGUE if name not in measured
    }
    return {**measured, **missing}


def _rule(id_: str, metric: str, status: Status, metrics: dict[str, Metric], threshold: str, explanation: str, **more: Any) -> RuleResult:
    spec, value = CATALOGUE[metric], metrics[metric]
    fields: dict[str, Any] = {
        "id": id_,
        "metric": metric,
        "kind": spec.kind,
        "status": status,
        "value": value.value,
        "lower": value.lower,
        "upper": value.upper,
        "confidence": value.confidence,
        "unit": spec.unit,
        "threshold": threshold,
        "explanation": explanation,
        "meaning": spec.meaning,
        "next_step": "" if status is Status.PASS else spec.next_step,
    }
    return RuleResult(**{**fields, **more})


def _rules(metrics: dict[str, Metric], verdict: Verdict) -> tuple[RuleResult, ...]:
    failing, unsure = verdict is Verdict.FAIL, verdict is Verdict.INCONCLUSIVE
    worst = max((metrics["defect_rate"].slices["class"]).items(), key=lambda item: item[1].value or 0)
    rules = [
        _rule(
            "defect-rate",
            "defect_rate",
            Status.FAIL if failing else Status.INCONCLUSIVE if unsure else Status.PASS,
            metrics,
            "> 0.20" if failing else "> 0.03" if unsure else "> 0.20",
            "defect_rate is 34.0 % (95 % interval 29.1 to 39.3 %), over the limit of 20 % by 14.0 points."
            if failing
            else "defect_rate is 3.1 % (95 % interval 2.7 to 3.6 %), and the limit of 3 % lies inside that interval."
            if unsure
            else "defect_rate is 3.1 % (95 % interval 2.7 to 3.6 %), within the limit of 20 %.",
            warn="> 0.10",
            **({"next_step": _MORE} if unsure else {}),
        ),
        _rule(
            "weakest-class",
            "defect_rate",
            Status.WARN if failing else Status.PASS,
            metrics,
            "> 0.80",
            f"The weakest class, {worst[0]}, has a defect_rate of {(worst[1].value or 0) * 100:.1f} %; the limit is 80 %.",
            slice=f"class: {worst[0]}",
            value=worst[1].value,
            lower=worst[1].lower,
            upper=worst[1].upper,
            warn="> 0.40",
        ),
        _rule(
            "clean-accuracy",
            "clean_accuracy",
            Status.PASS,
            metrics,
            "< 0.90",
            "clean_accuracy is 96.8 %, above the limit of 90 % by 6.8 points.",
        ),
        _rule(
            "margin",
            "robust_margin_p05",
            Status.WAIVED if failing else Status.PASS,
            metrics,
            "< 0.25" if failing else "< 0.10",
            "robust_margin_p05 is 0.22, under the limit of 0.25 by 0.03."
            if failing
            else "robust_margin_p05 is 0.22, above the limit of 0.10.",
            waiver="known weakness of small digits, until 2027-03-31, owner @vision" if failing else None,
        ),
        _rule("enough-search", "executions", Status.PASS, metrics, "< 1000", "executions is 12,000; at least 1,000 are needed."),
        _rule("coverage-gain", "coverage_gain", Status.PASS, metrics, "< 0.5%", "coverage_gain is 21.3 %, above the limit of 0.5 %."),
        _rule("preflight", "preflight_faults", Status.PASS, metrics, "> 0", "preflight_faults is 0; none is allowed."),
        _rule(
            "long-tail",
            "long_tail_hit_rate",
            Status.PASS if metrics["long_tail_hit_rate"].value else Status.SKIPPED,
            metrics,
            "< 30%",
            "long_tail_hit_rate is 62.0 %, above the limit of 30 %."
            if metrics["long_tail_hit_rate"].value
            else "long_tail_hit_rate was not measured, and the policy skips the rule then.",
        ),
        _rule(
            "regressions",
            "regression_rate",
            Status.PASS if metrics["regression_rate"].value else Status.SKIPPED,
            metrics,
            "> 0.20",
            "regression_rate is 8.0 % (95 % interval 3.0 to 19.0 %), within the limit of 20 %."
            if metrics["regression_rate"].value
            else "regression_rate was not measured, and the policy skips the rule then.",
        ),
    ]
    return tuple(rules)


# criterion -> kind, value of the seeds, of search, random and noise at the end, raw value, items
_MEASURED: dict[str, tuple[str, float, float, float, float, float, int | None]] = {
    "kmnc": ("share", 0.312, 0.525, 0.44, 0.35, 0.561, 17_600),
    "nbc": ("share", 0.0, 0.148, 0.092, 0.12, 0.322, 352),
    "tknc": ("share", 0.71, 0.83, 0.80, 0.78, 0.86, 176),
    "tknp": ("count", 812.0, 4210.0, 1290.0, 1502.0, 5877.0, None),
    "nlc": ("statistic", 14.21, 13.87, 14.02, 14.4, 14.1, None),
    "output": ("share", 0.41, 0.79, 0.66, 0.43, 0.81, 100),
}
_LAYERS = ("features.0", "features.3", "features.6", "classifier.0")


def _curve(points: int = 40) -> tuple[CurvePoint, ...]:
    made = []
    for i in range(points + 1):
        t = i / points
        rise = 1 - (1 - t) ** 3

        def at(end: int, rise: float = rise) -> dict[str, float]:
            return {name: round(values[1] + (values[end] - values[1]) * rise, 5) for name, values in _MEASURED.items()}

        made.append(
            CurvePoint(
                executions=round(12_000 * t), coverage=at(2), random=at(3), noise=at(4), findings=round(900 * t), defects=round(214 * t)
            )
        )
    return tuple(made)


def _coverage(false: bool) -> dict[str, CoverageSummary]:
    made = {}
    for name, (kind, first, last, random_end, noise_end, raw, total) in _MEASURED.items():
        noise_gain = (noise_end - first) if not (false and name == "kmnc") else 0.16
        made[name] = CoverageSummary(
            kind=kind,
            guides=name != "output",
            initial=first,
            final=last,
            gain=last - first,
            gain_per_iteration=(last - first) / 8000,
            raw_final=raw,
            covered=round(last * total) if total else round(last) if kind == "count" else 6904,
            total=total,
            by_layer={
                layer: min(1.0, max(0.0, last + shift)) if kind == "share" else last / 4 + 10 * shift
                for layer, shift in zip(_LAYERS, (0.2, 0.05, -0.08, -0.13), strict=True)
            }
            if name != "output"
            else {},
            nonfinite=3 if name in ("kmnc", "nbc") and false else 0,
            unreached=_unreached(name, last, total),
            random=ControlComparison(executions=1000, gain=random_end - first, search_gain=0.7 * (last - first)),
            noise=ControlComparison(executions=600, gain=noise_gain, search_gain=0.6 * (last - first)),
            false_coverage=noise_gain >= 0.6 * (last - first) and kind != "statistic",
            discovery=None if kind == "statistic" else Discovery(executions=6904, chance=0.0212, seen=None if name == "tknp" else 0.931),
        )
    return made


def _unreached(name: str, last: float, total: int | None) -> tuple[Unreached, ...]:
    if name == "output":
        return tuple(Unreached(place=DIGITS[i], items=6 - i, total=10, examples=("confidence 0.10 to 0.19",)) for i in range(3, 6))
    if name not in ("kmnc", "nbc") or total is None:
        return ()
    part = total // len(_LAYERS)
    words = {"kmnc": "neuron {}: sections 0-31 and 90-99 of 100", "nbc": "neuron {}: below its range"}[name]
    return tuple(
        Unreached(
            place=layer,
            items=min(part, round(part * (1 - last) * factor)),
            total=part,
            untouched=untouched,
            examples=tuple(words.format(3 * i) for i in range(5)),
        )
        for layer, factor, untouched in zip(reversed(_LAYERS), (1.3, 1.1, 0.9, 0.7), (4, 0, 0, 1), strict=True)
    )


def _layers() -> tuple[LayerSummary, ...]:
    kinds = (*("torch.nn.modules.conv.Conv2d",) * 3, "Linear")
    return tuple(
        LayerSummary(name=name, type=kind, neurons=44, low=-2.1034 - i, high=3.4471 + i, constant=(0, 0, 2, 0)[i], head=i == 3)
        for i, (name, kind) in enumerate(zip(_LAYERS, kinds, strict=True))
    )


def _by_class(classes: tuple[str, ...]) -> tuple[ClassCoverage, ...]:
    return tuple(
        ClassCoverage(label=i, executions=700 + 31 * i, valid=640 + 19 * i, new_items=float(97 + 7919 * i % 301), output=0.5 + i % 5 / 10)
        for i in range(len(classes))
    )


def make_run(
    folder: Path,
    verdict: Verdict = Verdict.FAIL,
    defects: int = 60,
    *,
    photographs: bool = False,
    advisory: bool = False,
    partial: bool = False,
    faults: bool = False,
    false_coverage: bool = False,
    shortcut: bool = False,
) -> Result:
    """A finished run with its pictures in ``folder``."""
    classes = _IMAGENET if photographs else DIGITS
    if verdict is Verdict.ERROR:
        return _early_error(advisory)
    found = _defects(folder, defects, classes, photographs)
    if shortcut:
        found = (*found, _probe_defect(folder))
    metrics = _metrics(found, classes)
    if verdict is not Verdict.FAIL:
        metrics["defect_rate"] = _metric("defect_rate", 0.031, 0.027, 0.036, n=300, slices=metrics["defect_rate"].slices)
    rules = _rules(metrics, verdict)
    preflight = [
        PreflightCheck(name="eval_mode", status="ok", seen="All 14 modules are in evaluation mode."),
        PreflightCheck(name="deterministic", status="ok", seen="Five runs of the same 64 inputs gave bit-identical outputs."),
        PreflightCheck(name="batch_independent", status="ok", seen="Outputs differ by at most 2.9e-08 between batches of 1 and 64."),
        PreflightCheck(
            name="output_kind",
            status="note",
            seen="Recognised as logits (rows do not sum to 1).",
            advice="Set output.kind if that is wrong.",
        ),
        PreflightCheck(name="clean_accuracy", status="ok", seen="96.8 % of 719 seed samples are labelled correctly."),
        PreflightCheck(name="seeds", status="ok", seen="696 seed inputs can be used."),
    ]
    if faults:
        preflight[0] = PreflightCheck(
            name="eval_mode",
            status="fault",
            seen="3 modules are in training mode: features.2 (Dropout), features.5 (Dropout), bn1.",
            advice="Call model.eval() before logging the model.",
        )
        preflight[1] = PreflightCheck(
            name="deterministic",
            status="fault",
            seen="The same 64 inputs gave outputs up to 1.4 apart in five runs; 9 predictions changed.",
            advice="Switch dropout off, and fix every source of random numbers in forward.",
        )
    decisive = [rule for rule in rules if rule.status in (Status.FAIL, Status.INCONCLUSIVE)]
    made = Result(
        verdict=verdict,
        exit_code=exit_code_of(verdict, advisory=advisory),
        advisory=advisory,
        partial=partial,
        reasons=tuple(rule.explanation for rule in decisive) or ("All 7 rules that could be judged are met.",),
        next_steps=tuple(dict.fromkeys(rule.next_step for rule in decisive if rule.next_step)),
        candidate=ModelInfo(
            uri="models:/digits@candidate", resolved_uri="models:/digits/2", name="digits", version="2", digest=_SHA, format="pt2"
        ),
        baseline=ModelInfo(
            uri="models:/digits@champion", resolved_uri="models:/digits/1", name="digits", version="1", digest=_SHA, format="pt2"
        ),
        previous=PreviousInfo(
            source="runs:/0f3c2b", verdict=Verdict.FAIL, candidate="models:/digits/1", defects=48, remaining=4, recurring=()
        ),
        policy=PolicyInfo(name="baseline", digest=_SHA, source="baseline", description="For a merge request that changes a model."),
        classes=classes,
        data={
            "seeds": DataSetInfo(source="data/seeds.npz", samples=719, digest=_SHA),
            "long_tail": DataSetInfo(source="data/long-tail.npz", samples=240, digest=_SHA, skipped=2),
        },
        preflight=tuple(preflight),
        campaign=CampaignSummary(
            seed=17,
            executions=12_000,
            model_calls=31_204,
            wall_seconds=214.3,
            device="cpu",
            device_hours=0.0412,
            stop_reason="interrupted" if partial else "executions",
            stalled_for=412,
            valid_fraction=0.874,
            started_at="2026-11-29T14:03:11Z",
            arms={
                "search": ArmSummary(executions=8000, valid=6904, findings=702, defects=len(found) * 3 // 4, model_calls=24_100),
                "judging": ArmSummary(
                    executions=2400, valid=2222, findings=188, defects=len(found) // 4, model_calls=2400, invalid={"contrast": 178}
                ),
                "random": ArmSummary(executions=1000, valid=902, findings=31, model_calls=1000, coverage={"kmnc": 0.44}),
                "noise": ArmSummary(executions=600, valid=460, findings=9, model_calls=600, coverage={"kmnc": 0.35}),
            },
            fingerprint={"torch": "2.14.1", "threads": 2, "micro_batch": 128},
            operators={
                name: {"executions": e, "valid": v, "findings": f, "new_items": n}
                for name, e, v, f, n in (
                    ("rotation", 2204, 2190, 301, 412),
                    ("gaussian_noise", 1810, 1804, 122, 220),
                    ("gaussian_blur", 1311, 1290, 40, 61),
                    ("brightness", 1707, 1200, 88, 97),
                    ("patch", 909, 880, 14, 18),
                    ("fgsm", 120, 120, 60, 12),
                    ("fog", 0, 0, 0, 0),
                )
            },
            invalid={"brightness": {"contrast": 495, "validator": 12}, "rotation": {"chain_severity": 14}},
        ),
        coverage=_coverage(false_coverage),
        layers=_layers(),
        coverage_by_class=_by_class(classes),
        curve=_curve(),
        metrics=metrics,
        rules=rules,
        defects=found,
        root_causes=_root_causes(tuple(defect for defect in found if defect.label is not None), classes),
        universal_marks=_marks(folder) if shortcut else None,
        probes=_probes() if shortcut else None,
        isolation={"process": "own process group", "network": "not restricted"},
        environment={"gate": "0.1.0", "python": "3.11.7", "platform": "Linux x86_64", "packages": {"torch": "2.14.1", "mlflow": "3.17.2"}},
    )
    made = weighed(made)
    return explained(made, folder) if found else made


def _probe_defect(folder: Path) -> Defect:
    """A black picture whose answer was not finite."""
    base = "defects/d-00000000b1ac"
    (folder / base).mkdir(parents=True, exist_ok=True)
    Image.new("L", (8, 8)).save(folder / base / "mutant.png")
    return Defect(
        id="d-00000000b1ac",
        arm="probes",
        seed_id="probe:constant-black",
        label=None,
        predicted=None,
        confidence_before=None,
        confidence_after=None,
        oracle="non_finite",
        operator="probe",
        family="probe_constant",
        families=("probe_constant",),
        natural=False,
        severity=0.0,
        recipe=({"operator": "probe", "parameters": {"name": "constant-black"}},),
        root_cause="rc-00000000b1ac",
        files=dict.fromkeys(("mutant", "mutant_data", "original_data"), f"{base}/mutant.png"),
    )


def _marks(folder: Path) -> MarksSummary:
    """A square that says seven, and a frame that does not say much."""
    (folder / "marks").mkdir(parents=True, exist_ok=True)
    marked = {}
    for name in ("mark", "before_1", "after_1", "before_2", "after_2"):
        picture = np.full((8, 8), 128 if name == "mark" else 40, np.uint8)
        if not name.startswith("before"):
            picture[6:, 6:] = 255
        Image.fromarray(picture).save(folder / "marks" / f"{name}.png")
        marked[name] = f"marks/{name}.png"
    plain: dict[str, Any] = {"inputs": 60, "confidence": 0.95, "files": marked}
    return MarksSummary(
        searched=16,
        held_out=60,
        starts=23,
        improved=((11, 4), (4, 11)),
        model_calls=7299,
        marks=(
            UniversalMark(kind="patch", label=7, moved=58, rate=58 / 60, lower=0.87, upper=0.99, outlier=4.2, shortcut=True, **plain),
            UniversalMark(kind="border", label=1, moved=9, rate=9 / 60, lower=0.07, upper=0.3, outlier=0.4, shortcut=False, **plain),
        ),
        by_class={"patch": tuple(0.9 if label == 7 else 0.02 * label for label in range(10))},
    )


def _probes() -> ProbesSummary:
    return ProbesSummary(
        offered=90,
        run=90,
        oracles={
            "non_finite": ProbeOracle(tried=90, findings=1, example="constant-black", picture="defects/d-00000000b1ac/mutant.png"),
            "unjustified_confidence": ProbeOracle(tried=15, findings=0, worst=0.71),
            "batch_dependence": ProbeOracle(tried=90, findings=0, worst=4.7e-07),
        },
        untaken=("float64",),
    )


def _early_error(advisory: bool) -> Result:
    return Result(
        verdict=Verdict.ERROR,
        exit_code=exit_code_of(Verdict.ERROR, advisory=advisory),
        advisory=advisory,
        reasons=("The model file can't be loaded: data/model.pth is cut short (1,204 of 88,310 bytes).",),
        next_steps=("Log the model again and register it as a new version.",),
        candidate=ModelInfo(
            uri="models:/digits/4", resolved_uri="models:/digits/4", name="digits", version="4", digest=_SHA, format="pickle"
        ),
    )


def with_verdict(folder: Path, verdict: Verdict, *, advisory: bool = False) -> Result:
    """The smallest of these runs that has a verdict and a few defects."""
    return make_run(folder, verdict, 3, advisory=advisory)


def hostile_run(folder: Path) -> Result:
    """A run in which every name that comes from outside is one of ``HOSTILE``."""
    base = make_run(folder, Verdict.FAIL, 12)
    names = HOSTILE

    def pick(i: int) -> str:
        return names[i % len(names)]

    made = base.model_copy(
        update={
            "classes": names,
            "candidate": ModelInfo(uri=pick(0), resolved_uri=pick(4), name=pick(1), version=pick(8), digest=pick(2), format=pick(5)),
            "policy": PolicyInfo(name=pick(5), digest=pick(3), source=pick(6), description=pick(9), criterion=pick(2)),
            "reasons": names,
            "next_steps": names,
            "data": {pick(i): DataSetInfo(source=pick(i + 1), samples=1, digest=pick(i + 2)) for i in range(3)},
            "preflight": tuple(PreflightCheck(name=name, status="fault", seen=name, advice=name) for name in names),
            "metrics": {**base.metrics, **{name: Metric(value=0.5, unit=name, lower=0.4, upper=0.6) for name in names}},
            "coverage": {
                name: summary.model_copy(
                    update={
                        "by_layer": dict.fromkeys(names, 0.5),
                        "false_coverage": True,
                        "unreached": tuple(Unreached(place=each, items=1, total=2, examples=(each,)) for each in names),
                    }
                )
                for name, summary in zip(names, [*base.coverage.values()] * 2, strict=False)
            },
            "layers": tuple(LayerSummary(name=name, type=name, neurons=1, head=True) for name in names),
            "coverage_by_class": tuple(ClassCoverage(label=i, executions=1, valid=1, new_items=1.0) for i in range(len(names))),
            "curve": tuple(CurvePoint(executions=e, coverage=dict.fromkeys(names, e / 10), findings=0, defects=0) for e in (0, 5, 10)),
            "rules": tuple(
                base.rules[0].model_copy(
                    update={
                        "id": name,
                        "metric": name,
                        "slice": name,
                        "explanation": name,
                        "next_step": name,
                        "meaning": name,
                        "waiver": name,
                        "threshold": name,
                        "unit": name,
                        "status": status,
                    }
                )
                for name, status in zip(names, list(Status) * 2, strict=False)
            ),
            "defects": tuple(
                d.model_copy(
                    update={
                        "id": pick(i),
                        "label": i % len(names),
                        "predicted": (i + 1) % len(names),
                        "family": pick(i),
                        "operator": pick(i + 1),
                        "seed_id": pick(i + 2),
                        "root_cause": pick(i + 3),
                        "arm": pick(i + 4),
                        "recipe": ({"operator": pick(i), "severity": 0.5, "parameters": {pick(i): pick(i + 1), "nan": float("nan")}},),
                    }
                )
                for i, d in enumerate(base.defects)
            ),
            "root_causes": tuple(RootCause(id=name, title=name, size=2, example=name, repair=name) for name in names),
            "campaign": base.campaign.model_copy(
                update={
                    "device": pick(1),
                    "stop_reason": pick(4),
                    "started_at": pick(2),
                    "operators": {name: {"executions": 1.0} for name in names},
                    "arms": {name: ArmSummary(executions=1, valid=1) for name in names},
                    "fingerprint": {pick(0): pick(4)},
                }
            )
            if base.campaign
            else None,
            "environment": {name: {name: [name]} for name in names},
            "isolation": {pick(2): pick(3)},
        }
    )
    return hostile_weights(hostile_evidence(made, folder, names), names)
