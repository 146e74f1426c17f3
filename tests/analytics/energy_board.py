"""Simulated trials of a board whose cost of a FLOP, a byte and a second is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mansard.analytics.models.energy.fit import EnergyFit, EnergyPoint

# The plan's chains, and the bytes that one fp32 element moves: read and written.
FMA_PER_ELEMENT = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
ELEMENT_BYTES = 8
WINDOW_S = 10.0  # five windows of two seconds


@dataclass(frozen=True)
class Truth:
    """Peak and bandwidth of AGX Orin at MAXN as recorded; the costs are round, made up numbers."""

    peak: float = 5.3e12  # FLOP/s
    bandwidth: float = 189e9  # byte/s
    flop_j: float = 3e-12
    byte_j: float = 60e-12
    constant_w: float = 15.0


ORIN = Truth()


def sweep(truth: Truth = ORIN, chains: Sequence[int] = FMA_PER_ELEMENT) -> list[EnergyPoint]:
    """One exact point for each chain length; time is the roofline's."""
    points = []
    for length in chains:
        intensity = 2 * length / ELEMENT_BYTES
        rate = min(truth.peak, intensity * truth.bandwidth)
        work, traffic = rate * WINDOW_S, rate * WINDOW_S / intensity
        energy_j = truth.flop_j * work + truth.byte_j * traffic + truth.constant_w * WINDOW_S
        points.append(point(work, traffic, energy_j, f"fma {length}"))
    return points


def idle(truth: Truth = ORIN, n_points: int = 3) -> list[EnergyPoint]:
    return [point(0.0, 0.0, truth.constant_w * WINDOW_S, "idle") for _ in range(n_points)]


def point(work: float, traffic: float, energy_j: float, name: str = "made up") -> EnergyPoint:
    return EnergyPoint(
        name=name,
        work_flop={"fp32": work} if work else {},
        traffic_bytes={"DRAM": traffic} if traffic else {},
        window_s=WINDOW_S,
        energy_j=energy_j,
    )


def noisy(points: Sequence[EnergyPoint], share: float, seed: int) -> list[EnergyPoint]:
    """The points with normal noise of ``share`` of each energy."""
    factors = np.random.default_rng(seed).normal(1.0, share, len(points))
    return [scaled(each, float(factor)) for each, factor in zip(points, factors, strict=True)]


def scaled(each: EnergyPoint, energy: float = 1.0) -> EnergyPoint:
    return EnergyPoint(
        name=each.name,
        work_flop=each.work_flop,
        traffic_bytes=each.traffic_bytes,
        window_s=each.window_s,
        energy_j=each.energy_j * energy,
    )


def errors(found: EnergyFit, truth: Truth = ORIN) -> tuple[float, float, float]:
    """Relative errors of ε_flop, ε_byte and π₀; infinite where one is not identified."""
    pairs = (
        (found.flop_j["fp32"].value, truth.flop_j),
        (found.byte_j["DRAM"].value, truth.byte_j),
        (found.constant_w.value, truth.constant_w),
    )
    flop, byte, constant = (
        abs(value / true - 1) if value is not None else float("inf") for value, true in pairs
    )
    return flop, byte, constant
