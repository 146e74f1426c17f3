"""What a network takes where all coefficients are at one end of their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mansard.analytics.energy.cap import capped_time_s
from mansard.analytics.predict.coefficient_table import (
    BYTE_ENERGY,
    CONSTANT_POWER,
    LAUNCH,
    Array,
    Key,
    energy_key,
)
from mansard.analytics.predict.mode_parts import ModePart, Rates
from mansard.analytics.predict.score_times import flop_by_key, split_times
from mansard.analytics.predict.work_table import WorkTable


@dataclass(frozen=True, eq=False)
class End:
    """Seconds, joules and watts for each mode, NaN where unknown.

    ``shares_s``: in compute-bound groups, in memory-bound ones and in launches; ``parts_j``: of
    work and of traffic; ``constant_w``: the constant power.
    """

    shares_s: tuple[Array, Array, Array]
    parts_j: tuple[Array, Array]
    constant_w: Array
    limit_w: Array | None  # None where no mode has one

    @cached_property
    def time_s(self) -> Array:
        """Under the power limit; infinite where that leaves nothing beside the constant power."""
        compute_s, memory_s, launch_s = self.shares_s
        free_s = compute_s + memory_s + launch_s
        if self.limit_w is None:
            return free_s
        return capped_time_s(free_s, self.dynamic_j, self.constant_w, self.limit_w)

    @cached_property
    def dynamic_j(self) -> Array:
        """Of work and traffic together."""
        return self.parts_j[0] + self.parts_j[1]

    @cached_property
    def energy_j(self) -> Array:
        """E = Σ ε_p W_p + ε_DRAM Q + π₀ T."""
        return self.dynamic_j + self.constant_w * self.time_s


def find_end(work: WorkTable | None, part: ModePart, rates: Rates) -> End:
    """``rates`` is the middle of ``part`` or one of its ends; no ``work``: nothing is known."""
    unknown = np.full(rates.n_modes, np.nan)
    limit_w = part.limit_w if part.has_limit else None
    if work is None:
        return End((unknown,) * 3, (unknown,) * 2, unknown, limit_w)
    nothing = np.zeros(rates.n_modes)
    compute_s, memory_s = split_times(work, part.placement, rates)
    n_launches = work.n_launches.sum()
    launch_s = n_launches * rates.costs[LAUNCH] if LAUNCH in rates.costs else nothing
    work_j = nothing
    for key, flop in flop_by_key(work, part.placement).items():
        work_j = work_j + flop * rates.costs.get(energy_key(key), unknown)
    n_bytes = work.traffic_bytes.sum()
    traffic_j = n_bytes * rates.costs.get(BYTE_ENERGY, unknown) if n_bytes else nothing
    constant_w = rates.costs.get(CONSTANT_POWER, unknown)
    return End((compute_s, memory_s, launch_s), (work_j, traffic_j), constant_w, limit_w)


def energy_keys(work: WorkTable, part: ModePart) -> tuple[Key, ...]:
    """The coefficients that the energy rests on beside those of the time."""
    peaks = flop_by_key(work, part.placement)
    moved = (BYTE_ENERGY,) if work.traffic_bytes.any() else ()
    return (*(energy_key(key) for key in peaks), *moved, CONSTANT_POWER)
