"""A mix of networks that share the time of one device, and which option each of them takes.

An option is a network in a mode, batch and precision that keeps its limits. Minimise Σ cost over
tasks with Σ time ≤ capacity, each task on one option or split between two: the linear relaxation of
the multiple-choice knapsack problem, which a greedy walk along the lower convex hulls of (time,
cost) solves exactly (P. Sinha, A. A. Zoltners, The multiple-choice knapsack problem, Operations
Research 27(3), 1979). At most one task is split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from mansard.analytics.data.statistics import are_near
from mansard.analytics.decisions.mix_records import IdlePower, Mix, MixPlan, Share, Task
from mansard.analytics.decisions.records import Objective
from mansard.analytics.decisions.roof_times import expected_span_s
from mansard.analytics.decisions.values import Array, Values
from mansard.core.units import ROOF_TIE

_OF_CANDIDATE = (  # fields of a Share that are those of its Candidate
    *("latency_s", "latency_low_s", "latency_high_s"),
    *("energy_j", "energy_low_j", "energy_high_j", "interval"),
)
_SLACK = 1e-12  # of the capacity: rounding must not make a second too long


@dataclass(frozen=True)
class OptionShare:
    """Option number ``option`` of a task does ``share`` of its work."""

    option: int
    share: float


def lower_hull(time: Array, cost: Array) -> list[int]:
    """Options on the lower convex hull, from the cheapest to the quickest.

    Each is quicker than the one before and costs more; the extra cost of a second saved grows.
    Equal options count once, the first of them.
    """
    order = sorted(range(len(time)), key=lambda at: (cost[at], time[at], at))
    hull: list[int] = []
    for at in order:
        if hull and time[at] >= time[hull[-1]]:
            continue  # no quicker than a cheaper one
        while len(hull) > 1 and _is_above(hull[-1], hull[-2], at, time, cost):
            hull.pop()
        hull.append(at)
    return hull


def _is_above(middle: int, first: int, last: int, time: Array, cost: Array) -> bool:
    """Whether ``middle`` lies on or above the line from ``first`` to ``last``."""
    rise = (cost[middle] - cost[first]) * (time[first] - time[last])
    line = (cost[last] - cost[first]) * (time[first] - time[middle])
    return bool(rise >= line)


def share_time(
    times: Sequence[Array], costs: Sequence[Array], capacity: float
) -> tuple[tuple[OptionShare, ...], ...] | None:
    """The cheapest parts of each task that fit into ``capacity``; None where nothing fits.

    ``times`` and ``costs`` hold an array for each task, with an element for each option; finite,
    and at least one each.
    """
    hulls = [lower_hull(time, cost) for time, cost in zip(times, costs, strict=True)]
    at = [0] * len(hulls)
    used = sum(float(time[hull[0]]) for time, hull in zip(times, hulls, strict=True))
    split: dict[int, float] = {}
    for task in _steps(hulls, times, costs):
        if used <= capacity * (1 + _SLACK):
            break
        here, there = hulls[task][at[task]], hulls[task][at[task] + 1]
        saved = float(times[task][here] - times[task][there])
        at[task] += 1
        if used - saved < capacity:
            split[task] = (used - capacity) / saved
            used = capacity
            break
        used -= saved
    if used > capacity * (1 + _SLACK):
        return None
    return tuple(_parts(hull, at[task], split.get(task)) for task, hull in enumerate(hulls))


def _steps(
    hulls: Sequence[Sequence[int]], times: Sequence[Array], costs: Sequence[Array]
) -> list[int]:
    """Tasks in the order in which they take their next quicker option: least cost per second."""
    slopes = [
        (
            float((costs[task][after] - costs[task][before])
                  / (times[task][before] - times[task][after])),
            task,
            number,
        )
        for task, hull in enumerate(hulls)
        for number, (before, after) in enumerate(pairwise(hull))
    ]  # fmt: skip
    # Within a task slopes grow along the hull, rounding apart: its own order comes before.
    greatest: dict[int, float] = {}
    ordered = []
    for slope, task, number in sorted(slopes, key=lambda one: (one[1], one[2])):
        greatest[task] = max(slope, greatest.get(task, slope))
        ordered.append((greatest[task], task, number))
    return [task for _, task, _ in sorted(ordered)]


def _parts(hull: Sequence[int], at: int, share: float | None) -> tuple[OptionShare, ...]:
    if share is None or share >= 1.0:
        return (OptionShare(hull[at], 1.0),)
    return (OptionShare(hull[at - 1], 1.0 - share), OptionShare(hull[at], share))


def least_time(times: Sequence[Array]) -> float:
    """The sum of the times of all tasks, each on its fastest option."""
    return float(sum(np.min(time) for time in times))


@dataclass(frozen=True, eq=False)
class Options:
    """The options of one task, an element for each.

    ``busy``: the share of all time that it takes as predicted, ``busy_high`` what that stays
    below with the probability that was asked for; ``active_w``: its energy in a second, W.
    ``least_busy``: the least that it may take in a mode that may keep its limits; infinite where
    every mode breaks one for certain. ``has_ratios``: the longest recorded times over its roofs are
    in ``busy_high``.
    """

    task: Task
    values: Values
    rows: tuple[int, ...]
    modes: tuple[str, ...]
    busy: Array
    busy_high: Array
    active_w: Array
    least_busy: float
    has_ratios: bool = False

    def by_mode(self) -> dict[str, list[int]]:
        """Which options each mode has."""
        options: dict[str, list[int]] = {}
        for at, mode in enumerate(self.modes):
            options.setdefault(mode, []).append(at)
        return options

    def known(self) -> Options:
        """The options whose energy is known."""
        return self.keep([int(at) for at in np.flatnonzero(~np.isnan(self.active_w))])

    def keep(self, at: list[int]) -> Options:
        """The options with these indices."""
        return Options(
            self.task,
            self.values,
            tuple(self.rows[one] for one in at),
            tuple(self.modes[one] for one in at),
            self.busy[at],
            self.busy_high[at],
            self.active_w[at],
            self.least_busy,
            self.has_ratios,
        )

    def share(self, at: int, part: float) -> Share:
        """The record of ``part`` of the task's items being done by option ``at``."""
        candidate = self.values.candidate(self.rows[at])
        unknown = {name: why for name, why in candidate.unknown.items() if name in _OF_CANDIDATE}
        return Share(
            network=candidate.network,
            mode=candidate.mode,
            batch=candidate.batch,
            precision=candidate.precision,
            rate_per_s=self.task.rate_per_s * part,
            busy=float(self.busy[at]) * part,
            wait_s=(candidate.batch - 1)
            / self.task.rate_per_s,  # of the first item, for the last one
            **{name: getattr(candidate, name) for name in _OF_CANDIDATE},
            unknown=unknown,
        )


