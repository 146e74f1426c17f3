"""Units as column names spell them, and what they turn into: SI without prefixes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Dimension = Literal["work rate", "byte rate", "time", "power", "energy", "frequency", "images/s"]


@dataclass(frozen=True)
class Unit:
    """What a number in a column is multiplied by, to be FLOP/s, B/s, s, W, J, Hz or 1/s."""

    dimension: Dimension
    factor: float


_GIGA = (("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12))
_BINARY = (("ki", 2.0**10), ("mi", 2.0**20), ("gi", 2.0**30), ("ti", 2.0**40))


def _table() -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for prefix, factor in _GIGA:
        for word in ("flop/s", "flops/s", "op/s", "ops/s"):
            units[prefix + word] = Unit("work rate", factor)
        units[f"{prefix}hz"] = Unit("frequency", factor)
        if prefix:  # "flops" alone may be work as well as a rate
            units[f"{prefix}flops"] = Unit("work rate", factor)
    units["tops"] = Unit("work rate", 1e12)
    for prefix, factor in (*_GIGA, *_BINARY):
        units[f"{prefix}b/s"] = units[f"{prefix}bytes/s"] = Unit("byte rate", factor)
    for words, factor in (
        (("s", "sec", "secs", "seconds"), 1.0),
        (("ms", "msec", "milliseconds"), 1e-3),
        (("us", "usec", "microseconds"), 1e-6),
        (("ns", "nanoseconds"), 1e-9),
    ):
        units |= dict.fromkeys(words, Unit("time", factor))
    # Of watts and joules m is milli, whatever the case: nobody tables megawatts of a board.
    units |= dict.fromkeys(("w", "watt", "watts"), Unit("power", 1.0))
    units |= dict.fromkeys(("mw", "milliwatts"), Unit("power", 1e-3))
    units |= dict.fromkeys(("j", "joule", "joules"), Unit("energy", 1.0))
    units |= dict.fromkeys(("mj", "millijoules"), Unit("energy", 1e-3))
    items = ("img", "imgs", "images", "frames", "samples", "inf", "inferences")
    images = ("fps", "ips", "qps", *(f"{item}/s" for item in items))
    return units | dict.fromkeys(images, Unit("images/s", 1.0))


UNITS = MappingProxyType(_table())
_PER_SECOND = re.compile(r"[\s_\-]*(?:/|(?<![a-z])per)[\s_\-]*(?:s|sec|second)(?![a-z])", re.I)
# "gb_s" and "inf_s" are rates; a lone "s" would be taken for seconds.
_SHORT = re.compile(
    r"(?<![A-Za-z])([kmgt]i?b|[kmgt]?flops?|inf|inferences|imgs?|images|frames|samples)[\s_\-]s"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
# A small b after a capital prefix is a bit; so is "gbps" to those who build networks.
_BITS = re.compile(r"[KMGT]b/s|[kmgt]bps", re.IGNORECASE)


def words_of(column: str) -> list[str]:
    """The words of a column's name as they are written; "per s" becomes part of its unit.

    Any other slash is the word "per".
    """
    text = _PER_SECOND.sub("/s", column.replace("µ", "u").replace("μ", "u"))
    found: list[str] = re.findall(r"[A-Za-z0-9]+(?:/s)?|/", _SHORT.sub(r"\1/s", text))
    return ["per" if word == "/" else word for word in found]


def unit_of(word: str) -> Unit | None:
    """The unit that ``word`` is, or None."""
    if word.endswith("Bps"):  # GBps, with a capital B
        word = f"{word[:-2]}/s"
    return UNITS.get(word.casefold())


def may_be_bits(word: str) -> bool:
    """Whether ``word`` may count bits: "Gb/s", "gbps", but not "GB/s", "gb/s" or "GBps"."""
    if not _BITS.fullmatch(word) or word.endswith("Bps"):
        return False
    return word.endswith("bps") or (word[0].isupper() and word[1] == "b")
