"""What can be set on one machine: the frequencies of each clock, the cores, and how it is now."""

from __future__ import annotations

import msgspec

from mansard.core.errors import UsageError
from mansard.core.frequency import Frequency, find_frequency, format_frequency, nearest_first
from mansard.core.records import PowerMode


class Table(msgspec.Struct, frozen=True):
    """The frequencies of one clock, ascending.

    ``is_continuous``: the kernel names only the ends and takes every frequency between.
    ``why_not``: why it cannot be set, and what would allow it; empty where it can.
    """

    available_hz: tuple[float, ...] = ()
    is_continuous: bool = False
    why_not: str = ""

    def find(self, wanted: Frequency) -> float | None:
        """The available frequency that was meant by ``wanted``; None where there is none."""
        if self.is_continuous and self.available_hz[0] <= wanted.hz <= self.available_hz[-1]:
            return wanted.hz
        return find_frequency(wanted, self.available_hz)

    def floor(self, hz: float) -> float:
        """The highest available frequency up to ``hz``, or the lowest if all are above."""
        low, high = self.available_hz[0], self.available_hz[-1]
        if self.is_continuous:
            return min(max(hz, low), high)
        return max((step for step in self.available_hz if step <= hz), default=low)

    def offer(self, hz: float) -> str:
        """What is available, in words, nearest to ``hz`` first."""
        if self.is_continuous:
            low, high = self.available_hz[0], self.available_hz[-1]
            return f"any from {format_frequency(low)} to {format_frequency(high)} is available"
        return f"available, nearest first: {nearest_first(hz, self.available_hz)}"


class Cluster(msgspec.Struct, frozen=True):
    """CPUs that share a clock, whether they are on or off."""

    cpus: tuple[int, ...]
    table: Table


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a custom mode of one machine is made of."""

    present: PowerMode  # what is not set stays as it is here
    cpus: tuple[int, ...]  # one logical CPU for each core, in the order they are switched on
    clusters: tuple[Cluster, ...]
    cpu: Table  # the frequencies of all clusters together
    gpu: Table
    emc: Table
    dla: Table

    def settable(self, key: str) -> Table:
        """The table of ``gpu``, ``emc``, ``cpu`` or ``dla``; raises UsageError if it has none."""
        table: Table = getattr(self, key)
        if table.why_not or not table.available_hz:
            raise UsageError(
                f"{key} cannot be set on this machine",
                fix=table.why_not or f"leave {key} out: the kernel names no frequency for it",
            )
        return table

    def find(self, key: str, wanted: Frequency) -> float:
        """The available frequency of one clock; raises UsageError that lists those there are."""
        table = self.settable(key)
        hz = table.find(wanted)
        if hz is None:
            raise UsageError(f"{key} has no {wanted.text}", fix=table.offer(wanted.hz))
        return hz

    def check_cores(self, n_cpus: int) -> None:
        """Raise UsageError where the machine has no ``n_cpus`` cores."""
        if not 1 <= n_cpus <= len(self.cpus):
            raise UsageError(f"{n_cpus} cores cannot be on", fix=f"use 1 to {len(self.cpus)}")

    def on(self, n_cpus: int | None) -> tuple[tuple[Cluster, tuple[int, ...]], ...]:
        """The clusters that have cores on, with these; the present ones if ``n_cpus`` is None."""
        if n_cpus is not None:
            on = set(self.cpus[:n_cpus])
        elif self.present.clusters:
            on = {cpu for cluster in self.present.clusters for cpu in cluster.cpus}
        else:
            on = set(self.cpus[: self.present.n_cpus])
        found = []
        for cluster in self.clusters:
            cpus = tuple(cpu for cpu in cluster.cpus if cpu in on)
            if cpus:
                found.append((cluster, cpus))
        return tuple(found)


def merge(tables: tuple[Table, ...]) -> Table:
    """The frequencies that any of ``tables`` has."""
    usable = [table for table in tables if table.available_hz and not table.why_not]
    if not usable:
        return tables[0] if tables else Table(why_not="the kernel shows no CPU clock (cpufreq)")
    steps = {hz for table in usable for hz in table.available_hz}
    return Table(tuple(sorted(steps)), any(table.is_continuous for table in usable))