def solve(
    options: Sequence[Options],
    minimise: Objective,
    idle: str | None,
    idle_powers: Mapping[str, IdlePower],
    capacity: float,
    lost: float | None = 0.0,
) -> MixPlan | None:
    """The best shares of ``options`` in ``capacity`` of the time; None where nothing fits.

    ``idle``: the mode that it idles in, None where its idle power is unknown. ``lost``: the
    share of time that switching takes, None where that is unknown.
    """
    idle_power = None if idle is None else idle_powers[idle]
    times = [task.busy_high for task in options]
    idle_w = 0.0 if idle_power is None else idle_power.value_w
    costs = [cost_of(task, minimise, idle_w) for task in options]
    parts = share_time(times, costs, capacity)
    return None if parts is None else _plan(options, parts, idle, idle_power, lost)


def cost_of(options: Options, minimise: Objective, idle_w: float) -> Array:
    """What each option adds to the objective: W, or a share of time where latency is minimised."""
    if minimise == "latency":
        return options.busy
    # What is busy does not idle: only what it draws beyond that is a cost.
    return np.asarray(options.active_w - idle_w * options.busy)


_NO_IDLE = "the idle power is unknown: add [idle] to the workload file"
_NO_ENERGY = "the energy of some networks is unknown"


def _plan(
    options: Sequence[Options],
    parts: Sequence[Sequence[OptionShare]],
    idle: str | None,
    idle_power: IdlePower | None,
    lost: float | None,
) -> MixPlan:
    chosen = [(option, part) for option, its in zip(options, parts, strict=True) for part in its]
    shares = tuple(option.share(part.option, part.share) for option, part in chosen)
    busy = sum(share.busy for share in shares)
    high = sum(float(option.busy_high[part.option]) * part.share for option, part in chosen)
    active_w = sum(float(option.active_w[part.option]) * part.share for option, part in chosen)
    has_energy = bool(np.isfinite(active_w))
    modes = {share.mode: None for share in shares}
    if idle is not None and busy < 1.0:
        modes[idle] = None
    power = _mean_power(shares, active_w, busy, idle_power)
    unknown = {name: why for name, (value, why) in power.items() if value is None}
    if idle is None:
        unknown |= dict.fromkeys(("idle_mode", "idle_w", "idle_source"), _NO_IDLE)
    if not has_energy:
        unknown["active_w"] = _NO_ENERGY
    if lost is None:
        unknown["lost"] = "how long a switch takes is unknown"
    return MixPlan(
        shares=shares,
        modes=tuple(modes),
        busy=busy,
        busy_high=high,
        is_expected=options[0].has_ratios and any(share.interval == "roof" for share in shares),
        active_w=active_w if has_energy else None,
        idle_mode=idle,
        idle_w=None if idle_power is None else idle_power.value_w,
        idle_source=None if idle_power is None else idle_power.source,
        lost=lost,
        unknown=unknown,
        **{name: value for name, (value, _) in power.items()},
    )


