"""What the coverage of a run says, in words: units by kind, how far the search got, what guidance earned, what noise reaches as well.

All renderings take their sentences from here, so that they say the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping

from gate.coverage.listing import listed
from gate.report.numbers import amount, count, points, roughly, share
from gate.report.text import NAME, visible
from gate.result import CampaignSummary, ControlComparison, CoverageSummary, Result

__all__ = [
    "FALSE_MEANING",
    "NO_SET",
    "about",
    "amount_of",
    "change_of",
    "criterion_name",
    "earned_in_words",
    "evidence_flags",
    "explained",
    "false_criteria",
    "false_note",
    "false_step",
    "guidance",
    "noise_in_words",
    "nonfinite_note",
    "not_filled_by_noise",
    "progress_of",
    "remark",
    "reported",
    "saturation",
    "stalled",
]

NO_SET = "a statistic, not a set: it can fall"
FALSE_MEANING = (
    "Uniform noise shows a network nothing that its users will ever show it. Coverage that noise gains as fast says how wide the criterion "
    "is open, not where the search has looked: do not take this gain as evidence for or against the model."
)
_EXPLAINED = {
    "nc": "neurons that were active",
    "kmnc": "sections of each neuron's usual range",
    "nbc": "outputs beyond the usual range, either way",
    "snac": "outputs above the usual range",
    "tknc": "neurons that were among the strongest of their layer",
    "tknp": "different sets of a layer's strongest neurons",
    "map": "different patterns of active neurons over several layers",
    "output": "answers by class and confidence",
    "nlc": "how much the neurons of each layer vary together",
    "lsa": "steps of surprise: how unlikely an input's activations are for its class",
    "dsa": "steps of surprise: how near an input comes to another class",
    "mdsa": "steps of surprise: how far an input is from the middle of its class",
}
_SURPRISE = ("lsa", "dsa", "mdsa")
_PAYS, _PAYS_LITTLE = 0.01, 0.001  # chance that the next mutant covers something new
_NEARLY_ALL = 0.95  # share seen, beyond which many mutants with something new still add up to little
_FEW = 100  # executions of a control, below which a comparison is one by luck


def criterion_name(name: str) -> str:
    """A criterion for a sentence, e.g. ``KMNC``."""
    return visible(name, NAME).upper() if name in _EXPLAINED else visible(name, NAME)


def explained(name: str) -> str:
    """What a criterion counts, in a few words; empty for one that is not known."""
    return _EXPLAINED.get(name, "")


def remark(name: str, summary: CoverageSummary) -> str:
    """What has to be said wherever this criterion's value is shown; empty for most."""
    if summary.kind == "statistic":
        return NO_SET
    if name in _SURPRISE:
        return "rests on a statistic, not a set: another profile set gives the same mutants other steps"
    return ""


def amount_of(summary: CoverageSummary, value: float) -> str:
    """A value of this criterion in its unit: ``52.5 %``, ``1,204 patterns``, ``0.0341``."""
    if summary.kind == "share":
        return share(value)
    return _patterns(value) if summary.kind == "count" else amount(value, "")


def change_of(summary: CoverageSummary, value: float) -> str:
    """A difference between two values in this criterion's unit: ``3.1 points``, ``12 patterns``, ``-0.034``."""
    return points(value) if summary.kind == "share" else amount_of(summary, value)


def _patterns(value: float) -> str:
    # Gains between two ends of a step are interpolated: of those a tenth is told where it matters, and no more.
    shown = round(value, 1 if abs(value) < 10 else 0)
    return f"{amount(shown, 'count')} {'pattern' if shown == 1 else 'patterns'}"


def reported(result: Result) -> str | None:
    """The criterion that the sentences are about: the one that the policy reports, else the first with a share, else the first."""
    asked = result.policy.criterion if result.policy else None
    if asked in result.coverage:
        return asked
    shares = [name for name, summary in result.coverage.items() if summary.kind == "share"]
    return next(iter(shares or result.coverage), None)


def false_criteria(result: Result) -> tuple[str, ...]:
    """The criteria in which noise gained as much as the search, the reported one first."""
    first = reported(result)
    return tuple(sorted((name for name, summary in result.coverage.items() if summary.false_coverage), key=lambda name: name != first))


def false_note(result: Result) -> str | None:
    """The warning in one line, for the head of every rendering; None where there is nothing to warn of."""
    flagged = false_criteria(result)
    if not flagged:
        return None
    names = listed([criterion_name(name) for name in flagged], 4, more="more criteria")
    return f"FALSE COVERAGE in {names}: uniform noise gained as much as the search. Do not take that gain as evidence."


def not_filled_by_noise(coverage: Mapping[str, CoverageSummary]) -> tuple[str, ...]:
    """The criteria that may be reported in place of those with false coverage: shares that rose, and less with noise."""
    return tuple(
        name
        for name, summary in coverage.items()
        if summary.kind == "share" and summary.gain > 0 and summary.noise is not None and not summary.false_coverage
    )


def false_step(result: Result) -> str:
    """What to do about false coverage."""
    others = not_filled_by_noise(result.coverage)
    named = (
        f"{listed([criterion_name(name) for name in others], 4, more='more criteria', word='or')}, which noise did not fill here"
        if others
        else ""
    )
    return (
        f"Report {named or 'another criterion'} (criterion in the policy), watch other layers (coverage.layers), or measure the neurons' "
        "ranges on more samples (data.profile)."
    )


def evidence_flags(result: Result) -> dict[str, str]:
    """What has to be said beside a metric, and beside every rule over it, so that nobody takes it for more than it is."""
    name = reported(result)
    if name is None or not result.coverage[name].false_coverage:
        return {}
    return dict.fromkeys(
        ("coverage_gain", "coverage_gain_per_iteration"), "False coverage: uniform noise gained as much. This is no evidence."
    )


