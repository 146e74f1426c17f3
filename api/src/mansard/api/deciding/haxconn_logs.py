"""HaX-CoNN's files that no group of layers is in: two logs, and convolutions of 25 sizes.

They are those of its artifact (repository ismetdagli/HaX-CoNN, ``output_expected/``): rounds of
pairs of networks, what a solver beside networks costs them, and how much of the memory's time a
convolution uses. All of it is published: nothing here was measured by Mansard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec

from mansard.core.errors import InputError
from mansard.core.processes.line_channel import DECODE_ERRORS
from mansard.core.storage.documents import read_json
from mansard.core.storage.files import read_whole
from mansard.core.text import printable

LAYERS, TRANSITIONS = "layer_results.json", "transition_results.json"
DLA, EMC = "dla_compute_times.json", "emc_results.json"
ROUNDS, OVERHEAD = "multi_dnn_expected.txt", "z3_overhead.txt"
KINDS = (LAYERS, TRANSITIONS, DLA, EMC, ROUNDS, OVERHEAD)

_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_ROUND = re.compile(rf"(.{{1,60}}): ({_NUMBER}) ms", re.ASCII)
_GAIN = re.compile(rf"best-baseline: (-?{_NUMBER})", re.ASCII)
_TOTAL = re.compile(rf"([<>]) ([^\s:]{{1,200}}\.log):.{{0,400}} Total +({_NUMBER}) ", re.ASCII)


_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%", re.ASCII)
_T = TypeVar("_T")


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read, and what became of it."""

    file: str
    holds: str
    use: str  # in the problem, or why it has none


class PublishedRound(msgspec.Struct, frozen=True, kw_only=True):
    """What ``multi_dnn_expected.txt`` prints of a pair of networks.

    Its script adds the times of the two networks for the first two schedules, and takes the later
    one for the others.
    """

    pair: str
    time_s: dict[str, float]  # by schedule
    gain: float | None  # as printed, of HaX-CoNN over the best baseline: a share


class Logs(msgspec.Struct, frozen=True):
    """What these files hold."""

    files: tuple[SourceFile, ...]
    rounds: tuple[PublishedRound, ...]


def read_logs(paths: Mapping[str, Path]) -> Logs:
    """Of the files ``paths``, by their kind; raises InputError and StorageError."""
    files, rounds = [], tuple[PublishedRound, ...]()

    def say(path: Path, holds: str, use: str) -> None:
        files.append(SourceFile(file=printable(path.name), holds=holds, use=use))

    if (path := paths.get(EMC)) is not None:
        shares = _utilisations(path)
        holds = f"{len(shares)} convolutions, {min(shares):g} to {max(shares):g} % of memory time"
        say(path, holds, "nothing: no group is among them, so demands stay unknown")
    if (path := paths.get(ROUNDS)) is not None:
        rounds = tuple(published_rounds(_text(path)))
        if not rounds:
            raise InputError("holds no summary of a pair of networks", where=str(path))
        say(path, f"{len(rounds)} pairs of networks", "nothing: their published times stand below")
    if (path := paths.get(OVERHEAD)) is not None:
        slower = [100 * share for share in solver_overheads(_text(path))]
        if not slower:
            raise InputError("holds no run alone and beside the solver", where=str(path))
        spread = f"{min(slower):+.1f} to {max(slower):+.1f} %"
        holds = f"{len(slower)} runs beside a solver: {median(slower):+.1f} % (median), {spread}"
        say(path, holds, "nothing: no schedule has a solver beside it")
    return Logs(tuple(files), rounds)


def read_table(path: Path, what: str, kind: type[_T]) -> _T:
    """The content of a JSON file, which is not empty; raises InputError and StorageError."""
    try:
        table = msgspec.convert(read_json(path, what), kind)
    except DECODE_ERRORS as error:
        fix = "the files of HaX-CoNN's artifact show the form"
        what = f"is not what HaX-CoNN writes: {error}"
        raise InputError(what, where=str(path), fix=fix) from error
    if not table:
        raise InputError(f"holds no {what}", where=str(path))
    return table


def _utilisations(path: Path) -> list[float]:
    """Per cent of the memory's time that each convolution uses."""
    table = read_table(path, "EMC utilisation", dict[str, dict[str, str]])
    shares = []
    for kernels in table.values():
        for text in kernels.values():
            match = _PERCENT.fullmatch(text)
            if match is None or float(match[1]) > 100:
                raise InputError(
                    f"{text!r} is not a percentage", where=str(path), fix='write "89%"'
                )
            shares.append(float(match[1]))
    if not shares:
        raise InputError("holds no EMC utilisation", where=str(path))
    return shares


def _text(path: Path) -> str:
    return read_whole(path).decode(errors="replace")


def published_rounds(text: str) -> Iterator[PublishedRound]:
    """The pairs in a text of ``multi_dnn_expected.txt``."""
    for part in text.split("Summary of ")[1:]:
        pair, *lines = part.splitlines() or [""]
        times = {
            printable(match[1]): float(match[2]) / 1e3
            for line in lines
            if (match := _ROUND.fullmatch(line))
        }
        gain = _GAIN.search(part)
        if times:
            yield PublishedRound(
                pair=printable(re.sub(r"^Exp\d+\.\s*", "", pair), 80),
                time_s=times,
                gain=float(gain[1]) / 100 if gain else None,
            )


def solver_overheads(text: str) -> list[float]:
    """By which share each run takes longer beside the solver, of a text of ``z3_overhead.txt``.

    It is a diff of two lists of runs: alone (<) and beside a solver that never ends (>). Runs that
    took the same time are in no diff.
    """
    alone, beside = dict[str, float](), dict[str, float]()
    for line in text.splitlines():
        match = _TOTAL.match(line)
        if match is not None:
            (alone if match[1] == "<" else beside)[match[2]] = float(match[3])
    return [beside[name] / alone[name] - 1 for name in alone if beside.get(name) and alone[name]]
