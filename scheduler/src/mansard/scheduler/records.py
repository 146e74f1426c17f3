"""From what was simulated to the record of a schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mansard.core.records.schedule import Schedule, ScheduledGroup, ScheduledNetwork
from mansard.scheduler.chains import ENTER, GOALS, LEAVE, TIME, Chains, Floats, Ints, group_at
from mansard.scheduler.simulation import CLOSE


@dataclass(frozen=True)
class Search:
    """How a schedule was found."""

    method: str
    bound: float | None
    is_optimal: bool
    space: str
    n_assignments: int
    n_simulated: int
    solve_s: float


def one_shot(chains: Chains, on: Ints, times: Floats, search: Search) -> Schedule:
    """The record of one round: each group's accelerator, start and end."""
    problem, instance = chains.problem, chains.instance
    names, first = chains.names, instance.first
    groups, networks = [], []
    ends = times[1, first[1:] - 1]
    makespan = float(ends.max())
    energy = _energy(chains, on, makespan)
    for n, network in enumerate(problem.networks):
        at = range(first[n], first[n + 1])
        for g in at:
            is_entered = g > first[n] and on[g - 1] != on[g]
            is_left = g < at[-1] and on[g + 1] != on[g]
            groups.append(
                ScheduledGroup(
                    network=n,
                    group=g - int(first[n]),
                    accelerator=names[on[g]],
                    start_s=float(times[0, g]),
                    end_s=float(times[1, g]),
                    alone_s=float(instance.alone[TIME, g, on[g]]),
                    enter_s=float(instance.alone[ENTER, g, on[g]]) if is_entered else 0.0,
                    leave_s=float(instance.alone[LEAVE, g, on[g]]) if is_left else 0.0,
                )
            )
        is_limited = network.max_latency_s > 0
        networks.append(
            ScheduledNetwork(
                name=network.name,
                latency_s=float(ends[n]),
                rate_per_s=network.batch / float(ends[n]),
                n_transitions=int(np.count_nonzero(np.diff(on[first[n] : first[n + 1]]))),
                is_missed=bool(ends[n] > network.max_latency_s * (1 + CLOSE))
                if is_limited
                else None,
                unknown={} if is_limited else {"is_missed": "it has no deadline"},
            )
        )
    power = energy / makespan if energy is not None else None
    value = goal_value(chains, networks, makespan, energy)
    reasons: dict[str, str] = {}
    if energy is None:
        reasons |= dict.fromkeys(("energy_j", "power_w"), "the energy of a group is not known")
    if search.bound is None:
        reasons["bound"] = "nothing was searched"
    return Schedule(
        method=search.method,
        goal=problem.goal,
        is_steady=problem.is_steady,
        value=value,
        bound=search.bound,
        is_optimal=search.is_optimal,
        space=search.space,
        n_assignments=search.n_assignments,
        n_simulated=search.n_simulated,
        solve_s=search.solve_s,
        groups=tuple(sorted(groups, key=lambda group: (group.start_s, group.network))),
        networks=tuple(networks),
        makespan_s=makespan,
        energy_j=energy,
        power_w=power,
        broken=broken(chains, on, networks, makespan, energy, power),
        notes=chains.notes,
        unknown=reasons,
    )


def _energy(chains: Chains, on: Ints, makespan: float) -> float | None:
    """Of the groups, and the constant power over the round where it is known."""
    total = (chains.problem.idle_w or 0.0) * makespan
    for index, at in enumerate(on):
        network, group = group_at(chains.problem, index)
        energy = network.groups[group].energy_j.get(chains.names[at])
        if energy is None:
            return None
        total += energy
    return total


def goal_value(
    chains: Chains, networks: list[ScheduledNetwork], makespan: float, energy: float | None
) -> float | None:
    """The goal, as it is printed: of rates the rates themselves."""
    goal = chains.problem.goal
    if goal == "throughput":
        return sum(network.rate_per_s for network in networks)
    if goal == "min_rate":
        return min(network.rate_per_s for network in networks)
    if goal == "weighted_latency":
        weights = [network.weight for network in chains.problem.networks]
        return sum(w * n.latency_s for w, n in zip(weights, networks, strict=True))
    if goal == "misses":
        return float(sum(bool(network.is_missed) for network in networks))
    return makespan if goal == "makespan" else energy


def printed(goal: int, value: float) -> float:
    """A score, of which less is better, as the goal is printed."""
    return float(-value if GOALS[goal] in ("throughput", "min_rate") else value)


def broken(
    chains: Chains,
    on: Ints,
    networks: list[ScheduledNetwork],
    makespan: float,
    energy: float | None,
    power: float | None,
) -> tuple[str, ...]:
    """A line for each limit that a schedule breaks."""
    problem, lines = chains.problem, []
    for what, unit, value, limit in (
        ("makespan", "s", makespan, problem.max_makespan_s),
        ("energy", "J", energy, problem.max_energy_j),
        ("power", "W", power, problem.max_power_w),
    ):
        if limit and value is not None and value > limit * (1 + CLOSE):
            lines.append(f"{what} {value:.4g} {unit}, limit {limit:.4g} {unit}")
    for asked, got in zip(problem.networks, networks, strict=True):
        if got.is_missed:
            lines.append(
                f"{got.name}: latency {got.latency_s:.4g} s, limit {asked.max_latency_s:.4g} s"
            )
    for a, accelerator in enumerate(problem.accelerators):
        used = int(segments(chains, on[None])[0, a])
        if accelerator.max_segments and used > accelerator.max_segments:
            lines.append(f"{accelerator.name}: {used} segments, limit {accelerator.max_segments}")
    return tuple(lines)


def segments(chains: Chains, ons: Ints) -> Ints:
    """Groups in a row on each accelerator, counted once: [M, A] of assignments [M, G]."""
    begins = np.ones(ons.shape, bool)
    begins[:, 1:] = ons[:, 1:] != ons[:, :-1]
    begins[:, chains.instance.first[:-1]] = True
    return np.stack([(begins & (ons == a)).sum(axis=1) for a in range(len(chains.names))], axis=1)
