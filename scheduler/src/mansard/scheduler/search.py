"""The best schedule: every assignment that a bound does not rule out, in every order of groups.

An assignment gives each group an accelerator, with a limited number of changes in each network. Its
lower bound comes from its networks alone and from the load of each accelerator, without contention,
which only adds time. Assignments are searched by ascending bounds until a bound reaches the best
score.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event, Timer
from typing import Any, Literal

import msgspec
import numpy as np

from mansard.core.errors import InputError
from mansard.core.records.schedule import (
    Accelerator,
    LayerGroup,
    NetworkChain,
    Problem,
    Schedule,
)
from mansard.core.workers import Shared, Workers
from mansard.scheduler.chains import (
    TIME,
    Floats,
    Ints,
    ProblemArrays,
    build_arrays,
    group_at,
    lengths,
)
from mansard.scheduler.choices import (
    Choices,
    assignments,
    count_choices,
    least,
    list_choices,
    promising,
    space_bound,
)
from mansard.scheduler.local_search import Progress, SearchClock, descend
from mansard.scheduler.records import (
    SearchSummary,
    printed_bound,
    record_round,
    segments,
    space_text,
)
from mansard.scheduler.simulation import (
    WORST,
    Played,
    Run,
    Score,
    ascending,
    can_beat,
    is_less,
    new_run,
    play,
    repeat,
    simulate,
)
from mansard.scheduler.steady import evaluate_steady, solve_steady

# "exact": every assignment in every order of groups; "first_come": every assignment, first come
# first served; "local": from neighbour to neighbour.
Method = Literal["auto", "exact", "first_come", "local"]

_SMALLEST = Problem(
    accelerators=(Accelerator(name="one", kind="cpu"),),
    networks=(NetworkChain(name="one", groups=(LayerGroup(name="one", time_s={"one": 1.0}),)),),
    idle_w=0.0,
)
_LONG_COMPILING_S = 3.0  # loading from Numba's cache is faster
_LARGE = 12_000_000  # combinations; up to here all are searched
_LARGEST = 2**62  # combinations that an int64 can number
_MOST_CELLS = 10_000_000  # groups of all choices of all networks: about 500 MB
_SMALL = 2_000  # combinations; up to here no first schedule is needed
_ROUNDS = 8
_LOCAL_ROUNDS, _LOCAL_NODES = 200, 100_000
_AVOIDED = 1e9  # times the time on an accelerator that is full
_NODES = 50  # decisions tried of an assignment before others get their turn
_MOST_NODES = 10_000_000
_BLOCK = 4096  # assignments that are simulated first come first served
_BATCH, _BATCH_NODES = 256, 1_000_000  # assignments and decisions until the best score is shared
# Of a part that is searched elsewhere: assignments, decisions, and parts for each that can run.
_PART, _PART_NODES, _SHARES = 16_384, 4_000_000, 4
_LANES = 4  # parts of a batch, whatever the number of processors: the answer is the same


def evaluate(
    problem: Problem,
    assignment: Sequence[Sequence[str]],
    method: str,
    starts: Sequence[Sequence[float]] | None = None,
) -> Schedule:
    """Simulate an assignment [network][group] of accelerators' names.

    Groups run first come first served, or on each accelerator in the order of ``starts``
    [network][group], seconds. Any number of changes is allowed. Raises InputError where a group's
    time or the cost of a change is not known.
    """
    return evaluate_arrays(build_arrays(problem), assignment, method, starts)


def evaluate_arrays(
    arrays: ProblemArrays,
    assignment: Sequence[Sequence[str]],
    method: str,
    starts: Sequence[Sequence[float]] | None,
) -> Schedule:
    """``evaluate``, where groups may have begun."""
    begun = time.perf_counter()
    on = _assignment(arrays, assignment)
    if arrays.problem.is_steady:
        return evaluate_steady(arrays, on, method, SearchClock(begun, math.inf, lambda *_: None))
    planned = _turns(arrays, on, starts) if starts else None
    played = simulate(arrays.instance, new_run(arrays.instance), on[None], planned=planned)
    if played.best < 0:
        raise InputError("the starts of these groups cannot be kept: they wait for one another")
    search = SearchSummary(
        method=method,
        bound=None,
        is_optimal=False,
        space="one assignment, " + ("its own order" if starts else "first come first served"),
        n_assignments=1,
        n_simulated=1,
        solve_s=time.perf_counter() - begun,
    )
    return record_round(arrays, on, played.times, search)


def _turns(arrays: ProblemArrays, on: Ints, starts: Sequence[Sequence[float]]) -> Floats:
    """The rank of each group by its start [G]; of equal starts, the shortest comes first."""
    first, turns = arrays.instance.first, np.empty(len(on))
    rows = [on[None, begin:end] for begin, end in itertools.pairwise(first)]
    whole = [lengths(arrays.instance, at, row)[0][0] for at, row in zip(first, rows, strict=False)]
    turns[np.lexsort((np.concatenate(whole), np.concatenate(starts)))] = np.arange(len(on))
    return turns


def _assignment(arrays: ProblemArrays, assignment: Sequence[Sequence[str]]) -> Ints:
    """The accelerators' indices [G]; InputError if an accelerator cannot run its group."""
    problem, instance, names = arrays.problem, arrays.instance, arrays.names
    if [len(row) for row in assignment] != [len(n.groups) for n in problem.networks]:
        raise InputError("an assignment needs an accelerator for each group of each network")
    strange = sorted({name for row in assignment for name in row} - set(names))
    if strange:
        raise InputError("not an accelerator of the problem", where=strange[0])
    on = np.array([names.index(name) for row in assignment for name in row])
    for g, a in enumerate(on):
        network, at = group_at(problem, g)
        where = f"{network.name}, {network.groups[at].name}"
        if not np.isfinite(instance.alone[TIME, g, a]):
            raise InputError(f"{names[a]} does not take this group", where=where)
        before = on[g - 1]
        if at and a != before and not arrays.is_offered(g - 1, before, a):
            raise InputError(
                f"the cost of a change from {names[before]} to {names[a]} is unknown",
                where=where,
                fix=f"give leave_s of {network.groups[at - 1].name} on {names[before]} and"
                f" enter_s of {network.groups[at].name} on {names[a]}",
            )
    return on


