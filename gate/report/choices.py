"""How the search shared out its work: operators' weights over time, and which strategies chose what was mutated."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from gate.report.numbers import count, roughly, share
from gate.result import CampaignSummary, OperatorWeights

__all__ = ["HEIGHT", "WIDTH", "choices_page"]

WIDTH, HEIGHT = 160, 30  # user units of a drawing
_MOST = 40
_STRATEGIES = {
    "coverage": "where the gradient towards uncovered neurons is largest",
    "diversity": "what lies farthest from the others in the model's features",
    "uncertainty": "what the model is least sure of",
    "recency": "the newest",
    "uniform": "any, all alike",
}


def choices_page(campaign: CampaignSummary | None) -> dict[str, Any]:
    """Everything the template prints; ``weights`` and ``strategies`` are empty where there is nothing to tell."""
    if campaign is None:
        return {"objectives": "", "weights": [], "strategies": [], "left_out": 0, "frame": {"width": WIDTH, "height": HEIGHT}}
    rows = _weights(campaign.operator_weights)
    return {
        "objectives": _objectives(campaign),
        "weights": rows[:_MOST],
        "left_out": max(0, len(rows) - _MOST),
        "strategies": [
            {
                "name": name,
                "meaning": _STRATEGIES.get(name, ""),
                "left_out": summary.left_out,
                "executions": count(summary.executions),
                "new_items": count(summary.new_items),
                "findings": count(summary.findings),
                "model_calls": count(summary.model_calls),
            }
            for name, summary in campaign.strategies.items()
        ],
        "frame": {"width": WIDTH, "height": HEIGHT},
    }


def _objectives(campaign: CampaignSummary) -> str:
    """What the search did once coverage had stalled, in a sentence or two; empty where it never did."""
    hunted = campaign.objectives.get("defects")
    if hunted is None or not hunted.executions:
        return ""
    everything = campaign.objectives.values()
    passes, defects = sum(one.model_calls for one in everything), sum(one.defects for one in everything)
    said = (
        f"After coverage had stalled, {count(hunted.executions)} of the search's {count(sum(one.executions for one in everything))} mutants"
        f" ({roughly(hunted.model_calls / passes)} of its model passes) went for defects and small margins; they brought"
        f" {count(hunted.defects)} of its {count(defects)} new distinct defects."
    )
    if campaign.boundary is None:
        return said
    found = campaign.boundary
    return said + (
        f" Of {count(found.of)} seed inputs {count(found.seed_inputs)} changed class by a single natural operator, half of these at a"
        f" severity of {found.median:.2g} or less. These were hunted for, so the robust margin is told from the judging arm alone."
    )


def _weights(points: tuple[OperatorWeights, ...]) -> list[dict[str, Any]]:
    """One row an operator or family, the heaviest at the end first; all drawings have the same scale."""
    if len(points) < 2 or points[-1].executions <= points[0].executions:
        return []
    names = list(dict.fromkeys(name for point in points for name in point.weights))
    top = max((weight for point in points for weight in point.weights.values()), default=0.0) or 1.0
    first, last = points[0].executions, points[-1].executions
    rows = []
    for name in names:
        series = [(point.executions, point.weights.get(name, 0.0)) for point in points]
        across = [WIDTH * (executions - first) / (last - first) for executions, _ in series]
        up = [HEIGHT - 2 - (HEIGHT - 4) * weight / top for _, weight in series]
        places = [f"{x:.1f},{y:.1f}" for x, y in zip(across, up, strict=True)]
        begin, end, most = series[0][1], series[-1][1], max(weight for _, weight in series)
        rows.append(
            {
                "order": (-end, name),
                "name": name.replace("_", " "),
                "points": Markup(" ".join(places)),  # numbers only
                "begin": share(begin),
                "end": share(end),
                "most": share(most),
                "words": f"from {roughly(begin)} to {roughly(end)}, at most {roughly(most)}",
            }
        )
    return sorted(rows, key=lambda row: row["order"])
