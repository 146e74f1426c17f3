"""Schedules for spaces too large to search: from an assignment to its best neighbour, seeded.

A neighbour gives a stretch of one network's groups another accelerator: that moves a change, makes
or removes one, or moves the whole network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

import numpy as np

from mansard.scheduler.chains import ENTER, LEAVE, TIME, Floats, Ints, ProblemArrays
from mansard.scheduler.records import segments
from mansard.scheduler.simulation import Played, is_less

_LOOK_S = 0.05  # between two looks at whether the time is over
_MOMENT_S, _FEWEST = 0.05, 4  # of simulations at once: the more while they take less than that
_MOST_CELLS = 2_000_000  # groups of all neighbours that are looked at together
Progress = Callable[[float, str], None]  # share of the work that is done, and a line on it


@dataclass(frozen=True)
class SearchClock:
    """When a search began, how long it may take, and how its progress is reported."""

    begun: float  # time.perf_counter()
    limit_s: float
    progress: Progress
    stopped: Event = field(default_factory=Event)  # to be set where nobody waits for the answer

    @contextmanager
    def at_end(self, call: Callable[[], None]) -> Iterator[None]:
        """Call a function from another thread if the time ends inside this context."""
        is_left = Event()

        def watch() -> None:
            while not is_left.wait(_LOOK_S):
                if self.is_late():
                    call()
                    return

        Thread(target=watch, daemon=True).start()
        try:
            yield
        except BaseException:
            call()
            raise
        finally:
            is_left.set()

    @property
    def spent_s(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.begun

    def is_late(self) -> bool:
        """Whether its time is over, or it was stopped."""
        return self.spent_s > self.limit_s or self.stopped.is_set()


def descend(
    arrays: ProblemArrays,
    start: Ints,
    seed: int,
    n_rounds: int,
    clock: SearchClock,
    simulated: Callable[[Ints], Played],
) -> tuple[Ints, int]:
    """The best assignment [G] of the search, and the number of assignments simulated.

    From ``start`` down to where no neighbour is better; then again from a few random steps away.
    """
    draw = np.random.default_rng(seed)
    n_networks, n_tried = len(arrays.problem.networks), 0
    best = at = start
    best_score = at_score = simulated(start[None]).score
    for number in range(n_rounds):
        is_better = True
        while is_better and not clock.is_late():
            is_better = False
            for network in draw.permutation(n_networks):
                rows = neighbours(arrays, at, int(network), draw)
                for block in blocks(rows, clock):
                    n_tried += len(block)
                    got = simulated(block)
                    if is_less(*got.score, *at_score):
                        at, at_score, is_better = block[got.best], got.score, True
        if is_less(*at_score, *best_score):
            best, best_score = at, at_score
        if clock.is_late():
            break
        clock.progress(number / n_rounds, f"{n_tried} assignments simulated")
        at = best
        for _ in range(int(draw.integers(1, 4))):
            rows = neighbours(arrays, at, int(draw.integers(n_networks)), draw)
            at = rows[draw.integers(len(rows))] if len(rows) else at
        at_score = simulated(at[None]).score
    return best, n_tried


def blocks(rows: Ints, clock: SearchClock) -> Iterator[Ints]:
    """Blocks of rows to simulate at once, each short in time, until the time limit."""
    at, size = 0, _FEWEST
    while at < len(rows) and not clock.is_late():
        begun_s = clock.spent_s
        yield rows[at : at + size]
        at += size
        if clock.spent_s - begun_s < _MOMENT_S:
            size *= 2


def neighbours(arrays: ProblemArrays, on: Ints, network: int, draw: np.random.Generator) -> Ints:
    """Assignments [M, G] that differ in one stretch of one network, and that may be.

    Of a long network some stretches, drawn: all of them would not fit into memory.
    """
    begin, end = arrays.instance.first[network], arrays.instance.first[network + 1]
    size, n_accelerators = end - begin, len(arrays.names)
    first, last = np.triu_indices(size)
    most = max(1, _MOST_CELLS // (n_accelerators * len(on)))
    if len(first) > most:
        some = np.sort(draw.choice(len(first), most, replace=False))
        first, last = first[some], last[some]
    at = np.arange(size)
    inside = (first[:, None] <= at) & (at <= last[:, None])
    rows = np.concatenate([np.where(inside, a, on[begin:end]) for a in range(n_accelerators)])
    rows = np.unique(rows[(rows != on[begin:end]).any(axis=1)], axis=0)
    rows = rows[may_be(arrays, rows, network)]
    whole = np.repeat(on[None], len(rows), axis=0)
    whole[:, begin:end] = rows
    return whole[(segments(arrays, whole) <= arrays.most_segments).all(axis=1)]


def may_be(
    arrays: ProblemArrays, rows: Ints, network: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which assignments of one network [M, its groups] its accelerators take, at known costs."""
    alone, begin = arrays.instance.alone, arrays.instance.first[network]
    at = np.arange(begin, begin + rows.shape[1])
    changes = rows[:, 1:] != rows[:, :-1]
    cost: Floats = alone[LEAVE, at[:-1], rows[:, :-1]] + alone[ENTER, at[1:], rows[:, 1:]]
    known = (np.isfinite(cost) | ~changes).all(axis=1)
    few = changes.sum(axis=1) <= arrays.max_transitions[network]
    return np.isfinite(alone[TIME, at, rows]).all(axis=1) & known & few