def _mean_power(
    shares: Sequence[Share], active_w: float, busy: float, idle: IdlePower | None
) -> dict[str, tuple[float | None, str]]:
    """The mean power and its ends, each with the reason if it is None.

    At an end, all energies and the idle power are at that end of their intervals: errors of one
    meter are common to all.
    """
    names = ("power_w", "power_low_w", "power_high_w")
    if not np.isfinite(active_w) or idle is None:
        why = _NO_IDLE if idle is None else _NO_ENERGY
        return dict.fromkeys(names, (None, why))
    idles = max(0.0, 1.0 - busy)
    power_w = active_w + idles * idle.value_w
    ends = _active_ends(shares)
    if ends is None or idle.low_w is None or idle.high_w is None:
        why = "the energies or the idle power have no 95 % interval"
        return {"power_w": (power_w, ""), **dict.fromkeys(names[1:], (None, why))}
    low_w, high_w = ends[0] + idles * idle.low_w, ends[1] + idles * idle.high_w
    return dict(zip(names, ((power_w, ""), (low_w, ""), (high_w, "")), strict=True))


def _active_ends(shares: Sequence[Share]) -> tuple[float, float] | None:
    """The ends of the power without what idles; None where an energy has no 95 % interval."""
    low_w = high_w = 0.0
    for share in shares:
        low_j, high_j = share.energy_low_j, share.energy_high_j
        if share.interval != "spread" or low_j is None or high_j is None:
            return None
        low_w, high_w = low_w + share.rate_per_s * low_j, high_w + share.rate_per_s * high_j
    return low_w, high_w


def with_waits(plan: MixPlan, mix: Mix) -> MixPlan:
    """A schedule whose waits include that for the turn of the mode: at most all time outside it.

    Unknown without a period.
    """
    if len(plan.modes) < 2:
        return plan
    away = {name: 1.0 - part for name, part in _parts_of(plan).items()}
    if mix.period_s is None:
        unknown = {"wait_s": "the period of the schedule is unknown"}
        shares = [replace(s, wait_s=None, unknown={**s.unknown, **unknown}) for s in plan.shares]
    else:
        shares = [
            replace(s, wait_s=(s.wait_s or 0.0) + away[s.network] * mix.period_s)
            for s in plan.shares
        ]
    return replace(plan, shares=tuple(shares))


def _parts_of(plan: MixPlan) -> dict[str, float]:
    """For each network the share of time in which a mode that runs it is set, at least.

    A mode is set while its networks run, and while it idles if it is the idle mode.
    """
    parts: dict[str, float] = {}
    for mode in plan.modes:
        inside = [share for share in plan.shares if share.mode == mode]
        part = sum(share.busy for share in inside)
        part += max(0.0, 1.0 - plan.busy) if mode == plan.idle_mode else 0.0
        for name in {share.network for share in inside}:
            parts[name] = parts.get(name, 0.0) + part
    return {name: min(1.0, part) for name, part in parts.items()}


def keeps_waits(plan: MixPlan, mix: Mix) -> bool:
    """Whether every network of a schedule keeps its limit of latency, the waits included."""
    if len(plan.modes) < 2:
        return True
    limits = {task.network: task.max_latency_s for task in mix.tasks}
    longest = ((limits[share.network], share.wait_s, _most_s(share, plan)) for share in plan.shares)
    return all(
        most_s is None or (wait_s is not None and wait_s + time_s <= most_s)
        for most_s, wait_s, time_s in longest
    )


def _most_s(share: Share, plan: MixPlan) -> float:
    """The longest time of a batch that is known of it, or recorded over its roof."""
    if plan.is_expected and share.interval == "roof":
        return float(expected_span_s(share.latency_s)[1])
    return share.latency_high_s or share.latency_s


def is_better(plan: MixPlan, other: MixPlan, minimise: Objective) -> bool:
    """By more than rounding."""
    mine, its = objective_of(plan, minimise), objective_of(other, minimise)
    return mine < its * (1 - 1e-9)


def objective_of(plan: MixPlan, minimise: Objective) -> float:
    """Mean power, W, without idle where that is unknown; or the share of time that is busy."""
    if minimise == "latency":
        return plan.busy
    power_w = plan.power_w if plan.power_w is not None else plan.active_w
    return float("inf") if power_w is None else power_w


def is_tie(one: MixPlan, other: MixPlan, minimise: Objective) -> bool:
    """Whether the objectives of two plans do not differ clearly (``are_near``).

    Those by roofs do not where they differ by less than ROOF_TIE. Other plans without 95 %
    intervals are no tie.
    """
    if one.roofed() and other.roofed():
        both = sorted((objective_of(one, minimise), objective_of(other, minimise)))
        return both[1] <= ROOF_TIE * both[0]
    ends, others = _objective_ends(one, minimise), _objective_ends(other, minimise)
    if ends is None or others is None:
        return False
    mine, its = objective_of(one, minimise), objective_of(other, minimise)
    return bool(are_near((mine, *ends), (its, *others)))


def _objective_ends(plan: MixPlan, minimise: Objective) -> tuple[float, float] | None:
    if minimise != "latency":
        if plan.power_w is None:
            return _active_ends(plan.shares)
        low, high = plan.power_low_w, plan.power_high_w
        return None if low is None or high is None else (low, high)
    low = high = 0.0
    for share in plan.shares:
        low_s, high_s = share.latency_low_s, share.latency_high_s
        if share.interval != "spread" or low_s is None or high_s is None:
            return None
        low += share.busy * low_s / share.latency_s
        high += share.busy * high_s / share.latency_s
    return low, high
