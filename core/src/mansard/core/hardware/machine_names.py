"""The name of a machine, a board or a card as people say it."""

from __future__ import annotations

import re

from mansard.core.text import printable, uncounted

_LONGEST, _END = 60, 20  # characters of a name, and of its end where it is cut
# Of the names in /proc/cpuinfo and in device trees: trademarks, generations, clocks and counts.
_NOISE = re.compile(
    r"\((?:R|TM|tm|C)\)|[®™]|^\d+(?:st|nd|rd|th) Gen |\s*@ ?[\d.]+ ?[GM]Hz| CPU(?= @|$)"
    r"|(?:\s\d+-Core)? Processor\b|\s+with Radeon.*$|^NVIDIA (?=Jetson)|\bEngineering Reference\b"
)


def machine_words(name: str) -> str:
    """``name`` without noise, of readable length: one that is cut keeps its beginning and end.

    >>> machine_words("11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz")
    'Intel Core i7-1185G7'
    """
    plain = uncounted(printable(name))
    words = " ".join(_NOISE.sub(" ", plain).split()) or plain
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - _END - 1]}…{words[-_END:]}"
