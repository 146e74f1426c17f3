"""Checks of the moment: temperature, throttling, over-current, other work on the GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mansard.cli.check import Check, missing, ok, warning
from mansard.core.records import MachineIdentity

# NVIDIA's boards slow down near 97 to 105 °C by their design guides; a run adds some 10 to 15.
_HOT_C = 85.0


def check_present(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """On a board: what would disturb a measurement that were started now."""
    if machine.kind != "jetson":
        return
    yield _check_temperature(root)
    yield _check_throttling(root, machine)
    yield _check_overcurrent(root)
    yield _check_gpu_processes(root)


def _check_temperature(root: Path) -> Check:
    from mansard.device.conditions.sources import find_thermometers

    thermometers = find_thermometers(root)
    hottest_c = thermometers.read_c()
    if hottest_c is None:
        why = thermometers.why_not or "no sensor of CPU or GPU answers"
        return missing("temperature", why, "temperatures stay unknown; in a container mount /sys")
    if hottest_c >= _HOT_C:
        return warning(
            "temperature",
            f"{hottest_c:.1f} °C before any work",
            "let the board cool down, and turn its fan up",
        )
    return ok("temperature", f"{hottest_c:.1f} °C")


def _check_throttling(root: Path, machine: MachineIdentity) -> Check:
    from mansard.device.conditions.sources import find_throttling

    events = find_throttling(root, machine.cpus)
    if not events.are_known:
        return missing("throttling", events.why_not, "it stays unknown; in a container mount /sys")
    active = [
        path.parent.name
        for path, state in zip(events.alarms, events.read_alarms(), strict=True)
        if state
    ]
    if active:
        return warning(
            "throttling",
            f"{', '.join(active)} slows the board down now",
            "let it cool down, turn its fan up, or choose a lower power mode",
        )
    return ok("throttling", "none now")


def _check_overcurrent(root: Path) -> Check:
    from mansard.device.conditions.sources import find_overcurrent

    events = find_overcurrent(root)
    if not events.are_known:
        return missing("over-current", events.why_not, "events stay unknown; usual before r35")
    alarms = sum(1 for state in events.read_alarms() if state)
    n_events = sum(count for count in events.read_counts() if count)
    if alarms or n_events:
        return warning(
            "over-current",
            f"{n_events} events since the board was started, {alarms} alarms on now",
            "use a stronger power supply, or a lower power mode",
        )
    return ok("over-current", "no event since the board was started")


def _check_gpu_processes(root: Path) -> Check:
    from mansard.device.conditions.gpu_processes import GpuProcesses

    found = GpuProcesses(root).find()
    if found.names is None:
        is_root = os.geteuid() == 0
        return missing(
            "GPU processes",
            f"they cannot be seen: {found.why_not}",
            "look for other work at GR3D_FREQ in tegrastats" if is_root else "run as root (sudo)",
        )
    if found.names:
        return warning(
            "GPU processes",
            f"others use the GPU: {', '.join(found.names)}",
            "end them; the desktop too: 'sudo systemctl isolate multi-user.target'",
        )
    return ok("GPU processes", "none but ours")
