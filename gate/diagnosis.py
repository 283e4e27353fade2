"""Why coverage does not rise: reasons that a finished run's own record gives, the most telling first. What ``gate doctor --run`` says.

Every cause is a rule over numbers in the record. Its weight says how much of the trouble it explains, from 0 to 1: a threshold that no
neuron can reach explains all of it, a handful of dead neurons next to nothing. The weights order the causes and are no probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gate.config import CoverageSettings
from gate.coverage.listing import listed
from gate.report.coverage import not_filled_by_noise
from gate.report.numbers import count, points, roughly, share
from gate.report.words import stop_reason_in_words
from gate.result import ArmSummary, CoverageSummary, CurvePoint, LayerSummary, Result

__all__ = ["SCHEMA", "Cause", "Course", "Diagnosis", "RunFacts", "diagnose", "read_run"]

SCHEMA = "gate.doctor/1"
FEW_EXECUTIONS = 1_000  # of the search: fewer say little about whether coverage rises
FEW_PROFILE_SAMPLES = 200  # fewer leave ranges narrower than clean data would fill
FEW_SEEDS = 20
FEW_COMPARED = 100  # executions of a control: fewer compare by luck
FULL = 0.99  # a share of this much from the start leaves nothing to rise
_LINE = 1 << 20  # characters of one event that are read; more is no event that matters here


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run."""

    result: Result
    settings: CoverageSettings | None = None  # None where the folder does not say
    gradients: bool | None = None  # whether the answer can be differentiated by the input
    steerable: bool | None = None  # whether a guiding criterion can say which way a neuron has to move


@dataclass(frozen=True)
class Course:
    """How one criterion's coverage went."""

    criterion: str
    rises: bool  # it gained something, and still did in the last quarter of the campaign
    said: str  # in words


@dataclass(frozen=True)
class Cause:
    """One reason why coverage does not rise, or means less than it seems to."""

    kind: str
    weight: float  # 0 to 1, see above
    what: str
    evidence: str
    advice: str


@dataclass(frozen=True)
class Diagnosis:
    """The answer; causes with the heaviest first."""

    courses: tuple[Course, ...]
    causes: tuple[Cause, ...]

    @property
    def rises(self) -> bool:
        """Whether the coverage of every criterion rises."""
        return bool(self.courses) and all(course.rises for course in self.courses)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "schema": SCHEMA,
            "rises": self.rises,
            "courses": [asdict(course) for course in self.courses],
            "causes": [asdict(cause) for cause in self.causes],
        }


def read_run(folder: Path) -> RunFacts:
    """What a run's folder says about its coverage.

    Raises:
        OutputError: it holds no finished run.
    """
    result = Result.load(folder)
    settings = None
    try:
        said = json.loads((folder / "campaign" / "identity.json").read_bytes())
        settings = CoverageSettings.model_validate_json(json.dumps(said["settings"]["coverage"]))
    except (OSError, ValueError, KeyError, TypeError, ValidationError, RecursionError):
        pass  # a record without its campaign, as one that was downloaded alone
    watched = next((event for event in _events(folder / "events.jsonl") if event.get("event") == "layers"), {})
    gradients, steerable = (watched.get(key) if isinstance(watched.get(key), bool) else None for key in ("gradients", "steerable"))
    return RunFacts(result, settings, gradients, steerable)


def diagnose(facts: RunFacts) -> Diagnosis:
    """Works out the courses of all criteria and the causes that the record speaks for."""
    result = facts.result
    courses = tuple(_course(name, summary, result.curve) for name, summary in result.coverage.items())
    causes = [cause for rule in _RULES for cause in rule(facts)]
    return Diagnosis(courses, tuple(sorted(causes, key=lambda cause: -cause.weight)))


