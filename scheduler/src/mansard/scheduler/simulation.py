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

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mansard.scheduler.chains import (
    BATCH,
    DEADLINE,
    DEMAND,
    ENERGY,
    ENTER,
    GOALS,
    LEAVE,
    PERIOD,
    TIME,
    WEIGHT,
    Floats,
    Instance,
    Ints,
)
from mansard.scheduler.compiling import compiled, inner

_WAITING, _ENTERING, _RUNNING, _LEAVING, _ENDED, _AWAY = 0, 1, 2, 3, 4, 5  # until its next run
FIRST_COME, PLANNED, SEARCHED = 0, 1, 2
_MAKESPAN, _THROUGHPUT, _MIN_RATE, _WEIGHTED, _ENERGY, _MISSES = (
    GOALS.index("makespan"),
    GOALS.index("throughput"),
    GOALS.index("min_rate"),
    GOALS.index("weighted_latency"),
    GOALS.index("energy"),
    GOALS.index("misses"),
)
Score = tuple[float, float]  # how far limits are exceeded, and the goal; less is better
WORST: Score = (np.inf, np.inf)
_MOST_EVENTS = 4_000_000  # of a simulation of networks that repeat: a few seconds
CLOSE = 1e-9  # two values that differ by less of themselves are one


# Columns of ``Run.groups``. Three for each accelerator follow: all that it has to do from here on,
# what of that is entering and leaving, and what follows on the last group there.
_ENTER, _WORK, _LEAVE, _WHOLE, _TAIL, _LOSS, _LOADS = range(7)


class Run(NamedTuple):
    """One assignment, and a simulation of it. Few arrays: each takes its time to compile."""

    # [G, 2 + A] its accelerator; the first group from here on of each accelerator, or −1; network
    on: Ints
    # [G, 6 + 3 A] the parts of each group and their sum, alone; from its end to its network's
    # end; the share of its speed that it loses at least beside a group of another network
    groups: Floats
    by_loss: Ints  # [A, G + 1] how many groups, then the groups, the least loss first
    state: Ints  # group, phase of each network; network that runs on, is held for each accelerator
    time: Floats  # [4 N + 1] left of the phase, waiting since; room for two numbers; now
    times: Floats  # [2, G] starts, ends
    found: Floats  # [2, G] of the best so far
    # [G + 1, ...] decisions: how many options, which is next, accelerator, options, state before
    decisions: Ints
    decided_at: Floats  # [G + 1, 4 N + 1] ``time`` before
    # [A, 5 + 2 N] what is still to begin on each accelerator: from when on, all of it with what is
    # lost, entering and leaving, shortest tail, all of it alone; load and tail of each network
    ahead: Floats


def new_run(instance: Instance) -> Run:
    """Room to simulate in; for one thread."""
    n_groups, n_accelerators = instance.alone.shape[1:]
    n_networks = len(instance.first) - 1
    n_state, n_time = 2 * n_networks + 2 * n_accelerators, 4 * n_networks + 1
    return Run(
        np.zeros((n_groups, 2 + n_accelerators), np.int64),
        np.zeros((n_groups, _LOADS + 3 * n_accelerators)),
        np.zeros((n_accelerators, n_groups + 1), np.int64),
        np.zeros(n_state, np.int64),
        np.zeros(n_time),
        np.zeros((2, n_groups)),
        np.zeros((2, n_groups)),
        np.zeros((n_groups + 1, 3 + n_networks + n_state), np.int64),
        np.zeros((n_groups + 1, n_time)),
        np.zeros((n_accelerators, 5 + 2 * n_networks)),
    )


