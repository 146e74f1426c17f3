"""One board that is watched: its files found once, read at every look."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from mansard.core.records import BoardSample, CpuNow, GpuNow, PowerMode, ZoneNow
from mansard.core.text import cpu_list, printable
from mansard.device.clocks.domains import UNCAPPED_HZ, Domain
from mansard.device.clocks.settings import Clocks, find_clocks
from mansard.device.clocks.steps import floor
from mansard.device.conditions.sources import COLDEST_C, HOTTEST_C, find_thermometers
from mansard.device.conditions.surroundings import (
    GpuProcesses,
    find_engines,
    find_fans,
    find_memory_monitor,
)
from mansard.device.conditions.telemetry import find_gpu_load, read_jiffies, read_memory_bytes
from mansard.device.identity import is_jetson, is_simulated, read_model
from mansard.device.meters.finding import find_meters
from mansard.device.system import SYSTEM_ROOT, below, glob, read_int, read_text, why_unreadable
from mansard.device.watching.limits import Limits, PartNow
from mansard.device.watching.readers import (
    LONGEST_PAUSE_S,
    NO_CARDS,
    TWO_LOOKS,
    Cards,
    CardsNow,
    ModeReader,
    RunningEnergy,
)

_Value = TypeVar("_Value")
_SHARES_MEMORY = "the GPU shares the board's memory"
AS_ROOT = "only root can read it: run it with sudo"
_PAUSE_INTERVALS = 3  # a look or two that were missed are no pause


class BoardWatch:
    """Looks at the machine under ``root``; every look is one ``BoardSample``, and none raises.

    ``name``: how records call the board. ``clock`` and ``wall`` are seconds: monotonic, and since
    1970. ``as_root``: the remedy where root alone may read something. ``interval_s``: how far looks
    will be apart. They cost some milliseconds and start no process, but for an nvpmodel twice a
    minute on boards whose notes of the mode cannot be read.
    """

    def __init__(
        self,
        root: Path = SYSTEM_ROOT,
        name: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        as_root: str = AS_ROOT,
        interval_s: float = 1.0,
    ) -> None:
        self._root, self._clock, self._wall, self._as_root = root, clock, wall, as_root
        self._on_jetson = is_jetson(root)
        self._name = name or read_model(root) or printable(platform.node(), 80)
        self._is_simulated = is_simulated(root)
        self._mode = ModeReader(root, clock) if self._on_jetson else None
        self._engines, self._fans = find_engines(root), find_fans(root)
        self._memory_use = find_memory_monitor(root, uses_gpu=True)
        self._processes = GpuProcesses(root)
        self._load = find_gpu_load(root)
        self._zones = _find_zones(root)
        self._energy = RunningEnergy(
            find_meters(root), max(LONGEST_PAUSE_S, _PAUSE_INTERVALS * interval_s)
        )
        self._cards = Cards() if root == SYSTEM_ROOT and not self._on_jetson else None
        self._online_text: str | None = None
        self._clocks = self._find_clocks()
        self._limits = Limits(root, tuple(self._clocks.online))
        self._jiffies: dict[int, tuple[int, int]] = {}
        self._start_s: float | None = None

    def read(self) -> BoardSample:
        """One look. The first has no shares: they cover the time since the last look."""
        now_s = self._clock()
        self._start_s = now_s if self._start_s is None else self._start_s
        unknown: dict[str, str] = {}
        mode = self._read_mode(unknown)
        if read_text(below(self._root, _ONLINE)) != self._online_text:
            self._clocks = self._find_clocks()
        cpus = self._read_cpus()
        cards = self._cards.read() if self._cards is not None else NO_CARDS
        gpus = self._read_gpus(cards)
        zones = (*(_read_zone(*zone) for zone in self._zones), *cards.zones)
        memory_hz, memory_cap_hz = self._read_memory_clock(unknown)
        power = self._energy.read(now_s)
        if power.power_w is None:
            unknown["power_w"] = power.why_not
        if power.energy_j is None:
            unknown["energy_j"] = power.why_not or "a rail of the total has no reading yet"
        parts = self._parts(cpus, gpus, memory_hz, memory_cap_hz)
        limits = self._limits.read(parts, zones, mode)
        unknown |= self._limits.why_not
        return BoardSample(
            board=self._name,
            source="simulated" if self._is_simulated else "measured",
            time_s=self._wall(),
            watched_s=now_s - self._start_s,
            mode=mode,
            cpus=cpus,
            gpus=gpus,
            memory_clock_hz=memory_hz,
            memory_cap_hz=memory_cap_hz,
            memory_busy_share=self._read_memory_share(memory_hz, unknown),
            **self._read_memory(unknown),
            zones=zones,
            rails=power.rails,
            power_w=power.power_w,
            energy_j=power.energy_j,
            unmetered_s=power.unmetered_s,
            fan_speed_rpm=_known("fan_speed_rpm", self._fans.read_speed_rpm(), _NO_FAN, unknown),
            fan_drive_share=self._read_drive(cards, unknown),
            engines=_known("engines", self._engines.read(), _NO_ENGINES, unknown),
            gpu_processes=self._read_processes(unknown),
            limits=(*cards.limits, *limits),
            n_throttle_events=self._limits.n_throttle_events,
            n_overcurrent_events=self._limits.n_overcurrent_events,
            unknown=unknown,
        )

    def _find_clocks(self) -> Clocks:
        """The clocks that are there now: those of a cluster come and go with its cores."""
        self._online_text = read_text(below(self._root, _ONLINE))
        return find_clocks(self._root)

    def _read_mode(self, unknown: dict[str, str]) -> str | None:
        if self._mode is None:
            unknown["mode"] = "it is not a Jetson: it has no power modes"
            return None
        return _known("mode", self._mode.read(), self._mode.why_not, unknown)

    def _read_cpus(self) -> tuple[CpuNow, ...]:
        jiffies = read_jiffies(read_text(self._root / "proc/stat") or "")
        before, self._jiffies = self._jiffies, jiffies
        clocks = {
            cpu: domain for domain in self._clocks.cpu for cpu in domain.cpus
        }  # each file once: the CPUs of a cluster share it
        read = {
            domain.name: (
                domain.read_hz(self._root, domain.cur_path),
                domain.read_hz(self._root, domain.max_path),
            )
            for domain in self._clocks.cpu
        }
        cpus = []
        for cpu, is_on in self._clocks.online.items():
            if not is_on:
                continue
            domain = clocks.get(cpu)
            clock_hz, cap_hz = read[domain.name] if domain is not None else (None, None)
            share = _busy_share(before.get(cpu), jiffies.get(cpu))
            why = "no CPU has a cpufreq folder (usual in a virtual machine)"
            reasons = {
                "busy_share": (
                    share,
                    TWO_LOOKS if cpu in jiffies else "/proc/stat does not name it",
                ),
                "clock_hz": (clock_hz, why),
                "cap_hz": (cap_hz, why),
            }
            cpus.append(
                CpuNow(
                    cpu=cpu,
                    busy_share=share,
                    clock_hz=clock_hz,
                    cap_hz=cap_hz,
                    unknown={name: why for name, (value, why) in reasons.items() if value is None},
                )
            )
        return tuple(cpus)

    def _read_gpus(self, cards: CardsNow) -> tuple[GpuNow, ...]:
        domain = self._clocks.gpu
        if domain is None and self._load is None:
            return cards.gpus
        clock_hz = domain.read_hz(self._root, domain.cur_path) if domain else None
        cap_hz = _capped(domain, domain.read_hz(self._root, domain.max_path)) if domain else None
        mille = self._read_gpu_load()
        reasons = {
            "name": (None, "it is the board's own"),
            "busy_share": (mille, "the GPU's driver shows no load"),
            "clock_hz": (clock_hz, "the GPU's clock cannot be read, or the GPU is off"),
            "cap_hz": (cap_hz, "the GPU's cap cannot be read"),
            "memory_used_bytes": (None, _SHARES_MEMORY),
            "memory_total_bytes": (None, _SHARES_MEMORY),
        }
        soc_gpu = GpuNow(
            gpu="gpu",
            name=None,
            busy_share=None if mille is None else min(max(mille / 1000, 0.0), 1.0),
            clock_hz=clock_hz,
            cap_hz=cap_hz,
            memory_used_bytes=None,
            memory_total_bytes=None,
            unknown={name: why for name, (value, why) in reasons.items() if value is None},
        )
        return (soc_gpu, *cards.gpus)

    def _read_gpu_load(self) -> int | None:
        if self._load is not None:
            return read_int(self._load)
        domain = self._clocks.gpu
        folder = domain.cur_path.rpartition("/")[0] if domain and domain.cur_path else ""
        return read_int(below(self._root, f"{folder}/load")) if folder else None

    def _read_memory_clock(self, unknown: dict[str, str]) -> tuple[float | None, float | None]:
        emc = self._clocks.emc
        if emc is None:
            why = f"no file of its clock is here; on a Jetson {self._as_root}"
            if not self._on_jetson:
                why = "this machine shows no clock of its memory"
            unknown |= {"memory_clock_hz": why, "memory_cap_hz": why}
            return None, None
        clock_hz = emc.domain.read_hz(self._root, emc.domain.cur_path) or None
        why = f"the file of its clock does not answer; on a Jetson {self._as_root}"
        _known("memory_clock_hz", clock_hz, why, unknown)
        cap_hz = emc.top_hz(self._root)
        return clock_hz, _known("memory_cap_hz", cap_hz, "the memory's cap is not shown", unknown)

    def _read_memory_share(self, hz: float | None, unknown: dict[str, str]) -> float | None:
        share = self._memory_use.read_share(hz)
        why = self._memory_use.why_not or "it takes the memory's clock, which cannot be read"
        return _known("memory_busy_share", None if share is None else round(share, 4), why, unknown)

    def _read_memory(self, unknown: dict[str, str]) -> dict[str, int | None]:
        kernel = read_memory_bytes(self._root)
        amounts: dict[str, int | None] = {}
        for name, whole, free in (
            ("memory", "MemTotal", "MemAvailable"),
            ("swap", "SwapTotal", "SwapFree"),
        ):
            total, free_bytes = kernel.get(whole), kernel.get(free)
            used = total - free_bytes if total is not None and free_bytes is not None else None
            amounts |= {f"{name}_used_bytes": used, f"{name}_total_bytes": total}
        for field, value in amounts.items():
            if value is None:
                unknown[field] = "/proc/meminfo does not say"
        return amounts

    def _read_drive(self, cards: CardsNow, unknown: dict[str, str]) -> float | None:
        fan_drive = self._fans.read_drive()
        drive = cards.fan_drive_share if fan_drive is None else fan_drive
        return _known(
            "fan_drive_share", None if drive is None else round(drive, 4), _NO_FAN, unknown
        )

    def _read_processes(self, unknown: dict[str, str]) -> tuple[str, ...] | None:
        processes = self._processes.find()
        why = processes.why_not
        if processes.names is None:
            # The reason about a Jetson's files is dropped on other machines.
            why = f"{why}; {self._as_root}" if self._on_jetson else why.partition("; ")[2]
        return _known("gpu_processes", processes.names, why, unknown)

    def _parts(
        self,
        cpus: Sequence[CpuNow],
        gpus: Sequence[GpuNow],
        memory_hz: float | None,
        memory_cap_hz: float | None,
    ) -> list[PartNow]:
        mode = self._mode.mode if self._mode is not None else None
        by_number = {reading.cpu: reading for reading in cpus}
        parts: list[PartNow] = []
        for domain in self._clocks.cpu:
            now = [by_number[cpu] for cpu in domain.cpus if cpu in by_number]
            if now:
                parts.append(_cpu_part(domain, now, mode, on_jetson=self._on_jetson))
        if not self._on_jetson:  # one of several equal cores represents them
            alike = {(part.cap_hz, part.highest_hz): part for part in reversed(parts)}
            parts = [msgspec.structs.replace(part, name="CPU") for part in alike.values()]
        gpu = self._clocks.gpu
        if gpu is not None and gpus:
            parts.append(
                _part(
                    "GPU",
                    gpu,
                    (gpus[0].busy_share, gpus[0].clock_hz, gpus[0].cap_hz),
                    mode.gpu_hz if mode is not None else None,
                )
            )
        emc = self._clocks.emc
        if emc is not None:
            wanted_hz = mode.memory_hz if mode is not None else None
            clock = (None, memory_hz, memory_cap_hz)  # no load: it says nothing about the clock
            parts.append(_part("memory", emc.domain, clock, wanted_hz))
        return parts


_ONLINE = "/sys/devices/system/cpu/online"
_NO_FAN = "no fan shows it"
_NO_ENGINES = "no video engine or accelerator shows its power state here"


def _find_zones(root: Path) -> tuple[tuple[str, Path, float | None], ...]:
    """Name, file and passive trip point of each zone; a chip's own sensor where there is none."""
    zones: dict[str, tuple[str, Path, float | None]] = {}
    for zone in glob(below(root, "/sys/class/thermal"), "thermal_zone[0-9]*"):
        kind = printable(read_text(zone / "type") or "", 64)
        name = kind if kind and kind not in zones else f"{kind or 'zone'} {zone.name[12:]}"
        zones[name] = (name, zone / "temp", _passive_c(zone))
    if not zones:
        for at, path in enumerate(find_thermometers(root).paths):
            name = printable(read_text(path.parent / "name") or path.parent.name, 64)
            zones[name if name not in zones else f"{name} {at}"] = (name, path, None)
    return tuple(zones.values())