def _course(name: str, summary: CoverageSummary, curve: Sequence[CurvePoint]) -> Course:
    written = share if summary.kind == "share" else (count if summary.kind == "count" else "{:.4g}".format)
    change = points(summary.gain) if summary.kind == "share" else written(summary.gain)
    ends = f"{written(summary.initial)} by the seeds, {written(summary.final)} in the end"
    if summary.gain <= 0:
        return Course(name, False, f"{'did not rise' if summary.gain == 0 else 'fell'}: {ends}")
    last = curve[-1].executions if curve else 0
    earlier = [point.coverage[name] for point in curve if point.executions <= 0.75 * last and name in point.coverage]
    if earlier and earlier[-1] >= summary.final:
        when = next(point.executions for point in curve if point.coverage.get(name, 0.0) >= summary.final)
        return Course(name, False, f"rose by {change} and stopped after {count(when)} of {count(last)} executions: {ends}")
    return Course(name, True, f"rises, by {change} so far: {ends}")


# Each rule yields the causes that it finds.


def _nothing_ran(facts: RunFacts) -> Iterator[Cause]:
    result = facts.result
    search = _search(result)
    if search is None or search.executions == 0:
        why = " ".join(result.reasons[:1]) or "The record gives no reason."
        advice = (
            result.next_steps[0]
            if result.next_steps
            else "Remove what stopped the run, or give it a larger budget (--budget, --executions)."
        )
        yield Cause("nothing_ran", 1.0, "The search ran nothing.", why, advice)
    elif search.executions < FEW_EXECUTIONS:
        # A handful explains everything, nearly enough explains nearly nothing.
        weight = 0.9 if search.executions < 50 else 0.5 * (1 - search.executions / FEW_EXECUTIONS) + 0.05
        assert result.campaign is not None  # it has the arm
        yield Cause(
            "few_executions",
            weight,
            "The search was short.",
            f"{count(search.executions)} search executions; the campaign ended because {stop_reason_in_words(result.campaign)}.",
            "Wait longer for something new (coverage.stall), or give more seeds: a larger budget alone changes nothing."
            if result.campaign.stop_reason == "saturated"
            else "Give a larger budget (--budget, --executions), or a smaller share to the other arms in the policy.",
        )


def _few_valid(facts: RunFacts) -> Iterator[Cause]:
    result = facts.result
    search = _search(result)
    if search is None or not search.executions:
        return
    valid = search.valid / search.executions
    if valid >= 0.3:
        return
    operators = result.campaign.operators if result.campaign is not None else {}
    shares = {name: said["valid"] / said["executions"] for name, said in operators.items() if said.get("executions", 0) >= 10}
    worst = sorted(shares, key=lambda name: (shares[name], name))[:3]
    named = f" Least often valid: {', '.join(f'{name} ({roughly(shares[name])})' for name in worst)}." if worst else ""
    yield Cause(
        "few_valid",
        0.96 if valid < 0.05 else 0.8 if valid < 0.15 else 0.45,
        "Few mutants are valid, and only valid ones earn coverage.",
        f"{count(search.valid)} of {count(search.executions)} search mutants ({roughly(valid)}) were within the policy's limits.{named}",
        "Look whether the limits of the policy's `domain` (SSIM, changed share, photometry …) suit these pictures; see `gate policy show`.",
    )


def _complete(facts: RunFacts) -> Iterator[Cause]:
    full = [name for name, said in facts.result.coverage.items() if said.kind == "share" and said.initial >= FULL]
    if full:
        values = ", ".join(f"{name} {share(facts.result.coverage[name].initial)}" for name in full)
        yield Cause(
            "complete",
            0.94 * _part(full, facts),
            "Nothing was left to cover: the seeds alone cover all of it.",
            f"Coverage by the seeds: {values}.",
            "Measure something finer, such as kmnc (coverage.kmnc_sections), nbc, or tknc with a smaller k; for nc a higher threshold.",
        )