def solve(
    problem: Problem,
    *,
    method: Method = "auto",
    time_limit_s: float = 10.0,
    seed: int = 0,
    progress: Progress | None = None,
    workers: Workers | None = None,
    stopped: Event | None = None,
) -> Schedule:
    """The best schedule of ``problem``, with its proof or its gap.

    "auto": up to twelve million assignments "first_come", then "exact" from its answer; above that
    "local". After ``time_limit_s`` the best schedule so far, with the bound of what was not
    searched. ``workers`` share the search: the score and the proof are the same, but of several
    schedules with that score they may return another. ``stopped`` ends the search when it is set.
    Raises InputError for a problem that cannot be scheduled.
    """
    arrays, report = build_arrays(problem), progress or (lambda *_: None)
    compile_simulator(arrays, report)
    if workers is not None:  # there too, as far as can be: each takes what comes next
        report(0.0, "compiling the simulator elsewhere")
        list(workers.completed(_compile_there, range(2 * workers.n_workers), Shared(arrays)))
    clock = SearchClock(time.perf_counter(), time_limit_s, report, stopped or Event())
    return solve_arrays(arrays, method, clock, seed, workers)


def prepare(problem: Problem, progress: Progress) -> None:
    """Compile the simulator, or load it from Numba's cache; raises InputError as ``solve``."""
    compile_simulator(build_arrays(problem), progress)


def compile_simulator(arrays: ProblemArrays, progress: Progress) -> None:
    """Compile the simulator or load it from Numba's cache, before the time of a search begins."""
    if (repeat if arrays.problem.is_steady else play).signatures:
        return
    said = Timer(_LONG_COMPILING_S, progress, (0.0, "compiling the simulator"))
    said.start()
    try:
        smallest = msgspec.structs.replace(_SMALLEST, is_steady=arrays.problem.is_steady)
        clock = SearchClock(time.perf_counter(), math.inf, lambda *_: None)
        solve_arrays(build_arrays(smallest), "auto", clock, 0)
    finally:
        said.cancel()


def _compile_there(_: int, arrays: Shared[ProblemArrays]) -> None:
    compile_simulator(arrays.value, lambda *_: None)


def solve_arrays(
    arrays: ProblemArrays,
    method: Method,
    clock: SearchClock,
    seed: int,
    workers: Workers | None = None,
) -> Schedule:
    """``solve`` for a problem as arrays, where networks may have different numbers of changes."""
    size = _size(arrays)
    if arrays.problem.is_steady:
        return solve_steady(arrays, size, clock, _start(arrays), seed)
    n_cells = [
        count_choices(arrays, n) * len(network.groups)
        for n, network in enumerate(arrays.problem.networks)
    ]
    is_small = size <= _LARGEST and sum(n_cells) <= _MOST_CELLS
    if method in ("exact", "first_come") and not is_small:
        raise InputError(
            f"{space_text(size)} are too many to look at each",
            fix="search locally, or allow fewer transitions",
        )
    if method == "local" or not is_small or (method == "auto" and size > _LARGE):
        return _local(arrays, size, clock, seed)
    return _exact(arrays, size, clock, seed, method, workers)


