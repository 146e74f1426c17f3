"""The best assignment for networks that repeat, first come first served.

Each network has one run at a time: the next follows the last, or arrives at its rate and waits for
its turn. A round is the longest time between two ends of one network.
"""

from __future__ import annotations

import math

import numpy as np

from mansard.core.errors import InputError
from mansard.core.records.schedule import Schedule
from mansard.scheduler.chains import (
    BATCH,
    DEADLINE,
    ENERGY,
    GOALS,
    PERIOD,
    WEIGHT,
    Floats,
    Ints,
    ProblemArrays,
)
from mansard.scheduler.choices import assignments, least, list_choices
from mansard.scheduler.local_search import SearchClock, blocks, descend
from mansard.scheduler.records import (
    SHORT,
    SearchSummary,
    printed_bound,
    record_repeats,
    space_text,
)
from mansard.scheduler.simulation import CLOSE, Played, Score, ascending, is_less, new_run, repeat

_LARGE = 300_000  # combinations of which each is looked at
# Of the slowest network, where no state returns: while searching, and of what is printed.
_RUNS, _LONG_RUNS = 256, 4096
_ROUNDING = 1e-6  # of a rate, between two states that are one
_BATCH = 64
_ROUNDS, _LOCAL_ROUNDS = 4, 100


class _Repeated:
    """Simulates assignments of one problem."""

    def __init__(self, arrays: ProblemArrays) -> None:
        self.arrays, self.run, self.most = arrays, new_run(arrays.instance), _RUNS
        shortest = [least(arrays, n, np.ones(len(arrays.names)), 0.0)[0] for n in _networks(arrays)]
        self.slowest = int(np.maximum(arrays.instance.asked[PERIOD], shortest).argmax())

    def __call__(self, rows: Ints) -> Played:
        got, times = self.rates(rows)
        excess, values = _scores(self.arrays, rows, *got)
        scores = np.column_stack([excess, values])
        best = int(ascending(scores)[0])
        return Played(scores, np.zeros(len(rows), np.int64), scores, best, times)

    def rates(self, rows: Ints) -> tuple[tuple[Floats, Floats, Floats], Floats]:
        """Mean and largest latency, runs per second [M, N]; times of the last assignment."""
        instance = self.arrays.instance
        rounds = np.zeros((len(rows), instance.asked.shape[1], 5))
        times = np.zeros((2, instance.alone.shape[1]))
        rows = np.ascontiguousarray(rows)
        repeat(instance, self.run, rows, self.slowest, self.most, rounds, times)
        runs = np.maximum(rounds[:, :, 1], 1e-9)
        period, runs_per_s = instance.asked[PERIOD], runs / rounds[:, :, 4]
        # Where no state returned, a run or two more in the window are no lack of rate; where one
        # did, rounding is none.
        late = rounds[:, :, 4] - runs * period
        spare = np.where(rounds[:, :, 0] == 0, 2 * period, _ROUNDING * rounds[:, :, 4])
        keeps_up = (period > 0) & (late <= spare)
        runs_per_s = np.where(keeps_up, 1 / np.where(keeps_up, period, 1.0), runs_per_s)
        return (rounds[:, :, 2] / runs, rounds[:, :, 3], runs_per_s), times


def _networks(arrays: ProblemArrays) -> range:
    return range(len(arrays.problem.networks))


def _scores(
    arrays: ProblemArrays, rows: Ints, mean: Floats, largest: Floats, runs_per_s: Floats
) -> tuple[Floats, Floats]:
    """How far limits are exceeded, and the goal, of assignments [M]; less is better."""
    alone, first = arrays.instance.alone, arrays.instance.first
    energy = alone[ENERGY, np.arange(rows.shape[1]), rows]
    joules = np.add.reduceat(energy, first[:-1], axis=1)
    asked = arrays.instance.asked
    wanted = np.divide(1, asked[PERIOD], out=np.zeros_like(asked[PERIOD]), where=asked[PERIOD] > 0)
    short = np.where(runs_per_s < wanted * (1 - SHORT), wanted / runs_per_s - 1, 0.0)
    return _score(arrays, mean, largest, runs_per_s, joules, short.sum(axis=1))


