"""The simulator: groups start, wait, slow one another down and end. It scores every schedule.

A group keeps its accelerator while it enters, runs and leaves. Entering and leaving ask for no
memory traffic and are not slowed down. Running, it keeps the share of its speed that its
accelerator's contention leaves it beside the sum of the other running groups' demands; shares
change whenever a group begins or ends to run, so time goes from one such event to the next.

When an accelerator is free and a group waits for it, what runs next there is a decision: a group
that waits, or one that is still to come, for which the accelerator is then held. Decisions are
made first come first served, by a plan, or one after the other (``search``), so that every order
of groups on every accelerator is met once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mansard.scheduler.chains import (
    BATCH,
    DEADLINE,
    DEMAND,
    ENERGY,
    ENTER,
    GOALS,
    LEAVE,
    TIME,
    WEIGHT,
    Floats,
    Instance,
    Ints,
)
from mansard.scheduler.compiling import compiled, inner

_WAITING, _ENTERING, _RUNNING, _LEAVING, _ENDED = 0, 1, 2, 3, 4
FIRST_COME, PLANNED, SEARCHED = 0, 1, 2
_MAKESPAN, _THROUGHPUT, _MIN_RATE, _WEIGHTED, _ENERGY, _MISSES = (
    GOALS.index("makespan"),
    GOALS.index("throughput"),
    GOALS.index("min_rate"),
    GOALS.index("weighted_latency"),
    GOALS.index("energy"),
    GOALS.index("misses"),
)
CLOSE = 1e-9  # two values that differ by less of themselves are one


# Columns of ``_Run.groups``; the load of each accelerator and the tail of the last group follow.
_ENTER, _WORK, _LEAVE, _WHOLE, _TAIL, _LOADS = range(6)


class _Run(NamedTuple):
    """One assignment, and a simulation of it. Few arrays: each takes its time to compile."""

    # [G, 1 + A] its accelerator; the first group from here on of each accelerator, or −1.
    on: Ints
    # [G, 5 + 2 A] the parts of each group and their sum, alone; from its end to its network's
    # end; what each accelerator has to do from here on; what follows on the last group there.
    groups: Floats
    state: Ints  # group, phase of each network; network that runs on, is held for each accelerator
    time: Floats  # [4 N + 1] left of the phase, waiting since; room for two numbers; now
    times: Floats  # [2, G] starts, ends
    # [G + 1, ...] decisions: how many options, which is next, accelerator, options, state before
    decisions: Ints
    decided_at: Floats  # [G + 1, 4 N + 1] ``time`` before


@inner
def _new_run(instance: Instance) -> _Run:
    n_groups, n_accelerators = instance.alone.shape[1:]
    n_networks = len(instance.first) - 1
    n_state, n_time = 2 * n_networks + 2 * n_accelerators, 4 * n_networks + 1
    return _Run(
        np.zeros((n_groups, 1 + n_accelerators), np.int64),
        np.zeros((n_groups, _LOADS + 2 * n_accelerators)),
        np.zeros(n_state, np.int64),
        np.zeros(n_time),
        np.zeros((2, n_groups)),
        np.zeros((n_groups + 1, 3 + n_networks + n_state), np.int64),
        np.zeros((n_groups + 1, n_time)),
    )


@inner
def _unfold(instance: Instance, on: Ints, run: _Run) -> float:
    """Fills what follows from an assignment and sets the state to the start; its energy."""
    n_networks, n_accelerators = len(instance.first) - 1, instance.alone.shape[2]
    alone, groups, energy = instance.alone, run.groups, 0.0
    for n in range(n_networks):
        first, last = instance.first[n], instance.first[n + 1] - 1
        for g in range(last, first - 1, -1):
            a = on[g]
            work = alone[TIME, g, a]
            enter = alone[ENTER, g, a] if g > first and on[g - 1] != a else 0.0
            leave = alone[LEAVE, g, a] if g < last and on[g + 1] != a else 0.0
            groups[g, _ENTER], groups[g, _WORK], groups[g, _LEAVE] = enter, work, leave
            groups[g, _WHOLE] = enter + work + leave
            groups[g, _TAIL] = groups[g + 1, _TAIL] + groups[g + 1, _WHOLE] if g < last else 0.0
            energy += alone[ENERGY, g, a]
            for b in range(n_accelerators):
                run.on[g, 1 + b] = run.on[g + 1, 1 + b] if g < last else -1
                for column in (_LOADS + b, _LOADS + n_accelerators + b):
                    groups[g, column] = groups[g + 1, column] if g < last else 0.0
            if run.on[g, 1 + a] < 0:
                groups[g, _LOADS + n_accelerators + a] = groups[g, _TAIL]
            run.on[g, 0], run.on[g, 1 + a] = a, g
            groups[g, _LOADS + a] += groups[g, _WHOLE]
        run.state[n], run.state[n_networks + n] = first, _WAITING
        run.time[n], run.time[n_networks + n] = 0.0, 0.0
    for i in range(2 * n_networks, len(run.state)):
        run.state[i] = -1
    run.time[4 * n_networks] = 0.0
    return energy


@inner
def _share(instance: Instance, g: int, a: int, external: float) -> float:
    """The share of its speed that group g keeps on accelerator a."""
    if external <= 0.0:
        return 1.0
    at, speed = instance.curves[0, g, a], instance.curves[1, g, a]
    for k in range(1, len(at)):
        if external <= at[k]:
            return speed[k - 1] + (speed[k] - speed[k - 1]) * (external - at[k - 1]) / (
                at[k] - at[k - 1]
            )
    return speed[len(at) - 1]


@inner
def _copy(values: Any, to: Any) -> None:
    for i in range(min(len(values), len(to))):  # a slice takes a second longer to compile
        to[i] = values[i]


@inner
def _start(run: _Run, n: int, n_networks: int) -> None:
    """The next group of network n begins on its accelerator."""
    g = run.state[n]
    busy = 2 * n_networks + run.on[g, 0]
    run.state[busy] = n
    run.state[busy + (len(run.state) - 2 * n_networks) // 2] = -1
    run.times[0, g] = run.time[4 * n_networks]
    entering = run.groups[g, _ENTER] > 0.0
    run.state[n_networks + n] = _ENTERING if entering else _RUNNING
    run.time[n] = run.groups[g, _ENTER] if entering else run.groups[g, _WORK]


@inner
def _advance(instance: Instance, run: _Run) -> bool:
    """Time goes to the next event; False where nothing runs."""
    n_networks = len(instance.first) - 1
    state, time, now = run.state, run.time, 4 * n_networks
    step = np.inf
    for n in range(n_networks):
        phase = state[n_networks + n]
        if phase in (_WAITING, _ENDED):
            continue
        time[2 * n_networks + n] = 1.0
        if phase == _RUNNING:
            external = 0.0
            for other in range(n_networks):
                if other != n and state[n_networks + other] == _RUNNING:
                    external += instance.alone[DEMAND, state[other], run.on[state[other], 0]]
            time[2 * n_networks + n] = _share(instance, state[n], run.on[state[n], 0], external)
        step = min(step, time[n] / time[2 * n_networks + n])
    if step == np.inf:
        return False
    time[now] += step
    close = step + 1e-12 * time[now]  # what ends this close ends together
    for n in range(n_networks):
        phase = state[n_networks + n]
        if phase in (_WAITING, _ENDED):
            continue
        if time[n] / time[2 * n_networks + n] > close:
            time[n] -= step * time[2 * n_networks + n]
            continue
        g = state[n]
        if phase == _ENTERING:
            state[n_networks + n], time[n] = _RUNNING, run.groups[g, _WORK]
        elif phase == _RUNNING and run.groups[g, _LEAVE] > 0.0:
            state[n_networks + n], time[n] = _LEAVING, run.groups[g, _LEAVE]
        else:
            state[2 * n_networks + run.on[g, 0]] = -1
            run.times[1, g] = time[now]
            state[n] = g + 1
            state[n_networks + n] = _ENDED if g + 1 == instance.first[n + 1] else _WAITING
            time[n] = 0.0
            time[n_networks + n] = time[now]
    return True


@inner
def _left(run: _Run, n: int, n_networks: int) -> float:
    """Of the group that network n runs, alone."""
    phase, g = run.state[n_networks + n], run.state[n]
    left = run.time[n]
    if phase == _ENTERING:
        left += run.groups[g, _WORK]
    if phase in (_ENTERING, _RUNNING):
        left += run.groups[g, _LEAVE]
    return left


@inner
def _score(
    instance: Instance, ends: Floats, makespan: float, energy: float, is_bound: bool
) -> tuple[float, float]:
    """How far limits are exceeded, as a sum of shares of them, and the goal; less is better.

    ``energy`` is without the constant power. Of lower bounds of the ends it is a lower bound.
    """
    limits, goal = instance.limits, instance.goal
    total = energy + limits[3] * makespan
    excess = max(makespan / limits[0] - 1.0, 0.0) + max(total / limits[1] - 1.0, 0.0)
    if not is_bound and limits[2] < np.inf:  # more time is less power, so a bound has none
        excess += max(total / makespan / limits[2] - 1.0, 0.0)
    value = 0.0
    for n in range(len(ends)):
        if goal != _MISSES:
            excess += max(ends[n] / instance.asked[DEADLINE, n] - 1.0, 0.0)
        elif ends[n] > instance.asked[DEADLINE, n] * (1.0 + CLOSE):
            value += 1.0
        if goal == _THROUGHPUT:
            value -= instance.asked[BATCH, n] / ends[n]
        elif goal == _MIN_RATE:
            rate = -instance.asked[BATCH, n] / ends[n]
            value = rate if n == 0 else max(value, rate)
        elif goal == _WEIGHTED:
            value += instance.asked[WEIGHT, n] * ends[n]
    if goal == _MAKESPAN:
        value = makespan
    elif goal == _ENERGY:
        value = total
    return (excess if excess > CLOSE else 0.0), value


@inner
def _is_less(excess: float, value: float, than_excess: float, than_value: float) -> bool:
    if excess < than_excess - CLOSE:
        return True
    return excess <= than_excess and value < than_value - CLOSE * abs(than_value)


@inner
def _bound(instance: Instance, run: _Run, energy: float) -> tuple[float, float]:
    """A lower bound of the score of all that can follow from the state.

    The rest of each network alone; and on each accelerator, what must run there one after the
    other, before the shortest tail.
    """
    n_networks, n_accelerators = len(instance.first) - 1, instance.alone.shape[2]
    state, time, now = run.state, run.time, run.time[4 * n_networks]
    alone, ends = time[2 * n_networks : 3 * n_networks], time[3 * n_networks : 4 * n_networks]
    makespan = now
    for n in range(n_networks):
        phase, g = state[n_networks + n], state[n]
        if phase == _ENDED:
            alone[n] = run.time[n_networks + n]
        elif phase == _WAITING:
            alone[n] = now + run.groups[g, _WHOLE] + run.groups[g, _TAIL]
        else:
            alone[n] = now + _left(run, n, n_networks) + run.groups[g, _TAIL]
        ends[n] = alone[n]
    for a in range(n_accelerators):
        busy = state[2 * n_networks + a]
        held = state[2 * n_networks + n_accelerators + a]
        free, runs = np.inf, -1
        if busy >= 0:
            free, runs = now + _left(run, busy, n_networks), busy
        elif held >= 0:
            g = run.on[_following(run, held, n_networks), 1 + a]
            free, runs = alone[held] - run.groups[g, _TAIL], held
        load, tail = 0.0, np.inf
        for n in range(n_networks):
            g = _following(run, n, n_networks)
            if g == instance.first[n + 1] or state[n_networks + n] == _ENDED:
                continue
            g = run.on[g, 1 + a]
            if n == runs and busy < 0:  # held for g
                g = run.on[g + 1, 1 + a] if g + 1 < instance.first[n + 1] else -1
            if g < 0:
                continue
            if runs < 0:
                free = min(free, alone[n] - run.groups[g, _TAIL] - run.groups[g, _WHOLE])
            elif n != runs:
                ends[n] = max(ends[n], free + run.groups[g, _WHOLE] + run.groups[g, _TAIL])
            load += run.groups[g, _LOADS + a]
            tail = min(tail, run.groups[g, _LOADS + n_accelerators + a])
        if load > 0.0:
            makespan = max(makespan, free + load + tail)
    for n in range(n_networks):
        makespan = max(makespan, ends[n])
    return _score(instance, ends, makespan, energy, True)


@inner
def _following(run: _Run, n: int, n_networks: int) -> int:
    """The first group of network n that has not begun."""
    phase = run.state[n_networks + n]
    return run.state[n] + (1 if _WAITING < phase < _ENDED else 0)


@inner
def _options(
    instance: Instance, run: _Run, a: int, rule: int, planned: Floats, options: Ints
) -> int:
    """Networks that may be next on a free accelerator, the best guess first; how many.

    0: nothing waits for it, or it is held.
    """
    n_networks, n_accelerators = len(instance.first) - 1, instance.alone.shape[2]
    state, time = run.state, run.time
    held = state[2 * n_networks + n_accelerators + a]
    now = time[4 * n_networks]
    n_options, waiting = 0, 0
    keys = time[2 * n_networks : 3 * n_networks]
    for n in range(n_networks):
        phase, g = state[n_networks + n], _following(run, n, n_networks)
        if phase == _ENDED or g == instance.first[n + 1] or run.on[g, 1 + a] < 0:
            continue
        key = 0.0
        if phase == _WAITING and run.on[g, 0] == a:
            if held == n:
                options[0] = n
                return 1
            waiting += 1
            key = time[n_networks + n] - now - 1.0  # waiting: the longest first
        elif rule == FIRST_COME:
            continue
        else:
            key = (
                run.groups[g, _WHOLE] + run.groups[g, _TAIL] - run.groups[run.on[g, 1 + a], _TAIL]
            )  # the nearest first
        if rule == PLANNED:
            key = planned[run.on[g, 1 + a]]
        at = n_options
        while at > 0 and keys[options[at - 1]] > key:
            options[at] = options[at - 1]
            at -= 1
        options[at], keys[n] = n, key
        n_options += 1
    if held >= 0 or waiting == 0:
        return 0
    return 1 if rule != SEARCHED else n_options


@inner
def _decide(run: _Run, a: int, n: int, n_networks: int, n_accelerators: int) -> None:
    """Network n is next on accelerator a."""
    g = run.state[n]
    if run.state[n_networks + n] == _WAITING and run.on[g, 0] == a:
        _start(run, n, n_networks)
    else:
        run.state[2 * n_networks + n_accelerators + a] = n


@inner
def _play(
    instance: Instance,
    run: _Run,
    energy: float,
    rule: int,
    planned: Floats,
    best: tuple[float, float],
    most_nodes: int,
    found: Floats,
) -> tuple[float, float, int, bool]:
    """Simulates from the state of ``run``; with ``SEARCHED`` all orders that can beat ``best``.

    Excess and value of the best that was met (``best`` where none is better), whose times go to
    ``found``; how many decisions were tried; whether all were.
    """
    n_networks, n_accelerators = len(instance.first) - 1, instance.alone.shape[2]
    depth, nodes = 0, 0
    excess, value = best
    state, time, decisions = run.state, run.time, run.decisions
    ends = time[3 * n_networks : 4 * n_networks]
    while True:
        # Decisions at this time, accelerator by accelerator.
        a = 0
        while a < n_accelerators:
            n_options = 0
            if state[2 * n_networks + a] < 0:
                n_options = _options(instance, run, a, rule, planned, decisions[depth, 3:])
            if n_options == 0:
                a += 1
                continue
            chosen = decisions[depth, 3]
            if n_options > 1:
                decisions[depth, 0], decisions[depth, 1], decisions[depth, 2] = n_options, 1, a
                _copy(state, decisions[depth, 3 + n_networks :])
                _copy(time, run.decided_at[depth])
                depth += 1
                nodes += 1
            _decide(run, a, chosen, n_networks, n_accelerators)
        is_dead = False
        if rule == SEARCHED:
            bound = _bound(instance, run, energy)
            is_dead = not _is_less(bound[0], bound[1], excess, value)
        if not is_dead and _advance(instance, run):
            continue
        if not is_dead:
            makespan, is_whole = 0.0, True
            for n in range(n_networks):
                is_whole = is_whole and state[n_networks + n] == _ENDED
                ends[n] = time[n_networks + n]
                makespan = max(makespan, ends[n])
            if is_whole:
                score = _score(instance, ends, makespan, energy, False)
                if _is_less(score[0], score[1], excess, value):
                    excess, value = score
                    _copy(run.times[0], found[0])
                    _copy(run.times[1], found[1])
        # Back to the last decision with something left to try.
        while depth > 0 and decisions[depth - 1, 1] == decisions[depth - 1, 0]:
            depth -= 1
        if depth == 0 or nodes > most_nodes:
            return excess, value, nodes, depth == 0
        _copy(decisions[depth - 1, 3 + n_networks :], state)
        _copy(run.decided_at[depth - 1], time)
        chosen = decisions[depth - 1, 3 + decisions[depth - 1, 1]]
        decisions[depth - 1, 1] += 1
        nodes += 1
        _decide(run, decisions[depth - 1, 2], chosen, n_networks, n_accelerators)


@compiled
def play(
    instance: Instance,
    assignments: Ints,
    lower: Floats,
    rule: int,
    planned: Floats,
    best_excess: float,
    best_value: float,
    most_nodes: int,
) -> tuple[Floats, Ints, int, Floats]:
    """Simulates assignments [M, G] by a rule; with ``SEARCHED`` those that can beat the best.

    Scores [M, 2], infinite for those that cannot; decisions tried of each, −1 where ``lower``
    [M, 2] was enough and below that where ``most_nodes`` were not; which is best, −1: none;
    starts and ends of its groups [2, G].
    """
    run = _new_run(instance)
    n, n_groups = assignments.shape
    scores, nodes = np.empty((n, 2)), np.empty(n, np.int64)
    times, found = np.zeros((2, n_groups)), np.zeros((2, n_groups))
    best, excess, value = -1, best_excess, best_value
    for i in range(n):
        searched = rule == SEARCHED
        scores[i, 0], scores[i, 1], nodes[i] = np.inf, np.inf, -1
        if searched and not _is_less(lower[i, 0], lower[i, 1], excess, value):
            continue
        energy = _unfold(instance, assignments[i], run)
        goal = (excess, value) if searched else (np.inf, np.inf)
        got = _play(instance, run, energy, rule, planned, goal, most_nodes, found)
        nodes[i] = got[2] if got[3] else -2 - got[2]
        if searched and not _is_less(got[0], got[1], excess, value):
            continue
        scores[i, 0], scores[i, 1] = got[0], got[1]
        if best < 0 or _is_less(got[0], got[1], excess, value):
            best, excess, value = i, got[0], got[1]
            _copy(found[0], times[0])
            _copy(found[1], times[1])
    return scores, nodes, best, times


@compiled
def bound_combinations(
    instance: Instance,
    first: Ints,
    chain: Floats,
    load: Floats,
    head: Floats,
    tail: Floats,
    energy: Floats,
    segments: Ints,
    most_segments: Ints,
    begin: int,
    end: int,
    best_excess: float,
    best_value: float,
) -> tuple[Ints, Floats]:
    """Combinations of choices that can beat the best, and lower bounds of their scores [·, 2].

    ``first`` [N + 1] is the first choice of each network; choices have ``chain`` and ``energy``
    [P], ``load``, ``head``, ``tail`` and ``segments`` [P, A]. A combination's number counts the
    last network's choices fastest; those of the last network are all met for each number between
    ``begin`` and ``end`` of the others.
    """
    n_networks, n_accelerators = len(first) - 1, load.shape[1]
    last = n_networks - 1
    n_last = first[n_networks] - first[last]
    found = np.empty((end - begin) * n_last, np.int64)
    lower = np.empty(((end - begin) * n_last, 2))
    n_found = 0
    ends = np.zeros(n_networks)
    loads, heads = np.zeros(n_accelerators), np.zeros(n_accelerators)
    tails = np.zeros(n_accelerators)
    used = np.zeros(n_accelerators, np.int64)
    for number in range(begin, end):
        rest, joules = number, 0.0
        for a in range(n_accelerators):
            loads[a], used[a] = 0.0, 0
            heads[a], tails[a] = np.inf, np.inf
        for n in range(last - 1, -1, -1):
            size = first[n + 1] - first[n]
            p = first[n] + rest % size
            rest //= size
            ends[n] = chain[p]
            joules += energy[p]
            for a in range(n_accelerators):
                used[a] += segments[p, a]
                loads[a] += load[p, a]
                if load[p, a] > 0.0:
                    heads[a] = min(heads[a], head[p, a])
                    tails[a] = min(tails[a], tail[p, a])
        for p in range(first[last], first[n_networks]):
            ends[last] = chain[p]
            makespan, fits = 0.0, True
            for n in range(n_networks):
                makespan = max(makespan, ends[n])
            for a in range(n_accelerators):
                fits = fits and used[a] + segments[p, a] <= most_segments[a]
                before, after = heads[a], tails[a]
                if load[p, a] > 0.0:
                    before, after = min(before, head[p, a]), min(after, tail[p, a])
                if before < np.inf:
                    makespan = max(makespan, before + loads[a] + load[p, a] + after)
            if not fits:
                continue
            score = _score(instance, ends, makespan, joules + energy[p], True)
            if _is_less(score[0], score[1], best_excess, best_value):
                found[n_found] = number * n_last + p - first[last]
                lower[n_found, 0] = score[0]
                lower[n_found, 1] = score[1]
                n_found += 1
    return found[:n_found], lower[:n_found]
