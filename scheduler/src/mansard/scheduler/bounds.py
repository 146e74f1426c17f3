"""A lower bound of every assignment's score, for spaces too large to look at each.

For weights w of accelerators that sum to one, no makespan is below Σ w · load, so none is below the
sum of what each network adds to it at least (Lagrangian relaxation of the loads). The least of a
network, with its number of changes, is a shortest path; the best weights are climbed to.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mansard.scheduler.chains import ENERGY, ENTER, LEAVE, TIME, Chains, Floats, Ints, lengths
from mansard.scheduler.simulation import Score, score

_STEPS, _FEWEST_STEPS = 60, 20  # the fewest: also where the time is over


def space_bound(made: Chains, is_late: Callable[[], bool]) -> Score:
    """What no assignment's score is below, contention or not; looser where it is soon late."""
    networks = range(len(made.problem.networks))
    n_accelerators = len(made.names)
    ones, zeros = np.ones(n_accelerators), np.zeros(n_accelerators)
    ends = np.array([least(made, n, ones, 0.0)[0] for n in networks])
    energy = sum(least(made, n, zeros, 1.0)[0] for n in networks)
    makespan, best = float(ends.max()), 0.0
    weights = ones / n_accelerators
    for step in range(_STEPS):
        each = [least(made, n, weights, 0.0) for n in networks]
        bound = sum(cost for cost, _ in each)
        best = max(best, bound)
        loads = np.sum([_loads(made, n, on) for n, (_, on) in enumerate(each)], axis=0)
        slope = loads - loads.mean()
        if not slope.any() or (step >= _FEWEST_STEPS and is_late()):
            break
        weights = _simplex(weights + slope / np.abs(slope).max() * 0.5 / (1 + step) ** 0.75)
    excess, value = score(made.instance, ends, max(makespan, best), energy, True)
    return float(excess), float(value)


def _simplex(weights: Floats) -> Floats:
    """The nearest weights that are not negative and sum to one."""
    ordered = np.sort(weights)[::-1]
    over = (np.cumsum(ordered) - 1) / np.arange(1, len(weights) + 1)
    clipped: Floats = np.clip(weights - over[np.flatnonzero(ordered > over)[-1]], 0, None)
    return clipped


def least(made: Chains, network: int, weights: Floats, energy_weight: float) -> tuple[float, Ints]:
    """The least Σ weight · time + energy_weight · energy of a network, and its assignment [G]."""
    alone, first = made.instance.alone, made.instance.first
    n_accelerators, most = len(made.names), made.max_transitions[network]
    each = np.arange(n_accelerators)

    def weighted(table: int) -> Floats:  # 0 · inf stays infinite
        known = np.isfinite(alone[table])
        return np.where(known, np.where(known, alone[table], 0.0) * weights, np.inf)

    price = weighted(TIME)
    price += np.where(np.isfinite(price), alone[ENERGY], 0.0) * energy_weight
    enter, leave = weighted(ENTER), weighted(LEAVE)
    begin, end = int(first[network]), int(first[network + 1])
    costs = np.full((most + 1, n_accelerators), np.inf)  # by changes so far, and accelerator
    costs[0] = price[begin]
    before = np.tile(each, (end - begin, most + 1, 1))  # the accelerator of the group before
    for g in range(begin + 1, end):
        change = costs[:-1, :, None] + leave[g - 1][:, None] + enter[g]  # count, left, entered
        change[:, each, each] = np.inf
        moved = np.full_like(costs, np.inf)
        moved[1:] = change.min(axis=1, initial=np.inf)
        is_moved = moved < costs
        if most:
            before[g - begin, 1:] = np.where(is_moved[1:], change.argmin(axis=1), each)
        costs = np.where(is_moved, moved, costs) + price[g]
    count, at = np.unravel_index(costs.argmin(), costs.shape)
    cost, on = float(costs[count, at]), np.empty(end - begin, np.int64)
    for g in range(end - begin - 1, -1, -1):
        on[g] = at
        left = before[g, count, at]
        count, at = (count - 1 if left != at else count), left
    return cost, on


def _loads(made: Chains, network: int, on: Ints) -> Floats:
    whole, _ = lengths(made.instance, made.instance.first[network], on[None])
    loads: Floats = np.bincount(on, whole[0], minlength=len(made.names)).astype(float)
    return loads