def _score(
    arrays: ProblemArrays,
    mean: Floats,
    largest: Floats,
    runs_per_s: Floats,
    joules: Floats,
    excess: Floats,
) -> tuple[Floats, Floats]:
    instance, goal = arrays.instance, GOALS[arrays.instance.goal]
    batch, weight, deadline = instance.asked[[BATCH, WEIGHT, DEADLINE]]
    makespan = 1 / runs_per_s.min(axis=1)
    power = instance.limits[3] + (joules * runs_per_s).sum(axis=1)
    spent = (makespan, power * makespan, power)
    for value, limit in zip(spent, instance.limits[:3], strict=True):
        excess = excess + np.maximum(value / limit - 1, 0)
    if goal != "misses":
        excess = excess + np.maximum(largest / deadline - 1, 0).sum(axis=1)
    excess = np.where(excess > CLOSE, excess, 0.0)
    values: dict[str, Floats] = {
        "makespan": makespan,
        "throughput": -(batch * runs_per_s).sum(axis=1),
        "min_rate": -(batch * runs_per_s).min(axis=1),
        "weighted_latency": (weight * mean).sum(axis=1),
        "energy": power * makespan,
        "misses": (largest > deadline * (1 + CLOSE)).sum(axis=1).astype(float),
    }
    return excess, values[goal]


def _bounds(arrays: ProblemArrays, chain: Floats, load: Floats, joules: Floats) -> Floats:
    """Lower bounds of scores [M, 2] of ``chain`` and ``joules`` [M, N] and ``load`` [M, N, A].

    A network is no faster than alone, and an accelerator runs one second each second.
    """
    instance = arrays.instance
    batch, period = instance.asked[BATCH], instance.asked[PERIOD]
    fastest = 1 / np.maximum(chain, period)
    wanted = np.divide(1, period, out=np.zeros_like(period), where=period > 0)
    used = (load * wanted[:, None]).sum(axis=1).max(axis=1)
    late = (chain * wanted).max(axis=1)
    excess = np.maximum(np.maximum(used, late) - 1 - 2 * SHORT, 0)
    makespan = np.maximum((1 / fastest).max(axis=1), load.sum(axis=1).max(axis=1))
    goal = GOALS[instance.goal]
    if goal in ("throughput", "min_rate"):
        rates = np.stack([_most(batch, fastest, load[:, :, a]) for a in range(load.shape[2])])
        value = -rates.min(axis=0)
        if goal == "min_rate":
            shared = (load / batch[:, None]).sum(axis=1).max(axis=1)
            with np.errstate(divide="ignore"):
                value = -np.minimum((fastest * batch).min(axis=1), 1 / shared)
    else:
        slowest = np.tile(1 / makespan[:, None], chain.shape[1])  # nothing is known of the others
        _, value = _score(arrays, chain, chain, slowest, joules, np.zeros(len(chain)))
        if goal == "energy":
            value = joules.sum(axis=1) + instance.limits[3] * makespan
    over = np.maximum(makespan / instance.limits[0] - 1, 0)
    energy = joules.sum(axis=1) + instance.limits[3] * makespan
    over += np.maximum(energy / instance.limits[1] - 1, 0)
    if goal != "misses":
        over += np.maximum(chain / instance.asked[DEADLINE] - 1, 0).sum(axis=1)
    excess = excess + np.where(over > CLOSE, over, 0)
    return np.column_stack([excess, value])


def _most(batch: Floats, fastest: Floats, load: Floats) -> Floats:
    """The largest sum of batch · rate [M] with Σ rate · load ≤ 1: the most items a second first."""
    with np.errstate(divide="ignore"):
        worth = np.where(load > 0, batch / load, np.inf)
    order = np.argsort(-worth, axis=1)
    rates, loads = (np.take_along_axis(values, order, axis=1) for values in (fastest, load))
    used = rates * loads
    left = np.clip(1 - (np.cumsum(used, axis=1) - used), 0, None)
    share = np.where(used > 0, np.minimum(used, left) / np.where(used > 0, used, 1), 1.0)
    most: Floats = (share * rates * batch[order]).sum(axis=1)
    return most


