"""What is watched while trials run: temperatures, throttling, over-current, clocks.

Whether heat or its hardware slows a card down is read from NVML. Source: NVIDIA, NVML API
Reference, nvmlClocksEventReasons. At its power limit a card lowers its clock as well (0x04): the
limit is a part of the mode, and work at it the card's usual state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import DeviceError
from mansard.device.cards import card_handle, load_nvml, nvml_errors
from mansard.device.clocks.domains import Domain
from mansard.device.clocks.settings import find_clocks
from mansard.device.conditions.mode_settings import (
    SettingChange,
    SettingsInForce,
    find_mode_settings,
)
from mansard.device.conditions.surroundings import (
    Engines,
    Fans,
    GpuProcesses,
    MemoryMonitor,
    find_engines,
    find_fans,
    find_memory_monitor,
)
from mansard.device.system import SYSTEM_ROOT, below, glob, read_int, read_text

POWER_CAP = 0x04
HARDWARE = 0x08  # set beside one of the next three, or alone where the hardware says no more
DRIVER_HEAT = 0x20
HARDWARE_HEAT = 0x40
POWER_BRAKE = 0x80  # of the power supply, not of the limit
_SLOWDOWNS = HARDWARE | DRIVER_HEAT | HARDWARE_HEAT | POWER_BRAKE


class CardSlowdowns(msgspec.Struct, frozen=True):
    """Slowdowns of the first card; ``why_not``: why they cannot be read during a trial."""

    nvml: Any = None
    card: Any = None
    why_not: str = ""

    @property
    def is_known(self) -> bool:
        """Whether there is a card to ask."""
        return self.nvml is not None

    def read_alarms(self) -> tuple[int | None, ...]:
        """1 while the card is slowed down; None where it does not answer, empty without a card."""
        if self.nvml is None:
            return ()
        try:
            reasons = int(self.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.card))
        except nvml_errors(self.nvml):
            return (None,)
        return (int(bool(reasons & _SLOWDOWNS)),)


def find_card_slowdowns(root: Path, *, uses_gpu: bool) -> CardSlowdowns:
    """The first card, where the GPU is used and NVML says why its clocks are low."""
    if not uses_gpu:
        return CardSlowdowns()
    if root != SYSTEM_ROOT:
        return CardSlowdowns(why_not="NVML answers for this machine only")
    try:
        nvml = load_nvml()
        card = card_handle(nvml, 0, None)
    except DeviceError as error:
        return CardSlowdowns(why_not=str(error))
    slowdowns = CardSlowdowns(nvml, card)
    silent = CardSlowdowns(why_not="NVML does not say why the card's clocks are low")
    return silent if None in slowdowns.read_alarms() else slowdowns


# Sensors of the processor's and the GPU's temperature, by the names that releases gave them.
#
# Sources: Documentation/driver-api/thermal/sysfs-api.rst of the Linux kernel (a zone has type
# and temp in m°C); zone names in recorded tegrastats lines of boards from r28 to r39: CPU-therm,
# MCPU-therm and BCPU-therm (TX2), GPU-therm, tj-therm up to r35, cpu-thermal and so on from r36.

_ZONE = re.compile(
    r"x86_pkg_temp|cpu_thermal|[mb]?cpu-therm(al)?|(gpu|tj)-therm(al)?", re.IGNORECASE
)
# Drivers of CPU sensors on machines without such a zone; their first sensor is the package.
_CHIPS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal"})
# L4T reports -256 °C for a sensor that is switched off; no silicon runs above 200 °C.
COLDEST_C, HOTTEST_C = -200.0, 200.0


class Thermometers(msgspec.Struct, frozen=True):
    """The files to read, in m°C; ``why_not`` says why there are none."""

    paths: tuple[Path, ...]
    why_not: str

    def read_c(self) -> float | None:
        """The hottest sensor that is on, °C; None where none answers."""
        readings = [read_int(path) for path in self.paths]
        celsius = [reading / 1e3 for reading in readings if reading is not None]
        return max((c for c in celsius if COLDEST_C < c < HOTTEST_C), default=None)


def find_thermometers(root: Path) -> Thermometers:
    """The sensors of CPU and GPU; a chip's own sensor where they have no thermal zone."""
    zones = [
        zone / "temp"
        for zone in glob(below(root, "/sys/class/thermal"), "thermal_zone[0-9]*")
        if _ZONE.fullmatch(read_text(zone / "type") or "")
    ]
    chips = [
        chip / "temp1_input"
        for chip in glob(below(root, "/sys/class/hwmon"), "hwmon[0-9]*")
        if (read_text(chip / "name") or "") in _CHIPS
    ]
    paths = tuple(zones or chips)
    why_not = (
        ""
        if paths
        else "no CPU sensor under /sys/class/thermal or /sys/class/hwmon "
        "(usual in a virtual machine)"
    )
    return Thermometers(paths, why_not)


# Thermal throttling and over-current: counters of events, and limits that are in force.
#
# Sources: Documentation/admin-guide/thermal (x86's thermal_throttle counters) and
# Documentation/driver-api/thermal/sysfs-api.rst of the Linux kernel (cur_state of a cooling
# device is 0 while it does not limit); NVIDIA's Jetson Linux developer guide, r35 and r36, "Thermal
# management" (cooling devices *-throttle-alert) and "Over-current events" (hwmon soctherm_oc
# with oc1_event_cnt under-voltage, oc2_ average and oc3_ instantaneous over-current);
# Documentation/hwmon/ina3221.rst (curr*_crit_alarm, curr*_max_alarm).

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
    alarms = []
    for kind in ("crit", "max"):
        for path in glob(chip, f"curr[1-3]_{kind}_alarm"):
            channel = path.name[len("curr")]
            if read_text(chip / f"in{channel}_label") != _NO_CHANNEL and read_int(path) is not None:
                alarms.append(path)
    return alarms


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