def _passive_c(zone: Path) -> float | None:
    """The temperature at which the kernel starts to slow something down for this zone."""
    trips = [
        celsius / 1e3
        for kind in glob(zone, "trip_point_*_type")
        if read_text(kind) == "passive"
        and (celsius := read_int(kind.parent / f"{kind.name[:-5]}_temp")) is not None
    ]
    return min((celsius for celsius in trips if 0 < celsius < HOTTEST_C), default=None)


def _read_zone(name: str, path: Path, trip_c: float | None) -> ZoneNow:
    value = read_int(path)
    celsius = None if value is None else value / 1e3
    unknown = {} if trip_c is not None else {"trip_c": "the zone has no passive trip point"}
    if celsius is None:
        unknown["temperature_c"] = why_unreadable(path)
    elif not celsius or not COLDEST_C < celsius < HOTTEST_C:  # 0 °C: it does not answer
        celsius, unknown["temperature_c"] = None, "the sensor is off"
    return ZoneNow(zone=name, temperature_c=celsius, trip_c=trip_c, unknown=unknown)


def _busy_share(before: tuple[int, int] | None, now: tuple[int, int] | None) -> float | None:
    if before is None or now is None or now[0] <= before[0]:
        return None
    idle = (now[1] - before[1]) / (now[0] - before[0])
    return round(min(1.0, max(0.0, 1 - idle)), 4)


