"""The modes of a plain machine: its core counts, and clocks where cpufreq lists them."""

from __future__ import annotations

import re
from pathlib import Path

from mansard.core.power_mode import ModeSettings, core_count_mode, parse_custom_name, parse_modes
from mansard.core.records import PowerMode
from mansard.core.units import parse_frequency
from mansard.device.clocks.domains import Domain, find_clusters
from mansard.device.power_modes.custom_modes import SettableModes
from mansard.device.power_modes.settable import CoreGroup, ModeChoices, ValueTable, merge

_CAPPED = re.compile(r"([1-9][0-9]{0,3})c@(.+)")
_NO_CPUFREQ = (
    "the kernel shows no clock of the CPU (cpufreq), as is usual in a virtual machine: "
    "choose core counts only, such as 2c, or measure on a machine of its own"
)
_NO_STEPS = "the kernel names neither steps of the CPU's clock nor the ends of its range"
_ANY_USER = "rather than in a container; core counts such as 2c need no permission"
_ACCELERATORS_ONLY = "a plain machine has no such clock; set cpu and cores"


class CpuModes(SettableModes):
    """What a plain machine can be asked for."""

    def present(self) -> PowerMode:
        """All cores, clocks left alone."""
        return core_count_mode(len(self._cpus))

    def available(self) -> tuple[PowerMode, ...]:
        """Every core count, from 1 up."""
        return parse_modes("all", len(self._cpus))

    def named(self, name: str) -> PowerMode:
        """``2c``, ``2c@2000MHz`` or ``cpu2000MHz_2c``; raises UsageError."""
        settings = parse_custom_name(name)
        capped = _CAPPED.fullmatch(name)
        if capped is not None:
            settings = ModeSettings(n_cpus=int(capped[1]), cpu=parse_frequency(capped[2]))
        if settings is None or settings == ModeSettings(n_cpus=settings.n_cpus):
            return parse_modes(name, len(self._cpus))[0]
        return self.custom(settings)

    def read_choices(self) -> ModeChoices:
        """Cores and clocks as the kernel lists them, from the present mode on."""
        clusters = read_clusters(self._root, self._cpus)
        no_clock = ValueTable(why_not=_ACCELERATORS_ONLY)
        return ModeChoices(
            present=self.present(),
            cpus=self._cpus,
            clusters=clusters,
            cpu=merge(tuple(cluster.table for cluster in clusters)),
            gpu=no_clock,
            emc=no_clock,
            dla=no_clock,
        )


def read_clusters(root: Path, cpus: tuple[int, ...]) -> tuple[CoreGroup, ...]:
    """The groups of ``cpus`` that share a clock, in the order of their first CPU."""
    clusters: list[CoreGroup] = []
    left = set(cpus)
    for domain in find_clusters(root):
        ours = tuple(cpu for cpu in cpus if cpu in left and cpu in domain.cpus)
        if ours:
            left.difference_update(ours)
            clusters.append(CoreGroup(ours, _table(domain)))
    if left:
        rest = tuple(cpu for cpu in cpus if cpu in left)
        clusters.append(CoreGroup(rest, ValueTable(why_not=_NO_CPUFREQ)))
    return tuple(sorted(clusters, key=lambda cluster: cluster.cpus))


def _table(domain: Domain) -> ValueTable:
    if domain.why_not:
        return ValueTable(why_not=f"{domain.why_not} {_ANY_USER}")
    if not domain.available_hz:
        return ValueTable(why_not=_NO_STEPS)
    return ValueTable(domain.available_hz, domain.is_continuous)