# The files that tell how a machine runs: found once, read often.
#
# A reading is small files that the kernel answers from its own memory: one clock for each CPU
# cluster, the GPU's and the memory's, up to three temperatures, the settings of the mode, and the
# power states of engines. What costs more is read before and after a trial alone: counters of
# events, the alarms of current sensors (half a millisecond each on the I2C bus) and processes.


class ConditionsReading(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the machine, at a monotonic time; None where a file did not answer."""

    monotonic_s: float
    cpu_clock_hz: float | None
    gpu_clock_hz: float | None
    memory_clock_hz: float | None
    temperature_c: float | None
    limits: tuple[int | None, ...]  # states of cooling devices that slow down, and of the card
    changes: tuple[SettingChange, ...]  # of the mode's settings
    engines: tuple[str, ...] | None  # at work
    fan_speed_rpm: float | None
    fan_drive_share: float | None


class WatchedClock(msgspec.Struct, frozen=True):
    """The file that a clock is read from, and what 1 in it is worth."""

    path: Path
    unit_hz: int

    def read_hz(self) -> float | None:
        """The clock now, Hz; None where the file does not answer, or while the clock is off."""
        value = read_int(self.path)
        return value * float(self.unit_hz) if value is not None and value > 0 else None


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What can be read on this machine, and why the rest cannot."""

    root: Path
    settings: SettingsInForce  # as they were when the sources were found: of the mode
    engines: Engines
    fans: Fans
    cpu_clocks: tuple[WatchedClock, ...]  # one for each cluster in use
    gpu_clock: WatchedClock | None
    memory_clock: WatchedClock | None
    memory_use: MemoryMonitor
    thermometers: Thermometers
    throttling: Events
    card_slowdowns: CardSlowdowns
    overcurrent: Events
    processes: GpuProcesses

    def read(self, monotonic_s: float) -> ConditionsReading:
        """One reading, stamped with ``monotonic_s``; never raises."""
        return ConditionsReading(
            monotonic_s=monotonic_s,
            cpu_clock_hz=_slowest_hz(self.cpu_clocks),
            gpu_clock_hz=self.gpu_clock.read_hz() if self.gpu_clock else None,
            memory_clock_hz=self.memory_clock.read_hz() if self.memory_clock else None,
            temperature_c=self.thermometers.read_c(),
            limits=(*self.throttling.read_alarms(), *self.card_slowdowns.read_alarms()),
            changes=self.settings.changes(),
            engines=self.engines.read(),
            fan_speed_rpm=self.fans.read_speed_rpm(),
            fan_drive_share=self.fans.read_drive(),
        )

    def read_memory_share(self) -> float | None:
        """The share of the memory's bandwidth in use now; None where it is not known."""
        clock = self.memory_clock
        return self.memory_use.read_share(clock.read_hz() if clock else None)

    @property
    def why_no_throttling(self) -> str:
        """Why throttling cannot be seen here; empty where it can."""
        if self.throttling.are_known or self.card_slowdowns.is_known:
            return ""
        return "; ".join(filter(None, (self.throttling.why_not, self.card_slowdowns.why_not)))

    def losses(self) -> tuple[str, ...]:
        """How the machine has left the mode since ``find_sources``; never raises."""
        return self.settings.losses(is_throttled=any(self.throttling.read_alarms()))


def find_sources(root: Path, cpus: Sequence[int], *, uses_gpu: bool = False) -> Sources:
    """The sources for ``cpus`` and the rest of the machine; finding them takes some milliseconds.

    ``uses_gpu``: whether the trials run on the GPU. A card's own memory counts only then.
    """
    clocks = find_clocks(root)
    emc = clocks.emc.domain if clocks.emc else None
    clusters = tuple(domain for domain in clocks.cpu if set(domain.cpus) & set(cpus))
    clocked = {cpu for domain in clusters for cpu in domain.cpus}
    return Sources(
        root=root,
        settings=find_mode_settings(root, clocks),
        engines=find_engines(root),
        fans=find_fans(root),
        cpu_clocks=_clocks(root, clusters) if clocked.issuperset(cpus) else (),
        gpu_clock=next(iter(_clocks(root, (clocks.gpu,))), None),
        memory_clock=next(iter(_clocks(root, (emc,))), None),
        memory_use=find_memory_monitor(root, uses_gpu=uses_gpu),
        thermometers=find_thermometers(root),
        throttling=find_throttling(root, cpus),
        card_slowdowns=find_card_slowdowns(root, uses_gpu=uses_gpu),
        overcurrent=find_overcurrent(root),
        processes=GpuProcesses(root),
    )


def _clocks(root: Path, domains: Sequence[Domain | None]) -> tuple[WatchedClock, ...]:
    return tuple(
        WatchedClock(below(root, domain.cur_path), domain.unit_hz)
        for domain in domains
        if domain is not None and domain.cur_path is not None
    )


def _slowest_hz(clocks: Sequence[WatchedClock]) -> float | None:
    """The slowest of the clocks, Hz; None if one of them does not answer."""
    readings = [clock.read_hz() for clock in clocks]
    answered_hz = [hz for hz in readings if hz is not None]
    return min(answered_hz) if answered_hz and len(answered_hz) == len(readings) else None
