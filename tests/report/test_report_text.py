"""Text from outside becomes harmless, once and for all renderings."""

from __future__ import annotations

import unicodedata
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from sample import HOSTILE

from gate.report.text import markdown, visible

ANY_TEXT = st.text(st.characters(codec=None), max_size=60) | st.sampled_from(HOSTILE)
HIDING = set("\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2060\ufeff\u2028\u2029")


@given(ANY_TEXT)
def test_nothing_harmful_is_left(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in HIDING for character in shown)
    assert shown.count("\u2068") == shown.count("\u2069")
    element = ET.Element("a", {"b": shown})
    element.text = shown
    read = ET.fromstring(ET.tostring(element, encoding="utf-8"))
    assert (read.text or "", read.get("b")) == (shown, shown)


@given(ANY_TEXT)
def test_doing_it_twice_changes_nothing(text: str) -> None:
    for limit in (40, 600):
        assert visible(visible(text, limit), limit) == visible(text, limit)
    assert visible(f"{visible(text, 40)} is a class", 1000) in (
        f"{visible(text, 40)} is a class",
        f"\u2068{visible(text, 40)} is a class\u2069",
    )


def test_ordinary_text_stays_as_it_is() -> None:
    for text in ("defect_rate is 34.0 %", "naïve café 猫 🐈‍⬛", "C:\\models\\new", "<b> & 'quotes'"):
        assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x1b[0m", "a\\x00b\\x1b[0m"),
        ("one\ntwo\r\n\t", "one\\ntwo\\r\\n\\t"),
        ("\ud800", "\\ud800"),
        ("\u202edrawkcab", "\\u202edrawkcab"),
        ("\U000e0041", "\\U000e0041"),
        ("שלום", "\u2068שלום\u2069"),
        ("\u2069 open", "\\u2069 open"),
    ],
)
def test_harmful_characters_are_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_long_text_is_cut_and_says_how_long_it_was() -> None:
    shown = visible("A" * 10_000, 80)
    assert shown == "A" * 59 + "… (10,000 characters)"
    assert len(shown) == 80


@given(ANY_TEXT)
def test_markdown_shows_the_text_and_nothing_else(text: str) -> None:
    parser = MarkdownIt("gfm-like", {"html": True}) if _has_linkify() else MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = parser.parse(f"| a | b |\n| --- | --- |\n| {markdown(text)} | end |\n")
    cells = [token for token in tokens if token.type == "inline"]
    assert [cell.content for cell in (cells[0], cells[1], cells[3])] == ["a", "b", "end"]
    kinds = {child.type for child in cells[2].children or []}
    assert kinds <= {"text", "text_special"}
    assert "".join(child.content for child in cells[2].children or []).strip() == visible(text).strip()


def _has_linkify() -> bool:
    try:
        import linkify_it  # noqa: F401
    except ImportError:
        return False
    return True