def solve_steady(
    arrays: ProblemArrays, size: int, clock: SearchClock, start: Ints, seed: int
) -> Schedule:
    """The best assignment under first come first served; InputError for rates above capacity."""
    repeats = _Repeated(arrays)
    n_rounds = _ROUNDS if size <= _LARGE else _LOCAL_ROUNDS
    n_simulated = 0
    while True:
        best, n = descend(arrays, start, seed, n_rounds, clock, repeats)
        n_simulated += n
        score = repeats(best[None]).score
        if size <= _LARGE:
            method, way = "exact", "each first come first served"
            best, score, bound, n = _search(arrays, repeats, best, score, clock)
            n_simulated += n
        else:
            method, way = "local", "searched locally, first come first served"
            bound = _space_bound(arrays)
        is_long, repeats.most = repeats.most == _LONG_RUNS, _LONG_RUNS
        if is_long or clock.is_late() or repeats(best[None]).score[0] <= score[0] + SHORT:
            break  # else its limits are kept for a while alone
        start = best
    (mean, largest, runs_per_s), times = repeats.rates(best[None])
    _check_capacity(arrays, runs_per_s[0])
    is_optimal, at_best = printed_bound(arrays.instance.goal, score, bound)
    search = SearchSummary(
        method=method,
        bound=at_best,
        is_optimal=is_optimal,
        space=f"{space_text(size)}, {way}",
        n_assignments=size,
        n_simulated=n_simulated,
        solve_s=clock.spent_s,
    )
    rates = runs_per_s[0] * arrays.instance.asked[BATCH]
    return record_repeats(arrays, best, times, search, (mean[0], largest[0], rates))


def evaluate_steady(arrays: ProblemArrays, on: Ints, method: str, clock: SearchClock) -> Schedule:
    """Simulate one assignment [G], first come first served."""
    repeats = _Repeated(arrays)
    repeats.most = _LONG_RUNS
    (mean, largest, runs_per_s), times = repeats.rates(on[None])
    search = SearchSummary(
        method, None, False, "one assignment, first come first served", 1, 1, clock.spent_s
    )
    rates = runs_per_s[0] * arrays.instance.asked[BATCH]
    return record_repeats(arrays, on, times, search, (mean[0], largest[0], rates))


def _space_bound(arrays: ProblemArrays) -> Score:
    ones, zeros = np.ones(len(arrays.names)), np.zeros(len(arrays.names))
    chain = np.array([[least(arrays, n, ones, 0.0)[0] for n in _networks(arrays)]])
    joules = np.array([[least(arrays, n, zeros, 1.0)[0] for n in _networks(arrays)]])
    lower = _bounds(arrays, chain, np.zeros((*chain.shape, len(arrays.names))), joules)[0]
    return float(lower[0]), float(lower[1])


def _search(
    arrays: ProblemArrays, repeats: _Repeated, best: Ints, score: Score, clock: SearchClock
) -> tuple[Ints, Score, Score, int]:
    """All assignments by ascending bounds: the best, its score, a bound, how many simulated."""
    all_choices = [list_choices(arrays, n) for n in _networks(arrays)]
    ids = np.arange(math.prod(len(chosen.on) for chosen in all_choices))
    digits: list[Ints] = []
    rest = ids
    for chosen in reversed(all_choices):
        digits.insert(0, rest % len(chosen.on))
        rest = rest // len(chosen.on)
    both = list(zip(all_choices, digits, strict=True))
    chain, load, joules, segments = (
        np.stack([getattr(chosen, field)[at] for chosen, at in both], axis=1)
        for field in ("chain", "load", "energy", "segments")
    )
    fits = (segments.sum(axis=1) <= arrays.most_segments).all(axis=1)
    if not fits.any():
        raise InputError("no assignment keeps to the most segments of each accelerator")
    ids, lower = ids[fits], _bounds(arrays, chain[fits], load[fits], joules[fits])
    order = ascending(lower)
    ids, lower, at = ids[order], lower[order], 0
    while at < len(ids) and is_less(*lower[at], *score):
        for rows in blocks(assignments(all_choices, ids[at : at + _BATCH]), clock):
            at += len(rows)
            played = repeats(rows)
            if is_less(*played.score, *score):
                best, score = rows[played.best], played.score
        if clock.is_late() and at < len(ids):
            return best, score, (float(lower[at, 0]), float(lower[at, 1])), at
        clock.progress(at / len(ids), f"{at} assignments simulated")
    return best, score, score, at


def _check_capacity(arrays: ProblemArrays, runs_per_s: Floats) -> None:
    """Raise InputError if the best assignment is slower than the arrival rates."""
    networks = arrays.problem.networks
    rates = runs_per_s * arrays.instance.asked[BATCH]
    asked = np.array([network.rate_per_s for network in networks])
    if (rates >= asked * (1 - SHORT)).all():
        return
    reached = ", ".join(
        f"{network.name} {rate:.4g} of {network.rate_per_s:g}"
        for network, rate in zip(networks, rates, strict=True)
        if network.rate_per_s
    )
    raise InputError(
        f"these rates are above capacity: the highest that was reached is {reached} per second",
        where=", ".join(n.name for n, r, a in zip(networks, rates, asked, strict=True) if r < a),
        fix="lower the rates, allow more transitions, or take an accelerator more",
    )
