"""A problem's chains of layer groups as arrays, and the errors of a problem, each in one line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError
from mansard.core.records.schedule import (
    MOST_TRANSITIONS,
    Goal,
    NetworkChain,
    PccsFit,
    Problem,
)
from mansard.scheduler.contention import contention_of, curve, own_demand_slowdown

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

GOALS: tuple[Goal, ...] = get_args(Goal)
# Of a problem; docs/use/scheduling.md has them.
MOST_NAMES = 64  # networks, and accelerators
MOST_TIMES = 20_000  # groups times accelerators
MOST_RATIO = 1_000_000  # of the times of two networks that repeat


# Tables of ``Instance.alone``, and rows of ``Instance.asked``.
TIME, ENTER, LEAVE, ENERGY, DEMAND = range(5)
BATCH, WEIGHT, DEADLINE, PERIOD = range(4)


class Instance(NamedTuple):
    """The input of compiled functions: G groups of N networks in order, A accelerators.

    Seconds, joules, watts and bytes per second; infinite: not taken, not known, or no limit.
    """

    first: Ints  # [N + 1], the first group of each network
    # [5, G, A] time (with the rule "haxconn" as that stretches it), to enter, to leave; energy, 0
    # where neither the goal nor a limit needs it; demand, 0 where it is not known
    alone: Floats
    # [2, G, A, K] demands of others, ascending, and the share of its speed that the group keeps
    # beside them; straight between
    curves: Floats
    # [4, N] items of a run, weight, deadline; time between runs that arrive, or 0: the next
    # follows the last
    asked: Floats
    limits: Floats  # largest makespan, energy, power; then the constant power of the board
    goal: int  # of ``GOALS``
    begun: Ints  # [N] 1: its first group runs from the start, whatever else waits
    orders: Ints  # [F, N] in which networks may end, where that bounds the goal; else none


@dataclass(frozen=True)
class ProblemArrays:
    """A checked problem and its arrays."""

    problem: Problem
    instance: Instance
    max_transitions: tuple[int, ...]  # of each network
    notes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Of the accelerators."""
        return [accelerator.name for accelerator in self.problem.accelerators]

    @property
    def most_segments(self) -> Ints:
        """Of each accelerator [A]."""
        largest = np.iinfo(np.int64).max
        return np.array([a.max_segments or largest for a in self.problem.accelerators])

    def is_offered(self, group: int, left: int, entered: int) -> bool:
        """Whether the cost of a change of accelerator after a group is known; all are indices."""
        alone = self.instance.alone
        return bool(np.isfinite(alone[LEAVE, group, left] + alone[ENTER, group + 1, entered]))


def lengths(instance: Instance, begin: int, ons: Ints) -> tuple[Floats, Bools]:
    """The time of each group from ``begin`` on, run alone, with changes: [M, groups].

    And whether each is followed by a change [M, groups − 1].
    """
    alone, groups = instance.alone, np.arange(begin, begin + ons.shape[1])
    whole, changed = alone[TIME, groups, ons], ons[:, 1:] != ons[:, :-1]
    whole[:, 1:] += np.where(changed, alone[ENTER, groups[1:], ons[:, 1:]], 0.0)
    whole[:, :-1] += np.where(changed, alone[LEAVE, groups[:-1], ons[:, :-1]], 0.0)
    return whole, changed


