"""A difference of two runs as one page that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from gate.report.coverage import criterion_name
from gate.report.difference import CauseChange, DefectChange, Difference, RuleChange, Run
from gate.report.difference_words import (
    NOTES,
    change_in_words,
    coverage_in_words,
    defect_in_words,
    moved,
    rule_value,
    sizes_in_words,
    summary,
    tone,
    value_in_words,
)
from gate.report.numbers import count
from gate.report.page import inline, page_environment, source_hash
from gate.report.pictures import PictureReader
from gate.report.text import visible
from gate.report.words import VERDICT_WORD, candidate_name, headline, short_digest, title
from gate.result import Defect, Result

__all__ = ["page"]

_SHOWN = 24  # defects of each group
_CAUSES, _MORE_CAUSES = 24, 500  # root causes with pictures, and others in a table
_TONE_OF = {"new": "fail", "back": "fail", "remains": "warn", "known": "warn", "fixed": "pass", "not found again": "note"}


def page(difference: Difference) -> str:
    """The whole HTML file. Pictures are read from the folders of both runs and never from outside them."""
    css = Markup("\n").join(inline(name) for name in ("report.css", "difference.css"))
    readers = PictureReader(difference.a.folder), PictureReader(difference.b.folder)
    groups = (
        ("In both", "The same seed input, oracle, answer and family in both runs.", difference.both),
        ("Only in B", "B found these and A did not.", difference.only_b),
        ("Only in A", "A found these and B did not.", difference.only_a),
    )
    return (
        page_environment()
        .get_template("difference.html.j2")
        .render(
            css=css,
            security=Markup(f"default-src 'none'; style-src {source_hash(css)}; img-src data:; base-uri 'none'; form-action 'none'"),
            summary=summary(difference),
            sides=[_side("A", difference.a), _side("B", difference.b)],
            remarks=difference.remarks,
            causes=[
                {
                    "id": cause.id,
                    "title": cause.title,
                    "status": cause.status,
                    "tone": _TONE_OF[cause.status],
                    "sizes": sizes_in_words(cause),
                    "basis": cause.basis,
                    "pictures": _examples(cause, difference, readers),
                }
                for cause in difference.causes[:_CAUSES]
            ],
            more_causes=[
                {
                    "id": cause.id,
                    "title": cause.title,
                    "status": cause.status,
                    "tone": _TONE_OF[cause.status],
                    "sizes": sizes_in_words(cause),
                }
                for cause in difference.causes[_CAUSES : _CAUSES + _MORE_CAUSES]
            ],
            causes_left=max(0, len(difference.causes) - _CAUSES - _MORE_CAUSES),
            rules=[_rule(rule) for rule in difference.rules],
            metrics=[
                {
                    "name": title(metric.name),
                    "a": value_in_words(metric.before),
                    "b": value_in_words(metric.after),
                    "moved": moved(metric),
                    "change": change_in_words(metric),
                    "tone": tone(metric.change),
                    "sure": metric.certainty != "within noise",
                }
                for metric in difference.metrics
            ],
            coverage=[
                {
                    "name": criterion_name(one.criterion),
                    "a": coverage_in_words(one, one.before),
                    "b": coverage_in_words(one, one.after),
                }
                for one in difference.coverage
            ],
            groups=[
                {
                    "title": name,
                    "lead": lead,
                    "total": len(found),
                    "left": max(0, len(found) - _SHOWN),
                    "cards": [_card(one, difference, readers) for one in found[:_SHOWN]],
                }
                for name, lead, found in groups
            ],
            notes=NOTES,
        )
    )


def _side(letter: str, run: Run) -> dict[str, Any]:
    result, campaign = run.result, run.result.campaign
    policy = result.policy
    facts = [
        ("Policy", "none" if policy is None else f"{policy.name} ({short_digest(policy.digest)})"),
        ("Executions", "no campaign" if campaign is None else f"{count(campaign.executions)}, seed {campaign.seed}"),
        ("Seed samples", count(result.data["seeds"].samples) if "seeds" in result.data else "none"),
        ("Defects", f"{count(len(result.defects))} of {count(len(result.root_causes))} root causes"),
        ("Begun", campaign.started_at if campaign is not None and campaign.started_at else "unknown"),
        ("Folder", str(run.folder)),
    ]
    return {
        "letter": letter,
        "verdict": VERDICT_WORD[result.verdict],
        "tone": str(result.verdict),
        "advisory": result.advisory,
        "partial": result.partial,
        "model": candidate_name(result),
        "headline": headline(result),
        "facts": facts,
    }


def _rule(rule: RuleChange) -> dict[str, Any]:
    present = rule.after or rule.before
    assert present is not None  # a rule of neither run is not listed
    limits = [one.threshold for one in (rule.before, rule.after) if one is not None]
    return {
        "id": rule.id,
        "limit": " → ".join(limits) if rule.other_limit else limits[0],
        "a": (str(rule.before.status) if rule.before else "none", rule_value(rule.before)),
        "b": (str(rule.after.status) if rule.after else "none", rule_value(rule.after)),
        "moved": moved(rule),
        "change": change_in_words(rule),
        "tone": tone(rule.change),
        "sure": rule.certainty != "within noise",
    }


def _examples(cause: CauseChange, difference: Difference, readers: tuple[PictureReader, PictureReader]) -> list[dict[str, Any]]:
    """The mutants that stand for a root cause in A and in B."""
    found = []
    sides = zip("AB", (cause.before, cause.after), (difference.a, difference.b), readers, strict=True)
    for letter, own, run, reader in sides:
        defect = None if own is None else next((one for one in run.result.defects if one.id == own.example), None)
        if defect is not None:
            found.append(_picture(f"{letter}'s example", run.result, defect, "mutant", reader))
    return found


def _card(change: DefectChange, difference: Difference, readers: tuple[PictureReader, PictureReader]) -> dict[str, Any]:
    sides: Sequence[tuple[str, Result, Defect | None, PictureReader]] = (
        ("A", difference.a.result, change.before, readers[0]),
        ("B", difference.b.result, change.after, readers[1]),
    )
    own = next((side for side in sides if side[2] is not None and side[2].label is not None), None)
    pictures = [] if own is None or own[2] is None else [_picture("Seed input", own[1], own[2], "original", own[3])]
    lines = []
    for letter, result, defect, reader in sides:
        if defect is None:
            lines.append((letter, "no defect of this seed input", ""))
            continue
        pictures.append(_picture(f"{letter}'s mutant", result, defect, "mutant", reader))
        how = f"{defect.family.replace('+', ', ').replace('_', ' ')}, severity {defect.severity:.2f}"
        lines.append((letter, defect_in_words(result, defect), how))
    known = change.after or change.before
    assert known is not None
    other = not change.same and change.before is not None and change.after is not None
    return {"seed": known.seed_id, "pictures": pictures, "lines": lines, "other": other}


def _picture(caption: str, result: Result, defect: Defect, name: str, reader: PictureReader) -> dict[str, Any]:
    picture = None if reader.full else reader.read(defect.files.get(name))
    uri = None if picture is None else Markup(picture.uri)  # base64 of our own; as text it would be cut short
    return {"caption": caption, "picture": picture, "uri": uri, "words": f"{caption}: {visible(defect_in_words(result, defect))}"}
