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
from mansard.device.system import below, why_unreadable


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the machine, at a monotonic time; None where a file did not answer."""

    monotonic_s: float
    cpu_clock_hz: float | None
    gpu_clock_hz: float | None
    memory_clock_hz: float | None
    temperature_c: float | None
    limits: tuple[int | None, ...]  # states of the cooling devices that slow down


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What can be read on this machine, and why the rest cannot."""

    root: Path
    cpus: tuple[int, ...]
    cpu_clocks: tuple[Domain, ...]
    gpu_clock: Domain | None
    memory_clock: Domain | None
    thermometers: Thermometers
    throttling: Events
    overcurrent: Events
    processes: GpuProcesses

    def read(self, monotonic_s: float) -> Reading:
        """One reading, stamped with ``monotonic_s``; never raises."""
        return Reading(
            monotonic_s=monotonic_s,
            cpu_clock_hz=_slowest_hz(self.root, self.cpu_clocks),
            gpu_clock_hz=_slowest_hz(self.root, (self.gpu_clock,)),
            memory_clock_hz=_slowest_hz(self.root, (self.memory_clock,)),
            temperature_c=self.thermometers.read_c(),
            limits=self.throttling.read_alarms(),
        )

    def why_no_clock(self, clock: Domain | None, what: str) -> str:
        """Why a clock has no reading, in words."""
        if clock is None or clock.cur_path is None:
            return f"no file with {what} is here"
        return why_unreadable(below(self.root, clock.cur_path))


def find_sources(root: Path, cpus: Sequence[int]) -> Sources:
    """What tells how ``cpus`` and the rest of the machine run; costs some milliseconds."""
    clocks = find_clocks(root)
    cpu_clocks = tuple(domain for domain in clocks.cpu if set(domain.cpus) & set(cpus))
    clocked = {cpu for domain in cpu_clocks for cpu in domain.cpus}
    return Sources(
        root=root,
        cpus=tuple(cpus),
        cpu_clocks=cpu_clocks if clocked.issuperset(cpus) else (),
        gpu_clock=clocks.gpu,
        memory_clock=clocks.emc.domain if clocks.emc else None,
        thermometers=find_thermometers(root),
        throttling=find_throttling(root, cpus),
        overcurrent=find_overcurrent(root),
        processes=GpuProcesses(root),
    )


def _slowest_hz(root: Path, clocks: Sequence[Domain | None]) -> float | None:
    """The slowest of the clocks, Hz. One that stands still is off, and has no clock."""
    readings = [clock.read_hz(root, clock.cur_path) for clock in clocks if clock is not None]
    running = [hz for hz in readings if hz is not None and hz > 0]
    return min(running) if readings and len(running) == len(readings) else None
