"""What the top of a report says: the deciding number by its name for people, and which classes are taken for which."""

from __future__ import annotations

from pathlib import Path

from sample import make_run

from gate.report import html, markdown
from gate.report.cause_words import enough, neurons_note
from gate.report.opening_words import mixed_up, plain_reason, what_it_means
from gate.result import Attribution, NeuronEffect, Verdict


def test_the_deciding_number_is_told_by_its_name_and_its_meaning(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    assert result.reasons[0].startswith("defect_rate is 34.0 %")
    for reason in (result.reasons[0], f"defect-rate: {result.reasons[0]}"):
        told = plain_reason(reason, result)
        assert told.startswith("Defect rate: 34.0 % ")
        assert "defect_rate" not in told
    assert "harmless changes" in what_it_means(result)
    assert plain_reason("The run was interrupted.", result) == "The run was interrupted."
    assert what_it_means(result.model_copy(update={"reasons": ("The run was interrupted.",)})) == ""
    for page in (html.render(result, tmp_path), markdown.render(result)):
        assert "Defect rate: 34.0" in page.replace("\u00a0", " ")
        assert what_it_means(result) in page


def test_the_pairs_of_classes_of_most_defects_are_told_whatever_the_change(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    one = next(defect for defect in result.defects if defect.label is not None)
    pairs = [(0, 1)] * 4 + [(2, 0)] * 3 + [(1, 2)] * 2 + [(1, 0)] + [(1, 1)] * 9 + [(None, 1)] * 9 + [(1, None)] * 9
    defects = tuple(one.model_copy(update={"label": label, "predicted": predicted}) for label, predicted in pairs)
    result = result.model_copy(update={"classes": ("zero", "one", "two"), "defects": defects})
    said = "Wrong most often: zero read as one (4 defects), two read as zero (3) and one read as two (2)."
    assert mixed_up(result) == said
    assert said in markdown.render(result).replace("\\", "")
    assert mixed_up(result.model_copy(update={"defects": defects[:4]})) == "Wrong most often: zero read as one (4 defects)."
    assert mixed_up(result.model_copy(update={"defects": defects[:1]})) == ""


def test_a_card_says_why_a_small_part_of_the_way_back_is_enough() -> None:
    strong = NeuronEffect(layer="l", neuron=1, effect=0.9, restores=True)
    weak = strong.model_copy(update={"effect": 0.08})
    assert "only just wrong" in neurons_note(Attribution(neurons=(strong, weak), patched=8, of=160))
    for neurons in ((strong,), (weak.model_copy(update={"restores": False}),), ()):
        assert "only just wrong" not in neurons_note(Attribution(neurons=neurons, patched=8, of=160))


def test_nearly_the_whole_picture_is_told_without_digits_that_mean_nothing(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    one = next(defect for defect in result.defects if defect.minimal is not None)
    assert one.minimal is not None
    said = enough(one, one.minimal.model_copy(update={"area": 0.99996, "found_area": 0.99999}))
    assert "99.99" not in said
    assert said.count("over 99 %") == 2


def test_commands_in_what_to_do_next_look_like_commands(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3).model_copy(update={"next_steps": ("Let `gate doctor --run` look for <b>it</b>.",)})
    assert "<li>Let <code>gate doctor --run</code> look for &lt;b&gt;it&lt;/b&gt;.</li>" in html.render(result, tmp_path)
