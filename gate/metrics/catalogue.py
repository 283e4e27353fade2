"""Every metric of the gate: its unit, what it means, which way is worse, and what to do about a bad value.

The names and definitions are a contract (docs/metrics.md); a policy may name these and no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CATALOGUE", "SHARE", "SHARE_PER_EXECUTION", "MetricSpec"]

SHARE = "share"  # 0 to 1, shown in percent
SHARE_PER_EXECUTION = "share per execution"
COUNT = "count"
SEVERITY = "severity"  # 0 to 1; 1 is the policy's limit of what a person would still label the same
PER_DEVICE_HOUR = "per device-hour"
PER_MISTAKE = "per mistake of the baseline"
PER_1K = "per 1,000 executions"


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """One metric, in words for the person who reads the report."""

    name: str
    unit: str
    kind: Literal["quality", "adequacy"]  # about the model, or about the evidence; what a rule is unless it says otherwise
    meaning: str
    higher_is_worse: bool  # decides how a limit without a comparison sign is read
    next_step: str  # when the value is bad
    to_measure: str  # when there is no value
    slices: tuple[str, ...] = ()
    interval: bool = False  # whether it comes with a confidence interval
    never_quality: bool = False  # depends on the machine, so no rule of kind quality may use it

    @property
    def is_share(self) -> bool:
        """Whether a limit may be written in percent and must lie between 0 and 1."""
        return self.unit in (SHARE, SHARE_PER_EXECUTION)


_MORE_JUDGING = "Give more seed inputs, a larger budget or a larger share for the judging arm."
_MORE_SEARCH = "Give a larger budget, so that the search gets executions of its own."
_REPAIR = (
    "Begin with the first root cause: its card in the report says what to check and what to train with. Train with the exported defects "
    "(`gate corpus export --for-training`), then ask `gate regress` whether it is fixed."
)

_SPECS = (
    MetricSpec(
        name="defect_density",
        unit=PER_DEVICE_HOUR,
        kind="adequacy",
        meaning="How many different defects the search found per hour on one device; it says how productive the search was.",
        higher_is_worse=False,
        next_step="Give the search a larger budget, or operators that reach further inside the declared domain.",
        to_measure=_MORE_SEARCH,
        interval=True,
        never_quality=True,
    ),
    MetricSpec(
        name="defects_per_1k_executions",
        unit=PER_1K,
        kind="adequacy",
        meaning="How many different defects the search found per thousand mutants it ran.",
        higher_is_worse=False,
        next_step="Give the search a larger budget, or operators that reach further inside the declared domain.",
        to_measure=_MORE_SEARCH,
        interval=True,
    ),
    MetricSpec(
        name="defect_rate",
        unit=SHARE,
        kind="quality",
        meaning="The share of inputs for which at least one of a fixed number of harmless changes makes the model answer something else.",
        higher_is_worse=True,
        next_step=_REPAIR,
        to_measure=_MORE_JUDGING,
        slices=("class", "family", "half"),
        interval=True,
    ),
    MetricSpec(
        name="mutant_failure_rate",
        unit=SHARE,
        kind="quality",
        meaning="How often a harmless change to an input makes the model answer something else, averaged over inputs.",
        higher_is_worse=True,
        next_step=_REPAIR,
        to_measure=_MORE_JUDGING,
        slices=("class", "family", "half"),
        interval=True,
    ),
    MetricSpec(
        name="confident_error_rate",
        unit=SHARE,
        kind="quality",
        meaning="The share of inputs for which a harmless change makes the model give a wrong answer that it is sure of (0.9 or more).",
        higher_is_worse=True,
        next_step="Look at the most confident defects in the gallery; train with such mutants, and calibrate the model on held-out data.",
        to_measure=_MORE_JUDGING,
        slices=("class", "family", "half"),
        interval=True,
    ),
    MetricSpec(
        name="missed_positive_rate",
        unit=SHARE,
        kind="quality",
        meaning="The share of inputs of the classes that must not be missed which a harmless change makes the model take for none of them.",
        higher_is_worse=True,
        next_step="Look at the defects of these classes, add such mutants of them to the training data, or weigh the classes more.",
        to_measure="Give more seeds of these classes, or a larger budget; a policy that names none needs a line positive: [crack].",
        slices=("class", "family", "half"),
        interval=True,
    ),
    MetricSpec(
        name="coverage_gain",
        unit=SHARE,
        kind="adequacy",
        meaning="How much neuron coverage the search's valid mutants added to that of the seed inputs; it says how hard the gate looked.",
        higher_is_worse=False,
        next_step="Let `gate doctor --run` look for the reason in this run. Often it is a small budget, a threshold that no output "
        "reaches, or seed inputs that cover nearly all.",
        to_measure=_MORE_SEARCH,
    ),
    MetricSpec(
        name="coverage_gain_per_iteration",
        unit=SHARE_PER_EXECUTION,
        kind="adequacy",
        meaning="The coverage gained per mutant over the first thousand mutants of the search.",
        higher_is_worse=False,
        next_step="Near zero: let `gate doctor --run` look for the reason in this run. Very high: check the profile set and the "
        "validity limits.",
        to_measure=_MORE_SEARCH,
    ),
    MetricSpec(
        name="long_tail_hit_rate",
        unit=SHARE,
        kind="adequacy",
        meaning="The share of defects found by natural changes whose kind of failure also occurs in the real long-tail samples.",
        higher_is_worse=False,
        next_step="Bring the policy's domain closer to what the long-tail set shows; compare the value with the chance level beside it.",
        to_measure="Give a long-tail set with at least 20 samples that the model gets wrong, and a budget that finds 10 natural defects.",
        interval=True,
    ),
    MetricSpec(
        name="regression_rate",
        unit=SHARE,
        kind="quality",
        meaning="The share of the earlier run's defects that the candidate still has.",
        higher_is_worse=True,
        next_step="Train with the earlier run's defects (gate corpus export) and look at the root causes that recur.",
        to_measure="Name the earlier run with --previous, or give the baseline version a gate.run tag.",
        slices=("root_cause", "half"),
        interval=True,
    ),
    MetricSpec(
        name="canary_recall",
        unit=SHARE,
        kind="adequacy",
        meaning="The share of faults planted on purpose that the search finds; it says how much its silence is worth.",
        higher_is_worse=False,
        next_step="Give a larger budget, or canaries and the search a larger share of it.",
        to_measure="Give canaries a share of the executions (arms.canaries) that pays for 40 executions of each fault.",
        interval=True,
    ),
    MetricSpec(
        name="clean_accuracy",
        unit=SHARE,
        kind="quality",
        meaning="The share of unchanged seed samples that the model labels correctly.",
        higher_is_worse=False,
        next_step="Check normalisation, channel order, resizing and class order in the input settings; if they are right, train again.",
        to_measure="Give labelled seed samples, and a budget that lasts until they have been run.",
        slices=("class",),
        interval=True,
    ),
    MetricSpec(
        name="long_tail_accuracy",
        unit=SHARE,
        kind="quality",
        meaning="The share of rare real-world samples that the model labels correctly.",
        higher_is_worse=False,
        next_step="Collect training data of the kinds that fail most.",
        to_measure="Give a labelled long-tail set with --long-tail.",
        slices=("class", "long_tail_kind"),
        interval=True,
    ),
    MetricSpec(
        name="negative_flip_rate",
        unit=SHARE,
        kind="quality",
        meaning="The share of samples (clean, long-tail and changed ones) which the baseline gets right and the candidate gets wrong.",
        higher_is_worse=True,
        next_step="Look at the samples that flipped before replacing the baseline.",
        to_measure="Name the model in production with --baseline, and give a budget that lasts until it has been run, too.",
        slices=("class", "family", "long_tail_kind"),
        interval=True,
    ),
    MetricSpec(
        name="flips_per_mistake",
        unit=PER_MISTAKE,
        kind="quality",
        meaning="How many samples the candidate newly gets wrong for each that the baseline gets wrong, on the same inputs.",
        higher_is_worse=True,
        next_step="Look at the samples that flipped before replacing the baseline.",
        to_measure="Name the model in production with --baseline, and give a budget that lasts until it has been run, too.",
    ),
    MetricSpec(
        name="robust_margin_p05",
        unit=SEVERITY,
        kind="quality",
        meaning="How strong a harmless change must be, on a scale to 1, before the weakest twentieth of the inputs get another answer.",
        higher_is_worse=False,
        next_step="Look at the defects of lowest severity: small changes that flip the answer are the first to repair.",
        to_measure=_MORE_JUDGING,
        slices=("class", "family", "half"),
        interval=True,
    ),
    MetricSpec(
        name="universal_mark_rate",
        unit=SHARE,
        kind="quality",
        meaning="The largest share of inputs which one small mark moves to one and the same class.",
        higher_is_worse=True,
        next_step="Look at the mark in the report, and check the training data of its class for such a planted or accidental mark.",
        to_measure="Give more seed inputs (60 measure it at all, hundreds narrow the interval), or a larger budget or share (arms.marks).",
        interval=True,
    ),
    MetricSpec(
        name="root_causes",
        unit=COUNT,
        kind="quality",
        meaning="How many different root causes the confirmed defects come down to.",
        higher_is_worse=True,
        next_step="Repair the root causes in the order of the list.",
        to_measure=_MORE_SEARCH,
    ),
    MetricSpec(
        name="crashes",
        unit=COUNT,
        kind="quality",
        meaning="How many inputs (valid mutants and probes) made the model raise an exception instead of answering.",
        higher_is_worse=True,
        next_step="Replay the inputs and repair the model's code.",
        to_measure="See why the run ended before it was done.",
    ),
    MetricSpec(
        name="hangs",
        unit=COUNT,
        kind="quality",
        meaning="How many inputs made the model run on without an answer.",
        higher_is_worse=True,
        next_step="Replay the inputs and repair the model's code.",
        to_measure="See why the run ended before it was done.",
    ),
    MetricSpec(
        name="nonfinite_outputs",
        unit=COUNT,
        kind="quality",
        meaning="How many inputs (valid mutants, probes, clean and long-tail samples) made the model answer with what is not a number.",
        higher_is_worse=True,
        next_step="Replay the inputs; look for divisions, logarithms and half precision that overflow.",
        to_measure="Give a larger budget, so that mutants are run at all.",
    ),
    MetricSpec(
        name="backend_disagreements",
        unit=COUNT,
        kind="quality",
        meaning="How many probes (inputs that show nothing real) get another answer, and inputs that are read rightly another class, in "
        "another precision, memory layout or batch.",
        higher_is_worse=True,
        next_step="Look in the report for the path that differs, and compare the model's answers on it on clean data before it is used so.",
        to_measure="Give probes a larger share (arms.probes), or the run a larger budget.",
    ),
    MetricSpec(
        name="flaky_findings",
        unit=COUNT,
        kind="adequacy",
        meaning="How many findings could not be seen again when replayed from their file; they are not counted as defects.",
        higher_is_worse=True,
        next_step="Look for randomness in the model: dropout or batch statistics left on, nondeterministic operations.",
        to_measure="Give a larger budget, so that mutants are run at all.",
    ),
    MetricSpec(
        name="preflight_faults",
        unit=COUNT,
        kind="quality",
        meaning="How many checks before the fuzzing the model failed: train mode, randomness, dependence on batch neighbours.",
        higher_is_worse=True,
        next_step="Save the model in eval mode, and remove randomness and batch statistics from its forward pass.",
        to_measure="Give a budget that lasts longer than loading the model.",
    ),
    MetricSpec(
        name="executions",
        unit=COUNT,
        kind="adequacy",
        meaning="How many mutants were run through the model by the search, the judging arm and the control arms.",
        higher_is_worse=False,
        next_step="Give a larger budget.",
        to_measure="Give a larger budget.",
    ),
)

CATALOGUE: dict[str, MetricSpec] = {spec.name: spec for spec in _SPECS}
