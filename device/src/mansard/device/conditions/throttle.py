"""Thermal throttling and over-current: counters of events, and limits that are in force.

Sources: Documentation/admin-guide/thermal (x86's thermal_throttle counters) and
Documentation/driver-api/thermal/sysfs-api.rst of the Linux kernel (``cur_state`` of a cooling
device is 0 while it does not limit); NVIDIA's Jetson Linux developer guide, r35 and r36, "Thermal
management" (cooling devices ``*-throttle-alert``) and "Over-current events" (hwmon ``soctherm_oc``
with ``oc1_event_cnt`` under-voltage, ``oc2_`` average and ``oc3_`` instantaneous over-current);
Documentation/hwmon/ina3221.rst (``curr*_crit_alarm``, ``curr*_max_alarm``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from mansard.device.system import below, glob, read_int, read_text

# Devices that slow a processor down; fans cool as well, but cost no performance. r32 called
# its throttling devices cpu-balanced, gpu-balanced and tegra-heavy.
_LIMITER = re.compile(
    r".*-throttle-alert|.*[-_](balanced|heavy)|(thermal-)?(cpufreq|devfreq)-.+"
    r"|Processor|intel_powerclamp"
)
_THROTTLE = "thermal_throttle/package_throttle_count"
_MOST_EVENTS = 2**53
_NO_CHANNEL = "NC"  # the label of a sensor channel that is not connected


class Events(msgspec.Struct, frozen=True):
    """Files that count events, and files that are above 0 while something is wrong."""

    counters: tuple[Path, ...]
    alarms: tuple[Path, ...]
    why_not: str

    @property
    def are_known(self) -> bool:
        """Whether there is any file to read."""
        return bool(self.counters or self.alarms)

    def read_counts(self) -> tuple[int | None, ...]:
        """Every counter now; None where one does not answer."""
        return tuple(read_int(path) for path in self.counters)

    def read_alarms(self) -> tuple[int | None, ...]:
        """Every alarm now, 0 where nothing is wrong."""
        return tuple(read_int(path) for path in self.alarms)


def find_throttling(root: Path, cpus: Iterable[int]) -> Events:
    """Throttle counters of the packages of ``cpus``, and the cooling devices that slow down."""
    folder = below(root, "/sys/devices/system/cpu")
    packages: dict[str, Path] = {}
    for cpu in cpus:
        # The package's counter counts each event once; a core's own counter is also in it.
        counter = folder / f"cpu{cpu}" / _THROTTLE
        if read_int(counter) is not None:
            package = read_text(folder / f"cpu{cpu}/topology/physical_package_id") or ""
            packages.setdefault(package, counter)
    limiters = [
        device / "cur_state"
        for device in glob(below(root, "/sys/class/thermal"), "cooling_device[0-9]*")
        if _LIMITER.fullmatch(read_text(device / "type") or "")
        and read_int(device / "cur_state") is not None
    ]
    why_not = "" if packages or limiters else f"neither {_THROTTLE} nor a cooling device is here"
    return Events(tuple(packages.values()), tuple(limiters), why_not)


def find_overcurrent(root: Path) -> Events:
    """A board's counters of over-current events, and the alarms of its current sensors."""
    counters: list[Path] = []
    alarms: list[Path] = []
    for chip in glob(below(root, "/sys/class/hwmon"), "hwmon[0-9]*"):
        counters += glob(chip, "oc[0-9]_event_cnt")
        if (read_text(chip / "name") or "").startswith("ina3221"):
            alarms += _alarms(chip)
    readable = [path for path in counters if read_int(path) is not None]
    why_not = "" if readable or alarms else "no over-current counter under /sys/class/hwmon"
    return Events(tuple(readable), tuple(alarms), why_not)


def _alarms(chip: Path) -> list[Path]:
    found = []
    for kind in ("crit", "max"):
        for path in glob(chip, f"curr[1-3]_{kind}_alarm"):
            channel = path.name[len("curr")]
            if read_text(chip / f"in{channel}_label") != _NO_CHANNEL and read_int(path) is not None:
                found.append(path)
    return found


def count_increase(before: Sequence[int | None], after: Sequence[int | None]) -> int:
    """Events between two readings of counters; one that was reset counts from 0."""
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a is not None and b is not None]
    counted = sum(b - a if b >= a else max(b, 0) for a, b in pairs)
    return min(counted, _MOST_EVENTS)  # what junk counts must still fit into a record


def count_rises(readings: Sequence[Sequence[int | None]]) -> int:
    """How often an alarm went on over the readings; one that is on at first counts once."""
    n_rises = 0
    for alarm in zip(*readings, strict=True):
        states = [False, *(state > 0 for state in alarm if state is not None)]
        n_rises += sum(on and not was_on for was_on, on in pairwise(states))
    return n_rises