def check(problem: Problem) -> None:
    """Raise InputError for the first error in a problem."""
    _size(build_arrays(problem))


def _size(arrays: ProblemArrays) -> int:
    """The number of assignments; InputError if a network has none."""
    sizes = [count_choices(arrays, n) for n in range(len(arrays.problem.networks))]
    if 0 in sizes:
        raise InputError(
            "its groups cannot be assigned with so few changes of accelerator, at known costs",
            where=arrays.problem.networks[sizes.index(0)].name,
            fix="raise max_transitions, or measure what changes cost",
        )
    return math.prod(sizes)


@dataclass
class _Best:
    """The best schedule so far, and what it took."""

    score: Score = WORST
    on: Ints | None = None
    times: Floats | None = None
    n_simulated: int = 0

    def take(self, rows: Ints, played: Played) -> None:
        self.n_simulated += int((played.nodes != -1).sum())
        if played.best >= 0 and is_less(*played.score, *self.score):
            self.score, self.on, self.times = played.score, rows[played.best], played.times


def _local(arrays: ProblemArrays, size: int, clock: SearchClock, seed: int) -> Schedule:
    """A local search for the assignment, then the best order of its groups."""
    simulated = partial(simulate, arrays.instance, new_run(arrays.instance))
    best, bound, on = _Best(), space_bound(arrays, clock.is_late), _start(arrays)
    best.take(on[None], simulated(on[None]))
    if is_less(*bound, *best.score):  # never so for the makespan of one network
        on, best.n_simulated = descend(arrays, on, seed, _LOCAL_ROUNDS, clock, simulated)
    rows, lower = on[None], np.array([bound])
    best.take(rows, simulated(rows))
    most_nodes = np.array([_LOCAL_NODES])
    with clock.at_end(lambda: most_nodes.fill(0)):
        best.take(rows, simulated(rows, lower=lower, best=best.score, most_nodes=most_nodes))
    return _answer(arrays, best, bound, "local", size, clock)


def _start(arrays: ProblemArrays) -> Ints:
    """``_fastest``, or InputError."""
    on = _fastest(arrays)
    if on is None:
        raise InputError(
            "no assignment was found that keeps to the most segments of each accelerator",
            fix="allow fewer transitions, or take networks away",
        )
    return on


def _fastest(arrays: ProblemArrays) -> Ints | None:
    """Each network as it is fastest alone, but for accelerators that hold no more segments.

    None where one of them holds too few nevertheless.
    """
    networks, weights = range(len(arrays.max_transitions)), np.ones(len(arrays.names))
    rows = [least(arrays, n, weights, 0.0)[1] for n in networks]
    for n in reversed(networks):
        full = (segments(arrays, np.concatenate(rows)[None]) > arrays.most_segments)[0]
        if not full.any():
            break
        weights = np.where(full, _AVOIDED, weights)
        rows[n] = least(arrays, n, weights, 0.0)[1]
    on = np.concatenate(rows)
    return None if (segments(arrays, on[None]) > arrays.most_segments).any() else on


