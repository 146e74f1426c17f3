"""What a message says to pass, taken out of it and followed to the letter, once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mansard.cli.options import parse_dimensions, parse_shapes, parse_trips, parse_values
from mansard.core.errors import MansardError
from mansard.estimator import score

_FLAG = re.compile(
    r"--(dim|shape|trip|value) ('[^']*'|[^\s;,]+)|--batch (\d+)|--(upper|allow-unknown)"
)
# What a user who knows the network may have in mind for each N, and for each AxB.
SIZES = (64, 8, 224, 1, 2, 512, 4, 3)
_SHAPES = ("2x3", "2", "1x2x3", "2x3x4x5")


def ways(message: str) -> list[str]:
    """The parts of a message that say what to pass, each alone."""
    parts = re.split(r"\bor (?=--|score |add )", message)
    return [part for part in parts if _FLAG.search(part)]


def followed(way: str, size: int, shape: str, known: Mapping[str, int]) -> dict[str, Any]:
    """The keywords of ``score`` for one way; ``size`` for each N that is not ``known``."""
    texts: dict[str, list[str]] = {}
    found: dict[str, Any] = {}
    for flag in _FLAG.finditer(way):
        if flag[1]:
            (text,) = shlex.split(flag[2])
            name, _, value = text.rpartition("=")
            value = {"N": str(known.get(name, size)), "AxB": shape, "AxBxC": shape}.get(
                value, value
            )
            texts.setdefault(flag[1], []).append(f"{name}={value}")
        elif flag[3]:
            found["batch"] = int(flag[3])
        else:
            found[flag[4].replace("-", "_")] = True
    if "dim" in texts:
        found["dims"] = parse_dimensions(texts["dim"])
    if "trip" in texts:
        found["trips"] = parse_trips(texts["trip"])
    if "value" in texts:
        found["values"] = parse_values(texts["value"])
    if "shape" in texts:
        found["shapes"], found["types"] = parse_shapes(texts["shape"])
    return found


def refusal(source: bytes | Path, given: Mapping[str, Any]) -> str | None:
    """The message, where the network cannot be scored with ``given``."""
    try:
        score(source, **given)
    except MansardError as error:
        return str(error)
    return None


def dead_ends(source: bytes | Path, known: Mapping[str, int] | None = None) -> Iterator[str]:
    """The ways of the first message that lead to another message, whatever the sizes are."""
    message = refusal(source, {})
    if message is None:
        return
    if not ways(message):
        yield f"says nothing to pass: {message}"
    for way in ways(message):
        shapes = _SHAPES if "AxB" in way else _SHAPES[:1]
        tried = (followed(way, n, shape, known or {}) for n in SIZES for shape in shapes)
        if all(refusal(source, given) is not None for given in tried):
            yield f"{way} -> {refusal(source, followed(way, 8, '2x3', known or {}))}"
