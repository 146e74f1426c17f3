"""Text that came from outside, made safe to show on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

MAX_SHOWN_CHARACTERS = 2000


def printable(text: str, limit: int = MAX_SHOWN_CHARACTERS) -> str:
    """``text`` on one line, with control and direction-changing characters escaped.

    A model's or node's name comes out of a file that may be hostile: without this a
    name could move the cursor, clear the screen or reverse the reading order.
    """
    shown = "".join(_escape(character) for character in text[:limit])
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"


def listed(words: Sequence[str], last: str = "and") -> str:
    """``a, b and c``; empty of none."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
