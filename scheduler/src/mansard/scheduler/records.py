"""The record of a schedule, from its simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mansard.core.records.schedule import Schedule, ScheduledGroup, ScheduledNetwork
from mansard.scheduler.chains import BATCH, ENTER, GOALS, LEAVE, Floats, Ints, ProblemArrays
from mansard.scheduler.simulation import CLOSE, Score, is_less

_COUNTABLE = 10**15
_LARGEST = 2**63 - 1  # number that JSON's readers take
SHORT = 1e-3  # of the rate of a network that repeats: so little is none too few


@dataclass(frozen=True)
class SearchSummary:
    """How a schedule was found."""

    method: str
    bound: float | None
    is_optimal: bool
    space: str
    n_assignments: int
    n_simulated: int
    solve_s: float


def record_round(arrays: ProblemArrays, on: Ints, times: Floats, search: SearchSummary) -> Schedule:
    """The record of one round by starts and ends of its groups, ``times`` [2, G].

    The next round begins when all networks have ended, so the makespan divides the items of each:
    one that ends early gives no more items for it.
    """
    first = arrays.instance.first
    ends = times[1, first[1:] - 1]
    joules = _joules(arrays, on)
    makespan = float(ends.max())
    rates = arrays.instance.asked[BATCH] / makespan
    energy = None if joules is None else float(joules.sum()) + _idle_w(arrays) * makespan
    return _record(arrays, on, times, search, (ends, ends, rates), makespan, energy)


def record_repeats(
    arrays: ProblemArrays,
    on: Ints,
    times: Floats,
    search: SearchSummary,
    of_networks: tuple[Floats, ...],
) -> Schedule:
    """The record of networks that repeat: mean and largest latency, items per second of each."""
    runs_per_s = of_networks[2] / arrays.instance.asked[BATCH]
    joules = _joules(arrays, on)
    makespan = float(1 / runs_per_s.min())
    energy = None
    if joules is not None:
        energy = (float(joules @ runs_per_s) + _idle_w(arrays)) * makespan
    times = times - times[0].min()
    return _record(arrays, on, times, search, of_networks, makespan, energy)


def _idle_w(arrays: ProblemArrays) -> float:
    return arrays.problem.idle_w or 0.0


def _joules(arrays: ProblemArrays, on: Ints) -> Floats | None:
    """Of one run of each network [N]; None where a group's is not known."""
    totals, first = np.zeros(len(arrays.problem.networks)), arrays.instance.first
    for n, network in enumerate(arrays.problem.networks):
        for group, at in zip(network.groups, on[first[n] :], strict=False):
            energy = group.energy_j.get(arrays.names[at])
            if energy is None:
                return None
            totals[n] += energy
    return totals


def _record(  # noqa: PLR0917 - what a simulation gives
    arrays: ProblemArrays,
    on: Ints,
    times: Floats,
    search: SearchSummary,
    of_networks: tuple[Floats, ...],
    makespan: float,
    energy: float | None,
) -> Schedule:
    """The record of a schedule with starts and ends of its groups, ``times`` [2, G].

    ``of_networks``: mean and largest latency, items per second of each [N].
    """
    problem, networks = arrays.problem, []
    for n, network in enumerate(problem.networks):
        at = slice(arrays.instance.first[n], arrays.instance.first[n + 1])
        mean, largest, rate = (float(values[n]) for values in of_networks)
        is_limited = network.max_latency_s > 0
        is_missed = largest > network.max_latency_s * (1 + CLOSE)
        networks.append(
            ScheduledNetwork(
                name=network.name,
                latency_s=mean,
                longest_s=largest,
                rate_per_s=rate,
                n_transitions=int(np.count_nonzero(np.diff(on[at]))),
                is_missed=is_missed if is_limited else None,
                unknown={} if is_limited else {"is_missed": "it has no deadline"},
            )
        )
    power = energy / makespan if energy is not None else None
    reasons: dict[str, str] = {}
    value = goal_value(arrays, networks, makespan, energy)
    if energy is None:
        reasons |= dict.fromkeys(("energy_j", "power_w"), "the energy of a group is unknown")
    if search.bound is None:
        reasons["bound"] = "nothing was searched"
        if search.n_assignments > 1:
            reasons["bound"] = "another schedule may be nearer to the limits"
    if value is None:
        reasons["value"] = "the energy of a group is unknown"
    return Schedule(
        method=search.method,
        goal=problem.goal,
        is_steady=problem.is_steady,
        value=value,
        bound=search.bound,
        is_optimal=search.is_optimal,
        space=search.space,
        n_assignments=min(search.n_assignments, _LARGEST),
        n_simulated=search.n_simulated,
        solve_s=search.solve_s,
        groups=_groups(arrays, on, times),
        networks=tuple(networks),
        makespan_s=makespan,
        energy_j=energy,
        power_w=power,
        broken=broken(arrays, on, networks, makespan, energy, power),
        notes=arrays.notes,
        unknown=reasons,
    )