def about(value: float) -> str:
    """An estimated share in a sentence: ``about 93 %``, ``over 99 %``."""
    text = roughly(value)
    return text if text.startswith(("over", "under")) else f"about {text}"


def saturation(name: str, summary: CoverageSummary) -> str | None:
    """How much of what it will reach the search has seen, and whether more budget would pay; None where nothing was estimated."""
    found = summary.discovery
    if found is None:
        return None
    so_far = (
        "How much of what it will reach this search has seen can't be told yet"
        if found.seen is None
        else f"This search has seen {about(found.seen)} of what it will reach"
    )
    rate = f"of 1,000 more mutants about {count(max(1.0, found.chance * 1000))} would"
    if found.chance < _PAYS_LITTLE:
        advice = "A larger budget would bring next to nothing: new ground needs other operators, seed inputs or layers."
    elif found.seen is not None and found.seen >= _NEARLY_ALL:
        advice = f"A larger budget would bring little: {rate} cover something new, but little is left."
    elif found.chance < _PAYS:
        advice = f"A larger budget would bring little: {rate} cover something new."
    else:
        advice = f"A larger budget would pay: {rate} at first cover something new."
    bias = "" if found.seen is None else ", which rather overstates what was seen"
    return (
        f"{so_far}, by {criterion_name(name)}; the chance that the next mutant covers something new is {about(found.chance)}. "
        f"{advice} This is an estimate from {_executions(found.executions)}{bias}."
    )


def stalled(campaign: CampaignSummary | None) -> str | None:
    """Since when the search has covered nothing new; None where its last execution did."""
    if campaign is None or not campaign.stalled_for:
        return None
    ended = " So it was ended." if campaign.stop_reason == "saturated" else ""
    if campaign.stalled_for == 1:
        return f"The search covered nothing new in its last execution.{ended}"
    return f"The search covered nothing new in its last {count(campaign.stalled_for)} executions.{ended}"


def guidance(summary: CoverageSummary) -> str | None:
    """What guidance earned over the same operators drawn at random, at equal numbers of executions; None without that control."""
    control = summary.random
    if control is None or not control.executions:
        return None
    if control.gain == control.search_gain == 0:
        return (
            f"In {_first(control, 'the')} neither the guided search nor the same operators drawn at random gained anything{_luck(control)}."
        )
    who = "Guided" if summary.guides else "Guided by other criteria"
    begin = f"{who}, the search {_gained(summary, control.search_gain)} in {_first(control)}; the same operators drawn at random "
    earned = control.search_gain - control.gain
    if earned == 0:
        return f"{begin}did as well: guidance earned nothing{_luck(control)}."
    if earned < 0:
        return f"{begin}{_gained(summary, control.gain)}: guidance earned nothing and lost {change_of(summary, -earned)}{_luck(control)}."
    part = _earned_share(control)
    whole = f" of {'it' if summary.kind == 'statistic' else 'them'} ({part})" if part else ""
    return f"{begin}{_gained(summary, control.gain)}: guidance earned {change_of(summary, earned)}{whole}{_luck(control)}."


def earned_in_words(summary: CoverageSummary) -> tuple[str, str]:
    """What guidance earned and as which share of the search's gain, e.g. ``("0.9 points", "29 %")``.

    ``("nothing", "")`` where the random control gained as much or more, and no share where that control lost something.
    """
    control = summary.random
    if control is None:
        return "not measured", ""
    earned = control.search_gain - control.gain
    return (change_of(summary, earned), _earned_share(control)) if earned > 0 else ("nothing", "")


def _earned_share(control: ControlComparison) -> str:
    return "" if control.gain < 0 else roughly((control.search_gain - control.gain) / control.search_gain)


def noise_in_words(summary: CoverageSummary) -> str | None:
    """What uniform noise gained beside the search, at equal numbers of executions; None without that control."""
    control = summary.noise
    if control is None or not control.executions:
        return None
    return (
        f"Uniform noise {_gained(summary, control.gain)} in {_executions(control.executions)}; "
        f"the search {_gained(summary, control.search_gain)} in its first {count(control.executions)}{_luck(control)}."
    )


def nonfinite_note(coverage: dict[str, CoverageSummary]) -> str | None:
    """How many neurons gave NaN or an infinite value; None where none did."""
    worst = max((summary.nonfinite for summary in coverage.values()), default=0)
    if not worst:
        return None
    return (
        f"{count(worst)} {'neuron' if worst == 1 else 'neurons'} gave NaN or an infinite value at least once. "
        "Such values cover nothing and are counted apart."
    )


def progress_of(summary: CoverageSummary) -> str:
    """Where coverage began and ended, e.g. ``31.2 % from the seeds alone, 52.5 % at the end``."""
    return f"{amount_of(summary, summary.initial)} from the seeds alone, {amount_of(summary, summary.final)} at the end"


def _gained(summary: CoverageSummary, gain: float) -> str:
    if gain == 0:
        return "gained nothing"
    return f"gained {change_of(summary, gain)}" if gain > 0 else f"fell by {change_of(summary, -gain)}"


def _executions(number: int) -> str:
    return f"{count(number)} {'execution' if number == 1 else 'executions'}"


def _first(control: ControlComparison, whose: str = "its") -> str:
    return f"{whose} first {_executions(control.executions)}" if control.executions > 1 else f"{whose} first execution"


def _luck(control: ControlComparison) -> str:
    return ", in too few executions to build on" if control.executions < _FEW else ""
