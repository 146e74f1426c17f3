"""Values of settings as they are written, and what can be set on one machine."""

from __future__ import annotations

import re
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Protocol

import msgspec

from mansard.core.errors import UsageError
from mansard.core.power_mode import CLOCKS
from mansard.core.records import PowerMode
from mansard.core.units import format_frequency, highest_up_to, nearest_first, parse_frequency

Unit = Literal["Hz", "W", "cores"]

# Where everything between two ends can be set, grids take multiples of this, so that names,
# which are cut to whole MHz, tell modes apart.
GRAIN: MappingProxyType[Unit, float] = MappingProxyType({"Hz": 1e6, "W": 1.0, "cores": 1.0})
_MOST_CORES = 9999
_WATTS = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) ?W", re.IGNORECASE | re.ASCII)
_COUNT = re.compile(r"[0-9]{1,4}", re.ASCII)


class WrittenValue(msgspec.Struct, frozen=True):
    """What was written, and how far from it the value that is meant can be."""

    value: float
    slack: float = 0.0
    text: str = ""

    def fits(self, value: float) -> bool:
        """Whether ``value`` may be the one that was meant."""
        return value == self.value or abs(value - self.value) < self.slack


def read_amount(key: str, given: Any, unit: Unit) -> WrittenValue:
    """A value from a command line or a grid file; raises UsageError that shows how to write it."""
    if unit == "cores":
        return _read_cores(given)
    example = "612MHz" if unit == "Hz" else "250W"
    if not isinstance(given, str):
        raise UsageError(
            f"{key} has {given!r}, which has no unit", fix=f'write "{example}", in quotes'
        )
    if unit == "Hz":
        frequency = parse_frequency(given)
        return WrittenValue(frequency.hz, frequency.slack_hz, frequency.text)
    match = _WATTS.fullmatch(given.strip())
    if match is None:
        raise UsageError(f"{given!r} is not a power", fix="write it in watts, such as 250W")
    return WrittenValue(float(match[1]), 0.0, f"{float(match[1]):g}W")


def _read_cores(given: Any) -> WrittenValue:
    if isinstance(given, str) and _COUNT.fullmatch(given.strip()):
        given = int(given)
    if type(given) is not int or not 1 <= given <= _MOST_CORES:
        raise UsageError(f"{given!r} is not a number of cores", fix="write a whole number from 1")
    return WrittenValue(float(given), 0.0, str(given))


def format_amount(value: float, unit: Unit) -> str:
    """A value with its unit, as a mode's name has it."""
    if unit == "Hz":
        return format_frequency(value)
    return f"{value:.10g}W" if unit == "W" else f"{value:.0f}"


KEYS = (*CLOCKS, "cores")


class ValueTable(msgspec.Struct, frozen=True):
    """The values of one setting, ascending.

    ``is_continuous``: only the ends are named, and everything between them can be set.
    ``why_not``: why it cannot be set, and what would allow it; empty where it can.
    """

    steps: tuple[float, ...] = ()
    is_continuous: bool = False
    why_not: str = ""
    unit: Unit = "Hz"

    def find(self, wanted: WrittenValue) -> float | None:
        """The value that was meant by ``wanted``; None where there is none."""
        if self.is_continuous and self.steps[0] <= wanted.value <= self.steps[-1]:
            return wanted.value
        fitting = [step for step in self.steps if wanted.fits(step)]
        return min(fitting, key=lambda step: abs(step - wanted.value), default=None)

    def require(self, key: str, wanted: WrittenValue) -> float:
        """The same; raises UsageError that lists what there is."""
        value = self.find(wanted)
        if value is not None:
            return value
        what = f"{key} has no {wanted.text}"
        if self.unit == "cores":
            what = f"{wanted.text} cores cannot be on"
        raise UsageError(what, fix=self.offer(wanted.value))

    def floor(self, value: float) -> float:
        """The highest value up to ``value``, or the lowest if all are above."""
        return highest_up_to(value, self.steps, is_continuous=self.is_continuous)

    def offer(self, value: float) -> str:
        """What is available, in words, nearest to ``value`` first."""
        low, high = (format_amount(end, self.unit) for end in (self.steps[0], self.steps[-1]))
        if self.unit == "cores":
            return f"use {low} to {high}"
        if self.is_continuous:
            return f"any from {low} to {high} is available"
        listed = nearest_first(value, self.steps, show=partial(format_amount, unit=self.unit))
        return f"available, nearest first: {listed}"


class Settable(Protocol):
    """What a grid may set on some machine."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the settings, in the order of the grid's axes."""
        ...

    def table(self, key: str) -> ValueTable:
        """The values of one of them; raises UsageError where it cannot be set."""
        ...

    def reachable_hz(self, cpu_hz: float, n_cpus: int | None) -> float:
        """The highest CPU clock up to ``cpu_hz`` that the cores that are on have."""
        ...


class CoreGroup(msgspec.Struct, frozen=True):
    """CPUs that share a clock, whether they are on or off."""

    cpus: tuple[int, ...]
    table: ValueTable


class ModeChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a custom mode of a board or a plain machine is made of."""

    present: PowerMode  # settings that are not given keep these values
    cpus: tuple[int, ...]  # one logical CPU for each core, in the order they are switched on
    clusters: tuple[CoreGroup, ...]
    cpu: ValueTable  # the frequencies of all clusters together
    gpu: ValueTable
    emc: ValueTable
    dla: ValueTable

    @property
    def keys(self) -> tuple[str, ...]:
        """The clocks, and the number of cores."""
        return KEYS

    def table(self, key: str) -> ValueTable:
        """The values of one of ``keys``; raises UsageError where it cannot be set."""
        if key == "cores":
            return ValueTable(tuple(map(float, range(1, len(self.cpus) + 1))), unit="cores")
        table: ValueTable = getattr(self, key)
        if table.why_not or not table.steps:
            raise UsageError(
                f"{key} cannot be set on this machine",
                fix=table.why_not or f"leave {key} out: the kernel names no frequency for it",
            )
        return table

    def on(self, n_cpus: int | None) -> tuple[tuple[CoreGroup, tuple[int, ...]], ...]:
        """The clusters that have cores on, with these; the present ones if ``n_cpus`` is None."""
        if n_cpus is not None:
            on = set(self.cpus[:n_cpus])
        elif self.present.clusters:
            on = {cpu for cluster in self.present.clusters for cpu in cluster.cpus}
        else:
            on = set(self.cpus[: self.present.n_cpus])
        clusters = []
        for cluster in self.clusters:
            cpus = tuple(cpu for cpu in cluster.cpus if cpu in on)
            if cpus:
                clusters.append((cluster, cpus))
        return tuple(clusters)

    def reachable_hz(self, cpu_hz: float, n_cpus: int | None) -> float:
        """The highest CPU clock up to ``cpu_hz`` that the cores that are on have."""
        tables = [cluster.table for cluster, _ in self.on(n_cpus) if cluster.table.steps]
        return max((table.floor(cpu_hz) for table in tables), default=cpu_hz)


def merge(tables: tuple[ValueTable, ...]) -> ValueTable:
    """The frequencies that any of ``tables`` has."""
    usable = [table for table in tables if table.steps and not table.why_not]
    if not usable:
        return (
            tables[0] if tables else ValueTable(why_not="the kernel shows no CPU clock (cpufreq)")
        )
    steps = {step for table in usable for step in table.steps}
    return ValueTable(tuple(sorted(steps)), any(table.is_continuous for table in usable))
