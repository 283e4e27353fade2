"""A policy in plain words, as it is in force after ``extends``: for ``gate policy show``."""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Iterator

from gate.metrics.catalogue import CATALOGUE
from gate.policy import wording
from gate.policy.load import LoadedPolicy
from gate.policy.merged import origin_of_rule
from gate.policy.oracle_words import oracles_in_words
from gate.policy.schema import Policy, Rule, Waiver

__all__ = ["describe"]

_WIDTH = 100
_AGGREGATES = {"any": "any of the answers", "majority": "more than half of the answers", "all": "all of the answers"}
_ENDS = {"crashes": "raises an exception", "nonfinite_outputs": "answers with what is not a number"}
_BREACH = {"fail": "the run fails", "inconclusive": "the verdict is inconclusive"}
_MISSING = {"inconclusive": "the verdict is inconclusive", "skip": "the rule is skipped", "fail": "the run fails"}


def describe(loaded: LoadedPolicy, *, today: datetime.date) -> str:
    """Text in several paragraphs, ending in a newline; each rule says which file it comes from. ``today`` decides about waivers."""
    policy = loaded.policy
    lines = [f"{policy.name}  ({loaded.info.source}, {loaded.info.digest[:19]}…)"]
    lines += _wrapped(policy.description, "") if policy.description else []
    lines += ["", "How the budget is spent", *(line for text in _effort(policy) for line in _wrapped(text, "  "))]
    for kind, title in (("quality", "Rules about the model"), ("adequacy", "Rules about the evidence")):
        rules = [rule for rule in policy.rules if rule.kind == kind]
        if rules:
            lines += ["", title]
            for rule in rules:
                lines += [f"  {rule.id}", *(line for text in _rule(rule) for line in _wrapped(text, "    "))]
                lines += _wrapped(_origin(loaded, rule), "    ")
    lines += ["", "How the verdict comes about", *(line for text in _verdict(policy) for line in _wrapped(text, "  "))]
    if policy.waivers:
        lines += ["", f"Waivers, as of {today}", *(line for waiver in policy.waivers for line in _wrapped(_waiver(waiver, today), "  "))]
    lines += ["", "What counts as a finding", *(line for text in oracles_in_words(policy.oracles) for line in _wrapped(text, "  "))]
    lines += ["", "What a person would still label the same (severity 1 of each change)"]
    for family, limits in policy.domain.model_dump().items():
        shown = ", ".join(f"{name.replace('_', ' ')} {_limit(value)}" for name, value in limits.items())
        lines += _wrapped(f"{family.replace('_', ' ')}: {shown}", "  ")
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()), _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _effort(policy: Policy) -> Iterator[str]:
    arms = policy.arms
    yield (
        f"{arms.search:.0%} of the mutants search for defects, {arms.judging:.0%} are drawn blindly and give the rates "
        f"({policy.judging.mutants_per_seed} for each seed input), {arms.random:.0%} are random and {arms.noise:.0%} noise, for comparison."
    )
    yield f"At most {arms.probes:.0%} are probes, which show nothing real, and at most {arms.marks:.0%} look for universal marks."
    if arms.canaries:
        yield (
            f"{arms.canaries:.0%} are searches for faults that the gate plants in the model on purpose, for a while (canaries): how many "
            "of them are found says how much it is worth where the search finds nothing."
        )
    if policy.judging.repeat > 1:
        yield (
            f"The model may be noisy: each drawn mutant is answered {policy.judging.repeat} times, and counts as failing where "
            f"{_AGGREGATES[policy.judging.aggregate]} fail."
        )
    budget = policy.budget
    if budget is not None:
        parts = [f"{budget.executions:,} mutants"] if budget.executions else []
        parts += [f"{seconds:g} s {what}" for seconds, what in ((budget.wall, "in all"), (budget.device, "on the device")) if seconds]
        last = ", whichever ends first" if len(parts) > 1 else ""
        yield f"Where the user gives no budget: {' or '.join(parts)}{last}."
    watched = policy.coverage
    if watched is not None:
        followed = f"follows {_listed(watched.guide)}" if watched.guide is not None else "follows all of them"
        yield f"Where the user names no criteria, coverage is measured by {_listed(watched.criteria)}, and the search {followed}."
    if policy.positive:
        yield f"Classes that must not be missed: {', '.join(map(wording.name_of, policy.positive))}."
    yield f"The coverage reported is {policy.criterion or 'that of the first criterion measured that has a share'}."


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _rule(rule: Rule) -> Iterator[str]:
    spec = CATALOGUE[rule.metric]
    yield spec.meaning
    where = f" in the worst {rule.slice.by.replace('_', ' ')}" if rule.slice else ""
    if rule.fail is not None:
        yield f"If {rule.metric}{where} is {wording.breach(rule.fail, spec)}, {_BREACH[rule.on_breach]}."
    if rule.warn is not None:
        yield f"If {rule.metric}{where} is {wording.breach(rule.warn, spec)}, the report warns."
    if rule.confidence is not None and (rule.fail is not None or rule.compare is not None):
        yield f"Decided on the whole {rule.confidence * 100:.12g} % interval; where the limit lies inside it, the verdict is inconclusive."
    if rule.min_samples is not None:
        short = "slices with fewer are left out" if rule.slice else "with fewer the verdict is inconclusive"
        yield f"Needs at least {rule.min_samples:,} samples; {short}."
    if rule.compare is not None:
        subject = "It" if rule.fail is not None or rule.warn is not None else f"{rule.metric}{where}"
        yield f"{subject} {wording.comparison(rule.compare, spec)}, measured on the same inputs; else {_BREACH[rule.on_breach]}."
    if rule.kind == "quality" and rule.fail is not None and rule.known == "count":
        yield "Failures that the baseline has too count like any others."
    yield f"Where it can't be computed, {_MISSING[rule.on_missing]}."


