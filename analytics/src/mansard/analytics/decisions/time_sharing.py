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

import msgspec
import numpy as np
import polars as pl

from mansard.analytics.decisions.limits import Mask, screen
from mansard.analytics.decisions.records import Objective, Wanted
from mansard.analytics.decisions.values import Array, Values, read_values
from mansard.core.errors import UsageError
from mansard.core.records import ModeCommands, Record


@dataclass(frozen=True, kw_only=True)
class Task:
    """One network of a mix. What is None was not asked for.

    ``rate_per_s``: items per second that arrive. ``max_latency_s``: from the arrival of an item
    to its result, the wait for its batch to fill included.
    """

    network: str
    rate_per_s: float
    batch: int | None = None
    precision: str | None = None
    max_latency_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Networks that share one device, one after the other.

    ``switch_s``: the time of one change of the mode; ``period_s``: the period of a schedule. If
    one of them is None, the time that a schedule loses by switching is unknown.
    """

    tasks: tuple[Task, ...]
    switch_s: float | None = None
    period_s: float | None = None


class Share(Record, frozen=True, kw_only=True):
    """What one network does in one mode. ``busy``: the share of all time that it takes there."""

    network: str
    mode: str
    batch: int
    precision: str
    rate_per_s: float  # items that are done here
    busy: float
    latency_s: float  # of one batch
    latency_low_s: float | None
    latency_high_s: float | None
    wait_s: float  # for a batch to fill
    energy_j: float | None  # of one item
    energy_low_j: float | None
    energy_high_j: float | None
    interval: str | None  # what the ends mean: a key of data.model_frames.INTERVALS


_OF_CANDIDATE = (  # fields of a Share that are those of its Candidate
    *("latency_s", "latency_low_s", "latency_high_s"),
    *("energy_j", "energy_low_j", "energy_high_j", "interval"),
)


class MixPlan(Record, frozen=True, kw_only=True):
    """All networks of a mix, in one mode or in several in turn.

    ``busy``: the share of time in which something runs, at least that where a network is on its
    roof; ``busy_high`` what it stays below with the probability that was asked for. ``power_w``:
    mean over all time, idle included; ``active_w``: the same without what idles. ``lost``: the
    share of time that switching takes.
    """

    shares: tuple[Share, ...]
    modes: tuple[str, ...]
    busy: float
    busy_high: float
    active_w: float | None
    idle_mode: str | None
    idle_w: float | None
    power_w: float | None
    lost: float | None

    def is_bounded(self) -> bool:
        """Whether only bounds are known of a network in its mode."""
        return any(share.interval == "bounds" for share in self.shares)

    def roofed(self) -> tuple[str, ...]:
        """The networks that were not measured: they take at best what their roof says."""
        return tuple(dict.fromkeys(s.network for s in self.shares if s.interval == "roof"))


class MixAnswer(Record, frozen=True, kw_only=True):
    """How one device keeps up with a mix. ``keeps_up``: the share of the rates that it can do.

    ``one_mode``: the best single mode; ``schedule``: modes in turn, where that is better or the
    only way. Both are None where no mode is known to keep up. ``modes_unknown``: the modes in which
    some network has no prediction, and why. ``commands`` set the mode of ``one_mode``, where no
    ``schedule`` is better.
    """

    device: str
    one_mode: MixPlan | None
    schedule: MixPlan | None
    keeps_up: float
    sentence: str
    commands: ModeCommands | None = None
    notes: tuple[str, ...] = ()
    modes_unknown: dict[str, str] = msgspec.field(default_factory=dict)


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
    every mode breaks one for certain.
    """

    task: Task
    values: Values
    rows: tuple[int, ...]
    modes: tuple[str, ...]
    busy: Array
    busy_high: Array
    active_w: Array
    least_busy: float

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


def find_options(predictions: pl.DataFrame, mix: Mix, wanted: Wanted) -> tuple[Options, ...]:
    """The options of every task of ``mix`` in ``predictions``, which are of one device.

    An option keeps the limits of ``wanted`` and of its task with the probability that was asked
    for; the wait for a batch to fill, (batch - 1) / rate, counts as part of its latency.
    A task that keeps its limits in no mode has no options. Raises UsageError for a task that has
    no prediction or no positive rate.
    """
    return tuple(_options(predictions, task, wanted) for task in mix.tasks)