@inner
def _start(run: Run, n: int, n_networks: int) -> None:
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
def _unfold(instance: Instance, on: Ints, run: Run) -> float:
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
                for column in range(_LOADS + 3 * b, _LOADS + 3 * b + 3):
                    groups[g, column] = groups[g + 1, column] if g < last else 0.0
            column = _LOADS + 3 * a
            if run.on[g, 1 + a] < 0:
                groups[g, column + 2] = groups[g, _TAIL]
            run.on[g, 0], run.on[g, 1 + a], run.on[g, 1 + n_accelerators] = a, g, n
            groups[g, column] += groups[g, _WHOLE]
            groups[g, column + 1] += enter + leave
        run.state[n], run.state[n_networks + n] = first, _WAITING
        run.time[n], run.time[n_networks + n] = 0.0, 0.0
    for i in range(2 * n_networks, len(run.state)):
        run.state[i] = -1
    run.time[4 * n_networks] = 0.0
    for n in range(n_networks):
        if instance.begun[n]:
            _start(run, n, n_networks)
    if instance.curves.shape[3] > 1:
        _set_losses(instance, run)
    return energy


@inner
def _set_losses(instance: Instance, run: Run) -> None:
    """The least loss of each group beside any of another network on another accelerator."""
    n_groups, n_accelerators = instance.alone.shape[1:]
    for a in range(n_accelerators):
        run.by_loss[a, 0] = 0
    for g in range(n_groups):
        a, n = run.on[g, 0], run.on[g, 1 + n_accelerators]
        least = np.inf
        for other in range(n_groups):
            if run.on[other, 0] != a and run.on[other, 1 + n_accelerators] != n:
                least = min(least, instance.alone[DEMAND, other, run.on[other, 0]])
        speed = 1.0
        if least < np.inf:
            speed = _share(instance, g, a, least)
            for k in range(instance.curves.shape[3]):
                if instance.curves[0, g, a, k] > least:
                    speed = max(speed, instance.curves[1, g, a, k])
        run.groups[g, _LOSS] = 1.0 - speed
        at = run.by_loss[a, 0]
        while at > 0 and run.groups[run.by_loss[a, at], _LOSS] > 1.0 - speed:
            run.by_loss[a, at + 1] = run.by_loss[a, at]
            at -= 1
        run.by_loss[a, at + 1] = g
        run.by_loss[a, 0] += 1


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
def _advance(instance: Instance, run: Run) -> bool:
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
        if phase == _AWAY:
            state[n_networks + n], time[n_networks + n] = _WAITING, time[4 * n_networks]
        elif phase == _ENTERING:
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
def _left(run: Run, n: int, n_networks: int) -> float:
    """Of the group that network n runs, alone."""
    phase, g = run.state[n_networks + n], run.state[n]
    left = run.time[n]
    if phase == _ENTERING:
        left += run.groups[g, _WORK]
    if phase in (_ENTERING, _RUNNING):
        left += run.groups[g, _LEAVE]
    return left


