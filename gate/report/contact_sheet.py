"""The page of ``gate policy preview``: one file that loads nothing, for a person who sets a policy's limits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from gate.domains.image import picture
from gate.policy.preview import SEVERITIES, Row, Sheet
from gate.report.invalid_words import reason_in_words
from gate.report.page import inline, source_hash
from gate.report.pictures import embedded
from gate.report.text import NAME, visible

__all__ = ["contact_sheet"]

_SIDE = 128  # pixels, of the longest side


def contact_sheet(sheet: Sheet, *, policy: str, source: str) -> str:
    """The whole page as text.

    Args:
        sheet: what is shown.
        policy: name of the policy.
        source: where the seed inputs come from.
    """
    css = inline("contact_sheet.css")
    originals = [_figure(original, sheet) for original in sheet.originals]
    families = [
        {"name": family.replace("_", " "), "rows": [_row(row, sheet, originals) for row in rows]}
        for family, rows in groupby(sheet.rows, key=lambda row: row.family)
    ]
    invalid = sum(shown.reason is not None for row in sheet.rows for sample in row.samples for shown in sample)
    return (
        _environment()
        .get_template("contact_sheet.html.j2")
        .render(
            policy=visible(policy, NAME),
            source=visible(source, NAME),
            css=css,
            css_hash=Markup(source_hash(css)),
            severities=[f"{severity:g}" for severity in SEVERITIES],
            families=families,
            operators=sheet.operators,
            invalid=invalid,
            off=sheet.off,
        )
    )


@cache
def _environment() -> Environment:
    return Environment(loader=PackageLoader("gate.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True)


def _row(row: Row, sheet: Sheet, originals: Sequence[dict[str, Any]]) -> dict[str, Any]:
    samples = []
    for sample, (name, original) in enumerate(zip(sheet.names, originals, strict=True)):
        shown = [
            {
                **_figure(one.mutant, sheet),
                "severity": f"{one.severity:g}",
                "reason": None if one.reason is None else reason_in_words(one.reason),
            }
            for one in row.samples[sample]
        ]
        samples.append({"name": visible(name, NAME), "original": original, "shown": shown})
    return {
        "name": row.operator.replace("_", " "),
        "key": f"domain.{row.family}.{row.operator}",
        "limit": _limit(row.limit),
        "words": row.words,
        "samples": samples,
    }


def _limit(value: Any) -> str:
    return "[" + ", ".join(f"{end:g}" for end in value) + "]" if isinstance(value, tuple) else f"{value:g}"


def _figure(sample: Any, sheet: Sheet) -> dict[str, Any]:
    found = embedded(Image.fromarray(picture.viewable(sample, sheet.value_range)), longest=_SIDE)
    scale = max(1, _SIDE // max(found.width, found.height))
    return {"uri": Markup(found.uri), "width": found.width * scale, "height": found.height * scale, "pixelated": found.pixelated}
