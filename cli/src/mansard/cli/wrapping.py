"""Text in lines of a width, every word whole, and how wide text is on a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from mansard.core.text import printable

NBSP = "\u00a0"  # between a number and its unit: no line ends there


def plain(text: str) -> str:
    """``text`` with ordinary spaces for no-break ones."""
    return text.replace(NBSP, " ")


def shown(text: str, limit: int | None = None) -> str:
    """``text`` on one line and safe to show, its no-break spaces kept."""
    parts = text.split(NBSP)
    return NBSP.join(printable(part) if limit is None else printable(part, limit) for part in parts)


def width_of(text: str) -> int:
    """Columns that a terminal needs for ``text``: East Asian characters take two."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def words_of(text: str) -> list[str]:
    """What no line may end in: words, and numbers with their units."""
    return re.split(" +", text.strip(" ")) if text.strip(" ") else []


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """``text`` in lines of at most ``width`` columns, which begin with ``first`` and ``rest``.

    A word that is too long stands whole on a line of its own, without ``rest`` if it does not fit
    behind it; a number that is too long for its unit is parted from it.
    """
    return _Filling(width, first, rest).filled(words_of(text))


class _Filling:
    def __init__(self, width: int, first: str, rest: str) -> None:
        self._width = width
        self._rest = rest
        self._lines: list[str] = []
        self._line, self._is_empty = first, True

    def filled(self, words: Sequence[str]) -> list[str]:
        for word in words:
            self._add(word)
        if not self._is_empty or not self._lines:
            self._lines.append(self._line.rstrip(" "))
        return self._lines

    def _add(self, word: str) -> None:
        gap = "" if self._is_empty else " "
        if width_of(self._line) + len(gap) + width_of(word) <= self._width:
            self._line += gap + word
            self._is_empty = False
        elif NBSP in word and width_of(self._rest) + width_of(word) > self._width:
            for part in word.split(NBSP):
                self._add(part)
        else:
            self._break(word)

    def _break(self, word: str) -> None:
        """Begin a line with ``word``; what stands alone before it (a name, a bullet) stays."""
        if not self._is_empty or self._line.strip(" "):
            self._lines.append(self._line.rstrip(" "))
        fits = width_of(self._rest) + width_of(word) <= self._width
        self._line = (self._rest if fits else "") + word
        self._is_empty = False
