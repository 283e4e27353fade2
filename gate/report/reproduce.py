"""The command line that repeats a run."""

from __future__ import annotations

import re
import shlex

from gate.report.text import visible
from gate.result import Result

__all__ = ["LEAD", "command"]

LEAD = "In the same folder, with the same settings file:"

_DATA = (("seeds", "--seeds"), ("long_tail", "--long-tail"), ("profile", "--profile"))


def command(result: Result, separator: str = " ") -> str:
    """``gate run …`` with the pinned model, the data, the policy, the seed and the executions that were given, else those that were done.

    Settings that the record does not hold (input, output, coverage) come from the same settings file, as ``LEAD`` says. The budget is
    given in executions, because only such a budget makes two runs alike. The output goes to a new folder, since the run's own is taken.

    Args:
        result: the finished run.
        separator: stands between the options; a backslash and a line break makes one option a line.
    """
    options = [("--model", result.candidate.resolved_uri)]
    if result.baseline is not None:
        options.append(("--baseline", result.baseline.resolved_uri))
    options += [(option, result.data[role].source) for role, option in _DATA if role in result.data]
    if result.policy is not None:
        options.append(("--policy", result.policy.source))
    if result.campaign is not None:
        options.append(("--seed", str(result.campaign.seed)))
        budget = result.campaign.budget_executions or result.campaign.executions  # the arms have their shares of what was given
        if budget > 0:
            options.append(("--executions", str(budget)))
        if result.campaign.judge_half != "all":
            options.append(("--judge-half", result.campaign.judge_half))
        if re.fullmatch(r"cpu|cuda(:\d+)?", result.campaign.device):
            options.append(("--device", result.campaign.device))
    if result.previous is not None:
        options.append(("--previous", result.previous.source))
    options.append(("--out", "again"))
    return separator.join(["gate run", *(f"{name} {shlex.quote(visible(value, 400, isolate=False))}" for name, value in options)])