def _cpu_part(
    domain: Domain, now: Sequence[CpuNow], mode: PowerMode | None, *, on_jetson: bool
) -> PartNow:
    shares = [cpu.busy_share for cpu in now if cpu.busy_share is not None]
    # A plain machine's cap is its turbo, which it reaches with few cores alone.
    clock_hz = now[0].clock_hz if on_jetson else None
    wanted_hz = None
    if mode is not None:
        of = (cluster.max_hz for cluster in mode.clusters if set(cluster.cpus) & set(domain.cpus))
        wanted_hz = next(of, mode.cpu_hz)
    name = f"CPU {cpu_list([cpu.cpu for cpu in now])}"
    return _part(name, domain, (max(shares, default=None), clock_hz, now[0].cap_hz), wanted_hz)


def _part(
    name: str,
    domain: Domain,
    now: tuple[float | None, float | None, float | None],
    wanted_hz: float | None,
) -> PartNow:
    """``now``: share of time at work, clock, cap. A mode's cap may lie between two steps."""
    busy_share, clock_hz, cap_hz = now
    return PartNow(
        name=name,
        busy_share=busy_share,
        clock_hz=clock_hz,
        cap_hz=cap_hz,
        highest_hz=domain.available_hz[-1] if domain.available_hz else None,
        mode_hz=floor(domain, wanted_hz) if wanted_hz and domain.available_hz else wanted_hz,
    )


def _capped(domain: Domain, hz: float | None) -> float | None:
    if hz is None or hz < UNCAPPED_HZ:
        return hz or None
    return domain.available_hz[-1] if domain.available_hz else None


def _known(field: str, value: _Value | None, why: str, unknown: dict[str, str]) -> _Value | None:
    """``value``; where that is None, ``unknown`` gets the reason."""
    if value is None:
        unknown[field] = why
    return value
