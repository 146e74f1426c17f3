"""The list of cores of many lines at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mansard.device.tegrastats.sample import Cpu
from mansard.device.tegrastats.tokens import CPUS, Table, UnfitError, parse_cpu

_MHZ = 1_000_000


def _parse_first(token: str) -> Cpu:
    if token[:1] != "[":
        raise UnfitError(token)
    return parse_cpu(token[1:])


def _parse_last(token: str) -> Cpu:
    if token[-1:] != "]":
        raise UnfitError(token)
    return parse_cpu(token[:-1])


# The brackets stay at the first and last core when the lists are cut at their commas: a list
# with more or fewer cores cannot shift those behind it unseen.
_FIRST = Table(_parse_first)
_LAST = Table(_parse_last)


def read_cores(lists: Sequence[str]) -> Iterator[tuple[Cpu, ...]]:
    """The cores of ``[35%@729,off]``, line by line; raises UnfitError if their counts differ."""
    n_cores = lists[0].count(",") + 1
    if n_cores == 1:
        return zip(map(_parse_only, lists), strict=True)
    cores = ",".join(lists).split(",")
    if len(cores) != n_cores * len(lists):
        raise UnfitError(lists[-1])
    columns = [map(CPUS.__getitem__, cores[number::n_cores]) for number in range(1, n_cores - 1)]
    first, last = cores[::n_cores], cores[n_cores - 1 :: n_cores]
    return zip(map(_FIRST.__getitem__, first), *columns, map(_LAST.__getitem__, last), strict=False)


def _parse_only(token: str) -> Cpu:
    if token[-1:] != "]":
        raise UnfitError(token)
    return _FIRST[token[:-1]]


def read_shared(lists: Sequence[str]) -> tuple[Iterable[tuple[Cpu, ...]], Iterable[int]]:
    """The cores of ``[0%,5%,off]@2601`` and the clocks in Hz; raises UnfitError."""
    found = [_one_shared(token) for token in lists]
    return [cores for cores, _ in found], [clock_hz for _, clock_hz in found]


def _one_shared(token: str) -> tuple[tuple[Cpu, ...], int]:
    body, bracket, clock = token.partition("]@")
    if body[:1] != "[" or not bracket or "@" in body or len(clock) > 6 or not clock.isdecimal():
        raise UnfitError(token)
    # A core that is off, or left out of a copy, has no clock.
    cores = (core if core[-1:] != "%" else f"{core}@{clock}" for core in body[1:].split(","))
    return tuple(map(CPUS.__getitem__, cores)), int(clock) * _MHZ
