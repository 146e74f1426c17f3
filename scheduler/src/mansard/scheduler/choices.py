"""All assignments of a network, combinations that can beat a score, and a bound on all of them.

The bound is for spaces too large to look at each assignment. For weights w of accelerators that sum
to one, no makespan is below Σ w · load, so none is below the sum of what each network adds to it at
least (Lagrangian relaxation of the loads). The least of a network, with its number of changes, is a
shortest path; the best weights are climbed to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mansard.scheduler.chains import (
    ENERGY,
    ENTER,
    LEAVE,
    TIME,
    Floats,
    Ints,
    ProblemArrays,
    lengths,
)
from mansard.scheduler.simulation import Score, bound_combinations, score

_STEPS, _FEWEST_STEPS = 60, 20  # the fewest: also where the time is over


_BLOCK = 1 << 19  # combinations bounded in one call


@dataclass(frozen=True)
class Choices:
    """All assignments of one network [P, G], and their load on each accelerator [P, A]."""

    on: Ints
    chain: Floats  # [P] alone
    energy: Floats  # [P]
    load: Floats
    head: Floats  # before the first group there
    tail: Floats  # after the last one
    segments: Ints


def list_choices(arrays: ProblemArrays, network: int) -> Choices:
    """All assignments of a network within its number of changes, whose costs are known."""
    instance, most = arrays.instance, arrays.max_transitions[network]
    alone = instance.alone
    begin, end = instance.first[network], instance.first[network + 1]
    takes = np.isfinite(instance.alone[TIME])
    on = np.flatnonzero(takes[begin])[:, None]
    changes = np.zeros(len(on), np.int64)
    for g in range(begin + 1, end):
        at = on[:, -1]
        rows: list[Ints] = []
        counts: list[Ints] = []
        for a in np.flatnonzero(takes[g]):
            cost = np.where(at == a, 0.0, alone[LEAVE, g - 1, at] + alone[ENTER, g, a])
            count = changes + (at != a)
            is_allowed = np.isfinite(cost) & (count <= most)
            allowed = on[is_allowed]
            rows.append(np.concatenate([allowed, np.full((len(allowed), 1), a)], axis=1))
            counts.append(count[is_allowed])
        on, changes = np.concatenate(rows), np.concatenate(counts)
    whole, changed = lengths(instance, begin, on)
    after = np.cumsum(whole[:, ::-1], axis=1)[:, ::-1]  # from the start of each group
    chain = after[:, 0]
    n_accelerators = len(arrays.names)
    load, head, tail = (np.zeros((len(on), n_accelerators)) for _ in range(3))
    segments = np.zeros((len(on), n_accelerators), np.int64)
    begins = np.column_stack([np.ones(len(on), bool), changed])
    for number in range(n_accelerators):
        here = on == number
        load[:, number] = (whole * here).sum(axis=1)
        first, last = here.argmax(axis=1), on.shape[1] - 1 - here[:, ::-1].argmax(axis=1)
        row = np.arange(len(on))
        head[:, number] = chain - after[row, first]
        tail[:, number] = after[row, last] - whole[row, last]
        segments[:, number] = (begins & here).sum(axis=1)
    energy = alone[ENERGY, np.arange(begin, end), on].sum(axis=1)
    return Choices(on, chain, energy, load, head, tail, segments)


def count_choices(arrays: ProblemArrays, network: int) -> int:
    """How many assignments ``list_choices`` gives, without making them."""
    alone, most = arrays.instance.alone, arrays.max_transitions[network]
    begin, end = arrays.instance.first[network], arrays.instance.first[network + 1]
    takes = np.isfinite(alone[TIME, begin:end])
    cost = alone[LEAVE, begin : end - 1, :, None] + alone[ENTER, begin + 1 : end, None]
    counts = np.zeros((len(takes[0]), most + 1), object)  # [accelerator, changes], without end
    counts[:, 0] = [int(is_taken) for is_taken in takes[0]]
    is_other = ~np.eye(len(counts), dtype=bool)
    for is_taken, is_offered in zip(takes[1:], np.isfinite(cost) & is_other, strict=True):
        following = np.zeros_like(counts)
        for to in np.flatnonzero(is_taken):
            following[to] = counts[to]
            following[to, 1:] += counts[is_offered[:, to], :-1].sum(axis=0)
        counts = following
    return int(counts.sum())


def promising(
    arrays: ProblemArrays, all_choices: Sequence[Choices], best: Score
) -> Iterator[tuple[float, Ints, Floats]]:
    """Yield combinations that can beat a score, and their bounds [M, 2], block by block.

    First the share of all that was looked at by then. A combination's number counts the choices
    of the last network fastest.
    """
    instance = arrays.instance
    sizes = [len(chosen.on) for chosen in all_choices]
    first = np.cumsum([0, *sizes])
    tables = [
        np.concatenate([getattr(chosen, field) for chosen in all_choices])
        for field in ("chain", "load", "head", "tail", "energy", "segments")
    ]
    n_outer, n_accelerators = math.prod(sizes[:-1]), len(arrays.names)
    step = min(max(1, _BLOCK // sizes[-1]), n_outer)
    room, used = np.zeros(3 * n_accelerators + len(sizes)), np.zeros(n_accelerators, np.int64)
    numbers, lower = np.empty(step * sizes[-1], np.int64), np.empty((step * sizes[-1], 2))
    for begin in range(0, n_outer, step):
        end = min(begin + step, n_outer)
        n = bound_combinations(
            instance,
            first,
            *tables,
            arrays.most_segments,
            begin,
            end,
            *best,
            room,
            used,
            numbers,
            lower,
        )
        yield end / n_outer, numbers[:n].copy(), lower[:n].copy()


def assignments(all_choices: Sequence[Choices], ids: Ints) -> Ints:
    """Assignments [M, G] of combinations by their numbers."""
    columns, rest = [], ids.copy()
    for chosen in reversed(all_choices):
        columns.append(chosen.on[rest % len(chosen.on)])
        rest //= len(chosen.on)
    return np.concatenate(columns[::-1], axis=1)


def space_bound(arrays: ProblemArrays, is_late: Callable[[], bool]) -> Score:
    """A lower bound on the score of every assignment; less tight if little time is left."""
    networks = range(len(arrays.problem.networks))
    n_accelerators = len(arrays.names)
    ones, zeros = np.ones(n_accelerators), np.zeros(n_accelerators)
    ends = np.array([least(arrays, n, ones, 0.0)[0] for n in networks])
    energy = sum(least(arrays, n, zeros, 1.0)[0] for n in networks)
    makespan, best = float(ends.max()), 0.0
    weights = ones / n_accelerators
    for step in range(_STEPS):
        cheapest = [least(arrays, n, weights, 0.0) for n in networks]
        bound = sum(cost for cost, _ in cheapest)
        best = max(best, bound)
        loads = np.sum([_loads(arrays, n, on) for n, (_, on) in enumerate(cheapest)], axis=0)
        slope = loads - loads.mean()
        if not slope.any() or (step >= _FEWEST_STEPS and is_late()):
            break
        weights = _simplex(weights + slope / np.abs(slope).max() * 0.5 / (1 + step) ** 0.75)
    excess, value = score(arrays.instance, ends, max(makespan, best), energy, True)
    return float(excess), float(value)


def _simplex(weights: Floats) -> Floats:
    """The nearest weights that are not negative and sum to one."""
    ordered = np.sort(weights)[::-1]
    over = (np.cumsum(ordered) - 1) / np.arange(1, len(weights) + 1)
    clipped: Floats = np.clip(weights - over[np.flatnonzero(ordered > over)[-1]], 0, None)
    return clipped


def least(
    arrays: ProblemArrays, network: int, weights: Floats, energy_weight: float
) -> tuple[float, Ints]:
    """The least Σ weight · time + energy_weight · energy of a network, and its assignment [G]."""
    alone, first = arrays.instance.alone, arrays.instance.first
    n_accelerators, most = len(arrays.names), arrays.max_transitions[network]
    accelerators = np.arange(n_accelerators)

    def weighted(table: int) -> Floats:  # 0 · inf stays infinite
        known = np.isfinite(alone[table])
        return np.where(known, np.where(known, alone[table], 0.0) * weights, np.inf)

    price = weighted(TIME)
    price += np.where(np.isfinite(price), alone[ENERGY], 0.0) * energy_weight
    enter, leave = weighted(ENTER), weighted(LEAVE)
    begin, end = int(first[network]), int(first[network + 1])
    costs = np.full((most + 1, n_accelerators), np.inf)  # by changes so far, and accelerator
    costs[0] = price[begin]
    before = np.tile(
        accelerators, (end - begin, most + 1, 1)
    )  # the accelerator of the group before
    for g in range(begin + 1, end):
        change = costs[:-1, :, None] + leave[g - 1][:, None] + enter[g]  # count, left, entered
        change[:, accelerators, accelerators] = np.inf
        moved = np.full_like(costs, np.inf)
        moved[1:] = change.min(axis=1, initial=np.inf)
        is_moved = moved < costs
        if most:
            before[g - begin, 1:] = np.where(is_moved[1:], change.argmin(axis=1), accelerators)
        costs = np.where(is_moved, moved, costs) + price[g]
    count, at = np.unravel_index(costs.argmin(), costs.shape)
    cost, on = float(costs[count, at]), np.empty(end - begin, np.int64)
    for g in range(end - begin - 1, -1, -1):
        on[g] = at
        left = before[g, count, at]
        count, at = (count - 1 if left != at else count), left
    return cost, on


def _loads(arrays: ProblemArrays, network: int, on: Ints) -> Floats:
    whole, _ = lengths(arrays.instance, arrays.instance.first[network], on[None])
    loads: Floats = np.bincount(on, whole[0], minlength=len(arrays.names)).astype(float)
    return loads
