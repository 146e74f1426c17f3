"""A mix of networks on one device: the best mode for all of them, or modes in turn.

With r items per second of a network, each of τ seconds and E joules, the device is busy for
Σ r τ of every second and draws Σ r E + (1 − Σ r τ) π₀ on average, where π₀ is the power of the
mode that it idles in: as given, else the constant power of the energy model. It keeps up where
Σ r τ ≤ 1. No queue is modelled: items that arrive while another network runs wait, and that wait
is in no latency.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.data.names import display_name
from mansard.analytics.decisions.alternatives import find_lower_settings, is_of_gpu
from mansard.analytics.decisions.limits import Mask, screen, unknown_modes
from mansard.analytics.decisions.mix_records import IdlePower, Mix, MixPlan, Task
from mansard.analytics.decisions.recommend import of_one_batch
from mansard.analytics.decisions.records import Objective, Wanted
from mansard.analytics.decisions.roof_times import expected_span_s
from mansard.analytics.decisions.time_sharing import (
    Options,
    cost_of,
    is_better,
    is_tie,
    keeps_waits,
    least_time,
    objective_of,
    solve,
    with_waits,
)
from mansard.analytics.decisions.values import Array, read_values
from mansard.core.errors import InputError, MansardError, UsageError
from mansard.core.hardware import LowerSetting

_FOR_SWITCHES = 0.01  # of the time: what is left for switches that take an unknown time
_MOST_OTHERS = 8  # single modes beside the best one
_Idle = Mapping[str, IdlePower]  # by mode


@dataclass(frozen=True, kw_only=True)
class MixDecision:
    """How one device keeps up with a mix: facts, which ``pages.words`` puts in sentences.

    ``one_mode``, ``schedule``, ``others`` and ``equals``: as in ``MixAnswer``; ``is_equal``:
    whether these two plans do not differ clearly. ``keeps_up``: the share of the rates that
    it can do; ``may_keep_up``: with all of them, by what the networks take at least. ``hopeless``:
    networks that keep their limits in no mode or, where they ``may_fit``, in none that is known.
    ``not_compared``: modes whose idle power is unknown, where that of others is known.
    ``refused``: why nothing may be recommended; ``error``: why no mix can be planned.
    """

    device: str
    n_tasks: int = 0
    one_mode: MixPlan | None = None
    schedule: MixPlan | None = None
    others: tuple[MixPlan, ...] = ()
    equals: tuple[str, ...] = ()
    is_equal: bool = False
    keeps_up: float = 0.0
    may_keep_up: bool = False
    hopeless: tuple[str, ...] = ()
    may_fit: bool = False
    refused: str = ""
    error: str = ""
    is_by_time: bool = False  # energies are unknown: the least busy time is the best
    idle_counts: bool | None = None  # whether idle energy is in the sums; None: none is minimised
    not_compared: tuple[str, ...] = ()
    modes_unknown: Mapping[str, str] = field(default_factory=dict)  # by mode, the reason
    lower_settings: tuple[LowerSetting, ...] = ()  # as of ``recommend.Decision``

    def roofed(self) -> tuple[str, ...]:
        """The networks of its plans that were not measured."""
        plans = (self.one_mode, self.schedule)
        return tuple(dict.fromkeys(name for plan in plans if plan for name in plan.roofed()))


def constant_powers(coefficients: pl.DataFrame) -> dict[str, dict[str, IdlePower]]:
    """The constant power of each device and mode, where COEFFICIENT_SCHEMA has it."""
    rows = coefficients.filter(
        pl.col("quantity") == "constant_power",
        pl.col("value").is_finite() & (pl.col("value") > 0),
    )
    powers: dict[str, dict[str, IdlePower]] = {}
    for device, mode, *watts in rows.select("device", "mode", "value", "low", "high").iter_rows():
        power = IdlePower(
            value_w=watts[0], low_w=watts[1], high_w=watts[2], source="constant power"
        )
        powers.setdefault(device, {})[mode] = power
    return powers


_NO_MODES = pl.DataFrame(schema=MODE_SCHEMA)


def decide_mixes(
    predictions: pl.DataFrame,
    mix: Mix,
    wanted: Wanted,
    idle: Mapping[str, _Idle],
    refused: Mapping[tuple[str, str], str] | None = None,
    modes: pl.DataFrame | None = None,
    *,
    unbounded: Collection[str] = (),
) -> tuple[MixDecision, ...]:
    """``decide_mix`` for every device; ``idle`` has the idle powers by device and mode.

    ``refused``: by device and network, why nothing is recommended. ``modes``: MODE_SCHEMA of those
    to choose from, where some may have no prediction. ``unbounded``: devices whose roofs are
    published rates, no bounds.
    """
    whys = {device: why for (device, _), why in (refused or {}).items()}
    decisions: list[MixDecision] = []
    errors: list[MansardError] = []
    for (name,), rows in predictions.group_by("device", maintain_order=True):
        device = str(name)
        if (why := whys.get(device)) is not None:
            decisions.append(MixDecision(device=device, refused=why))
            continue
        try:
            of_device = _NO_MODES if modes is None else modes.filter(pl.col("device") == device)
            sms = dict(of_device.select("mode", "n_sms").iter_rows())
            powers = {
                mode: power
                for mode, power in idle.get(device, {}).items()
                if modes is None or mode in sms  # it idles in no mode that was not asked for
            }
            has_ratios = device not in unbounded and is_of_gpu(of_device)
            decision = decide_mix(rows, mix, wanted, powers, sms, has_ratios=has_ratios)
            reasons = _unknown_reasons(list(sms), rows, mix, wanted)
            lower = find_lower_settings(of_device)
            decisions.append(replace(decision, modes_unknown=reasons, lower_settings=lower))
        except (UsageError, InputError) as error:  # another device may have what this one lacks
            errors.append(error)
            decisions.append(MixDecision(device=device, error=str(error)))
    if errors and len(errors) == len(decisions):
        raise errors[0]
    return tuple(decisions)


def _unknown_reasons(
    names: Sequence[str], rows: pl.DataFrame, mix: Mix, wanted: Wanted
) -> dict[str, str]:
    """Those of the modes ``names`` in which a network has no prediction, and why."""
    reasons: dict[str, str] = {}
    for task in mix.tasks:
        of_task = rows.filter(pl.col("network") == task.network)
        batches = task.batches or wanted.batches
        for mode, why in unknown_modes(of_task, names, batches).items():
            reasons.setdefault(mode, f"{display_name(task.network)} there: {why}")
    return reasons


def decide_mix(
    predictions: pl.DataFrame,
    mix: Mix,
    wanted: Wanted,
    idle: _Idle,
    sms: Mapping[str, int | None] = MappingProxyType({}),
    *,
    has_ratios: bool = False,
) -> MixDecision:
    """How one device keeps up with ``mix``, by PREDICTION_SCHEMA rows of that device.

    Minimises the mean power (of energy and power alike), or the time in which it is busy (of
    latency). ``idle``: the idle power of each mode; without it what idles is in no sum.
    A schedule is only given where it is better than the best single mode, or the only way; it
    keeps limits of latency, and has modes of one number of SMs (``sms``, by mode), as another
    number takes a reboot. ``has_ratios``: as of ``find_options``.
    Raises UsageError as ``find_options``, and for the energy-delay product, which a mix does not
    have; InputError if energies are unknown.
    """
    _check(predictions, wanted)
    options = find_options(predictions, mix, wanted, has_ratios=has_ratios)
    device = str(predictions["device"][0])
    if not all(option.rows for option in options):
        return _hopeless(device, options)
    is_by_time = wanted.falls_back and any(np.isnan(option.active_w).all() for option in options)
    if is_by_time:
        wanted = replace(wanted, minimise="latency")
    if wanted.minimise != "latency":
        options = _with_energy(options)
    one_mode, others = _single_modes(options, wanted.minimise, idle)
    schedule = _find_schedule(options, mix, wanted.minimise, idle, sms)
    is_equal, equals = False, list[str]()
    if one_mode is not None:
        if schedule is not None:
            # With bounds alone, the mean power of a schedule cannot be compared with a known one.
            is_vague = schedule.is_bounded() and not one_mode.is_bounded()
            if is_vague or not is_better(schedule, one_mode, wanted.minimise):
                schedule = None
        is_equal = schedule is not None and is_tie(schedule, one_mode, wanted.minimise)
        equals = [_mode_of(one) for one in others if is_tie(one_mode, one, wanted.minimise)]
    return MixDecision(
        device=device,
        n_tasks=len(mix.tasks),
        one_mode=one_mode,
        schedule=schedule,
        others=others,
        equals=tuple(equals),
        is_equal=is_equal,
        keeps_up=min(1.0, 1.0 / least_time([option.busy_high for option in options])),
        may_keep_up=sum(option.least_busy for option in options) <= 1.0,
        is_by_time=is_by_time,
        idle_counts=None if wanted.minimise == "latency" else _counts_idle(one_mode, schedule),
        not_compared=() if wanted.minimise == "latency" else _without_idle(options, idle),
    )


def _hopeless(device: str, options: Sequence[Options]) -> MixDecision:
    """Networks that keep their limits in no mode; if there are any, those that surely do not."""
    hopeless = [option for option in options if not option.rows]
    lost = [option for option in hopeless if np.isinf(option.least_busy)]
    names = tuple(option.task.network for option in lost or hopeless)
    return MixDecision(device=device, hopeless=names, may_fit=not lost)


def _counts_idle(one_mode: MixPlan | None, schedule: MixPlan | None) -> bool:
    """Whether the idle power of what is recommended is known."""
    plan = one_mode if schedule is None else schedule
    return plan is not None and plan.idle_w is not None


def _check(predictions: pl.DataFrame, wanted: Wanted) -> None:
    if wanted.minimise == "edp":
        raise UsageError("a mix has no energy-delay product", fix="minimise energy or latency")
    if predictions["device"].n_unique() != 1:
        raise UsageError("a mix runs on one device", fix="ask for each device alone")


def _mode_of(plan: MixPlan) -> str:
    """The mode of a plan of one mode."""
    return plan.shares[0].mode


def find_options(
    predictions: pl.DataFrame, mix: Mix, wanted: Wanted, *, has_ratios: bool = False
) -> tuple[Options, ...]:
    """The options of every task of ``mix`` in ``predictions``, which are of one device.

    An option keeps the limits of ``wanted`` and of its task with the probability that was asked
    for; the wait for a batch to fill, (batch - 1) / rate, counts as part of its latency.
    What is known by its roof takes as long as ``expected_span_s`` says at most where such ratios
    are recorded (``has_ratios``), else as its roof says. A task that keeps its limits in no mode
    has no options. Raises UsageError for a task that has no prediction or no positive rate.
    """
    return tuple(_options(predictions, task, wanted, has_ratios) for task in mix.tasks)


def _options(predictions: pl.DataFrame, task: Task, wanted: Wanted, has_ratios: bool) -> Options:
    if not (np.isfinite(task.rate_per_s) and task.rate_per_s > 0):
        raise UsageError(
            f"{task.network} at {task.rate_per_s} items/s is not a task", fix="give a rate above 0"
        )
    rows = predictions.filter(pl.col("network") == task.network)
    if task.precision is not None:
        rows = rows.filter(pl.col("precision") == task.precision)
    if task.batches:
        rows = rows.filter(pl.col("batch").fill_null(1).is_in(list(task.batches)))
    elif task.max_latency_s is None and not rows.is_empty():
        # Without a limit of the wait for a batch to fill, the largest batch would always win.
        rows = of_one_batch(rows)
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
    most_s = values.latency.quantile(wanted.probability)
    most_item_s = values.item.quantile(wanted.probability)
    if has_ratios:
        is_roof = values.latency.interval == "roof"
        longest_s = expected_span_s(values.latency.value)[1]
        most_s = np.where(is_roof, longest_s, most_s)
        most_item_s = np.where(is_roof, longest_s / batches, most_item_s)
    usable = np.flatnonzero(fits & _in_time(most_s, task, batches))
    likely_s = values.latency.quantile(1 - wanted.probability)
    may_fit = ~screened.is_broken & _in_time(likely_s, task, batches)
    least_s = values.item.quantile(1 - wanted.probability)[may_fit]
    least_busy = 0.0 if values.n_timeless else task.rate_per_s * float(min(least_s, default=np.inf))
    frame_modes = values.frame["mode"].to_list()
    return Options(
        task=task,
        values=values,
        rows=tuple(int(at) for at in usable),
        modes=tuple(str(frame_modes[at]) for at in usable),
        busy=task.rate_per_s * values.item.value[usable],
        busy_high=task.rate_per_s * most_item_s[usable],
        active_w=task.rate_per_s * values.energy.value[usable],
        least_busy=least_busy,
        has_ratios=has_ratios,
    )


def _in_time(times_s: Array, task: Task, batches: Array) -> Mask:
    """Whether batches that take ``times_s`` keep the task's limit, the wait included."""
    if task.max_latency_s is None:
        return np.ones(len(times_s), dtype=np.bool_)
    wait_s = (batches - 1.0) / task.rate_per_s
    return np.asarray(times_s + wait_s <= task.max_latency_s)


