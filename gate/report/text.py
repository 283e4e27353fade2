"""Makes any text safe to show: names of classes, files and models come from outside and may hold anything.

``visible`` is the one door: every rendering sends every text through it and then applies its own escaping (HTML, XML, Markdown,
OpenMetrics labels). After it a text holds no control character, no line break, no lone surrogate, no character that XML forbids and
no character that reorders or hides its neighbours; each stands there as a visible escape such as ``\\x1b`` or ``\\u202e``.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["NAME", "SENTENCE", "markdown", "visible"]

NAME = 80  # characters kept of a name
SENTENCE = 600  # characters kept of a sentence

# Control characters and surrogates; bidi marks, embeddings, overrides and isolates; zero-width and other invisible formats; line and
# paragraph separators; interlinear annotations, noncharacters and tag characters. The joiners U+200C and U+200D stay: scripts and emoji
# need them.
_NONCHARACTERS = "".join(chr(plane << 16 | low) for plane in range(1, 17) for low in (0xFFFE, 0xFFFF))
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2067\u206a-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\ufdd0-\ufdef\U000e0000-\U000e0fff" + _NONCHARACTERS + "]"
)
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"
_ISOLATES = re.compile(f"[{_FIRST_STRONG_ISOLATE}{_POP_ISOLATE}]")
_RIGHT_TO_LEFT = {"R", "AL", "AN"}

# Characters that start a construct in GitHub's and GitLab's Markdown. A colon starts one (a link, an emoji, a workflow command) only
# before a character that is no space.
_MARKDOWN = re.compile(r"[\\`*_\[\]<>#|~@&!$^]|:(?=\S)|(?<=www)\.")


def visible(text: object, limit: int = SENTENCE, *, isolate: bool = True) -> str:
    """The text on one line with everything harmful spelled out. Applying it again changes nothing, so sentences may be built of names.

    Args:
        text: anything; ``str()`` is taken of it.
        limit: the most characters shown, the remark about what was cut included (isolates come on top).
        isolate: wrap text with right-to-left characters in Unicode isolates, so that it can't reorder what stands around it.
    """
    raw = str(text)
    if raw[:1] == _FIRST_STRONG_ISOLATE and raw[-1:] == _POP_ISOLATE and _balanced(raw[1:-1]):
        raw = raw[1:-1]  # wrapped by an earlier call, and wrapped again below
    shown = _UNSAFE.sub(_escape, raw[:limit])  # cut before escaping, so that a hostile megabyte costs nothing
    too_long = len(raw) > limit or len(shown) > limit
    if too_long or not _balanced(shown):
        shown = _ISOLATES.sub(_escape, shown)
    if too_long or len(shown) > limit:
        remark = f"… ({len(raw):,} characters)"
        shown = shown[: max(0, limit - len(remark))].rstrip() + remark
    if isolate and any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in shown):
        shown = f"{_FIRST_STRONG_ISOLATE}{shown}{_POP_ISOLATE}"
    return shown


def _balanced(text: str) -> bool:
    """Whether every isolate that is opened is closed again; only then do isolates keep their neighbours in order."""
    depth = 0
    for match in _ISOLATES.finditer(text):
        depth += 1 if match.group() == _FIRST_STRONG_ISOLATE else -1
        if depth < 0:
            return False
    return depth == 0


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    named = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}.get(code)
    if named:
        return named
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def markdown(text: object, limit: int = SENTENCE) -> str:
    """``visible`` text that Markdown shows as it is: no markup, link, table cell or workflow command can start in it."""
    return _MARKDOWN.sub(lambda match: "\\" + match.group(), visible(text, limit))
