"""Text that came from outside, made safe to show on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mansard.core.secrets import masked

MAX_SHOWN_CHARACTERS = 2000
_MARGIN_CHARACTERS = 2048  # a password that crosses a cut must still be seen as one


def cpu_list(cpus: Sequence[int]) -> str:
    """CPUs in the kernel's list format: ``0-3,6``."""
    parts = []
    for _, run in groupby(enumerate(cpus), lambda pair: pair[1] - pair[0]):
        numbers = [cpu for _, cpu in run]
        parts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return ",".join(parts)


def printable(text: str, limit: int = MAX_SHOWN_CHARACTERS) -> str:
    """``text`` on one line, with control and direction-changing characters escaped.

    A model's or node's name comes out of a file that may be hostile: without this a
    name could move the cursor, clear the screen or reverse the reading order. Secrets
    are masked: whatever is shown or kept in a message goes through here.
    """
    safe = masked(text[: limit + _MARGIN_CHARACTERS])[:limit]
    shown = safe if safe.isprintable() else "".join(map(_escape, safe))
    return shown if len(text) <= limit else f"{shown}… ({len(text)} characters)"


def is_utf8(text: str) -> bool:
    """Whether ``text`` can be written: a word of a command line may hold bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
