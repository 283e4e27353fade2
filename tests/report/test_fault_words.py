"""What the reports say of a defect that is no other class."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample import make_run

from gate.report.words import fault_in_words, outcome_in_words


@pytest.mark.parametrize(
    ("oracle", "predicted", "detail", "words"),
    [
        ("crash", None, "ValueError: too bright", "gave an exception (ValueError: too bright)"),
        ("timeout", None, None, "gave no answer in time"),
        ("non_finite", None, None, "gave no finite output"),
        ("confidence_collapse", 0, None, "gave hardly any lead over another class"),
        ("saturated", 0, None, "gave a score that float16 can't hold"),
    ],
)
def test_a_fault_and_a_kept_prediction_are_told_as_what_they_are(
    oracle: str, predicted: int | None, detail: str | None, words: str, tmp_path: Path
) -> None:
    result = make_run(tmp_path)
    defect = result.defects[0].model_copy(update={"label": 0, "predicted": predicted, "oracle": oracle, "detail": detail})
    assert outcome_in_words(defect, result) == f"{result.classes[0]} {words}"
    assert fault_in_words(defect) == words.removeprefix("gave ")


def test_words_of_the_model_are_made_harmless(tmp_path: Path) -> None:
    result = make_run(tmp_path)
    hostile = result.defects[0].model_copy(update={"predicted": None, "oracle": "crash", "detail": "E: \x1b[31m\x00red"})
    said = outcome_in_words(hostile, result)
    assert "\x1b" not in said
    assert "\x00" not in said