def _unreachable_threshold(facts: RunFacts) -> Iterator[Cause]:
    settings, ranged = facts.settings, _ranged(facts.result)
    if settings is None or not ranged:
        return
    fixed = []
    if "nc" in settings.criteria and settings.nc_scale == "none":
        fixed.append(("nc", "nc_threshold", settings.nc_threshold, "use nc_scale: layer"))
    if "map" in settings.criteria:
        fixed.append(("map", "map_threshold", settings.map_threshold, "see the ranges with `gate layers`"))
    for name, bounds in (("nbc", settings.nbc_bounds), ("snac", settings.snac_bounds)):
        if name in settings.criteria and bounds is not None:
            fixed.append((name, f"{name}_bounds", bounds[1], f"leave {name}_bounds out, so that each neuron has its own range"))
    for name, option, threshold, otherwise in fixed:
        summary = facts.result.coverage.get(name)
        never = [layer for layer, _, high in ranged if high <= threshold]
        if not never or (summary is not None and summary.gain > 0 and len(never) < len(ranged)):
            continue
        highest = max(high for layer, _, high in ranged if layer in never)
        lowest_high = min(high for _, _, high in ranged)
        part = sum(layer.neurons for layer in never) / sum(layer.neurons for layer, _, _ in ranged)
        yield Cause(
            "threshold_above_all",
            0.98 * part * _part([name], facts),
            f"The fixed threshold of {name} lies above every output of {_layers(never)}.",
            f"coverage.{option} is {threshold:g}; the highest output over the profile set is {highest:.4g}.",
            f"In place of it {otherwise}, or set it below {lowest_high:.3g}; `gate layers` names a threshold that works.",
        )


def _starved_ranges(facts: RunFacts) -> Iterator[Cause]:
    result, settings = facts.result, facts.settings
    ranged = [name for name in ("kmnc", "nbc", "snac") if name in result.coverage and not _has_bounds(settings, name)]
    data = result.data.get("profile") or result.data.get("seeds")
    if not ranged or data is None or data.samples >= FEW_PROFILE_SAMPLES:
        return
    beyond = max((result.coverage[name].final for name in ("nbc", "snac") if name in ranged), default=None)
    weight = 0.88 if data.samples < 10 else 0.6 if data.samples < 50 else 0.25
    if beyond is not None and beyond < 0.1:
        weight /= 2  # hardly anything left those ranges, so they are not what is wrong
    told = (
        "" if beyond is None else f" {share(beyond)} of what lies beyond the ranges was reached: they are narrower than ordinary outputs."
    )
    starved = " What lies out of range counts for no section of kmnc." if "kmnc" in ranged else ""
    yield Cause(
        "few_profile_samples",
        weight,
        "The neurons' ranges come from few samples" + (", so boundary coverage jumps at once." if beyond and beyond >= 0.1 else "."),
        f"{count(data.samples)} samples in the {'profile set' if 'profile' in result.data else 'seeds'}.{told if beyond else ''}{starved}",
        f"Give a profile set of at least {FEW_PROFILE_SAMPLES} clean samples (--profile), better thousands, as of the training set.",
    )


def _dead_neurons(facts: RunFacts) -> Iterator[Cause]:
    layers = facts.result.layers
    constant, neurons = sum(layer.constant for layer in layers), sum(layer.neurons for layer in layers)
    if constant:
        part = constant / neurons
        worst = sorted((layer for layer in layers if layer.constant), key=lambda layer: -layer.constant / layer.neurons)[:3]
        named = ", ".join(f"{layer.name} {layer.constant} of {layer.neurons}" for layer in worst)
        yield Cause(
            "constant_neurons",
            0.95 * part if part >= 0.5 else 0.5 * part + 0.05,
            "Watched neurons never vary.",
            f"{count(constant)} of {count(neurons)} neurons ({roughly(part)}) gave one and the same output over the profile set: {named}.",
            "Watch other layers (`gate layers` shows ranges). Neurons that died in training don't come back to life by fuzzing.",
        )


def _head_watched(facts: RunFacts) -> Iterator[Cause]:
    layers = facts.result.layers
    heads = [layer for layer in layers if layer.head]
    if heads:
        part = sum(layer.neurons for layer in heads) / sum(layer.neurons for layer in layers)
        yield Cause(
            "head_watched",
            0.85 * part if len(heads) == len(layers) else 0.5 * part + 0.05,
            "What is watched is the model's answer, which has little more to show than which class was predicted.",
            f"{roughly(part)} of the watched neurons are the classifier head's: {_layers(heads)}.",
            "Watch hidden layers: coverage.layers: auto, or others of `gate layers`.",
        )


