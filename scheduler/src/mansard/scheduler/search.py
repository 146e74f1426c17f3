"""The best schedule: every assignment that a bound does not rule out, in every order of groups.

An assignment gives each group an accelerator, with at most so many changes in each network. Its
bound is that of its networks alone and of its accelerators' loads, without contention, which only
slows down. Assignments are searched from the best bound on until a bound reaches the best score.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mansard.core.errors import InputError
from mansard.core.records.schedule import Problem, Schedule
from mansard.scheduler.chains import (
    ENERGY,
    ENTER,
    LEAVE,
    TIME,
    Chains,
    Floats,
    Ints,
    chains,
    group_at,
)
from mansard.scheduler.records import Search, one_shot, printed
from mansard.scheduler.simulation import (
    FIRST_COME,
    PLANNED,
    SEARCHED,
    bound_combinations,
    play,
)

Method = Literal["auto", "exact", "local"]
Progress = Callable[[float, str], None]  # share of the work that is done, and a line on it

_NODES = 20_000  # decisions tried of an assignment before others get their turn
_BATCH = 256
_BLOCK = 1 << 19  # combinations bounded in one call


@dataclass(frozen=True)
class Choices:
    """All assignments of one network [P, G], and what they ask of each accelerator [P, A]."""

    on: Ints
    chain: Floats  # [P] alone
    energy: Floats  # [P]
    load: Floats
    head: Floats  # before the first group there
    tail: Floats  # after the last one
    segments: Ints


def choices(chains: Chains, network: int) -> Choices:
    """Every assignment of a network with its number of changes at most, where costs are known."""
    instance, most = chains.instance, chains.max_transitions[network]
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
            kept = np.isfinite(cost) & (count <= most)
            rows.append(np.column_stack([on[kept], np.full(kept.sum(), a)]))
            counts.append(count[kept])
        on, changes = np.concatenate(rows), np.concatenate(counts)
        if not len(on):
            name, group = group_at(chains.problem, int(g))
            raise InputError(
                f"no accelerator takes the groups up to {name.groups[group].name} with"
                f" {most} changes at most whose cost is known",
                where=name.name,
                fix="allow more transitions, or measure what the missing ones cost",
            )
    groups = np.arange(begin, end)
    whole = alone[TIME, groups, on]
    changed = on[:, 1:] != on[:, :-1]
    whole[:, 1:] += np.where(changed, alone[ENTER, groups[1:], on[:, 1:]], 0.0)
    whole[:, :-1] += np.where(changed, alone[LEAVE, groups[:-1], on[:, :-1]], 0.0)
    after = np.cumsum(whole[:, ::-1], axis=1)[:, ::-1]  # from the start of each group
    chain = after[:, 0]
    n_accelerators = len(chains.names)
    load, head, tail = (np.zeros((len(on), n_accelerators)) for _ in range(3))
    segments = np.zeros((len(on), n_accelerators), np.int64)
    begins = np.column_stack([np.ones(len(on), bool), changed])
    for number in range(n_accelerators):
        here = on == number
        load[:, number] = (whole * here).sum(axis=1)
        first, last = here.argmax(axis=1), on.shape[1] - 1 - here[:, ::-1].argmax(axis=1)
        each = np.arange(len(on))
        head[:, number] = chain - after[each, first]
        tail[:, number] = after[each, last] - whole[each, last]
        segments[:, number] = (begins & here).sum(axis=1)
    energy = alone[ENERGY, groups, on].sum(axis=1)
    return Choices(on, chain, energy, load, head, tail, segments)


def n_choices(chains: Chains, network: int) -> int:
    """How many ``choices`` a network has, without making them."""
    instance = chains.instance
    most, n_accelerators = chains.max_transitions[network], len(chains.names)
    begin, end = instance.first[network], instance.first[network + 1]
    takes = np.isfinite(instance.alone[TIME])
    counts = np.array([[int(t)] + [0] * most for t in takes[begin]], dtype=object)
    for g in range(begin + 1, end):
        following = counts * takes[g][:, None]
        for a in range(n_accelerators):
            for b in range(n_accelerators):
                if a != b and takes[g, b] and chains.is_offered(g - 1, a, b):
                    following[b, 1:] += counts[a, :-1]
        counts = following
    return int(counts.sum())


def evaluate(
    problem: Problem,
    assignment: Sequence[Sequence[str]],
    method: str,
    starts: Sequence[Sequence[float]] | None = None,
) -> Schedule:
    """What an assignment [network][group] of accelerators' names does, by the simulator.

    Groups run first come first served, or on each accelerator in the order of ``starts``
    [network][group], seconds. Any number of changes is allowed. Raises InputError where a group's
    time or the cost of a change is not known.
    """
    begun = time.perf_counter()
    made = chains(problem)
    on = _assignment(made, assignment)
    planned = np.concatenate([np.asarray(s, float) for s in starts]) if starts else np.zeros(1)
    scores, _, _, times = play(
        made.instance,
        on[None],
        np.zeros((1, 2)),
        PLANNED if starts else FIRST_COME,
        planned,
        math.inf,
        math.inf,
        0,
    )
    if not np.isfinite(scores[0, 0]):
        raise InputError("the starts of these groups cannot be kept: they wait for one another")
    found = Search(
        method=method,
        bound=None,
        is_optimal=False,
        space="one assignment, " + ("its own order" if starts else "first come first served"),
        n_assignments=1,
        n_simulated=1,
        solve_s=time.perf_counter() - begun,
    )
    return one_shot(made, on, times, found)


def _assignment(made: Chains, assignment: Sequence[Sequence[str]]) -> Ints:
    """Indices [G] of accelerators; InputError where one cannot run what it is given."""
    problem, instance, names = made.problem, made.instance, made.names
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
        if at and a != before and not made.is_offered(g - 1, before, a):
            raise InputError(
                f"what a change from {names[before]} to {names[a]} costs is not known",
                where=where,
                fix=f"give leave_s of {network.groups[at - 1].name} on {names[before]} and"
                f" enter_s of {network.groups[at].name} on {names[a]}",
            )
    return on


def solve(
    problem: Problem,
    *,
    method: Method = "auto",  # noqa: ARG001 - exact alone, so far
    time_limit_s: float = 60.0,
    seed: int = 0,  # noqa: ARG001
    progress: Progress | None = None,
) -> Schedule:
    """The best schedule of ``problem``, with its proof or its gap.

    After ``time_limit_s`` the best that was found, with the bound of what was not searched.
    Raises InputError for a problem that cannot be scheduled.
    """
    return _exact(chains(problem), time_limit_s, progress)


def _exact(made: Chains, time_limit_s: float, progress: Progress | None) -> Schedule:
    begun = time.perf_counter()
    instance = made.instance
    all_choices = [choices(made, n) for n in range(len(made.problem.networks))]
    sizes = [len(c.on) for c in all_choices]
    first = np.cumsum([0, *sizes])
    tables = [
        np.concatenate([getattr(c, field) for c in all_choices])
        for field in ("chain", "load", "head", "tail", "energy", "segments")
    ]
    n_outer = math.prod(sizes[:-1])
    step = max(1, _BLOCK // sizes[-1])
    best_score = (math.inf, math.inf)
    found = [
        bound_combinations(
            instance, first, *tables, made.most_segments, at, min(at + step, n_outer), *best_score
        )
        for at in range(0, n_outer, step)
    ]
    ids = np.concatenate([ids for ids, _ in found])
    lower = np.concatenate([lower for _, lower in found])
    if not len(ids):
        raise InputError("no assignment keeps to the most segments of each accelerator")
    order = np.lexsort((lower[:, 1], lower[:, 0]))
    ids, lower = ids[order], lower[order]
    n_simulated, on, times = 0, None, None
    nothing, is_optimal, bound = np.zeros(1), True, 0.0
    for at in range(0, len(ids), _BATCH):
        rows = assignments(all_choices, sizes, ids[at : at + _BATCH])
        scores, nodes, best, got = play(
            instance, rows, lower[at : at + _BATCH], SEARCHED, nothing, *best_score, 1 << 60
        )
        n_simulated += int((nodes != -1).sum())
        if best >= 0:
            best_score = tuple(scores[best])
            on, times = rows[best], got
        share = (at + _BATCH) / len(ids)
        if not (nodes != -1).any():
            break
        if progress:
            progress(share, f"{n_simulated} of {len(ids)} assignments simulated")
        if time.perf_counter() - begun > time_limit_s and share < 1:
            is_optimal, bound = False, lower[at + _BATCH, 1]
            break
    search = Search(
        method="exact",
        bound=printed(instance.goal, best_score[1] if is_optimal else bound),
        is_optimal=is_optimal,
        space=f"{math.prod(sizes)} assignments, each in every order of its groups",
        n_assignments=math.prod(sizes),
        n_simulated=n_simulated,
        solve_s=time.perf_counter() - begun,
    )
    assert on is not None  # noqa: S101 - no bound is infinite
    assert times is not None  # noqa: S101
    return one_shot(made, on, times, search)


def assignments(all_choices: Sequence[Choices], sizes: Sequence[int], ids: Ints) -> Ints:
    """Assignments [M, G] of combinations by their numbers."""
    columns, rest = [], ids.copy()
    for chosen, size in zip(reversed(all_choices), reversed(sizes), strict=True):
        columns.append(chosen.on[rest % size])
        rest //= size
    return np.concatenate(columns[::-1], axis=1)
