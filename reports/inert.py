"""Text of others made harmless: no control character, no bidi override, no lone surrogate reaches a screen or a page."""

from __future__ import annotations

import unicodedata

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HARMFUL = frozenset({"Cc", "Cs", "Zl", "Zp"})
_PLAIN = {
    "—": "-",
    "–": "-",
    "−": "-",
    "…": "...",
    "≤": "<=",
    "≥": ">=",
    "×": "x",
    "·": "|",
    "µ": "u",
    "μ": "u",
    "→": "->",
    "←": "<-",
    "⇄": "<->",
    "“": '"',
    "”": '"',
    "’": "'",
    "±": "+/-",
    "∞": "inf",
}


def inert(text: str) -> str:
    r"""The same text, with what could steer a terminal or turn a line around shown as an escape (`\x1b`, `\u202e`).

    Line breaks and tabs become one space: a report decides on its own lines.
    """
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char in "\n\r\t":
        return " "
    if char in _BIDI or unicodedata.category(char) in _HARMFUL:
        return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
    return char


def plain(text: str) -> str:
    r"""ASCII only, nothing lost: known signs by their usual stand-in, accents dropped, the rest as `\uXXXX`."""
    stood_in = "".join(_PLAIN.get(char, char) for char in text)
    folded = unicodedata.normalize("NFKD", stood_in)
    kept = "".join(char for char in folded if not unicodedata.combining(char))
    return kept.encode("ascii", "backslashreplace").decode("ascii")
