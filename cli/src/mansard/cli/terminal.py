"""How wide an output stream is, and whether it shows colours.

A terminal has its real width. A pipe or a file has 80 columns: what reads it next is a terminal, a
mail or a document, and 80 columns fit them all. ``COLUMNS`` counts before both.

Colours are for a terminal alone. ``NO_COLOR`` takes them away everywhere; ``FORCE_COLOR`` brings
them into a pipe, and to a terminal that calls itself dumb. No colour means anything that the text
beside it does not say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TextIO

Tone = Literal["good", "warning", "bad", "title", "quiet"]

_USUAL_WIDTH = 80
_LEAST_WIDTH, _MOST_WIDTH = 20, 1000  # columns; a terminal of none, or of millions, says so falsely
_CODES: Mapping[Tone, str] = MappingProxyType(
    {"good": "32", "warning": "33", "bad": "31", "title": "1", "quiet": "2"}
)
# Words of a verdict that a whole cell or the start of a line is.
_TONES: tuple[tuple[Tone, re.Pattern[str]], ...] = (
    ("good", re.compile(r"(ok|kept|better|recommended|feasible|present)\b")),
    ("warning", re.compile(r"(missing|not known|warning|undecided)\b")),
    ("bad", re.compile(r"(broken|worse|breaks|not kept|missed|not run|infeasible)\b")),
)


def columns(stream: TextIO) -> int:
    """Columns of a line on ``stream``."""
    wanted = os.environ.get("COLUMNS", "")
    if re.fullmatch(r"0*[1-9][0-9]{0,5}", wanted):
        found = int(wanted)
    elif stream.isatty():
        try:
            found = os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
        except (OSError, ValueError):
            found = _USUAL_WIDTH
    else:
        found = _USUAL_WIDTH
    return min(max(found, _LEAST_WIDTH), _MOST_WIDTH)


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
