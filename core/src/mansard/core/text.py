"""Text that came from outside, made safe to show on a terminal."""

from __future__ import annotations

import unicodedata

MAX_SHOWN_CHARACTERS = 2000


def printable(text: str, limit: int = MAX_SHOWN_CHARACTERS) -> str:
    """``text`` on one line, with control and direction-changing characters escaped.

    A model's or node's name is chosen by whoever made the file: without this a
    name could move the cursor, clear the screen or reverse the reading order.
    """
    shown = "".join(_escape(character) for character in text[:limit])
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"


def _escape(character: str) -> str:
    # Cc control, Cf format (bidirectional overrides), Cs lone surrogates, Zl/Zp separators.
    if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return character
