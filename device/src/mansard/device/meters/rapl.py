"""Energy counters of Intel and AMD processors, through the kernel's powercap files.

Source: Documentation/power/powercap/powercap.rst of the Linux kernel: a zone has
``name``, ``energy_uj`` (a counter in µJ) and ``max_energy_range_uj`` (where it
wraps to 0). A package zone contains its ``core`` and ``uncore`` subzones, so
those are never added to it; ``dram`` is outside the package.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.device.system import glob, is_there, read_int, read_text, why_unreadable

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
                    "the energy counter wrapped and its range is not known",
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
