"""A mix of networks on one device: the best mode for all of them, or modes in turn.

With r items per second of a network, each of τ seconds and E joules, the device is busy for
Σ r τ of every second and draws Σ r E + (1 − Σ r τ) π₀ on average, where π₀ is the constant power
of the mode that it idles in. It keeps up where Σ r τ ≤ 1. No queue is modelled: items that
arrive while another network runs wait, and that wait is in no latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.decisions.alternatives import find_lower_settings
from mansard.analytics.decisions.limits import unknown_modes
from mansard.analytics.decisions.records import Objective, Wanted
from mansard.analytics.decisions.time_sharing import (
    Mix,
    MixPlan,
    Options,
    cost_of,
    find_options,
    is_better,
    least_time,
    objective_of,
    solve,
)
from mansard.core.errors import UsageError
from mansard.core.hardware import LowerSetting


@dataclass(frozen=True, kw_only=True)
class MixDecision:
    """How one device keeps up with a mix: facts, which ``pages.words`` puts in sentences.

    ``one_mode`` and ``schedule``: as in ``MixAnswer``. ``keeps_up``: the share of the rates that
    it can do; ``may_keep_up``: with all of them, by what the networks take at least. ``hopeless``:
    networks that keep their limits in no mode or, where they ``may_fit``, in none that is known.
    ``refused``: why nothing may be recommended; ``error``: why no mix can be planned.
    """

    device: str
    n_tasks: int = 0
    one_mode: MixPlan | None = None
    schedule: MixPlan | None = None
    keeps_up: float = 0.0
    may_keep_up: bool = False
    hopeless: tuple[str, ...] = ()
    may_fit: bool = False
    refused: str = ""
    error: str = ""
    is_by_time: bool = False  # energies are unknown: the least busy time is the best
    idle_counts: bool | None = None  # whether idle energy is in the sums; None: none is minimised
    modes_unknown: Mapping[str, str] = field(default_factory=dict)  # by mode, the reason
    lower_settings: tuple[LowerSetting, ...] = ()  # as of ``recommend.Decision``

    def roofed(self) -> tuple[str, ...]:
        """The networks of its plans that were not measured."""
        plans = (self.one_mode, self.schedule)
        return tuple(dict.fromkeys(name for plan in plans if plan for name in plan.roofed()))


def constant_powers(coefficients: pl.DataFrame, device: str) -> dict[str, float]:
    """The constant power of each mode of ``device``, W, where COEFFICIENT_SCHEMA has it."""
    rows = coefficients.filter(
        pl.col("device") == device,
        pl.col("quantity") == "constant_power",
        pl.col("value").is_finite() & (pl.col("value") > 0),
    )
    return dict(zip(rows["mode"].to_list(), rows["value"].to_list(), strict=True))


def decide_mixes(
    predictions: pl.DataFrame,
    mix: Mix,
    wanted: Wanted,
    coefficients: pl.DataFrame,
    refused: Mapping[tuple[str, str], str] | None = None,
    modes: pl.DataFrame | None = None,
) -> tuple[MixDecision, ...]:
    """``decide_mix`` for every device; constant powers are those of ``coefficients``.

    ``refused``: by device and network, why nothing is recommended. ``modes``: MODE_SCHEMA of those
    to choose from, where some may have no prediction.
    """
    whys = {device: why for (device, _), why in (refused or {}).items()}
    decisions: list[MixDecision] = []
    errors: list[UsageError] = []
    for (name,), rows in predictions.group_by("device", maintain_order=True):
        device = str(name)
        if (why := whys.get(device)) is not None:
            decisions.append(MixDecision(device=device, refused=why))
            continue
        try:
            decision = decide_mix(rows, mix, wanted, constant_powers(coefficients, device))
            of_device = None if modes is None else modes.filter(pl.col("device") == device)
            names = [] if of_device is None else of_device["mode"].to_list()
            reasons = _unknown_reasons(names, rows, mix, wanted)
            lower = () if of_device is None else find_lower_settings(of_device)
            decisions.append(replace(decision, modes_unknown=reasons, lower_settings=lower))
        except UsageError as error:  # another device may well have what this one lacks
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
        batches = wanted.batches if task.batch is None else (task.batch,)
        for mode, why in unknown_modes(of_task, names, batches).items():
            reasons.setdefault(mode, f"{display_name(task.network)} there: {why}")
    return reasons


def decide_mix(
    predictions: pl.DataFrame, mix: Mix, wanted: Wanted, idle_w: Mapping[str, float]
) -> MixDecision:
    """How one device keeps up with ``mix``, by PREDICTION_SCHEMA rows of that device.

    Minimises the mean power (of energy and power alike), or the time in which it is busy (of
    latency). ``idle_w``: the constant power of each mode; without it what idles is in no sum.
    A schedule is only given where it is better than the best single mode, or the only way.
    Raises UsageError as ``find_options``, and for the energy-delay product, which a mix does not
    have.
    """
    if wanted.minimise == "edp":
        raise UsageError("a mix has no energy-delay product", fix="minimise energy or latency")
    if predictions["device"].n_unique() != 1:
        raise UsageError("a mix runs on one device", fix="ask for each device alone")
    options = find_options(predictions, mix, wanted)
    device = str(predictions["device"][0])
    hopeless = [option for option in options if not option.rows]
    if hopeless:
        lost = [option for option in hopeless if np.isinf(option.least_busy)]
        names = tuple(option.task.network for option in lost or hopeless)
        return MixDecision(device=device, hopeless=names, may_fit=not lost)
    is_by_time = wanted.falls_back and any(np.isnan(option.active_w).all() for option in options)
    if is_by_time:
        wanted = replace(wanted, minimise="latency")
    if wanted.minimise != "latency":
        options = _with_energy(options)
    one_mode = _best_single(options, wanted.minimise, idle_w)
    schedule = _best_schedule(options, mix, wanted.minimise, idle_w)
    if one_mode is not None and schedule is not None:
        schedule = schedule if is_better(schedule, one_mode, wanted.minimise) else None
    return MixDecision(
        device=device,
        n_tasks=len(mix.tasks),
        one_mode=one_mode,
        schedule=schedule,
        keeps_up=min(1.0, 1.0 / least_time([option.busy_high for option in options])),
        may_keep_up=sum(option.least_busy for option in options) <= 1.0,
        is_by_time=is_by_time,
        idle_counts=None if wanted.minimise == "latency" else bool(idle_w),
    )


def _with_energy(options: Sequence[Options]) -> tuple[Options, ...]:
    known = tuple(option.known() for option in options)
    for option in known:
        if not option.rows:
            raise UsageError(
                f"the energy of {option.task.network} is unknown in every mode",
                fix="measure with a power meter, or minimise latency",
            )
    return known


def _best_single(
    options: Sequence[Options], minimise: Objective, idle_w: Mapping[str, float]
) -> MixPlan | None:
    """The best mode that runs all tasks: exact, the most promising first.

    Each task at its cheapest, whatever it takes, costs no more than any solution of the mode
    does: once the best solution is no worse than that bound, no later mode can be better.
    """
    by_mode = [option.by_mode() for option in options]
    common = set(by_mode[0]).intersection(*by_mode[1:])
    # A mode that seems to idle for nothing would look like the best.
    common = common & idle_w.keys() or common
    bounds = []
    for mode in common:
        inside = [option.keep(rows[mode]) for option, rows in zip(options, by_mode, strict=True)]
        constant_w = idle_w.get(mode, 0.0)
        least = sum(float(np.min(cost_of(option, minimise, constant_w))) for option in inside)
        bounds.append((least + (0.0 if minimise == "latency" else constant_w), mode, inside))
    best: MixPlan | None = None
    for bound, mode, inside in sorted(bounds, key=lambda one: one[:2]):
        if best is not None and bound >= objective_of(best, minimise):
            break
        plan = solve(inside, minimise, mode if mode in idle_w else None, idle_w, 1.0)
        if plan is not None and (best is None or is_better(plan, best, minimise)):
            best = plan
    return best


def _best_schedule(
    options: Sequence[Options], mix: Mix, minimise: Objective, idle_w: Mapping[str, float]
) -> MixPlan | None:
    """Modes in turn, idling in the mode of the least constant power.

    Where a switch and a round have their lengths, the time left shrinks with each mode more;
    every count of modes is tried, and a plan counts if it has no more modes than its count.
    """
    idle = min(idle_w, key=lambda mode: (idle_w[mode], mode)) if idle_w else None
    best: MixPlan | None = None
    for n_modes in range(2, len(options) + 3):
        lost = _lost(mix, n_modes)
        if lost is not None and lost >= 1.0:
            break
        plan = solve(options, minimise, idle, idle_w, 1.0 - (lost or 0.0), lost)
        if plan is None or len(plan.modes) > n_modes:
            continue
        if best is None or is_better(plan, best, minimise):
            best = plan
    return best


def _lost(mix: Mix, n_modes: int) -> float | None:
    """The share of a round that is spent on switching; each mode is entered once."""
    if mix.switch_s is None or mix.period_s is None:
        return None
    return n_modes * mix.switch_s / mix.period_s