def build_arrays(
    problem: Problem,
    max_transitions: Sequence[int] | None = None,
    begun: Sequence[bool] | None = None,
) -> ProblemArrays:
    """The arrays of ``problem``; ``max_transitions`` of each network, where they differ.

    ``begun``: networks whose first group runs already; by default none. Raises InputError for what
    cannot be scheduled.
    """
    _check_names(problem)
    groups = [group for network in problem.networks for group in network.groups]
    names = [accelerator.name for accelerator in problem.accelerators]

    def table(field: str, missing: float) -> Floats:
        rows = (getattr(group, field) for group in groups)
        return np.array([[row.get(name, missing) for name in names] for row in rows])

    time, demand = table("time_s", math.inf), table("demand_byte_per_s", 0.0)
    notes = list(problem.notes)
    _check_numbers(problem)
    energy = table("energy_j", math.inf)
    needs_energy = problem.goal == "energy" or problem.max_energy_j or problem.max_power_w
    if needs_energy:
        _check_energy(problem, np.isfinite(time) & ~np.isfinite(energy))
        if problem.idle_w is None:
            notes.append("the constant power of the board is unknown, and not in any energy")
    else:
        energy = np.zeros_like(energy)
    limits = [problem.max_makespan_s, problem.max_energy_j, problem.max_power_w]
    unknown = _unknown_demands(problem) if problem.pccs or problem.surfaces else 0
    if unknown:
        notes.append(
            f"the demand of {unknown} of {np.isfinite(time).sum()} times is unknown: these groups"
            " neither slow others down nor are slowed down"
        )
    if problem.contention == "haxconn" and not problem.pccs:
        notes.append("no accelerator has PCCS parameters: the rule haxconn slows nothing down")
    given = max_transitions or [problem.max_transitions] * len(problem.networks)
    # A network has no more changes than places between its groups; tables have a column for each.
    places = [len(network.groups) - 1 for network in problem.networks]
    allowed = list(map(min, given, places))
    result = ProblemArrays(
        problem=problem,
        instance=Instance(
            first=np.cumsum([0, *(len(network.groups) for network in problem.networks)]),
            alone=np.array(
                [
                    _stretched(problem, time, demand),
                    table("enter_s", math.inf),
                    table("leave_s", math.inf),
                    energy,
                    demand,
                ]
            ),
            curves=_contention(problem, demand),
            asked=np.array(
                [
                    (
                        network.batch,
                        network.weight,
                        network.max_latency_s or math.inf,
                        network.batch / network.rate_per_s if network.rate_per_s else 0.0,
                    )
                    for network in problem.networks
                ]
            ).T.copy(),
            limits=np.array([*(limit or math.inf for limit in limits), problem.idle_w or 0.0]),
            goal=GOALS.index(problem.goal),
            begun=np.array(begun or [False] * len(problem.networks), np.int64),
            orders=_orders(problem),
        ),
        max_transitions=tuple(allowed),
        notes=(),
    )
    notes += _missing_costs(result)
    return ProblemArrays(problem, result.instance, result.max_transitions, tuple(notes))


def _check_names(problem: Problem) -> None:
    if not problem.accelerators or not problem.networks:
        raise InputError("a problem needs an accelerator and a network", fix="name at least one")
    names = [accelerator.name for accelerator in problem.accelerators]
    networks = [network.name for network in problem.networks]
    _check_size(problem)
    for what, all_names in (("accelerators", names), ("networks", networks)):
        twice = sorted({name for name in all_names if all_names.count(name) > 1})
        if twice:
            raise InputError(f"two {what} have one name", where=twice[0], fix="rename one")
    for name in sorted({*problem.pccs, *problem.surfaces} - set(names)):
        raise InputError("contention of an accelerator that is not there", where=name)
    for network in problem.networks:
        if not network.groups:
            raise InputError(
                "a network without groups", where=network.name, fix="cut it, or run it whole"
            )
        for group in network.groups:
            where = f"{network.name}, {group.name}"
            strange = sorted(set(group.time_s) - set(names))
            if strange:
                raise InputError(
                    f"a time on {strange[0]}, which is not an accelerator of the problem",
                    where=where,
                    fix=f"accelerators are {', '.join(names)}",
                )
            if not group.time_s:
                raise InputError(
                    "no accelerator takes this group",
                    where=where,
                    fix="measure it on one of them, or join it with its neighbour",
                )


def _check_size(problem: Problem) -> None:
    n_accelerators, n_networks = len(problem.accelerators), len(problem.networks)
    n_times = n_accelerators * sum(len(network.groups) for network in problem.networks)
    for what, n, most in (
        ("networks", n_networks, MOST_NAMES),
        ("accelerators", n_accelerators, MOST_NAMES),
        ("groups times accelerators", n_times, MOST_TIMES),
    ):
        if n > most:
            raise InputError(
                f"{n:,} {what} are more than {most:,}", fix="join groups, or schedule fewer at once"
            )


def _check_numbers(problem: Problem) -> None:
    fields = ("time_s", "energy_j", "demand_byte_per_s", "leave_s", "enter_s")
    for network in problem.networks:
        _check_network(network)
        for group in network.groups:
            for field in fields:
                for name, value in getattr(group, field).items():
                    if not 0 <= value < math.inf:
                        raise InputError(
                            f"{field} is {value:g} on {name}",
                            where=f"{network.name}, {group.name}",
                            fix="a number that is not negative, or nothing where it is unknown",
                        )
    if not 0 <= problem.max_transitions <= MOST_TRANSITIONS:
        raise InputError(
            f"max_transitions is {problem.max_transitions}",
            fix=f"from 0, each network whole on one accelerator, to {MOST_TRANSITIONS}",
        )
    _check_ratio(problem)
    if problem.goal == "misses" and not any(n.max_latency_s for n in problem.networks):
        raise InputError("no network has a deadline to miss", fix="set max_latency of one")