@compiled
def score(
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
        if goal == _WEIGHTED:
            value += instance.asked[WEIGHT, n] * ends[n]
    if goal == _MAKESPAN:
        value = makespan
    elif goal in (_THROUGHPUT, _MIN_RATE):
        value = -_items(instance) / makespan
    elif goal == _ENERGY:
        value = total
    return (excess if excess > CLOSE else 0.0), value


@inner
def _items(instance: Instance) -> float:
    """Items of a round that the goal counts: of all networks, or of the one with the fewest."""
    least, total = np.inf, 0.0
    for n in range(instance.asked.shape[1]):
        least = min(least, instance.asked[BATCH, n])
        total += instance.asked[BATCH, n]
    return least if instance.goal == _MIN_RATE else total


@compiled
def is_less(excess: float, value: float, than_excess: float, than_value: float) -> bool:
    """Whether a score is less than another by more than rounding."""
    if excess < than_excess - CLOSE:
        return True
    return excess <= than_excess + CLOSE and value < than_value - CLOSE * abs(than_value)


@inner
def _bound(
    instance: Instance, run: Run, energy: float, excess: float, value: float
) -> tuple[float, float]:
    """A lower bound of the score of all that can follow from the state and beats a score.

    The rest of each network alone; and on each accelerator what must run there one after the
    other, in whatever order, with the least loss where it cannot but run beside another one.
    """
    n_networks, n_accelerators = len(instance.first) - 1, instance.alone.shape[2]
    state, time, now = run.state, run.time, run.time[4 * n_networks]
    alone, ends = time[2 * n_networks : 3 * n_networks], time[3 * n_networks : 4 * n_networks]
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
        _look_ahead(instance, run, a)
    if instance.curves.shape[3] > 1:
        _add_losses(instance, run, energy, excess, value)
    makespan = now
    for n in range(n_networks):
        makespan = max(makespan, ends[n])
    for a in range(n_accelerators):
        if run.ahead[a, 1] > 0.0:
            makespan = max(makespan, run.ahead[a, 0] + run.ahead[a, 1] + run.ahead[a, 3])
    bound = score(instance, ends, makespan, energy, True)
    if len(instance.orders):
        trial = alone  # no longer needed
        for a in range(n_accelerators):
            least_excess, least_value = np.inf, np.inf
            for order in instance.orders:
                at = run.ahead[a, 0]
                for n in order:
                    trial[n] = ends[n]
                    if run.ahead[a, 5 + n] > 0.0:
                        at += run.ahead[a, 5 + n]
                        trial[n] = max(ends[n], at + run.ahead[a, 5 + n_networks + n])
                at_best = score(instance, trial, makespan, energy, True)
                if at_best[0] < least_excess or (
                    at_best[0] == least_excess and at_best[1] < least_value
                ):
                    least_excess, least_value = at_best
            if bound[0] < least_excess or (bound[0] == least_excess and bound[1] < least_value):
                bound = least_excess, least_value
    return bound


@inner
def _look_ahead(instance: Instance, run: Run, a: int) -> None:
    """Fills ``ahead`` of an accelerator, and moves the ends of those that wait for it."""
    n_networks, n_accelerators = len(instance.first) - 1, instance.alone.shape[2]
    state, time, now = run.state, run.time, run.time[4 * n_networks]
    alone, ends = time[2 * n_networks : 3 * n_networks], time[3 * n_networks : 4 * n_networks]
    busy, held = state[2 * n_networks + a], state[2 * n_networks + n_accelerators + a]
    free, runs = np.inf, -1
    if busy >= 0:
        free, runs = now + _left(run, busy, n_networks), busy
    elif held >= 0:
        g = run.on[_following(run, held, n_networks), 1 + a]
        free, runs = alone[held] - run.groups[g, _TAIL], held
    load, moves, tail, column = 0.0, 0.0, np.inf, _LOADS + 3 * a
    for n in range(n_networks):
        run.ahead[a, 5 + n] = 0.0
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
        run.ahead[a, 5 + n] = run.groups[g, column]
        run.ahead[a, 5 + n_networks + n] = run.groups[g, column + 2]
        load += run.groups[g, column]
        moves += run.groups[g, column + 1]
        tail = min(tail, run.groups[g, column + 2])
    run.ahead[a, 0], run.ahead[a, 1], run.ahead[a, 2] = free, load, moves
    run.ahead[a, 3], run.ahead[a, 4] = tail, load


@inner
def _add_losses(instance: Instance, run: Run, energy: float, excess: float, value: float) -> None:
    """Adds to the loads in ``ahead`` what is lost at least, if all ends before the horizon.

    Two accelerators with more to do than the horizon leaves time for, one after the other, run
    beside one another for the rest. At best those groups do that lose least.
    """
    if excess > 0.0:
        return
    n_accelerators = instance.alone.shape[2]
    horizon, idle = instance.limits[0], instance.limits[3]
    if instance.goal == _MAKESPAN:
        horizon = min(horizon, value)
    elif value < 0.0:  # a rate, with its sign turned
        horizon = min(horizon, -_items(instance) / value)
    elif instance.goal == _ENERGY and idle > 0.0:
        horizon = min(horizon, (value - energy) / idle)
    if horizon == np.inf:
        return
    now, ahead = run.time[len(run.time) - 1], run.ahead
    for a in range(n_accelerators):
        for b in range(a + 1, n_accelerators):
            if ahead[a, 1] == 0.0 or ahead[b, 1] == 0.0:
                continue
            free_of_loss = horizon - min(ahead[a, 3], ahead[b, 3]) - now
            free_of_loss += ahead[a, 2] + ahead[b, 2]
            for _ in range(3):
                both = ahead[a, 1] + ahead[b, 1] - free_of_loss
                if both <= 0.0:
                    break
                ahead[a, 1] = max(ahead[a, 1], ahead[a, 4] + _least_loss(run, a, both))
                ahead[b, 1] = max(ahead[b, 1], ahead[b, 4] + _least_loss(run, b, both))


@inner
def _least_loss(run: Run, a: int, both: float) -> float:
    """What groups that have not begun lose at least, when they run beside others for so long."""
    lost, n_networks = 0.0, (len(run.time) - 1) // 4
    for at in range(1, 1 + run.by_loss[a, 0]):
        g = run.by_loss[a, at]
        if g < _following(run, run.on[g, len(run.on[g]) - 1], n_networks):
            continue
        loss = run.groups[g, _LOSS]
        beside = min(run.groups[g, _WORK] / (1.0 - loss), both)
        lost += beside * loss
        both -= beside
        if both <= 0.0:
            break
    return lost


@inner
def _following(run: Run, n: int, n_networks: int) -> int:
    """The first group of network n that has not begun."""
    phase = run.state[n_networks + n]
    return run.state[n] + (1 if _WAITING < phase < _ENDED else 0)


@inner
def _options(
    instance: Instance, run: Run, a: int, rule: int, planned: Floats, options: Ints
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
            there = run.on[g, 1 + a]  # the nearest first, as if nothing stood in its way
            begun = state[n]
            key = run.groups[begun, _WHOLE] if phase == _WAITING else _left(run, n, n_networks)
            key += run.groups[begun, _TAIL] - run.groups[there, _TAIL] - run.groups[there, _WHOLE]
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
    if rule == SEARCHED and instance.curves.shape[3] == 1 and instance.limits[2] == np.inf:
        # One that waits and would end before another can come delays nothing.
        least = np.inf
        for at in range(waiting):
            least = min(least, run.groups[state[options[at]], _WHOLE])
        while n_options > waiting and keys[options[n_options - 1]] >= least:
            n_options -= 1
    return 1 if rule != SEARCHED else n_options


@inner
def _decide(run: Run, a: int, n: int, n_networks: int, n_accelerators: int) -> None:
    """Network n is next on accelerator a."""
    g = run.state[n]
    if run.state[n_networks + n] == _WAITING and run.on[g, 0] == a:
        _start(run, n, n_networks)
    else:
        run.state[2 * n_networks + n_accelerators + a] = n


@inner
def _play(  # noqa: PLR0915 - one loop
    instance: Instance,
    run: Run,
    energy: float,
    rule: int,
    planned: Floats,
    best: tuple[float, float],
    most_nodes: Ints,
) -> tuple[float, float, int, bool, tuple[float, float]]:
    """Simulates from the state of ``run``; with ``SEARCHED`` all orders that can beat ``best``.

    Excess and value of the best that was met (``best`` where none is better), whose times go to
    ``run.found``; how many decisions were tried; whether all were; a bound of what beats ``best``.
    """
    n_networks, n_accelerators = len(instance.first) - 1, instance.alone.shape[2]
    depth, nodes = 0, 0
    excess, value = best
    state, time, decisions = run.state, run.time, run.decisions
    ends = time[3 * n_networks : 4 * n_networks]
    of_all, is_start = best, rule == SEARCHED
    while True:
        # Decisions at this time, accelerator by accelerator; none before the bound of all.
        a = n_accelerators if is_start else 0
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
            bound = _bound(instance, run, energy, excess, value)
            is_dead = not is_less(bound[0], bound[1], excess, value)
            if is_start:
                of_all = bound
        if not is_dead and (is_start or _advance(instance, run)):
            is_start = False
            continue
        if not is_dead:
            makespan, is_whole = 0.0, True
            for n in range(n_networks):
                is_whole = is_whole and state[n_networks + n] == _ENDED
                ends[n] = time[n_networks + n]
                makespan = max(makespan, ends[n])
            if is_whole:
                got = score(instance, ends, makespan, energy, False)
                if is_less(got[0], got[1], excess, value):
                    excess, value = got
                    _copy(run.times[0], run.found[0])
                    _copy(run.times[1], run.found[1])
        # Back to the last decision with something left to try.
        while depth > 0 and decisions[depth - 1, 1] == decisions[depth - 1, 0]:
            depth -= 1
        if depth == 0 or nodes > most_nodes[0]:
            return excess, value, nodes, depth == 0, of_all
        _copy(decisions[depth - 1, 3 + n_networks :], state)
        _copy(run.decided_at[depth - 1], time)
        chosen = decisions[depth - 1, 3 + decisions[depth - 1, 1]]
        decisions[depth - 1, 1] += 1
        nodes += 1
        _decide(run, decisions[depth - 1, 2], chosen, n_networks, n_accelerators)


@compiled
def play(
    instance: Instance,
    run: Run,
    assignments: Ints,
    lower: Floats,
    rule: int,
    planned: Floats,
    best_excess: float,
    best_value: float,
    most_nodes: Ints,
    scores: Floats,
    nodes: Ints,
    times: Floats,
) -> int:
    """Simulates assignments [M, G] by a rule; with ``SEARCHED`` those that can beat the best.

    Fills ``scores`` [M, 2], infinite for those that cannot; ``nodes``, the decisions tried of
    each, −1 where ``lower`` [M, 2] was enough and below that where ``most_nodes`` [1] were not:
    then ``lower`` is raised to a bound with contention; and ``times``, starts and ends of the
    groups of the best [2, G]. Which is best; −1: none.
    """
    best, excess, value = -1, best_excess, best_value
    for i in range(len(assignments)):
        searched = rule == SEARCHED
        scores[i, 0], scores[i, 1], nodes[i] = np.inf, np.inf, -1
        if searched and not is_less(lower[i, 0], lower[i, 1], excess, value):
            continue
        energy = _unfold(instance, assignments[i], run)
        goal = (excess, value) if searched else (np.inf, np.inf)
        got = _play(instance, run, energy, rule, planned, goal, most_nodes)
        nodes[i] = got[2] if got[3] else -2 - got[2]
        if not got[3] and is_less(lower[i, 0], lower[i, 1], got[4][0], got[4][1]):
            lower[i, 0], lower[i, 1] = got[4]
        if searched and not is_less(got[0], got[1], excess, value):
            continue
        scores[i, 0], scores[i, 1] = got[0], got[1]
        if best < 0 or is_less(got[0], got[1], excess, value):
            best, excess, value = i, got[0], got[1]
            _copy(run.found[0], times[0])
            _copy(run.found[1], times[1])
    return best


@compiled
def repeat(
    instance: Instance,
    run: Run,
    assignments: Ints,
    slowest: int,
    most: int,
    rounds: Floats,
    times: Floats,
) -> None:
    """Runs the networks of assignments [M, G] again and again, first come first served.

    Until the state at an end of network ``slowest`` is one that was there before, or for ``most``
    of its runs, or fewer where they are very many events; each state is compared with the last
    whose number is a power of two. Fills ``rounds`` [M, N, 5] with whether one was, then since that
    state: runs that ended, sum and largest of their latencies, duration; and ``times`` [2, G] with
    the last whole run of each network.
    """
    n_networks = len(instance.first) - 1
    state, time, now = run.state, run.time, 4 * n_networks
    for i in range(len(assignments)):
        _unfold(instance, assignments[i], run)
        here = rounds[i]
        for n in range(n_networks):
            for k in range(5):
                here[n, k] = 0.0
        begun, n_rounds, n_next, is_known, is_same = 0.0, 0, 1, False, False
        n_events = 0
        while not is_known:
            for a in range(instance.alone.shape[2]):
                while state[2 * n_networks + a] < 0 and _options(
                    instance, run, a, FIRST_COME, time, run.decisions[0, 3:]
                ):
                    _start(run, run.decisions[0, 3], n_networks)
            _advance(instance, run)
            n_events += 1
            is_round = state[n_networks + slowest] == _ENDED
            for n in range(n_networks):
                if state[n_networks + n] == _ENDED:
                    _run_again(instance, run, n, here, times)
            if is_round:
                n_rounds += 1
                has_all = True
                for n in range(n_networks):
                    has_all = has_all and here[n, 1] > 0.0
                # Before the first is remembered, what is there is another assignment's.
                is_same = has_all and n_next > 1 and _is_as_before(instance, run, here)
                is_known = is_same or (has_all and n_rounds >= most)
                is_known = is_known or n_rounds >= 4 * most
                is_known = is_known or (has_all and n_events > _MOST_EVENTS)
                if n_rounds >= n_next and not is_known:
                    _remember(run, here)
                    begun, n_next = time[now], 2 * n_next
        for n in range(n_networks):
            here[n, 0], here[n, 4] = 1.0 if is_same else 0.0, time[now] - begun


@inner
def _run_again(instance: Instance, run: Run, n: int, here: Floats, times: Floats) -> None:
    """A run of network n has ended: its next one begins, or is still to arrive."""
    n_networks, now = len(instance.first) - 1, run.time[len(run.time) - 1]
    latency = now - here[n, 0]
    here[n, 1] += 1.0
    here[n, 2] += latency
    here[n, 3] = max(here[n, 3], latency)
    for g in range(instance.first[n], instance.first[n + 1]):
        times[0, g], times[1, g] = run.times[0, g], run.times[1, g]
    period = instance.asked[PERIOD, n]
    here[n, 0] = here[n, 0] + period if period > 0.0 else now
    run.state[n] = instance.first[n]
    is_there = here[n, 0] <= now
    here[n, 4] = max(here[n, 4], 0.0 if is_there else 1.0)
    run.state[n_networks + n] = _WAITING if is_there else _AWAY
    run.time[n] = here[n, 0] - now
    run.time[n_networks + n] = now


@inner
def _remember(run: Run, here: Floats) -> None:
    n_networks, now = len(here), run.time[len(run.time) - 1]
    _copy(run.state, run.decisions[0, 3 + n_networks :])
    for n in range(n_networks):
        run.decided_at[0, n] = run.time[n]
        run.decided_at[0, n_networks + n] = now - run.time[n_networks + n]
        run.decided_at[0, 2 * n_networks + n] = now - here[n, 0]
        for k in range(1, 5):
            here[n, k] = 0.0


@inner
def _is_as_before(instance: Instance, run: Run, here: Floats) -> bool:
    """Whether the state is that of ``_remember``, but for rounding.

    How long ago the run at hand arrived is part of it, unless runs waited all the time, and longer
    and longer: then it grows for good.
    """
    n_networks, now = len(here), run.time[len(run.time) - 1]
    before = run.decisions[0, 3 + n_networks :]
    for at in range(len(run.state)):
        if run.state[at] != before[at]:
            return False
    for n in range(n_networks):
        later = now - here[n, 0] - run.decided_at[0, 2 * n_networks + n]
        always_waited = instance.asked[PERIOD, n] > 0.0 and here[n, 4] == 0.0
        if abs(later) > CLOSE * now and not (later > 0.0 and always_waited):
            return False
        phase, left = run.state[n_networks + n], run.time[n]
        if phase == _WAITING:
            left = now - run.time[n_networks + n]
            if abs(left - run.decided_at[0, n_networks + n]) > CLOSE * now:
                return False
        elif abs(left - run.decided_at[0, n]) > CLOSE * now:
            return False
    return True


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
    room: Floats,
    used: Ints,
    found: Ints,
    lower: Floats,
) -> int:
    """Combinations of choices that can beat the best, and lower bounds of their scores [·, 2].

    They go to ``found`` and ``lower``; how many. ``room`` [3 A + N] and ``used`` [A] are
    to work in.

    ``first`` [N + 1] is the first choice of each network; choices have ``chain`` and ``energy``
    [P], ``load``, ``head``, ``tail`` and ``segments`` [P, A]. A combination's number counts the
    last network's choices fastest; those of the last network are all met for each number between
    ``begin`` and ``end`` of the others.
    """
    n_networks, n_accelerators = len(first) - 1, load.shape[1]
    last = n_networks - 1
    n_last = first[n_networks] - first[last]
    n_found = 0
    loads, heads = room[:n_accelerators], room[n_accelerators : 2 * n_accelerators]
    tails, ends = room[2 * n_accelerators : 3 * n_accelerators], room[3 * n_accelerators :]
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
            bound = score(instance, ends, makespan, joules + energy[p], True)
            if is_less(bound[0], bound[1], best_excess, best_value):
                found[n_found] = number * n_last + p - first[last]
                lower[n_found, 0] = bound[0]
                lower[n_found, 1] = bound[1]
                n_found += 1
    return n_found


def ascending(scores: Floats) -> Ints:
    """The order of scores [M, 2]; excesses that differ by rounding alone are one."""
    return np.lexsort((scores[:, 1], np.round(scores[:, 0] / CLOSE)))


def can_beat(lower: Floats, best: Score) -> npt.NDArray[np.bool_]:
    """Which scores [M, 2] are less than another one, as ``is_less``."""
    excess, value = best
    if excess == np.inf:
        return np.ones(len(lower), bool)
    fits = lower[:, 0] <= excess + CLOSE
    return (lower[:, 0] < excess - CLOSE) | (fits & (lower[:, 1] < value - CLOSE * abs(value)))


@dataclass(frozen=True)
class Played:
    """What simulations of M assignments gave."""

    scores: Floats  # [M, 2] of those that beat the best; infinite: others
    nodes: Ints  # [M] decisions tried; −1: the bound was enough; below: −2 − those tried
    lower: Floats  # [M, 2] bounds of those that were not searched to the end
    best: int  # −1: none
    times: Floats  # [2, G] starts and ends of its groups

    @property
    def score(self) -> Score:
        """Of the best."""
        return float(self.scores[self.best, 0]), float(self.scores[self.best, 1])


def simulate(
    instance: Instance,
    run: Run,
    assignments: Ints,
    *,
    planned: Floats | None = None,
    lower: Floats | None = None,
    best: Score = WORST,
    most_nodes: Ints | None = None,
) -> Played:
    """Simulates assignments [M, G] first come first served, or by starts of a plan [G].

    With ``lower``, bounds of their scores [M, 2], all orders that can beat ``best``, up to
    ``most_nodes`` [1] decisions of each. It is read again and again: another thread can end this
    one by it.
    """
    n, n_groups = assignments.shape
    scores, nodes, times = np.empty((n, 2)), np.empty(n, np.int64), np.zeros((2, n_groups))
    raised = np.zeros((n, 2)) if lower is None else np.array(lower)
    rule = FIRST_COME if planned is None else PLANNED
    found = play(
        instance,
        run,
        np.ascontiguousarray(assignments),  # another layout would be compiled for anew
        raised,
        rule if lower is None else SEARCHED,
        np.zeros(1) if planned is None else planned,
        *best,
        np.zeros(1, np.int64) if most_nodes is None else most_nodes,
        scores,
        nodes,
        times,
    )
    return Played(scores, nodes, raised, int(found), times)