def _groups(arrays: ProblemArrays, on: Ints, times: Floats) -> tuple[ScheduledGroup, ...]:
    alone, first, groups = arrays.instance.alone, arrays.instance.first, []
    for n, network in enumerate(arrays.problem.networks):
        for g in range(first[n], first[n + 1]):
            is_entered = g > first[n] and on[g - 1] != on[g]
            is_left = g + 1 < first[n + 1] and on[g + 1] != on[g]
            groups.append(
                ScheduledGroup(
                    network=n,
                    group=g - int(first[n]),
                    accelerator=arrays.names[on[g]],
                    start_s=float(times[0, g]),
                    end_s=float(times[1, g]),
                    alone_s=network.groups[g - first[n]].time_s[arrays.names[on[g]]],
                    enter_s=float(alone[ENTER, g, on[g]]) if is_entered else 0.0,
                    leave_s=float(alone[LEAVE, g, on[g]]) if is_left else 0.0,
                )
            )
    return tuple(sorted(groups, key=lambda group: (group.start_s, group.network)))


def goal_value(
    arrays: ProblemArrays, networks: list[ScheduledNetwork], makespan: float, energy: float | None
) -> float | None:
    """The goal, as it is printed: of rates the rates themselves."""
    goal = arrays.problem.goal
    if goal == "throughput":
        return sum(network.rate_per_s for network in networks)
    if goal == "min_rate":
        return min(network.rate_per_s for network in networks)
    if goal == "weighted_latency":
        weights = [network.weight for network in arrays.problem.networks]
        return sum(w * n.latency_s for w, n in zip(weights, networks, strict=True))
    if goal == "misses":
        return float(sum(bool(network.is_missed) for network in networks))
    return makespan if goal == "makespan" else energy


def space_text(n: int) -> str:
    """The number of assignments in words; a large one as a power of ten."""
    count = f"{n:,}" if n < _COUNTABLE else f"more than 10^{int(math.log10(n))}"
    return f"{count} assignments"


def printed_bound(goal: int, score: Score, bound: Score) -> tuple[bool, float | None]:
    """Whether a score is optimal, and the bound in the units of the goal.

    None: another schedule may break the limits by less, whatever its goal is.
    """
    is_optimal = not is_less(*bound, *score)
    if not is_optimal and bound[0] < score[0] - CLOSE:
        return False, None
    value = float(score[1] if is_optimal else bound[1])
    return is_optimal, -value if GOALS[goal] in ("throughput", "min_rate") else value


def broken(
    arrays: ProblemArrays,
    on: Ints,
    networks: list[ScheduledNetwork],
    makespan: float,
    energy: float | None,
    power: float | None,
) -> tuple[str, ...]:
    """A line for each limit that a schedule breaks."""
    problem, lines = arrays.problem, []
    checked = [
        ("makespan", "s", makespan, problem.max_makespan_s),
        ("energy", "J", energy, problem.max_energy_j),
        ("power", "W", power, problem.max_power_w),
    ]
    for wanted, reached in zip(problem.networks, networks, strict=True):
        if problem.goal != "misses":
            checked.append(
                (f"{reached.name}: latency", "s", reached.longest_s, wanted.max_latency_s)
            )
    for what, unit, value, limit in checked:
        if limit and value is not None and value > limit * (1 + CLOSE):
            scale, prefix = (1, "") if limit >= 1 else (1e3, "m")
            shown = f"{scale * value:.4g} {prefix}{unit}, limit {scale * limit:.4g} {prefix}{unit}"
            lines.append(f"{what} {shown}")
    for wanted, reached in zip(problem.networks, networks, strict=True):
        if problem.is_steady and reached.rate_per_s < wanted.rate_per_s * (1 - SHORT):
            lines.append(
                f"{reached.name}: {reached.rate_per_s:.4g} of {wanted.rate_per_s:.4g} per second"
            )
    for a, accelerator in enumerate(problem.accelerators):
        used = int(segments(arrays, on[None])[0, a])
        if accelerator.max_segments and used > accelerator.max_segments:
            lines.append(f"{accelerator.name}: {used} segments, limit {accelerator.max_segments}")
    return tuple(lines)


def segments(arrays: ProblemArrays, ons: Ints) -> Ints:
    """The number of segments (runs of groups) on each accelerator: [M, A] of assignments [M, G]."""
    begins = np.ones(ons.shape, bool)
    begins[:, 1:] = ons[:, 1:] != ons[:, :-1]
    begins[:, arrays.instance.first[:-1]] = True
    return np.stack([(begins & (ons == a)).sum(axis=1) for a in range(len(arrays.names))], axis=1)