def _exact(
    arrays: ProblemArrays,
    size: int,
    clock: SearchClock,
    seed: int,
    method: Method,
    workers: Workers | None,
) -> Schedule:
    all_choices = [list_choices(arrays, n) for n in range(len(arrays.problem.networks))]
    simulated, best = partial(simulate, arrays.instance, new_run(arrays.instance)), _Best()
    start = _fastest(arrays) if size > _SMALL else None
    if start is not None:  # a good schedule first, so that few combinations can beat it
        on, best.n_simulated = descend(arrays, start, seed, _ROUNDS, clock, simulated)
        best.take(on[None], simulated(on[None]))
    blocks, n_kept, is_whole = [], 0, True
    for share, ids, lower in promising(arrays, all_choices, best.score):
        blocks.append((ids, lower))
        clock.progress(0.1 * share, "assignments bounded")
        n_kept += len(ids)
        is_enough = clock.is_late() and (best.on is not None or n_kept > 0)
        is_whole = share == 1 or not (n_kept > _LARGE or is_enough)
        if not is_whole:
            break
    ids, lower = (np.concatenate(column) for column in zip(*blocks, strict=True))
    if not len(ids) and best.on is None:
        raise InputError(
            f"no assignment {'keeps' if is_whole else 'was found that keeps'} to the most segments"
            " of each accelerator",
            fix="take networks away, or measure their groups on another accelerator",
        )
    order = ascending(lower)
    ids, lower = ids[order], lower[order]
    if best.on is None:  # whatever the time limit, there is one
        rows = assignments(all_choices, ids[:1])
        best.take(rows, simulated(rows))

    def search(is_first_come: bool) -> Score:
        space = _Space(arrays, all_choices, is_first_come=is_first_come)
        bound = _search(space, ids, lower, best, clock, workers)
        return bound if is_whole else min(bound, space_bound(arrays, clock.is_late))

    def answered(bound: Score, by: str) -> Schedule:
        return _answer(arrays, best, bound, by, size, clock)

    if method == "exact" or (method == "auto" and size <= _SMALL):
        return answered(search(False), "exact")
    served = answered(search(True), "first_come")
    if method == "first_come" or not served.is_optimal:
        return served
    found = answered(search(False), "exact")
    return found if found.is_optimal else _with_both(served, found)


def _with_both(served: Schedule, other: Schedule) -> Schedule:
    """The better of the best first-come-first-served schedule and one without a proof.

    A note says what is known of the other: of two that are alike the proven one counts.
    """
    from_s, until_s = served.solve_s, other.solve_s
    is_better = served.value is not None and other.value != served.value
    if is_better or served.broken != other.broken:
        worse = ""
        if other.value and served.value is not None and not other.broken:
            worse = f", {100 * abs(served.value / other.value - 1):.2g} % from this one"
        return _noted(other, f"the best first come first served{worse}: proven in {from_s:.2g} s")
    at_most = ""
    if other.bound is not None and other.value:
        at_most = f"; none is better by more than {100 * abs(other.bound / other.value - 1):.2g} %"
    what = f"in other orders of groups nothing better was found in {until_s - from_s:.2g} s"
    return _noted(served, what + at_most)


def _noted(schedule: Schedule, note: str) -> Schedule:
    return msgspec.structs.replace(schedule, notes=(*schedule.notes, note))


def _answer(
    arrays: ProblemArrays, best: _Best, bound: Score, method: str, size: int, clock: SearchClock
) -> Schedule:
    way = {
        "exact": "each in every order of its groups",
        "first_come": "each first come first served",
        "local": "searched locally",
    }[method]
    is_optimal, at_best = printed_bound(arrays.instance.goal, best.score, bound)
    search = SearchSummary(
        method=method,
        bound=at_best,
        is_optimal=is_optimal,
        space=f"{space_text(size)}, {way}",
        n_assignments=size,
        n_simulated=best.n_simulated,
        solve_s=clock.spent_s,
    )
    assert best.on is not None  # noqa: S101 - no bound is infinite
    assert best.times is not None  # noqa: S101
    return record_round(arrays, best.on, best.times, search)


class _Space:
    """The space of a search. Another process makes the choices again, as they are large to send."""

    def __init__(
        self,
        arrays: ProblemArrays,
        all_choices: Sequence[Choices] = (),
        *,
        is_first_come: bool = False,
    ) -> None:
        self.arrays, self.is_first_come = arrays, is_first_come
        networks = range(len(arrays.problem.networks))
        self.choices = all_choices or [list_choices(arrays, n) for n in networks]

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(_Space, is_first_come=self.is_first_come), (self.arrays,)


@dataclass(frozen=True)
class _Part:
    """Combinations to search by ascending bounds, the best score until then, and the time left."""

    at: int
    ids: Ints
    lower: Floats
    score: Score
    most_nodes: int
    limit_s: float


def _search(
    space: _Space,
    ids: Ints,
    lower: Floats,
    best: _Best,
    clock: SearchClock,
    workers: Workers | None,
) -> Score:
    """Searches combinations by ascending bounds; a bound of all: the best score with a proof.

    Round after round with more decisions for each, so that a hard one does not come before what
    makes it easy.
    """
    most_nodes = _NODES
    while len(ids) and most_nodes <= _MOST_NODES:
        is_quick = len(ids) <= _SMALL and most_nodes == _NODES
        if workers is None or is_quick:
            rest = _round(space, ids, lower, best, clock, most_nodes)
        else:
            rest = _round_by_workers(space, ids, lower, best, clock, most_nodes, workers)
        rest = rest[can_beat(lower[rest], best.score)]
        rest = rest[ascending(lower[rest])]
        ids, lower = ids[rest], lower[rest]
        if clock.is_late():
            break
        most_nodes *= 20
    return (float(lower[0, 0]), float(lower[0, 1])) if len(ids) else best.score