def _stalled(facts: RunFacts) -> Iterator[Cause]:
    result = facts.result
    campaign, search = result.campaign, _search(result)
    if campaign is None or search is None or not search.executions:
        return
    limit = facts.settings.stall if facts.settings is not None else CoverageSettings().stall
    estimates = {name: said.discovery for name, said in result.coverage.items() if said.guides and said.discovery is not None}
    seen = min((one.seen for one in estimates.values() if one.seen is not None), default=None)
    chance = max((one.chance for one in estimates.values()), default=None)
    quiet = campaign.stalled_for / search.executions
    if not (campaign.stop_reason == "saturated" or campaign.stalled_for >= limit or (search.executions >= 100 and quiet >= 0.5)):
        return
    told = f"Nothing new in the last {count(campaign.stalled_for)} of {count(search.executions)} search executions."
    if chance is not None:
        told += f" The chance that the next one covers something new is estimated at {roughly(chance)}"
        told += "." if seen is None else f", and {roughly(seen)} of what this search will reach is reached."
    yield Cause(
        "stalled",
        0.7 if search.executions >= FEW_EXECUTIONS else 0.5,
        "The search has stalled: it has found what it can find.",
        told,
        "More budget won't help. More and other seeds, more operators or wider limits in the policy's `domain` will; or a finer criterion.",
    )


def _no_gradients(facts: RunFacts) -> Iterator[Cause]:
    if facts.gradients is False:
        yield Cause(
            "no_gradients",
            0.5,
            "The search could not use gradients.",
            "The model's answer does not depend on its input in a way that can be differentiated.",
            "Remove rounding, argmax, detach() or torch.no_grad() inside the model's forward pass.",
        )
    elif facts.steerable is False:
        guides = ", ".join(name for name, said in facts.result.coverage.items() if said.guides)
        yield Cause(
            "not_steerable",
            0.3,
            "No guiding criterion can steer a gradient.",
            f"The search follows {guides}, which does not say which way a neuron has to move.",
            "Let nc, kmnc, nbc, snac or tknc guide, too (coverage.criteria, coverage.guide).",
        )


def _guidance(facts: RunFacts) -> Iterator[Cause]:
    idle = {
        name: said.random
        for name, said in facts.result.coverage.items()
        if said.guides and said.random is not None and said.random.gain > 0 and said.random.gain >= said.random.search_gain
    }
    if idle:
        told = "; ".join(
            f"{name}: {_amount(one.gain, facts, name)} by random mutants, {_amount(one.search_gain, facts, name)} by the search, "
            f"after {count(one.executions)} executions each"
            for name, one in idle.items()
        )
        yield Cause(
            "guidance_earned_nothing",
            0.55 * _part(list(idle), facts),
            "Guidance earned nothing: random mutants gained as much.",
            f"{told}.",
            "Guide by another criterion (coverage.guide), or watch layers that say more; a longer run tells guidance from luck.",
        )


def _false_coverage(facts: RunFacts) -> Iterator[Cause]:
    false = {name: said.noise for name, said in facts.result.coverage.items() if said.false_coverage and said.noise is not None}
    if false:
        told = "; ".join(
            f"{name}: {_amount(one.gain, facts, name)} by noise, {_amount(one.search_gain, facts, name)} by the search"
            for name, one in false.items()
        )
        compared = max(one.executions for one in false.values())
        few = f" That is after {count(compared)} executions each: a longer run tells it from luck." if compared < FEW_COMPARED else ""
        sound = not_filled_by_noise(facts.result.coverage)
        instead = (
            f"Report {' or '.join(sound)}, which noise did not fill here (criterion in the policy); or" if sound else "Where it stays so,"
        )
        yield Cause(
            "false_coverage",
            0.52 * _part(list(false), facts),
            f"False coverage: uniform noise gained as much as the search, so this gain of {listed(list(false), 3)} is no evidence.",
            f"{told}.{few}",
            f"{instead} watch deeper layers (coverage.layers), or measure the ranges on more samples (data.profile).",
        )


