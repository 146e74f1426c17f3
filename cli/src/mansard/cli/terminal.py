"""How wide an output stream is, whether it shows colours, and text in lines of a width.

A terminal has its real width. A pipe or a file has 80 columns: what reads it next is a terminal, a
mail or a document, and 80 columns fit them all. ``COLUMNS`` counts before both.

Colours are for a terminal alone. ``NO_COLOR`` takes them away everywhere; ``FORCE_COLOR`` brings
them into a pipe, and to a terminal that calls itself dumb. No colour means anything that the text
beside it does not say.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TextIO

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


Tone = Literal["good", "warning", "bad", "title", "quiet"]

_USUAL_WIDTH = 80
_LEAST_WIDTH, _MOST_WIDTH = 20, 1000  # columns; a terminal of none, or of millions, says so falsely
_CODES: Mapping[Tone, str] = MappingProxyType(
    {"good": "32", "warning": "33", "bad": "31", "title": "1", "quiet": "2"}
)
# Words of a verdict that a whole cell or the start of a line is.
_TONES: tuple[tuple[Tone, re.Pattern[str]], ...] = (
    ("good", re.compile(r"(ok|kept|met|better|recommended|feasible|present)\b")),
    ("warning", re.compile(r"(missing|unknown|uncertain|undetermined|warning|undecided)\b")),
    ("bad", re.compile(r"(broken|worse|breaks|not kept|missed|not run|infeasible)\b")),
)


def columns(stream: TextIO) -> int:
    """Columns of a line on ``stream``."""
    wanted = os.environ.get("COLUMNS", "")
    if re.fullmatch(r"0*[1-9][0-9]{0,5}", wanted):
        width = int(wanted)
    elif stream.isatty():
        try:
            width = os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
        except (OSError, ValueError):
            width = _USUAL_WIDTH
    else:
        width = _USUAL_WIDTH
    return min(max(width, _LEAST_WIDTH), _MOST_WIDTH)


def has_colours(stream: TextIO) -> bool:
    """Whether text on ``stream`` may hold colours."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced is not None:
        return forced not in {"", "0"}
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def tone_of(text: str) -> Tone | None:
    """The tone of a verdict, by the word that it begins with."""
    return next((tone for tone, words in _TONES if words.match(text)), None)


def painted(text: str, tone: Tone | None) -> str:
    """``text`` in the colour of ``tone``; blanks around it stay without."""
    if tone is None or not text.strip():
        return text
    bare = text.strip()
    before, after = text[: text.index(bare)], text[text.index(bare) + len(bare) :]
    return f"{before}\x1b[{_CODES[tone]}m{bare}\x1b[0m{after}"
