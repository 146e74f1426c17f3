"""A new schedule for the groups that are left, when groups end earlier or later than planned."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mansard.core.errors import InputError
from mansard.core.records.schedule import LayerGroup, NetworkChain, Problem, Schedule
from mansard.scheduler.chains import build_arrays
from mansard.scheduler.local_search import SearchClock
from mansard.scheduler.search import evaluate_arrays, solve_arrays

_PAST_S = 1e-9  # a limit that is over, a group about to end: 0 would be none


@dataclass(frozen=True)
class NetworkState:
    """The progress of one network. A group that is still leaving has not ended."""

    n_done: int  # groups that ended
    # Of the group that runs, alone, without what a change after it costs; None: none runs.
    left_s: float | None = None
    has_left: bool = False  # none runs, and the last one was followed by a planned change


@dataclass(frozen=True)
class Rescheduled:
    """The rest of a problem, scheduled as before and anew; times start now."""

    problem: Problem  # of networks that have not ended; its first groups are what is left of them
    kept: Schedule  # the planned accelerators and orders
    found: Schedule  # ``solve_s`` is what the search took
    gain_s: float  # of the makespan


def reschedule(
    problem: Problem,
    planned: Schedule,
    now_s: float,
    states: Sequence[NetworkState],
    *,
    time_limit_s: float = 1.0,
    seed: int = 0,
) -> Rescheduled:
    """The best schedule of what is left at ``now_s``; groups that run stay where they are.

    Raises InputError for states that are not of ``problem``, and where nothing is left.
    """
    if len(states) != len(problem.networks) or problem.is_steady:
        raise InputError("a new schedule needs the state of each network that runs once")
    networks, assignment, starts, transitions, runs = [], [], [], [], []
    busy: set[str] = set()
    for n, (network, state) in enumerate(zip(problem.networks, states, strict=True)):
        groups = sorted((g for g in planned.groups if g.network == n), key=lambda g: g.group)
        names = [group.accelerator for group in groups]
        if not 0 <= state.n_done <= len(names):
            raise InputError(f"{state.n_done} of its groups ended", where=network.name)
        if state.n_done == len(names):
            continue
        is_running = state.left_s is not None
        if is_running and names[state.n_done] in busy:
            raise InputError(
                "two groups run on one accelerator",
                where=f"{network.name} on {names[state.n_done]}",
                fix="give left_s of the one that has begun",
            )
        busy |= {names[state.n_done]} if is_running else set()
        rest, first = _rest(network, names, state)
        networks.append(_later(network, rest, now_s))
        assignment.append(names[first:])
        starts.append([group.start_s for group in groups[first:]])
        begun = names[: state.n_done + is_running] or names[:1]
        used = sum(a != b for a, b in itertools.pairwise(begun)) + state.has_left
        transitions.append(max(problem.max_transitions - used, 0))
        runs.append(is_running)
    if not networks:
        raise InputError("every network has ended", fix="nothing is left to schedule")
    left = msgspec.structs.replace(
        problem,
        networks=tuple(networks),
        max_makespan_s=_remaining(problem.max_makespan_s, now_s),
        max_energy_j=0.0,  # what was spent is not known here
    )
    arrays = build_arrays(left, transitions, runs)
    unchanged = evaluate_arrays(arrays, assignment, "the plan", starts)  # compiled by then
    clock = SearchClock(time.perf_counter(), time_limit_s, lambda *_: None)
    rescheduled = solve_arrays(arrays, "auto", clock, seed)
    return Rescheduled(left, unchanged, rescheduled, unchanged.makespan_s - rescheduled.makespan_s)


def _rest(
    network: NetworkChain, names: Sequence[str], state: NetworkState
) -> tuple[list[LayerGroup], int]:
    """The groups of a network that are left, and the index of the first.

    A running group has its remaining time. A group that has just ended is included with no time,
    because leaving its accelerator still costs time.
    """
    done, groups = state.n_done, network.groups
    if state.left_s is not None:
        running, name = groups[done], names[done]
        left_s, time_s = max(state.left_s, _PAST_S), running.time_s[name]
        share = min(left_s / time_s, 1.0) if time_s else 0.0
        return [_only(running, name, left_s, share), *groups[done + 1 :]], done
    if not done:
        return list(groups), 0
    if not state.has_left:
        return [_only(groups[done - 1], names[done - 1], 0.0, 0.0), *groups[done:]], done - 1
    entered = {
        name: time_s + groups[done].enter_s[name]
        for name, time_s in groups[done].time_s.items()
        if name in groups[done].enter_s
    }
    return [msgspec.structs.replace(groups[done], time_s=entered), *groups[done + 1 :]], done


def _only(group: LayerGroup, name: str, time_s: float, share: float) -> LayerGroup:
    """A group on one accelerator, with that share of its energy."""
    energy = {name: group.energy_j[name] * share} if name in group.energy_j else {}
    return msgspec.structs.replace(group, time_s={name: time_s}, energy_j=energy)


def _later(network: NetworkChain, groups: Sequence[LayerGroup], now_s: float) -> NetworkChain:
    limit = _remaining(network.max_latency_s, now_s)
    return msgspec.structs.replace(network, groups=tuple(groups), max_latency_s=limit)


def _remaining(limit_s: float, now_s: float) -> float:
    return max(limit_s - now_s, _PAST_S) if limit_s else 0.0
