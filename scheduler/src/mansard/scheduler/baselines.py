"""Schedules by simpler rules, scored by the same simulator, to compare a schedule with.

"gpu only": everything on the GPU. "naive": each network whole on one accelerator, on as many
different ones as there are; of all such schedules the shortest. Herald (Kwon et al., HPCA
2021): the next group of each network in turn goes to the accelerator that would end first. H2H
(Zhang et al., DAC 2022): from Herald's schedule, in two passes, a group moves to the accelerator
of a neighbour where that shortens the makespan; it sees the cost of changes.

None of them sees contention. What Herald and H2H do about weights in local memories has no place
here: these accelerators share one memory. All keep within the problem's changes of accelerator.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence

import msgspec

from mansard.core.records.schedule import Goal, NetworkChain, Problem, Schedule
from mansard.scheduler.chains import build_arrays
from mansard.scheduler.local_search import SearchClock
from mansard.scheduler.search import evaluate_arrays

Assignment = tuple[tuple[str, ...], ...]

_GREATER_IS_BETTER: tuple[Goal, ...] = ("throughput", "min_rate")
_MOST_NAIVE = 100_000


def baselines(problem: Problem, time_limit_s: float = math.inf) -> tuple[Schedule, ...]:
    """The baselines of a problem, in the order above; H2H within its time limit.

    "gpu only" needs a GPU that runs all groups; "naive", an accelerator for each whole network;
    "herald", an accelerator for each group in turn.
    """
    schedules, arrays = [], build_arrays(problem)
    clock = SearchClock(time.perf_counter(), time_limit_s, lambda *_: None)

    def scored(assignment: Assignment, method: str) -> Schedule:
        return evaluate_arrays(arrays, assignment, method, None)

    for accelerator in problem.accelerators:
        if accelerator.kind == "gpu" and all(_takes(n, accelerator.name) for n in problem.networks):
            alone = tuple((accelerator.name,) * len(n.groups) for n in problem.networks)
            schedules.append(scored(alone, "gpu only"))
            break
    naive = _naive(problem)
    if naive is not None:
        schedules.append(scored(naive, "naive"))
    herald = _herald(problem)
    if herald is not None:
        schedules.append(scored(herald, "herald"))
        moved = _h2h(problem, herald, clock)
        schedules.append(scored(moved, "h2h, cut off" if clock.is_late() else "h2h"))
    return tuple(schedules)


def best_of(schedules: Sequence[Schedule]) -> Schedule | None:
    """The best of schedules with one goal, of equals the first; within all limits comes first."""
    return min(
        (schedule for schedule in schedules if schedule.value is not None),
        key=lambda schedule: (len(schedule.broken), _cost(schedule), schedule.makespan_s),
        default=None,
    )


def gain(schedule: Schedule, over: Sequence[Schedule]) -> float | None:
    """How much better ``schedule`` is than the best of ``over``, as a share; None: no comparison.

    Of a time, an energy or a count: theirs / ours − 1; of a rate: ours / theirs − 1. A schedule
    that breaks a limit is compared with nothing.
    """
    best = best_of(over)
    if best is None or best.broken or schedule.broken:
        return None
    is_rate = schedule.goal in _GREATER_IS_BETTER
    better, worse = (schedule, best) if is_rate else (best, schedule)
    return better.value / worse.value - 1 if better.value is not None and worse.value else None


def _cost(schedule: Schedule) -> float:
    value = schedule.value or 0.0
    return -value if schedule.goal in _GREATER_IS_BETTER else value


def _takes(network: NetworkChain, accelerator: str) -> bool:
    return all(accelerator in group.time_s for group in network.groups)


def _naive(problem: Problem) -> Assignment | None:
    """Each network on one accelerator; the largest sum of times is the makespan."""
    names = [accelerator.name for accelerator in problem.accelerators]
    sums = [
        {a: sum(g.time_s[a] for g in network.groups) for a in names if _takes(network, a)}
        for network in problem.networks
    ]
    best: tuple[int, float, tuple[str, ...]] | None = None
    for way in itertools.islice(itertools.product(*sums), _MOST_NAIVE):
        load = dict.fromkeys(way, 0.0)
        for times, name in zip(sums, way, strict=True):
            load[name] += times[name]
        rank = (-len(load), max(load.values()), way)
        best = rank if best is None else min(best, rank)
    if best is None:
        return None
    return tuple(
        (name,) * len(network.groups)
        for name, network in zip(best[2], problem.networks, strict=True)
    )


def n_changes(assignment: Sequence[str]) -> int:
    """How often a network changes its accelerator."""
    return sum(before != after for before, after in itertools.pairwise(assignment))


def _can_run(network: NetworkChain, on: Sequence[str]) -> bool:
    """Whether the costs of its changes are known."""
    return all(
        here == there or (here in before.leave_s and there in after.enter_s)
        for (here, there), (before, after) in zip(
            itertools.pairwise(on), itertools.pairwise(network.groups), strict=False
        )
    )


def _herald(problem: Problem) -> Assignment | None:
    """Groups in turn, each to the accelerator with the smallest sum of times after it."""
    names = [accelerator.name for accelerator in problem.accelerators]
    load = dict.fromkeys(names, 0.0)
    taken: list[list[str]] = [[] for _ in problem.networks]
    for place in range(max(len(network.groups) for network in problem.networks)):
        for network, on in zip(problem.networks, taken, strict=True):
            if place >= len(network.groups):
                continue
            time_s = network.groups[place].time_s
            open_to = [
                name
                for name in names
                if name in time_s
                and _can_run(network, [*on, name])
                and n_changes([*on, name]) + _changes_needed(network, place, name)
                <= problem.max_transitions
            ]
            if not open_to:
                return None
            best = min(open_to, key=lambda name: load[name] + time_s[name])
            load[best] += time_s[best]
            on.append(best)
    return tuple(map(tuple, taken))


def _changes_needed(network: NetworkChain, place: int, name: str) -> int:
    """How many changes the groups after ``place`` need at least, from this accelerator on."""
    here, n = {name}, 0
    for group in network.groups[place + 1 :]:
        here = here & group.time_s.keys()
        if not here:
            here, n = set(group.time_s), n + 1
    return n


def _h2h(problem: Problem, start: Assignment, clock: SearchClock) -> Assignment:
    """Two passes over all groups; candidates are compared by makespan without contention."""
    blind = msgspec.structs.replace(
        problem, pccs={}, surfaces={}, goal="makespan", is_steady=False, max_makespan_s=0.0
    )
    arrays = build_arrays(blind)
    best, least = start, evaluate_arrays(arrays, start, "h2h", None).makespan_s
    for _ in range(2):
        for n, network in enumerate(problem.networks):
            for place, group in enumerate(network.groups):
                for neighbour in () if clock.is_late() else (place - 1, place + 1):
                    if not 0 <= neighbour < len(network.groups):
                        continue
                    name, on = best[n][neighbour], list(best[n])
                    if name == on[place] or name not in group.time_s:
                        continue
                    on[place] = name
                    if n_changes(on) > problem.max_transitions or not _can_run(network, on):
                        continue
                    moved = (*best[:n], tuple(on), *best[n + 1 :])
                    makespan = evaluate_arrays(arrays, moved, "h2h", None).makespan_s
                    if makespan < least:
                        best, least = moved, makespan
    return best