def _nonfinite(facts: RunFacts) -> Iterator[Cause]:
    neurons = sum(layer.neurons for layer in facts.result.layers)
    worst = max((said.nonfinite for said in facts.result.coverage.values()), default=0)
    if worst:
        part = min(1.0, worst / neurons) if neurons else 0.0
        yield Cause(
            "nonfinite_neurons",
            0.3 + 0.6 * part,
            "Neurons gave NaN or infinite outputs, which cover nothing.",
            f"{count(worst)} of {count(neurons)} watched neurons ({roughly(part)})." if neurons else f"{count(worst)} watched neurons.",
            "Look for overflow (half precision?) or division by zero in the model, and at the input's scale, mean and std.",
        )


def _statistics(facts: RunFacts) -> Iterator[Cause]:
    falling = [name for name, said in facts.result.coverage.items() if said.kind == "statistic" and said.gain <= 0]
    if falling:
        yield Cause(
            "statistic",
            0.6 * _part(falling, facts),
            f"{' and '.join(falling)} is a statistic of everything seen, no set of items: it may fall as well as rise.",
            "; ".join(
                f"{name}: {facts.result.coverage[name].initial:.4g}, then {facts.result.coverage[name].final:.4g}" for name in falling
            )
            + ".",
            "Judge progress by a criterion that counts items (kmnc, nbc, tknc, output), and keep this one beside it.",
        )


def _few_seeds(facts: RunFacts) -> Iterator[Cause]:
    data = facts.result.data.get("seeds")
    if data is not None and data.samples < FEW_SEEDS:
        yield Cause(
            "few_seeds",
            0.4,
            "There are few seed inputs, so mutants stay near the same few pictures.",
            f"{count(data.samples)} samples in the seeds.",
            "Give more seeds, from every class.",
        )


def _preflight(facts: RunFacts) -> Iterator[Cause]:
    for check in facts.result.preflight:
        if check.status == "fault" and check.name in ("eval_mode", "deterministic", "batch_independent"):
            yield Cause(
                "unsteady_model",
                0.35,
                "The model's outputs depend on more than its input, so coverage counts chance, too.",
                f"{check.name}: {check.seen}",
                check.advice or "Log the model in evaluation mode.",
            )


_RULES: tuple[Callable[[RunFacts], Iterator[Cause]], ...] = (
    _nothing_ran,
    _unreachable_threshold,
    _few_valid,
    _complete,
    _dead_neurons,
    _starved_ranges,
    _head_watched,
    _nonfinite,
    _stalled,
    _statistics,
    _guidance,
    _false_coverage,
    _no_gradients,
    _few_seeds,
    _preflight,
)


def _search(result: Result) -> ArmSummary | None:
    return None if result.campaign is None else result.campaign.arms.get("search")


def _ranged(result: Result) -> list[tuple[LayerSummary, float, float]]:
    """(layer, lowest, highest output) of the layers that gave any finite output."""
    return [(layer, layer.low, layer.high) for layer in result.layers if layer.low is not None and layer.high is not None]


def _part(names: Sequence[str], facts: RunFacts) -> float:
    """How much of the trouble lies with these criteria: those that rise all the same need no explanation."""
    flat = [name for name, said in facts.result.coverage.items() if said.gain <= 0]
    concerned = flat or list(facts.result.coverage)
    return max(0.4, len([name for name in names if name in concerned]) / max(1, len(concerned)))


def _has_bounds(settings: CoverageSettings | None, name: str) -> bool:
    return settings is not None and getattr(settings, f"{name}_bounds", None) is not None


def _amount(gain: float, facts: RunFacts, name: str) -> str:
    return points(gain) if facts.result.coverage[name].kind == "share" else f"{gain:.4g}"


def _layers(layers: Sequence[LayerSummary]) -> str:
    return listed([layer.name for layer in layers], 3)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a run, one by one; what is no event is passed over, as the last line of a run that was killed."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            while line := stream.readline(_LINE):
                try:
                    event = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(event, dict):
                    yield event
    except OSError:
        return
