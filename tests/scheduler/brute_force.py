"""Every assignment in every order, simulated in plain Python: shares no code with the scheduler."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

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


def alone(_name: str, _own: float, _external: float) -> float:
    """No contention."""
    return 1.0


def least(problem: Problem, goal: Callable[[list[float]], float], speed: Contention) -> float:
    """The least that ``goal`` of the ends is."""
    return min((goal(found) for _, found in all_ends(problem, speed)), default=math.inf)
