"""Meters of processors and graphics cards: RAPL's counters through powercap, and NVML.

RAPL, source: Documentation/power/powercap/powercap.rst of the Linux kernel. A zone has ``name``,
``energy_uj`` (a counter in µJ) and ``max_energy_range_uj`` (where it wraps to 0). A package zone
contains its ``core`` and ``uncore`` subzones, so those are never added to it; ``dram`` is outside
the package.

NVML, through NVIDIA's nvidia-ml-py where that is installed; source of functions and units (mW, mJ,
°C, MHz): NVIDIA, NVML API Reference. Which fields answer differs between cards, drivers and boards:
Orin has only its name, AGX Thor power and temperature but no clocks. So every field is tried by
reading it, never looked up. The energy counter exists from Volta on; it counts from the loading of
the driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.core.text import printable
from mansard.device.cards import as_text, load_nvml
from mansard.device.meters.meter import READS_POWER
from mansard.device.system import SYSTEM_ROOT, glob, is_there, read_int, read_text, why_unreadable


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What one card answers; ``unknown`` has NVML's own words for each None."""

    index: int
    name: str | None
    power_w: float | None
    energy_j: float | None
    temperature_c: float | None
    gpu_clock_hz: float | None
    memory_clock_hz: float | None
    unknown: dict[str, str]


# field -> (function, further arguments by name, factor to our unit)
_FIELDS: dict[str, tuple[str, tuple[str, ...], float]] = {
    "power_w": ("nvmlDeviceGetPowerUsage", (), 1e-3),
    "energy_j": ("nvmlDeviceGetTotalEnergyConsumption", (), 1e-3),
    "temperature_c": ("nvmlDeviceGetTemperature", ("NVML_TEMPERATURE_GPU",), 1.0),
    "gpu_clock_hz": ("nvmlDeviceGetClockInfo", ("NVML_CLOCK_SM",), 1e6),
    "memory_clock_hz": ("nvmlDeviceGetClockInfo", ("NVML_CLOCK_MEM",), 1e6),
}


class NvmlMeter:
    """Power of each card that tells it, and its energy counter where it has one."""

    name = "NVML"
    boundary = "graphics cards"
    # NVML does not say how often it renews its counter: 20 to 100 ms have been seen. A reading that
    # is late against the step misplaces it; the sampler reads less often where that costs too much.
    period_s = 0.01
    pace_s = None

    def __init__(
        self, library: Any, cards: dict[str, tuple[int, bool, bool]], clock: Callable[[], float]
    ) -> None:
        self._nvml = library
        self._clock = clock
        self._fields = {rail: (power, energy) for rail, (_, power, energy) in cards.items()}
        self._handles = {
            rail: library.nvmlDeviceGetHandleByIndex(index) for rail, (index, _, _) in cards.items()
        }
        self.rails = tuple(cards)
        self.total_rule = f"sum of the graphics cards {', '.join(cards)}"

    def read(self) -> tuple[PowerSample, ...]:
        return tuple(self._read_card(rail) for rail in self.rails)

    def step_w(self, rail: str) -> float | None:  # noqa: ARG002
        return None

    def step_note(self, rail: str) -> str:  # noqa: ARG002
        return "NVML does not say: the smallest change seen is used as the step"

    def sensor(self, rail: str) -> str:
        return rail

    def _read_card(self, rail: str) -> PowerSample:
        has_power, has_energy = self._fields[rail]
        power_w = energy_j = None
        unknown = {} if has_energy else dict(READS_POWER)
        if not has_power:
            unknown["power_w"] = "the card counts energy only"
        before_s = after_s = self._clock()
        try:
            if has_energy:
                energy_j = _ask(self._nvml, self._handles[rail], "energy_j")
                after_s = self._clock()  # of the counter: power beside it is a mean
            if has_power:
                power_w = _ask(self._nvml, self._handles[rail], "power_w")
            if not has_energy:
                after_s = self._clock()
        except self._nvml.NVMLError as error:
            energy_j = power_w = None
            unknown = dict.fromkeys(("power_w", "energy_j"), f"NVML: {error}")
        return PowerSample(
            rail=rail,
            monotonic_s=(before_s + after_s) / 2,
            power_w=power_w,
            energy_j=energy_j,
            unknown=unknown,
        )


def open_nvml_meter(
    root: Path = SYSTEM_ROOT, clock: Callable[[], float] = time.monotonic
) -> tuple[NvmlMeter | None, str]:
    """The meter of all cards that tell power or energy, or None and the reason."""
    if root != SYSTEM_ROOT:
        return None, f"its library answers for this machine, not for the one under {root}"
    try:
        library = load_nvml()
        cards = read_cards(library)
    except DeviceError as error:
        return None, str(error)
    useful = {
        f"gpu{card.index}": (card.index, card.power_w is not None, card.energy_j is not None)
        for card in cards
        if card.power_w is not None or card.energy_j is not None
    }
    if useful:
        return NvmlMeter(library, useful, clock), ""
    if not cards:
        return None, "NVML shows no card; in a container, start it with access to the GPU"
    reasons = (f"{card.name or f'card {card.index}'}: {card.unknown['power_w']}" for card in cards)
    return None, f"no card tells its power ({'; '.join(reasons)})"


