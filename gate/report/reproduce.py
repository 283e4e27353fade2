"""The command line that repeats a run."""

from __future__ import annotations

import re
import shlex

from gate.report.text import visible
from gate.result import Result

__all__ = ["command"]

_OPTIONS = (("seeds", "--seeds"), ("long_tail", "--long-tail"), ("profile", "--profile"))


def command(result: Result) -> str:
    """``gate run …`` with the pinned model, the data, the policy, the seed and the executions that were done.

    Settings that the record does not hold (input, output, coverage) come from the same ``gate.yaml``. The budget is given in
    executions, because only such a budget makes two runs alike.
    """
    parts = ["gate", "run", "--model", result.candidate.resolved_uri]
    if result.baseline is not None:
        parts += ["--baseline", result.baseline.resolved_uri]
    for role, option in _OPTIONS:
        if role in result.data:
            parts += [option, result.data[role].source]
    if result.policy is not None:
        parts += ["--policy", result.policy.source]
    if result.campaign is not None:
        parts += ["--seed", str(result.campaign.seed)]
        if result.campaign.executions > 0:
            parts += ["--executions", str(result.campaign.executions)]
        if re.fullmatch(r"cpu|cuda(:\d+)?", result.campaign.device):
            parts += ["--device", result.campaign.device]
    if result.previous is not None:
        parts += ["--previous", result.previous.source]
    return " ".join(shlex.quote(visible(part, 400, isolate=False)) for part in parts)