def _with_energy(options: Sequence[Options]) -> tuple[Options, ...]:
    known = tuple(option.known() for option in options)
    for option in known:
        if not option.rows:
            raise InputError(
                f"the energy of {option.task.network} is unknown in every mode",
                fix="measure with a power meter, or minimise latency",
            )
    return known


def _single_modes(
    options: Sequence[Options], minimise: Objective, idle: _Idle
) -> tuple[MixPlan | None, tuple[MixPlan, ...]]:
    """The best mode that runs all tasks, and the next best ones.

    The best one is exact, the most promising first: each task at its cheapest, whatever it takes,
    costs no more than any solution of the mode does. Once the best solution is no worse than that
    bound, no later mode can be better.
    """
    by_mode = [option.by_mode() for option in options]
    common = _common_modes(options)
    if minimise != "latency":
        # A mode that seems to idle for nothing would look like the best.
        common = common & idle.keys() or common
    bounds = []
    for mode in common:
        inside = [option.keep(rows[mode]) for option, rows in zip(options, by_mode, strict=True)]
        idle_w = idle[mode].value_w if mode in idle else 0.0
        least = sum(float(np.min(cost_of(option, minimise, idle_w))) for option in inside)
        bounds.append((least + (0.0 if minimise == "latency" else idle_w), mode, inside))
    best: MixPlan | None = None
    plans: list[MixPlan] = []
    for bound, mode, inside in sorted(bounds, key=lambda one: one[:2]):
        if best is not None and len(plans) > _MOST_OTHERS and bound >= objective_of(best, minimise):
            break
        plan = solve(inside, minimise, mode if mode in idle else None, idle, 1.0)
        if plan is None:
            continue
        plans.append(plan)
        if best is None or is_better(plan, best, minimise):
            best = plan
    others = sorted(
        (plan for plan in plans if plan is not best), key=lambda one: objective_of(one, minimise)
    )
    return best, tuple(others[:_MOST_OTHERS])


