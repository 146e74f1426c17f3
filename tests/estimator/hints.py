"""What a message says to pass, taken out of it and followed to the letter, once.

A hint becomes the words of a command line. ``refusal`` scores with them as ``mansard score`` does,
without a process and its prints; ``refusal_of_command`` runs the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from mansard.cli.options import parse_dimensions, parse_shapes, parse_trips, parse_values
from mansard.core.errors import MansardError
from mansard.estimator import Given, Settings, load, score_loaded
from mansard.estimator.scoring import with_defaults
from tests.cli.in_process import mansard

Refusal = Callable[[bytes | Path, Sequence[str]], str | None]

_FLAG = re.compile(
    r"--(dim|shape|trip|value) ('[^']*'|[^\s;,]+)|--batch (\d+)|--(upper-bounds|allow-unknown)"
)
# What a user who knows the network may have in mind for each N, and for each AxB.
SIZES = (64, 8, 224, 1, 2, 512, 4, 3)
_SHAPES = ("2x3", "2", "1x2x3", "2x3x4x5")


def ways(message: str) -> list[str]:
    """The parts of a message that say what to pass, each alone."""
    parts = re.split(r"\bor (?=--|score |add )", message)
    return [part for part in parts if _FLAG.search(part)]


def words(way: str, size: int, shape: str, known: Mapping[str, int]) -> list[str]:
    """One way as words of a command line; ``size`` for each N that is not ``known``."""
    found: list[str] = []
    for flag in _FLAG.finditer(way):
        if flag[1]:
            (text,) = shlex.split(flag[2])
            name, _, value = text.rpartition("=")
            given = {"N": str(known.get(name, size)), "AxB": shape, "AxBxC": shape}
            found += [f"--{flag[1]}", f"{name}={given.get(value, value)}"]
        else:
            found += ["--batch", flag[3]] if flag[3] else [f"--{flag[4]}"]
    return found


def refusal(source: bytes | Path, options: Sequence[str] = ()) -> str | None:
    """The message of ``mansard score``, where it does not score the network with ``options``."""
    texts: dict[str, list[str]] = {}
    for option, text in zip(options, [*options[1:], ""], strict=False):
        if option.startswith("--"):
            texts.setdefault(option[2:], []).append(text)
    try:
        shapes, types = parse_shapes(texts.get("shape", []))
        given = Given(
            batch=int(texts["batch"][0]) if "batch" in texts else None,
            dims=parse_dimensions(texts.get("dim", [])),
            trips=parse_trips(texts.get("trip", [])),
            values=parse_values(texts.get("value", [])),
            shapes=shapes,
            types=types,
            upper="upper-bounds" in texts,
        )
        loaded = load(source)
        given = with_defaults(loaded, given, is_guessed_too=False)
        score_loaded(loaded, Settings(given, allow_unknown="allow-unknown" in texts))
    except MansardError as error:
        return str(error)
    return None


class Command(msgspec.Struct, frozen=True):
    """``mansard score`` itself, of a file in a folder."""

    folder: Path

    def __call__(self, source: bytes | Path, options: Sequence[str] = ()) -> str | None:
        path = self.folder / "net.onnx"
        path.write_bytes(source if isinstance(source, bytes) else source.read_bytes())
        done = mansard("score", path, *options, "--format", "csv")
        return None if done.returncode == 0 else done.stderr


def dead_ends(
    source: bytes | Path, known: Mapping[str, int] | None = None, refuse: Refusal = refusal
) -> Iterator[str]:
    """The ways of the first message that lead to another message, whatever the sizes are."""
    message = refuse(source, ())
    if message is None:
        return
    if not ways(message):
        yield f"says nothing to pass: {message}"
    for way in ways(message):
        shapes = _SHAPES if "AxB" in way else _SHAPES[:1]
        tried = (words(way, n, shape, known or {}) for n in SIZES for shape in shapes)
        if all(refuse(source, options) is not None for options in tried):
            yield f"{way} -> {refuse(source, words(way, 8, '2x3', known or {}))}"