def _check_network(network: NetworkChain) -> None:
    limits = (network.rate_per_s, network.max_latency_s, network.weight)
    if network.batch < 1 or not all(0 <= value < math.inf for value in limits):
        raise InputError(
            "batch, rate, latency and weight must be numbers that are not negative",
            where=network.name,
        )
    if not any(min(group.time_s.values()) for group in network.groups):
        raise InputError(
            "each of its groups has a time of 0 somewhere",
            where=network.name,
            fix="measure it, or leave the network out",
        )


def _check_ratio(problem: Problem) -> None:
    least_s = [sum(min(g.time_s.values()) for g in network.groups) for network in problem.networks]
    if problem.is_steady and max(least_s) > MOST_RATIO * min(least_s):
        raise InputError(
            f"one network is more than {MOST_RATIO:,} times as long as another",
            where=problem.networks[least_s.index(min(least_s))].name,
            fix="leave it out: too many of its runs lie in one of the other's",
        )


def _check_energy(problem: Problem, missing: Bools) -> None:
    if not missing.any():
        return
    at, accelerator = np.argwhere(missing)[0]
    network, group = group_at(problem, int(at))
    raise InputError(
        f"its energy on {problem.accelerators[accelerator].name} is unknown, and"
        f" {int(missing.sum()) - 1} more",
        where=f"{network.name}, {network.groups[group].name}",
        fix="measure energy, or choose a goal and limits without it",
    )


def group_at(problem: Problem, index: int) -> tuple[NetworkChain, int]:
    """The network of a group, by the group's index, and the group's place in it."""
    for network in problem.networks:
        if index < len(network.groups):
            return network, index
        index -= len(network.groups)
    raise IndexError(index)


def _unknown_demands(problem: Problem) -> int:
    return sum(
        len(group.time_s.keys() - group.demand_byte_per_s.keys())
        for network in problem.networks
        for group in network.groups
    )


def _missing_costs(arrays: ProblemArrays) -> list[str]:
    """A note for each network with changes of accelerator whose cost is unknown."""
    notes = []
    instance = arrays.instance
    for number, network in enumerate(arrays.problem.networks):
        if not arrays.max_transitions[number] or len(arrays.names) < 2:
            continue
        here = slice(instance.first[number], instance.first[number + 1])
        takes = np.isfinite(instance.alone[TIME, here])
        leave, enter = instance.alone[LEAVE, here][:-1], instance.alone[ENTER, here][1:]
        is_change = takes[:-1, :, None] & takes[1:, None] & ~np.eye(takes.shape[1], dtype=bool)
        is_unknown = is_change & ~np.isfinite(leave[:, :, None] + enter[:, None])
        missing = [network.groups[at].name for at in np.flatnonzero(is_unknown.any(axis=(1, 2)))]
        if missing:
            notes.append(
                f"{network.name}: the cost of a change of accelerator is unknown after"
                f" {len(missing)} of {len(network.groups) - 1} groups ({missing[0]} first):"
                " those changes are not offered"
            )
    return notes


def _orders(problem: Problem) -> Ints:
    n = len(problem.networks)
    is_of_last = problem.goal not in ("weighted_latency", "misses")
    if n > 4 or (is_of_last and not any(network.max_latency_s for network in problem.networks)):
        return np.zeros((0, n), np.int64)
    return np.array(list(itertools.permutations(range(n))))


def _stretched(problem: Problem, time: Floats, demand: Floats) -> Floats:
    """The times [G, A] of groups, longer where the rule "haxconn" slows them down always."""
    if problem.contention != "haxconn":
        return time
    stretched = time.copy()
    for a, accelerator in enumerate(problem.accelerators):
        fit = contention_of(problem, accelerator.name)
        if isinstance(fit, PccsFit):
            stretched[:, a] *= [
                own_demand_slowdown(fit, bytes_per_s) for bytes_per_s in demand[:, a]
            ]
        elif fit is not None:
            raise InputError(
                "the rule haxconn has no answer for a surface",
                where=f"contention of {accelerator.name}",
                fix="give PCCS parameters, or schedule with the rule overlap",
            )
    return stretched


def _contention(problem: Problem, demand: Floats) -> Floats:
    """Curves of speed against external demand, straight between their points: [2, G, A, K]."""
    models = [contention_of(problem, accelerator.name) for accelerator in problem.accelerators]
    if problem.contention == "haxconn":
        models = [None] * len(models)  # it is in the times
    points = [[curve(model, at) for model, at in zip(models, row, strict=True)] for row in demand]
    length = max(len(at) for row in points for at, _ in row)
    curves = np.empty((2, *demand.shape, length))
    for g, row in enumerate(points):
        for a, both in enumerate(row):
            for values, to in zip(both, curves[:, g, a], strict=True):
                to[: len(values)], to[len(values) :] = values, values[-1]
    return curves