def _origin(loaded: LoadedPolicy, rule: Rule) -> str:
    """Which files have set what of a rule."""
    set_by: dict[str, list[str]] = {}
    for key, place in origin_of_rule(loaded, rule.id).items():
        if key != "id":
            set_by.setdefault(place.rpartition(":")[0], []).append(key.replace("_", " "))
    last = loaded.place("rules", rule.id, "id")
    if len(set_by) < 2:
        return f"From {last}."
    return f"From {'; '.join(f'{source} ({_listed(tuple(keys))})' for source, keys in set_by.items())}; last named in {last}."


def _verdict(policy: Policy) -> Iterator[str]:
    """What decides between the rules, and when."""
    yield "The worst of the rules decides: a rule that fails blocks the model; one that stays open leaves the verdict inconclusive."
    weighed = [rule for rule in policy.rules if rule.confidence is not None and (rule.fail is not None or rule.compare is not None)]
    if len(weighed) > 1 or any(rule.slice is not None for rule in weighed):
        yield (
            f"{len(weighed)} rules are decided on intervals, and those with slices in each slice. So many looks would make a breach out of "
            "chance now and then; a breach therefore has to stand once they are all allowed for (Holm's method), and a model that meets "
            f"every limit is blocked by chance in at most {_percent(1 - min(rule.confidence or 0 for rule in weighed))} of runs."
        )
    excused = [rule for rule in policy.rules if rule.known == "excuse" and rule.kind == "quality" and rule.fail is not None]
    if excused:
        yield (
            "Failures that the baseline has too, on the same inputs, do not block: a rule that would hold without them warns. Where no "
            "baseline is given, all failures count."
        )
    if policy.decide == "early":
        yield (
            "The campaign may stop as soon as every rule about the model is settled and every rule about the evidence is met. Its "
            "intervals are wider for that, so that looking often makes no error more likely."
        )
    else:
        yield "The campaign uses its whole budget, and is judged once, at the end."
    if policy.abort_on:
        ends = " or ".join(_ENDS[name] for name in policy.abort_on)
        yield f"The campaign ends with the first confirmed input on which the model {ends}; such a run never passes."


def _percent(share: float) -> str:
    return f"{share * 100:.6g} %"


def _waiver(waiver: Waiver, today: datetime.date) -> str:
    scope = [
        f"{name} {value}" for name, value in (("slice", waiver.slice), ("root cause", waiver.root_cause), ("model", waiver.model)) if value
    ]
    only = f" (only {', '.join(scope)})" if scope else ""
    state = "in force until" if waiver.expires >= today else "EXPIRED on"
    return f"{waiver.rule}{only}: {waiver.reason} Owner {waiver.owner}, {state} {waiver.expires}."


def _limit(value: object) -> str:
    if value is None:
        return "off"
    if isinstance(value, tuple):
        return " to ".join(f"{part:g}" for part in value)
    return f"{value:g}" if isinstance(value, int | float) else str(value)