def read_cards(library: Any) -> tuple[Card, ...]:
    """Every card with every field that it answers now; raises DeviceError."""
    try:
        n_cards = library.nvmlDeviceGetCount()
    except library.NVMLError as error:
        raise DeviceError(f"NVML cannot count the cards: {error}") from error
    return tuple(_probe(library, index) for index in range(n_cards))


def _probe(library: Any, index: int) -> Card:
    values: dict[str, float | None] = dict.fromkeys(_FIELDS)
    unknown: dict[str, str] = {}
    name = None
    try:
        handle = library.nvmlDeviceGetHandleByIndex(index)
    except library.NVMLError as error:
        unknown = dict.fromkeys(("name", *_FIELDS), str(error))
    else:
        for field in _FIELDS:
            try:
                values[field] = _ask(library, handle, field)
            except library.NVMLError as error:
                unknown[field] = str(error)
            if values[field] == 0 and field in {"power_w", "energy_j"}:
                # A card that answers draws something: boards are known to say 0 instead.
                values[field], unknown[field] = None, "NVML says 0, which cannot be"
        try:
            name = printable(as_text(library.nvmlDeviceGetName(handle)))
        except library.NVMLError as error:
            unknown["name"] = str(error)
    return Card(index=index, name=name, unknown=unknown, **values)


def _ask(library: Any, handle: Any, field: str) -> float:
    function, arguments, factor = _FIELDS[field]
    value = getattr(library, function)(handle, *(getattr(library, name) for name in arguments))
    return float(value) * factor


_COUNTED = ("package", "dram")


class RaplMeter:
    """Reads the package and DRAM zones; counts on across the counters' wrap."""

    name = "RAPL"
    total_rule = "sum of the package zones and the dram zones"
    boundary = "processor packages, and their memory where there are dram zones"
    # The counters advance about every millisecond (Intel 64 and IA-32 Architectures Software
    # Developer's Manual, "RAPL Interfaces"). Energy needs them only at the ends of a window; 20
    # readings a second show that they go on, and disturb little.
    period_s = 0.05
    pace_s = 0.002

    def __init__(self, zones: dict[str, Path], clock: Callable[[], float]) -> None:
        self._zones = zones
        self._clock = clock
        self._ranges_uj = {
            rail: read_int(zone / "max_energy_range_uj") for rail, zone in zones.items()
        }
        self._previous_uj: dict[str, int] = {}
        self._total_uj = dict.fromkeys(zones, 0)

    @property
    def rails(self) -> tuple[str, ...]:
        return tuple(self._zones)

    def read(self) -> tuple[PowerSample, ...]:
        return tuple(self._read_zone(rail, zone) for rail, zone in self._zones.items())

    def step_w(self, rail: str) -> float | None:  # noqa: ARG002
        return None

    def step_note(self, rail: str) -> str:  # noqa: ARG002
        return "the meter counts energy, which has no step of power"

    def sensor(self, rail: str) -> str:
        return rail

    def _read_zone(self, rail: str, zone: Path) -> PowerSample:
        counter_uj = read_int(zone / "energy_uj")
        now_s = self._clock()
        if counter_uj is None:
            raise DeviceError(
                "the energy counter stopped answering", where=why_unreadable(zone / "energy_uj")
            )
        step_uj = counter_uj - self._previous_uj.get(rail, counter_uj)
        if step_uj < 0:
            range_uj = self._ranges_uj[rail]
            if range_uj is None:
                raise DeviceError(
                    "the energy counter wrapped and its range is unknown",
                    where=str(zone / "max_energy_range_uj"),
                )
            step_uj += range_uj
        self._previous_uj[rail] = counter_uj
        self._total_uj[rail] += step_uj
        return PowerSample(
            rail=rail,
            monotonic_s=now_s,
            power_w=None,
            energy_j=self._total_uj[rail] * 1e-6,
            unknown={"power_w": "RAPL counts energy; power is its slope"},
        )


def open_rapl(
    root: Path, clock: Callable[[], float] = time.monotonic
) -> tuple[RaplMeter | None, str]:
    """The RAPL meter, or None and the reason with what to do about it."""
    folder = root / "sys/class/powercap"
    if not is_there(folder):
        return None, (
            f"{folder} does not exist: a virtual machine, a container that hides it, an ARM "
            "processor, or a kernel without powercap; on bare metal try 'modprobe intel_rapl_msr'"
        )
    zones = _find_zones(folder)
    if not zones:
        return None, (
            f"{folder} has no package or dram zone; on bare metal try 'modprobe intel_rapl_msr'"
        )
    for zone in zones.values():
        if read_int(zone / "energy_uj") is None:
            reason = why_unreadable(zone / "energy_uj")
            return None, f"{reason}; allow it with 'sudo chmod a+r {zone}/energy_uj'"
    return RaplMeter(zones, clock), ""


def _find_zones(folder: Path) -> dict[str, Path]:
    # "intel-rapl:0" is a package (AMD uses the same driver), "intel-rapl:0:2" a part of it.
    # The "intel-rapl-mmio" zones repeat the same counters and are left out.
    zones: dict[str, Path] = {}
    for zone in glob(folder, "intel-rapl:*"):
        name = read_text(zone / "name") or ""
        if name.startswith(_COUNTED):
            package = zone.name.split(":")[1]
            rail = name if name.startswith("package") else f"{name}-{package}"
            zones[rail] = zone
    return zones
