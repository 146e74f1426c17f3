"""Numbers as tables write them; what may mean two things is refused."""

from __future__ import annotations

import math
import re

from mansard.core.errors import InputError

EMPTY = frozenset({"", "-", "–", "—", "n/a", "na", "none", "null"})
LARGEST_COUNT = 2**31 - 1
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:([,' \u00a0\u202f])\d{3})(?:\1\d{3})*(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def parse_positive(text: str, separator: str, where: str, column: str) -> float | None:
    """A number above 0, or None where the cell is empty (also "-" and "n/a").

    ``1,234.5`` has thousands separated. Where the table's ``separator`` is a semicolon a
    comma may be the decimal one: then ``1,5`` is 1.5, and ``1,234`` is refused, since it
    may be either. Raises InputError for anything else, for 0, below 0, NaN and infinity.
    """
    if text.casefold() in EMPTY:
        return None
    value = _value(text, separator, where, column)
    if not math.isfinite(value) or value <= 0:
        raise InputError(
            f"{column} is {text}, and must be above 0",
            where=where,
            fix="leave the cell empty where it is not known",
        )
    return value


def parse_count(text: str, separator: str, where: str, column: str) -> int | None:
    """A whole number above 0, or None where the cell is empty; raises InputError."""
    value = parse_positive(text, separator, where, column)
    if value is None:
        return None
    if value != int(value) or value > LARGEST_COUNT:
        raise InputError(
            f"{column} is {text}, no whole number of things", where=where, fix="correct it"
        )
    return int(value)


def _value(text: str, separator: str, where: str, column: str) -> float:
    if text.casefold().lstrip("+-") in {"nan", "inf", "infinity"}:
        return math.nan
    if _PLAIN.fullmatch(text):
        return float(text)
    by_thousands = _THOUSANDS.fullmatch(text)
    is_decimal = separator == ";" and _DECIMAL_COMMA.fullmatch(text) is not None
    if by_thousands and not (is_decimal and text.count(",") == 1):
        return float(re.sub(r"[,' \u00a0\u202f]", "", text))
    if is_decimal and not by_thousands:
        return float(text.replace(",", "."))
    what = "may be read in two ways" if by_thousands else "is no number"
    raise InputError(f"{column} is {text!r}, which {what}", where=where, fix="write it as 1234.5")
