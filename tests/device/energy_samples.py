"""Samples made by hand, and the one rail of a window over them."""

from __future__ import annotations

from mansard.core.records import PowerSample, RailEnergy
from mansard.device.meters.energy import window_energy
from mansard.device.meters.meter import RailFacts

SECONDS = RailFacts(period_s=1.0)  # samples stand a second apart
FAST = RailFacts(period_s=0.01)


def power(time_s: float, power_w: float | None, rail: str = "VDD_IN") -> PowerSample:
    unknown = {"energy_j": "reads power"}
    if power_w is None:
        unknown["power_w"] = "no answer"
    return PowerSample(
        rail=rail, monotonic_s=time_s, power_w=power_w, energy_j=None, unknown=unknown
    )


def energy(time_s: float, energy_j: float, rail: str = "package-0") -> PowerSample:
    return PowerSample(
        rail=rail,
        monotonic_s=time_s,
        power_w=None,
        energy_j=energy_j,
        unknown={"power_w": "counts energy"},
    )


def only_rail(
    samples: list[PowerSample],
    start_s: float,
    end_s: float,
    facts: RailFacts = SECONDS,
    n_changed_min: int = 0,
) -> RailEnergy:
    window = window_energy(samples, start_s, end_s, facts, n_changed_min=n_changed_min)
    (rail,) = window.rails
    return rail
