"""The numbers on the page about triage are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gate import backends, baseline, regressing
from gate.campaign import attribution_work
from gate.oracles import oracle
from gate.triage import attribute, classify, confirm, facts, feature_space, heat, minimise, quarantine, regression, subgroups, verdicts
from gate.triage import feature_map as drawn

PAGE = re.sub(r"\s+", " ", (Path(__file__).parents[2] / "docs" / "triage.md").read_text(encoding="utf-8"))
COUNTS = {2: "twice", 10: "ten times"}


@pytest.mark.parametrize(
    "said",
    [
        f"gives the same answer every time: {COUNTS[confirm.REPLAYS]} where",
        f"deterministic, {COUNTS[confirm.REPLAYS_UNSTEADY]} where it did not",
        f"| margin of a changed prediction | {oracle.MARGIN:.4f} |",
        f"The first {quarantine.MOST_KEPT} are kept under `quarantine/`",
        f"| bisection of a severity ends at | 1/{1 / minimise.TOLERANCE:.0f} |",
        f"| bisection of a stored change's strength ends at | 1/{1 / minimise.STRENGTH_TOLERANCE:.0f} |",
        f"| blocks along each side | {', then '.join(map(str, minimise.BLOCKS))} |",
        f"before the found mutant stays | {minimise.TRIES} |",
        f"up to {backends.SEEDS + backends.MUTANTS} of them on the paths",
        f"and {backends.COMPILING:,} for compiling",
        f"less than {baseline.START_SECONDS:.0f} s are left",
        f"| odds | {heat.ODDS:.0f} |",
        f"| everywhere | {heat.EVERYWHERE} | `chance`",
        f"| moved | {heat.MOVED} | `moved`",
        f"| neurons named | {attribution_work.MOST_NAMED} |",
        "| neurons tried | {} to {} |".format(*attribute.NEURONS),
        "| squares | {} to {} |".format(*attribute.GRIDS),
        f"| local | {classify.LOCAL} |",
        f"| everywhere | {classify.EVERYWHERE} | share of the positions",
        f"| focused | {classify.FOCUSED} |",
        f"| tone | {classify.TONE} |",
        f"| mark | {facts.MARKED} |",
        f"| faint | {facts.FAINT} |",
        f"| shortcut share | {facts.ALIKE} |",
        f"| shortcut seed inputs | {facts.FROM_SEEDS} |",
        f"| shortcut classes | {facts.FROM_CLASSES} |",
        f"| neighbours | {facts.NEAREST} |",
        f"half of it (at most {feature_space.MOST_SEEDS}) on seed inputs",
        f"at most {feature_space.PER_CAUSE} of one, and {feature_space.MOST_MUTANTS:,} in all",
        f"Root causes of {subgroups.FEWEST} or more defects",
        f"at least {subgroups.SMALLEST} defects, or an eighth",
        f"Up to {drawn.MAP_MUTANTS} mutants",
        f"by t-SNE ({drawn.STEPS} steps",
        f"each root cause {regressing.FRESH_OF_A_CAUSE} or more",
        f"| more than {verdicts.TOLERATED * 100:.0f} % fail |",
    ],
)
def test_a_threshold_stands_on_the_page(said: str) -> None:
    assert said in PAGE


def test_fresh_mutants_of_a_defect_stand_on_the_page() -> None:
    assert regression.FRESH_MUTANTS == 4
    assert "Each defect gets four" in PAGE
