"""A card's meter whose counter moves in steps, under a power that is known at any time."""

from __future__ import annotations

from collections.abc import Callable

from mansard.core.clock import VirtualClock
from mansard.core.records import PowerSample

EnergyAt = Callable[[float], float]  # J, up to a moment


def steady(power_w: float) -> EnergyAt:
    """The energy of one power."""
    return lambda time_s: power_w * time_s


def stepping(*powers: tuple[float, float]) -> EnergyAt:
    """The energy of powers, each from its moment on: pairs of seconds and watts."""
    ends_s = [start_s for start_s, _ in powers[1:]] + [float("inf")]

    def energy_at(time_s: float) -> float:
        return sum(
            power_w * max(0.0, min(time_s, end_s) - start_s)
            for (start_s, power_w), end_s in zip(powers, ends_s, strict=True)
        )

    return energy_at


class SteppedMeter:
    """A `Meter` with one counter, which is renewed every ``pace_s`` of the virtual clock."""

    name = "NVML"
    rails = ("gpu0",)
    total_rule = "gpu0"
    boundary = "card"
    period_s = 0.01
    pace_s = None

    def __init__(self, clock: VirtualClock, energy_at: EnergyAt, renewed_every_s: float) -> None:
        self._clock, self._energy_at, self._pace_s = clock, energy_at, renewed_every_s

    def read(self) -> tuple[PowerSample, ...]:
        now_s = self._clock.now_s()
        return (
            PowerSample(
                rail="gpu0",
                monotonic_s=now_s,
                power_w=None,
                energy_j=self._energy_at(now_s // self._pace_s * self._pace_s),
                unknown={"power_w": "counts energy"},
            ),
        )

    def step_w(self, rail: str) -> float | None:
        return None

    def step_note(self, rail: str) -> str:
        return "counts energy"

    def sensor(self, rail: str) -> str:
        return rail
