"""Sensors of the processor's and the GPU's temperature, by the names that releases gave them.

Sources: Documentation/driver-api/thermal/sysfs-api.rst of the Linux kernel (a zone has ``type``
and ``temp`` in m°C); zone names in recorded tegrastats lines of boards from r28 to r39: CPU-therm,
MCPU-therm and BCPU-therm (TX2), GPU-therm, tj-therm up to r35, cpu-thermal and so on from r36.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from mansard.device.system import below, glob, read_int, read_text

_ZONE = re.compile(
    r"x86_pkg_temp|cpu_thermal|[mb]?cpu-therm(al)?|(gpu|tj)-therm(al)?", re.IGNORECASE
)
# Drivers of CPU sensors on machines without such a zone; their first sensor is the package.
_CHIPS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal"})
# L4T says -256 °C of a sensor that is switched off; above 200 °C no silicon runs.
_COLDEST_C, _HOTTEST_C = -200.0, 200.0


class Thermometers(msgspec.Struct, frozen=True):
    """The files to read, in m°C; ``why_not`` says why there are none."""

    paths: tuple[Path, ...]
    why_not: str

    def read_c(self) -> float | None:
        """The hottest sensor that is on, °C; None where none answers."""
        readings = [read_int(path) for path in self.paths]
        celsius = [reading / 1e3 for reading in readings if reading is not None]
        return max((c for c in celsius if _COLDEST_C < c < _HOTTEST_C), default=None)


def find_thermometers(root: Path) -> Thermometers:
    """The sensors of CPU and GPU; a chip's own sensor where there is no zone of theirs."""
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
    found = tuple(zones or chips)
    why_not = (
        ""
        if found
        else "no CPU sensor under /sys/class/thermal or /sys/class/hwmon "
        "(usual in a virtual machine)"
    )
    return Thermometers(found, why_not)
