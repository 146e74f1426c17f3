"""Every assignment in every order, simulated in plain Python: shares no code with the scheduler."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mansard.core.records.schedule import NetworkChain, Problem

# The share of its speed that a group keeps: accelerator, own demand, demand of others.
Contention = Callable[[str, float, float], float]


def assignments(network: NetworkChain, most: int) -> Iterator[tuple[str, ...]]:
    """Of one network, with so many changes at most, where times and costs are known."""
    groups = network.groups
    for names in itertools.product(*(group.time_s for group in groups)):
        changes = [at for at in range(1, len(names)) if names[at] != names[at - 1]]
        known = all(
            names[at - 1] in groups[at - 1].leave_s and names[at] in groups[at].enter_s
            for at in changes
        )
        if known and len(changes) <= most:
            yield names


def ends(
    problem: Problem,
    assignment: Sequence[Sequence[str]],
    orders: dict[str, Sequence[int]],
    speed: Contention,
) -> list[float] | None:
    """Of each network; ``orders``: networks on each accelerator. None where groups wait forever."""
    parts = [
        [
            [
                (group.enter_s[name] if at and names[at - 1] != name else 0.0, False),
                (group.time_s[name], True),
                (
                    group.leave_s[name] if at + 1 < len(names) and names[at + 1] != name else 0.0,
                    False,
                ),
            ]
            for at, (group, name) in enumerate(zip(network.groups, names, strict=True))
        ]
        for network, names in zip(problem.networks, assignment, strict=True)
    ]
    turn = dict.fromkeys(orders, 0)
    at = [0] * len(parts)
    running: dict[str, tuple[int, int, float]] = {}  # network, part, left
    done: list[float] = [0.0] * len(parts)
    now = 0.0
    while True:
        for name, order in orders.items():
            if name in running or turn[name] == len(order):
                continue
            network = order[turn[name]]
            is_running = any(n == network for n, _, _ in running.values())
            if not is_running and assignment[network][at[network]] == name:
                running[name] = (network, 0, parts[network][at[network]][0][0])
        if not running:
            return done if all(turn[a] == len(order) for a, order in orders.items()) else None
        demands = {
            name: problem.networks[n].groups[at[n]].demand_byte_per_s.get(name, 0.0)
            for name, (n, part, _) in running.items()
            if parts[n][at[n]][part][1]
        }
        speeds = {
            name: speed(
                name, demands[name], sum(d for other, d in demands.items() if other != name)
            )
            if name in demands
            else 1.0
            for name in running
        }
        step = min(left / speeds[name] for name, (_, _, left) in running.items())
        now += step
        for name, (n, part, left) in list(running.items()):
            rest = left - step * speeds[name]
            if rest > 1e-12:
                running[name] = (n, part, rest)
            elif part < 2:
                running[name] = (n, part + 1, parts[n][at[n]][part + 1][0])
            else:
                del running[name]
                turn[name] += 1
                at[n] += 1
                done[n] = now


def all_ends(problem: Problem, speed: Contention) -> Iterator[tuple[list[list[str]], list[float]]]:
    """The ends of networks of each assignment, in each order of each accelerator's groups."""
    names = [accelerator.name for accelerator in problem.accelerators]
    each = [list(assignments(n, problem.max_transitions)) for n in problem.networks]
    for assignment in itertools.product(*each):
        queues = {
            name: [n for n, row in enumerate(assignment) for got in row if got == name]
            for name in names
        }
        for chosen in itertools.product(
            *(sorted(set(itertools.permutations(queue))) for queue in queues.values())
        ):
            found = ends(problem, assignment, dict(zip(names, chosen, strict=True)), speed)
            if found is not None:
                yield [list(row) for row in assignment], found


def slowed(problem: Problem) -> Contention:
    """PCCS and surfaces as they are defined, for demands and parameters in bytes per second."""

    def speed(name: str, own: float, external: float) -> float:
        if own <= 0 or external <= 0:
            return 1.0
        surface, fit = problem.surfaces.get(name), problem.pccs.get(name)
        if surface is not None:
            rows = [
                np.interp(
                    external,
                    [0, *surface.external_byte_per_s],
                    [1, *(min(max(got / asked, 0.01), 1) for got in row)],
                )
                for asked, row in zip(
                    surface.own_byte_per_s, surface.achieved_byte_per_s, strict=True
                )
            ]
            return float(np.interp(own, surface.own_byte_per_s, rows))
        if fit is None:
            return 1.0
        reached = min(external, fit.contention_byte_per_s)
        beyond = own - fit.total_byte_per_s
        if own <= fit.normal_byte_per_s:
            points = fit.minor_points * external / fit.peak_byte_per_s
        elif own >= fit.intensive_byte_per_s:
            slope = (beyond + fit.contention_byte_per_s) / fit.contention_byte_per_s
            points = fit.points_per_byte_per_s * slope * reached
        else:
            points = fit.points_per_byte_per_s * (beyond + reached) if beyond > -external else 0.0
        return 1 - min(max(points, 0), 99) / 100

    return speed


def score(
    problem: Problem, assignment: Sequence[Sequence[str]], found: list[float]
) -> tuple[float, float]:
    """How far limits are exceeded, as a sum of shares of them, and the goal; less is better."""
    makespan, networks = max(found), problem.networks
    joules = (problem.idle_w or 0.0) * makespan + sum(
        group.energy_j.get(name, 0.0)
        for network, row in zip(networks, assignment, strict=True)
        for group, name in zip(network.groups, row, strict=True)
    )
    limits = [
        (makespan, problem.max_makespan_s),
        (joules, problem.max_energy_j),
        (joules / makespan, problem.max_power_w),
    ]
    deadlines = [(end, n.max_latency_s) for end, n in zip(found, networks, strict=True)]
    if problem.goal != "misses":
        limits += deadlines
    rates = [network.batch / makespan for network in networks]
    goals = {
        "makespan": makespan,
        "throughput": -sum(rates),
        "min_rate": -min(rates),
        "weighted_latency": sum(n.weight * end for n, end in zip(networks, found, strict=True)),
        "energy": joules,
        "misses": float(sum(end > limit * (1 + 1e-9) for end, limit in deadlines if limit)),
    }
    excess = sum(max(value / limit - 1, 0.0) for value, limit in limits if limit)
    return excess, goals[problem.goal]


def least_score(problem: Problem) -> tuple[float, float] | None:
    """Of all assignments that fit, in all orders; None where none fits."""
    most = {a.name: a.max_segments for a in problem.accelerators if a.max_segments}
    scores = []
    for assignment, found in all_ends(problem, slowed(problem)):
        used = Counter(name for row in assignment for name, _ in itertools.groupby(row))
        if all(used[name] <= limit for name, limit in most.items()):
            scores.append(score(problem, assignment, found))
    if not scores:
        return None
    excess = min(scores)[0]
    return excess, min(value for each, value in scores if each <= excess + 1e-9)


def alone(_name: str, _own: float, _external: float) -> float:
    """No contention."""
    return 1.0


def least(problem: Problem, goal: Callable[[list[float]], float], speed: Contention) -> float:
    """The least that ``goal`` of the ends is."""
    return min((goal(found) for _, found in all_ends(problem, speed)), default=math.inf)
