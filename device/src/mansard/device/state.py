"""How the machine runs now: clock, temperature, and whether it has throttled."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.device.system import SYSTEM_ROOT, read_int, read_text, why_unreadable

# Sensors of the CPU package by the name the kernel gives their thermal zone or driver.
_CPU_ZONES = ("x86_pkg_temp", "cpu-thermal", "CPU-therm", "cpu_thermal")
_CPU_CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


class MachineState(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of the state; each None has its reason in ``unknown``."""

    clock_hz: float | None  # lowest current clock of the CPUs in use
    temperature_c: float | None
    throttle_count: int | None  # events since boot
    unknown: dict[str, str]


def read_state(cpus: tuple[int, ...], root: Path = SYSTEM_ROOT) -> MachineState:
    """The state of ``cpus`` now; a reading costs well under a millisecond."""
    unknown: dict[str, str] = {}
    clock_hz = _clock_hz(root, cpus)
    if clock_hz is None:
        unknown["clock_hz"] = why_unreadable(_cpufreq(root, cpus[0]))
    temperature_c = _temperature_c(root)
    if temperature_c is None:
        unknown["temperature_c"] = (
            "no CPU sensor under /sys/class/thermal or /sys/class/hwmon "
            "(usual in a virtual machine)"
        )
    throttle_count = _throttle_count(root, cpus)
    if throttle_count is None:
        unknown["throttle_count"] = why_unreadable(_throttle(root, cpus[0]))
    return MachineState(
        clock_hz=clock_hz,
        temperature_c=temperature_c,
        throttle_count=throttle_count,
        unknown=unknown,
    )


def _cpufreq(root: Path, cpu: int) -> Path:
    return root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"


def _throttle(root: Path, cpu: int) -> Path:
    # The package's counter counts each event once; a core's own counter is also in it.
    return root / f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/package_throttle_count"


def _clock_hz(root: Path, cpus: tuple[int, ...]) -> float | None:
    readings = [read_int(_cpufreq(root, cpu)) for cpu in cpus]
    khz = [reading for reading in readings if reading]
    return min(khz) * 1e3 if len(khz) == len(cpus) else None


def _throttle_count(root: Path, cpus: tuple[int, ...]) -> int | None:
    counts = [read_int(_throttle(root, cpu)) for cpu in cpus]
    known = [count for count in counts if count is not None]
    return max(known) if len(known) == len(cpus) else None


def _temperature_c(root: Path) -> float | None:
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone[0-9]*")):
        if read_text(zone / "type") in _CPU_ZONES:
            return _celsius(zone / "temp")
    for chip in sorted((root / "sys/class/hwmon").glob("hwmon[0-9]*")):
        if read_text(chip / "name") in _CPU_CHIPS:
            return _celsius(chip / "temp1_input")
    return None


def _celsius(path: Path) -> float | None:
    millidegrees = read_int(path)
    # -256000 is how L4T reports a sensor that is switched off.
    return millidegrees / 1e3 if millidegrees is not None and millidegrees > -200_000 else None
