"""A model beside its own copy: a comparison with the baseline breaches by chance in one trial of twenty at most.

Three kinds of copies: one that answers alike everywhere; one that is as good and fails on other inputs (trained again); and the worst case,
one that is worse by exactly what the policy allows.
"""

from __future__ import annotations

import datetime
from typing import Literal

import numpy as np
import pytest

from gate.metrics.evidence import BaselineEvidence, BaselineSeed, CleanEvidence, Evidence, JudgedSeed
from gate.metrics.on_demand import MetricsOnDemand
from gate.policy.evaluate import evaluate
from gate.policy.schema import Policy
from gate.result import ModelInfo, Status

SLOTS, SEEDS = 4, 120
ALLOWED = 0.05
POLICY = Policy.model_validate(
    {
        "version": 1,
        "name": "compared",
        "judging": {"mutants_per_seed": SLOTS},
        "rules": (
            {"id": "mutants", "metric": "mutant_failure_rate", "confidence": 0.95, "compare": {"max_rise": ALLOWED}},
            {"id": "seeds", "metric": "defect_rate", "confidence": 0.95, "compare": {"max_rise": 0.15}},
            {"id": "clean", "metric": "clean_accuracy", "confidence": 0.95, "compare": {"max_drop": ALLOWED}},
            {
                "id": "classes",
                "metric": "mutant_failure_rate",
                "confidence": 0.95,
                "compare": {"max_rise": ALLOWED},
                "slice": {"by": "class", "worst": True},
            },
        ),
    }
)
Kind = Literal["same", "as good", "worst"]


def failures(random: np.random.Generator, kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    """bool [SEEDS, SLOTS] of candidate and baseline. Seed inputs differ in how hard they are, as real ones do."""
    hard = random.beta(0.4, 4.0, (SEEDS, 1))
    theirs = random.random((SEEDS, SLOTS)) < hard
    if kind == "same":
        return theirs, theirs
    if kind == "as good":
        return random.random((SEEDS, SLOTS)) < hard, theirs
    # Whole seed inputs more fail, which spreads least evenly: 5 points of the mutants are 5 points of the seed inputs.
    more = random.random((SEEDS, 1)) < ALLOWED / (1 - 0.4 / 4.4)
    return (random.random((SEEDS, SLOTS)) < hard) | more, theirs


def evidence(trial: int, kind: Kind, decide: Literal["end", "early"] = "end") -> Evidence:
    random = np.random.default_rng(trial)
    ours, theirs = failures(random, kind)
    labels = np.arange(SEEDS) % 3
    right = [random.random(200) < rate for rate in (0.92 if kind == "worst" else 0.97, 0.97)]
    if kind == "same":
        right[0] = right[1]

    def classes(failed: np.ndarray, seed: int) -> tuple[int, ...]:
        return tuple(int(label) for label in np.where(failed[seed], (labels[seed] + 1) % 3, labels[seed]))

    return Evidence(
        seed=trial,
        classes=("a", "b", "c"),
        clean=CleanEvidence(labels=tuple(range(3)) * 66 + (0, 1), correct=tuple(right[0].tolist())),
        judged=tuple(
            JudgedSeed(
                seed_id=str(seed),
                label=int(labels[seed]),
                operators=("blur",) * SLOTS,
                families=("blur",) * SLOTS,
                severities=(0.5,) * SLOTS,
                valid=(True,) * SLOTS,
                failed=tuple(ours[seed].tolist()),
                predicted=classes(ours, seed),
                confidence=(0.8,) * SLOTS,
            )
            for seed in range(SEEDS)
        ),
        judging_mutants_per_seed=SLOTS,
        executions=SEEDS * SLOTS,
        baseline=BaselineEvidence(
            correct=tuple(right[1].tolist()),
            judged={
                str(seed): BaselineSeed(failed=tuple(theirs[seed].tolist()), predicted=classes(theirs, seed), confidence=(0.8,) * SLOTS)
                for seed in range(SEEDS)
            },
        ),
        decide=decide,
    )


def statuses(given: Evidence) -> dict[str, Status]:
    known: dict[float, MetricsOnDemand] = {}

    def at(confidence: float) -> MetricsOnDemand:
        return known.setdefault(confidence, MetricsOnDemand(given, confidence))

    candidate = ModelInfo(uri="models:/m/2", resolved_uri="models:/m/2")
    judgement = evaluate(POLICY, at(0.95), today=datetime.date(2026, 11, 30), candidate=candidate, metrics_at=at)
    return {rule.id: rule.status for rule in judgement.rules}


def test_a_copy_that_answers_alike_breaches_nothing_ever() -> None:
    for trial in range(5):
        assert Status.FAIL not in statuses(evidence(trial, "same")).values()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "trials"), [("as good", 200), ("worst", 200)])
def test_no_rule_of_all_breaches_by_chance_in_more_than_one_trial_of_twenty(kind: Kind, trials: int) -> None:
    breached = sum(Status.FAIL in statuses(evidence(trial, kind)).values() for trial in range(trials))
    assert breached <= 0.05 * trials


@pytest.mark.parametrize("kind", ["as good", "worst"])
def test_the_first_few_of_these_trials_breach_nothing(kind: Kind) -> None:
    assert not any(Status.FAIL in statuses(evidence(trial, kind)).values() for trial in range(6))


@pytest.mark.slow
def test_a_campaign_that_decides_early_keeps_to_that_too() -> None:
    breached = sum(Status.FAIL in statuses(evidence(trial, "worst", "early")).values() for trial in range(20))
    assert breached <= 1


def test_one_that_is_far_worse_breaches() -> None:
    given = evidence(0, "as good")
    judged = tuple(one.model_copy(update={"failed": (True,) * SLOTS}) for one in given.judged)
    found = statuses(given.model_copy(update={"judged": judged}))
    assert found["mutants"] is found["seeds"] is found["classes"] is Status.FAIL
    assert found["clean"] is not Status.FAIL
