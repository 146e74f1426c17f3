"""The files that tell how a machine runs: found once, read often.

A reading is a few small files: one clock for each CPU cluster, the GPU's and the memory's, and
up to three temperatures. What costs more is read before and after a trial alone: counters of
events, the alarms of current sensors (half a millisecond each on the I2C bus) and processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from mansard.device.clocks.domain import Domain
from mansard.device.clocks.nodes import find_clocks
from mansard.device.conditions.gpu_processes import GpuProcesses
from mansard.device.conditions.temperature import Thermometers, find_thermometers
from mansard.device.conditions.throttle import Events, find_overcurrent, find_throttling
from mansard.device.system import below, read_int


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the machine, at a monotonic time; None where a file did not answer."""

    monotonic_s: float
    cpu_clock_hz: float | None
    gpu_clock_hz: float | None
    memory_clock_hz: float | None
    temperature_c: float | None
    limits: tuple[int | None, ...]  # states of the cooling devices that slow down


class Clock(msgspec.Struct, frozen=True):
    """The file that a clock is read from, and what 1 in it is worth."""

    path: Path
    unit_hz: int

    def read_hz(self) -> float | None:
        """The clock now, Hz; None where the file does not answer, or while the clock is off."""
        value = read_int(self.path)
        return value * float(self.unit_hz) if value is not None and value > 0 else None


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What can be read on this machine, and why the rest cannot."""

    cpu_clocks: tuple[Clock, ...]  # one for each cluster in use
    gpu_clock: Clock | None
    memory_clock: Clock | None
    thermometers: Thermometers
    throttling: Events
    overcurrent: Events
    processes: GpuProcesses

    def read(self, monotonic_s: float) -> Reading:
        """One reading, stamped with ``monotonic_s``; never raises."""
        return Reading(
            monotonic_s=monotonic_s,
            cpu_clock_hz=_slowest_hz(self.cpu_clocks),
            gpu_clock_hz=self.gpu_clock.read_hz() if self.gpu_clock else None,
            memory_clock_hz=self.memory_clock.read_hz() if self.memory_clock else None,
            temperature_c=self.thermometers.read_c(),
            limits=self.throttling.read_alarms(),
        )


def find_sources(root: Path, cpus: Sequence[int]) -> Sources:
    """What tells how ``cpus`` and the rest of the machine run; costs some milliseconds."""
    clocks = find_clocks(root)
    emc = clocks.emc.domain if clocks.emc else None
    clusters = tuple(domain for domain in clocks.cpu if set(domain.cpus) & set(cpus))
    clocked = {cpu for domain in clusters for cpu in domain.cpus}
    return Sources(
        cpu_clocks=_clocks(root, clusters) if clocked.issuperset(cpus) else (),
        gpu_clock=next(iter(_clocks(root, (clocks.gpu,))), None),
        memory_clock=next(iter(_clocks(root, (emc,))), None),
        thermometers=find_thermometers(root),
        throttling=find_throttling(root, cpus),
        overcurrent=find_overcurrent(root),
        processes=GpuProcesses(root),
    )


def _clocks(root: Path, domains: Sequence[Domain | None]) -> tuple[Clock, ...]:
    return tuple(
        Clock(below(root, domain.cur_path), domain.unit_hz)
        for domain in domains
        if domain is not None and domain.cur_path is not None
    )


def _slowest_hz(clocks: Sequence[Clock]) -> float | None:
    """The slowest of the clocks, Hz; None if one of them does not answer."""
    readings = [clock.read_hz() for clock in clocks]
    known = [hz for hz in readings if hz is not None]
    return min(known) if known and len(known) == len(readings) else None
