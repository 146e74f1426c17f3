"""Rules that choose a mode from few measured ones: Mansard's, and what a sceptic writes himself.

Each answers "feasible" with a mode, "infeasible", or leaves the question open. The plain rules put
a flat margin of 5 % on whatever a limit bounds, and take the least objective of what keeps it:

- "measured": the measured modes alone; with none that keeps the limit the question stays open;
- "line": measured values, elsewhere a/f + b/m + c for time and a·f + b·m + c for power, of weights
  that are not negative, by relative least squares; always a definite answer;
- "line, near": the same times, with the energy of the nearest measured mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from mansard.analytics.decisions.recommend import decide
from mansard.analytics.decisions.records import Quantity, Wanted
from mansard.analytics.models.scaling.network_terms import setting_values
from recorded.mode_baselines import Array, Rows, line, nearest, rising_line

MARGIN = 1.05  # on each limited quantity, of the plain rules
RULES = ("measured", "line", "line, near", "mansard")


@dataclass(frozen=True)
class Reply:
    """The answer of a rule; ``mode`` is None unless the answer is "feasible"."""

    verdict: Literal["feasible", "infeasible", "open"]
    mode: str | None = None


@dataclass(frozen=True, eq=False)
class Seen:
    """What a rule knows: all ``modes``, of which those ``at`` have a time and a power."""

    modes: pl.DataFrame
    at: Rows
    latency_s: Array
    power_w: Array
    predictions: pl.DataFrame

    def others(self) -> Rows:
        """The modes that were not measured."""
        return np.setdiff1d(np.arange(self.modes.height), self.at)


def reply(rule: str, seen: Seen, wanted: Wanted) -> Reply:
    """What the rule of that name answers."""
    if rule == "mansard":
        return _mansard(seen, wanted)
    names = seen.modes["mode"].to_list()
    values = _quantities(rule, seen)
    is_kept = ~np.isnan(values["latency"])
    limits: tuple[tuple[Quantity, float | None], ...] = (
        ("latency", wanted.max_latency_s),
        ("power", wanted.max_power_w),
    )
    for quantity, limit in limits:
        if limit is not None:
            with np.errstate(invalid="ignore"):
                is_kept &= values[quantity] * MARGIN <= limit
    if not is_kept.any():
        return Reply("open" if rule == "measured" else "infeasible")
    objective = values[wanted.minimise]
    return Reply("feasible", names[int(np.argmin(np.where(is_kept, objective, np.inf)))])


def _mansard(seen: Seen, wanted: Wanted) -> Reply:
    decision = decide(seen.predictions, wanted)
    if decision.verdict == "feasible" and decision.choice is not None:
        return Reply("feasible", decision.choice.mode)
    return Reply("infeasible" if decision.verdict == "infeasible" else "open")


def _quantities(rule: str, seen: Seen) -> dict[str, Array]:
    """Time, power and energy of each mode by a plain rule; NaN where it says nothing."""
    n_modes, at = seen.modes.height, seen.at
    latency_s, power_w, energy_j = (np.full(n_modes, np.nan) for _ in range(3))
    if rule != "measured":
        values = setting_values(seen.modes)
        to = seen.others()
        latency_s[to] = line(values, seen.latency_s, at, to)
        power_w[to] = rising_line(values, seen.power_w, at, to)
        if rule == "line, near":
            energy_j[to] = nearest(values, seen.latency_s * seen.power_w, at, to)
            power_w[to] = energy_j[to] / latency_s[to]
    latency_s[at], power_w[at] = seen.latency_s, seen.power_w
    return {
        "latency": latency_s,
        "power": power_w,
        "energy": latency_s * power_w,
        "edp": latency_s**2 * power_w,
    }
