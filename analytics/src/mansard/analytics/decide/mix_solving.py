"""One mix in given modes: who runs where, how busy the device is, and what it draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mansard.analytics.decide.mix_options import Options
from mansard.analytics.decide.mix_records import MixPlan
from mansard.analytics.decide.probability import Array
from mansard.analytics.decide.records import Objective
from mansard.analytics.decide.share_time import Part, share_time


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
    times = [each.busy_high for each in options]
    costs = [cost_of(each, minimise, constant_w) for each in options]
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
    parts: Sequence[Sequence[Part]],
    idle: str | None,
    idle_w: Mapping[str, float],
    lost: float | None,
) -> MixPlan:
    chosen = [(each, part) for each, its in zip(options, parts, strict=True) for part in its]
    busy = sum(float(each.busy[part.option]) * part.share for each, part in chosen)
    high = sum(float(each.busy_high[part.option]) * part.share for each, part in chosen)
    active_w = sum(float(each.active_w[part.option]) * part.share for each, part in chosen)
    has_energy = bool(np.isfinite(active_w))
    modes = {each.modes[part.option]: None for each, part in chosen}
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
        shares=tuple(each.share(part.option, part.share) for each, part in chosen),
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
