"""What else on a board draws power or cools it: engines at work, swapping, fans.

Sources: Documentation/power/runtime_pm.rst of the Linux kernel and its ABI sysfs-devices-power
(``power/runtime_status`` of a device is "active" while it works, and for some tenths of a second
after that); names of the devices below host1x in NVIDIA's device trees and configurations of
nvpmodel, r32 to r38; proc(5) for ``pswpin`` and ``pswpout`` of /proc/vmstat, in pages; the kernel's
hwmon/sysfs-interface.rst (fan*_input in revolutions a minute, pwm* from 0 to 255), and L4T's own
fan drivers: ``rpm`` of pwm_tach (from r34), /sys/devices/pwm-fan up to r32.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from mansard.device.system import below, find_paths, follow_links, glob, read_int, read_text

_HOST1X = (
    "/sys/devices/*.host1x",
    "/sys/devices/platform/host1x",
    "/sys/devices/platform/*.host1x",
    "/sys/devices/platform/bus@0/*.host1x",
)
_ENGINE = re.compile(r"[0-9a-f]{5,10}\.((?:nvenc|nvdec|nvjpg|ofa|vic|nvdla|pva)[0-9]?)")
_SWAPPED = re.compile(r"^pswp(?:in|out) ([0-9]{1,18})$", re.MULTILINE)
_OLD_FAN = "/sys/devices/pwm-fan"
_FULL_DRIVE = 255


class Engines(msgspec.Struct, frozen=True):
    """Video engines and accelerators by name, each with the file of its power state."""

    states: dict[str, Path]

    def read(self) -> tuple[str, ...] | None:
        """The engines at work now, such as NVENC and DLA0; None where no file can be read."""
        known = {name: read_text(path) for name, path in self.states.items()}
        if all(state is None for state in known.values()):
            return None
        return tuple(name for name, state in known.items() if state == "active")


def find_engines(root: Path) -> Engines:
    """NVENC, NVDEC, NVJPG, OFA, VIC, DLA and PVA, where the kernel shows their power state."""
    found: dict[str, Path] = {}
    for host in _HOST1X:
        for folder in find_paths(root, f"{host}/*.*"):
            name = _ENGINE.fullmatch(folder.rpartition("/")[2])
            state = below(root, f"{folder}/power/runtime_status")
            if name is not None and read_text(state):
                found.setdefault(name[1].upper().replace("NVDLA", "DLA"), state)
    return Engines(dict(sorted(found.items())))


def read_swapped_bytes(root: Path) -> int | None:
    """What was swapped in and out since the machine was started; None where it is not counted."""
    pages = _SWAPPED.findall(read_text(root / "proc/vmstat") or "")
    return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE") if len(pages) == 2 else None


class Fans(msgspec.Struct, frozen=True):
    """Files of fans: revolutions a minute, and how much of 255 they are driven with."""

    speeds: tuple[Path, ...]
    drives: tuple[Path, ...]

    def read_speed_rpm(self) -> float | None:
        """Speed of the fastest fan; None where no file can be read."""
        return _most(self.speeds)

    def read_drive(self) -> float | None:
        """The highest drive of a fan, as a share of full drive; None where it cannot be read."""
        drive = _most(self.drives)
        return None if drive is None else min(drive / _FULL_DRIVE, 1.0)


def _most(paths: tuple[Path, ...]) -> float | None:
    found = [value for path in paths if (value := read_int(path)) is not None and value >= 0]
    return float(max(found)) if found else None


def find_fans(root: Path) -> Fans:
    """Every fan under /sys/class/hwmon, or r32's own folder; each file once."""
    chips = glob(below(root, "/sys/class/hwmon"), "hwmon[0-9]*")
    old = below(root, _OLD_FAN)
    speeds = [path for chip in chips for path in (*glob(chip, "fan[0-9]_input"), chip / "rpm")]
    drives = [path for chip in chips for path in glob(chip, "pwm[0-9]")]
    return Fans(_readable(*speeds, old / "rpm_measured"), _readable(*drives, old / "cur_pwm"))


def _readable(*paths: Path) -> tuple[Path, ...]:
    found = {follow_links(path): path for path in paths if read_int(path) is not None}
    return tuple(found.values())
