"""The command that a report gives for doing a run again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sample import make_run

from gate.report.reproduce import command
from gate.result import Verdict


@pytest.mark.parametrize(("given", "done", "asked"), [(4000, 3892, 4000), (20_000, 900, 20_000), (None, 3892, 3892)])
def test_a_run_is_repeated_with_the_executions_that_it_was_given_for_its_arms_have_their_shares_of_these(
    tmp_path: Path, given: int | None, done: int, asked: int
) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 1)
    assert result.campaign is not None
    campaign = result.campaign.model_copy(update={"executions": done, "budget_executions": given})
    told = command(result.model_copy(update={"campaign": campaign}))
    assert re.findall(r"--executions (\d+)", told) == [str(asked)]