def _options(predictions: pl.DataFrame, task: Task, wanted: Wanted) -> Options:
    if not (np.isfinite(task.rate_per_s) and task.rate_per_s > 0):
        raise UsageError(
            f"{task.network} at {task.rate_per_s} items/s is not a task", fix="give a rate above 0"
        )
    rows = predictions.filter(pl.col("network") == task.network)
    for column, value in (("batch", task.batch), ("precision", task.precision)):
        if value is not None:
            rows = rows.filter(pl.col(column) == value)
    values = read_values(rows, wanted)
    if len(values) == 0:
        raise UsageError(
            f"nothing is predicted for {task.network} as the mix asks for it",
            fix="score it at that batch and precision, or leave them out",
        )
    screened = screen(values, wanted)
    batches = values.frame["batch"].to_numpy().astype(np.float64)
    # A roof keeps no limit for certain; it may, and a note says so.
    fits = screened.is_kept | ((values.latency.interval == "roof") & ~screened.is_broken)
    usable = np.flatnonzero(fits & _in_time(values, task, wanted.probability, batches))
    may_fit = ~screened.is_broken & _in_time(values, task, 1 - wanted.probability, batches)
    least_s = values.item.quantile(1 - wanted.probability)[may_fit]
    least_busy = 0.0 if values.n_timeless else task.rate_per_s * float(min(least_s, default=np.inf))
    frame_modes = values.frame["mode"].to_list()
    return Options(
        task=task,
        values=values,
        rows=tuple(int(at) for at in usable),
        modes=tuple(str(frame_modes[at]) for at in usable),
        busy=task.rate_per_s * values.item.value[usable],
        busy_high=task.rate_per_s * values.item.quantile(wanted.probability)[usable],
        active_w=task.rate_per_s * values.energy.value[usable],
        least_busy=least_busy,
    )


def _in_time(values: Values, task: Task, probability: float, batches: Array) -> Mask:
    """Whether each takes at most the task's time with ``probability``, the wait included."""
    if task.max_latency_s is None:
        return np.ones(len(values), dtype=np.bool_)
    wait_s = (batches - 1.0) / task.rate_per_s
    return np.asarray(values.latency.quantile(probability) + wait_s <= task.max_latency_s)


def solve(
    options: Sequence[Options],
    minimise: Objective,
    idle: str | None,
    idle_w: Mapping[str, float],
    capacity: float,
    lost: float | None = 0.0,
) -> MixPlan | None:
    """The best shares of ``options`` in ``capacity`` of the time; None where nothing fits.

    ``idle``: the mode that it idles in, None where its constant power is unknown. ``lost``: the
    share of time that switching takes, None where that is unknown.
    """
    constant_w = idle_w[idle] if idle is not None else 0.0
    times = [task.busy_high for task in options]
    costs = [cost_of(task, minimise, constant_w) for task in options]
    parts = share_time(times, costs, capacity)
    return None if parts is None else _plan(options, parts, idle, idle_w, lost)


def cost_of(options: Options, minimise: Objective, idle_w: float) -> Array:
    """What each option adds to the objective: W, or a share of time where latency is minimised."""
    if minimise == "latency":
        return options.busy
    # What is busy does not idle: only what it draws beyond that is a cost.
    return np.asarray(options.active_w - idle_w * options.busy)


def _plan(
    options: Sequence[Options],
    parts: Sequence[Sequence[OptionShare]],
    idle: str | None,
    idle_w: Mapping[str, float],
    lost: float | None,
) -> MixPlan:
    chosen = [(option, part) for option, its in zip(options, parts, strict=True) for part in its]
    busy = sum(float(option.busy[part.option]) * part.share for option, part in chosen)
    high = sum(float(option.busy_high[part.option]) * part.share for option, part in chosen)
    active_w = sum(float(option.active_w[part.option]) * part.share for option, part in chosen)
    has_energy = bool(np.isfinite(active_w))
    modes = {option.modes[part.option]: None for option, part in chosen}
    if idle is not None and busy < 1.0:
        modes[idle] = None
    power_w = None
    if has_energy and idle is not None:
        power_w = active_w + max(0.0, 1.0 - busy) * idle_w[idle]
    unknown: dict[str, str] = {}
    if idle is None:
        unknown |= dict.fromkeys(("idle_mode", "idle_w", "power_w"), "no constant power is known")
    elif power_w is None:
        unknown["power_w"] = "the energy of some networks is unknown"
    if not has_energy:
        unknown["active_w"] = "the energy of some networks is unknown"
    if lost is None:
        unknown["lost"] = "how long a switch takes is unknown"
    return MixPlan(
        shares=tuple(option.share(part.option, part.share) for option, part in chosen),
        modes=tuple(modes),
        busy=busy,
        busy_high=high,
        active_w=active_w if has_energy else None,
        idle_mode=idle,
        idle_w=idle_w[idle] if idle is not None else None,
        power_w=power_w,
        lost=lost,
        unknown=unknown,
    )


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