def _round(
    space: _Space, ids: Ints, lower: Floats, best: _Best, clock: SearchClock, most_nodes: int
) -> Ints:
    """Search each combination once; return those left open, and raise their bounds."""
    arrays, left = space.arrays, []
    n_lanes = _LANES if len(ids) > _SMALL else 1
    lanes, allowed = [new_run(arrays.instance) for _ in range(n_lanes)], np.array([most_nodes])

    def search(run: Run, rows: Ints, bounds: Floats, score: Score) -> Played:
        if space.is_first_come:
            return simulate(arrays.instance, run, rows)
        return simulate(arrays.instance, run, rows, lower=bounds, best=score, most_nodes=allowed)

    size = max(n_lanes, min(_BATCH, _BATCH_NODES // most_nodes))
    size = _BLOCK if space.is_first_come else size
    with ThreadPoolExecutor(n_lanes) as pool, clock.at_end(lambda: allowed.fill(0)):
        for at in range(0, len(ids), size):
            if not is_less(*lower[at], *best.score):
                break
            if clock.is_late():
                left.append(np.arange(at, len(ids)))
                break
            rows, bounds = assignments(space.choices, ids[at : at + size]), lower[at : at + size]
            parts = [slice(lane, None, n_lanes) for lane in range(n_lanes)]
            jobs = ([rows[part] for part in parts], [bounds[part] for part in parts])
            for part, played in zip(
                parts, pool.map(search, lanes, *jobs, [best.score] * n_lanes), strict=True
            ):
                best.take(rows[part], played)
                is_open = played.nodes < -1
                opened = at + np.arange(len(rows))[part][is_open]
                lower[opened] = played.lower[is_open]
                left.append(opened)
            clock.progress(at / len(ids), f"{best.n_simulated} assignments simulated")
    return np.concatenate(left) if left else np.zeros(0, np.int64)


def _round_by_workers(  # noqa: PLR0917
    space: _Space,
    ids: Ints,
    lower: Floats,
    best: _Best,
    clock: SearchClock,
    most_nodes: int,
    workers: Workers,
) -> Ints:
    """``_round`` in parts, each somewhere else: one begins with the best score when it is sent.

    What is lost stays open, so that no proof rests on it.
    """
    size = min(_PART, _PART_NODES // most_nodes, -(-len(ids) // (_SHARES * workers.n_workers)))
    size, left, n_sent = max(1, size), [], 0

    def parts() -> Iterator[_Part]:
        nonlocal n_sent
        while n_sent < len(ids) and is_less(*lower[n_sent], *best.score) and not clock.is_late():
            at, n_sent = n_sent, min(n_sent + size, len(ids))
            limit_s = max(0.0, clock.limit_s - clock.spent_s)
            some = ids[at:n_sent], lower[at:n_sent].copy()
            yield _Part(at, *some, best.score, most_nodes, limit_s)

    for part, answer, is_lost in workers.completed(_search_part, parts(), Shared(space)):
        if is_lost:
            left.append(part.at + np.arange(len(part.ids)))
            continue
        got, opened, raised = answer
        best.n_simulated += got.n_simulated
        if is_less(*got.score, *best.score):
            best.score, best.on, best.times = got.score, got.on, got.times
        lower[part.at + opened] = raised
        left.append(part.at + opened)
        clock.progress(n_sent / len(ids), f"{best.n_simulated} assignments simulated")
    if n_sent < len(ids) and is_less(*lower[n_sent], *best.score):
        left.append(np.arange(n_sent, len(ids)))  # its time was over
    return np.concatenate(left) if left else np.zeros(0, np.int64)


def _search_part(part: _Part, shared: Shared[_Space]) -> tuple[_Best, Ints, Floats]:
    """In another process: what beats the score, which combinations stay open, and their bounds."""
    space = shared.value
    compile_simulator(space.arrays, lambda *_: None)  # before its time begins
    best, lower = _Best(score=part.score), part.lower.copy()
    clock = SearchClock(time.perf_counter(), part.limit_s, lambda *_: None)
    opened = _round(space, part.ids, lower, best, clock, part.most_nodes)
    return best, opened, lower[opened]
