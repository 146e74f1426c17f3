"""Power and heat of a simulated board. Pure, and made up but for the shape.

Dynamic power of a clocked circuit is proportional to f·V²·utilisation, and its voltage rises
with the clock; heat follows power through one resistance and one capacity:
C·dT/dt = P − (T − T_ambient)/R.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from random import Random

import msgspec

from mansard.simulator.boards.spec import BoardSpec, RailSpec

AMBIENT_C = 32.0
_LOWEST_V = 0.6  # at no clock, of 1 at the highest
_CLOCK_TREE = 0.06  # of a unit's dynamic power that it takes while it does nothing
_TIME_CONSTANT_S = 12.0
_RISE_C = 55.0  # at full power
_LEAK_PER_C = 0.002
NOISE = 0.005  # relative, of one reading

SHUNT_STEP_V = 40e-6  # INA3221, data sheet: 40 µV of the shunt, 8 mV of the bus
BUS_STEP_MV = 8
_INA238_STEP_W = 0.0005  # made up: the chip's own is finer than anything seen


class Shares(msgspec.Struct, frozen=True):
    """Dynamic power of each unit, of 1 with everything on at the highest clock."""

    cpu: float
    gpu: float
    memory: float


def voltage(share_of_clock: float) -> float:
    """Of 1 at the highest clock."""
    return _LOWEST_V + (1 - _LOWEST_V) * share_of_clock


def dynamic(share_of_clock: float, utilisation: float) -> float:
    """f·V²·utilisation, with what the clock tree takes, of 1."""
    busy = _CLOCK_TREE + (1 - _CLOCK_TREE) * utilisation
    return float(share_of_clock * voltage(share_of_clock) ** 2 * busy)


def mean(values: Iterable[float]) -> float:
    """The mean; of nothing 0."""
    found = list(values)
    return math.fsum(found) / len(found) if found else 0.0


def rail_powers(
    rails: tuple[RailSpec, ...], shares: Shares, temperature_c: float
) -> dict[str, float]:
    """Watts of every rail, without noise; a rail carries its parts as well."""
    leak = 1 + _LEAK_PER_C * (temperature_c - AMBIENT_C)
    own = {
        rail.label: rail.idle_w * leak
        + rail.cpu_w * shares.cpu
        + rail.gpu_w * shares.gpu
        + rail.memory_w * shares.memory
        for rail in rails
    }
    return {rail.label: own[rail.label] + sum(own[part] for part in rail.parts) for rail in rails}


def with_noise(
    rails: tuple[RailSpec, ...], powers: Mapping[str, float], noise: Random
) -> dict[str, float]:
    """The same, as one reading sees them."""
    return {
        rail.label: powers[rail.label] * (1 + noise.gauss(0, NOISE))
        + (noise.gauss(0, rail.noise_w) if rail.noise_w else 0.0)
        for rail in rails
    }


def most_power_w(board: BoardSpec) -> float:
    """Of all rails together, each counted once, with everything on at the highest clock."""
    return sum(r.idle_w + r.cpu_w + r.gpu_w + r.memory_w for r in board.rails)


def warmer_c(temperature_c: float, power_w: float, most_w: float, elapsed_s: float) -> float:
    """The temperature after ``elapsed_s`` at ``power_w``."""
    goal = AMBIENT_C + _RISE_C * power_w / most_w
    return goal + (temperature_c - goal) * math.exp(-elapsed_s / _TIME_CONSTANT_S)


def ina3221_reading(rail: RailSpec, power_w: float) -> tuple[int, int, int]:
    """What the chip shows of a rail: bus in mV, current in mA, shunt in µV."""
    bus_mv = round(rail.volt * 1000) // BUS_STEP_MV * BUS_STEP_MV
    n_steps = round(power_w / (bus_mv / 1000) * rail.shunt_ohm / SHUNT_STEP_V)
    shunt_v = n_steps * SHUNT_STEP_V
    return bus_mv, round(shunt_v / rail.shunt_ohm * 1000), round(shunt_v * 1e6)


def ina238_uw(power_w: float) -> int:
    """What an INA238 shows: µW."""
    return round(round(power_w / _INA238_STEP_W) * _INA238_STEP_W * 1e6)