def _common_modes(options: Sequence[Options]) -> set[str]:
    """The modes in which every task has an option."""
    return set.intersection(*(set(option.modes) for option in options))


def _without_idle(options: Sequence[Options], idle: _Idle) -> tuple[str, ...]:
    """The modes that do not compete, as their idle power is unknown and that of others is not."""
    common = _common_modes(options)
    return tuple(sorted(common - idle.keys())) if common & idle.keys() else ()


def _find_schedule(
    options: Sequence[Options],
    mix: Mix,
    minimise: Objective,
    idle: _Idle,
    sms: Mapping[str, int | None],
) -> MixPlan | None:
    """The best schedule of modes with one number of SMs, if items need not wait too long."""
    best: MixPlan | None = None
    for count in dict.fromkeys(sms.get(mode) for option in options for mode in option.modes):
        allowed = [
            option.keep([at for at, mode in enumerate(option.modes) if sms.get(mode) == count])
            for option in options
        ]
        powers = {mode: power for mode, power in idle.items() if sms.get(mode) == count}
        if all(option.rows for option in allowed):
            for plan in _schedules(allowed, mix, minimise, powers):
                if keeps_waits(plan, mix) and (best is None or is_better(plan, best, minimise)):
                    best = plan
    return best


def _schedules(
    options: Sequence[Options], mix: Mix, minimise: Objective, idle_powers: _Idle
) -> Iterator[MixPlan]:
    """Modes in turn, idling in the mode of the least idle power.

    Where a switch and a period have their lengths, the time left shrinks with each mode more;
    every count of modes is tried, and a plan counts if it has no more modes than its count.
    """
    idle = min(idle_powers, key=lambda mode: (idle_powers[mode].value_w, mode), default=None)
    for n_modes in range(2, len(options) + 3):
        lost = _lost(mix, n_modes)
        if lost is not None and lost >= 1.0:
            break
        capacity = 1.0 - (_FOR_SWITCHES if lost is None else lost)
        plan = solve(options, minimise, idle, idle_powers, capacity, lost)
        if plan is not None and len(plan.modes) <= n_modes:
            yield with_waits(plan, mix)


def _lost(mix: Mix, n_modes: int) -> float | None:
    """The share of a period that is spent on switching; each mode is entered once."""
    if mix.switch_s is None or mix.period_s is None:
        return None
    return n_modes * mix.switch_s / mix.period_s
