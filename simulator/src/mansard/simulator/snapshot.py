"""What of a simulated tree must come back: everything that does not change by itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path

# Files that the kernel, the sensors or the simulator itself change; "*" crosses folders.
READINGS: tuple[str, ...] = (
    "proc/stat",
    "proc/meminfo",
    "proc/uptime",
    "proc/loadavg",
    "sys/devices/system/cpu/online",  # these two follow from the switches
    "sys/devices/system/cpu/offline",
    "sys/devices/system/cpu/cpufreq/*/scaling_cur_freq",
    "sys/devices/system/cpu/cpufreq/*/affected_cpus",
    "sys/devices/*/cur_freq",
    "sys/devices/*/target_freq",
    "sys/devices/*/load",
    "sys/kernel/debug/bpmp/debug/clk/*/rate",
    "sys/kernel/debug/cactmon/*",
    "sys/kernel/actmon_avg_activity/*",
    "sys/devices/virtual/thermal/*/temp",
    "sys/devices/virtual/thermal/*/cur_state",
    "sys/devices/*/hwmon/*/*_input",
    "sys/devices/*/hwmon/*/*_alarm",
    "sys/devices/*/hwmon/*_event_cnt",
    "sys/devices/*/hwmon/*/pwm1",
    "sys/devices/*/hwmon/*/rpm",
    "sys/devices/pwm-fan/*",
    "sys/devices/*/iio:device*/in_*_input",
    "run/mansard-simulator/*",  # faults, load, the daemon's own
    "var/lib/mansard/*",  # Mansard's own journal and lock: not the board's
)
_READING = re.compile("|".join(translate(glob) for glob in READINGS))
_POLICIES = "sys/devices/system/cpu/cpufreq"


def snapshot(root: Path) -> dict[str, bytes]:
    """Path below ``root`` -> what it holds, of all that is not a reading; raises OSError.

    A link holds its target. The last newline is left out: the kernel puts one behind
    whatever was written, and a file in a folder keeps what it was given. The cpufreq folder
    of a cluster that is off is left out too: it cannot be written before one of its cores is
    on again, and what it held then is set anew (Linux, drivers/cpufreq/cpufreq.c).
    """
    asleep = tuple(f"{_POLICIES}/{name}/" for name in _policies_off(root))
    found: dict[str, bytes] = {}
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        if _READING.fullmatch(name) or name.startswith(asleep):
            continue
        found[name] = (
            b"-> " + os.fsencode(path.readlink())
            if path.is_symlink()
            else path.read_bytes().rstrip(b"\n")
        )
    return found


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        yield from (here / name for name in sorted(files))
        yield from (here / name for name in sorted(folders) if (here / name).is_symlink())


def _policies_off(root: Path) -> Iterator[str]:
    for folder in sorted((root / _POLICIES).glob("policy*")):
        cpus = (folder / "related_cpus").read_text().split()
        switches = [root / f"sys/devices/system/cpu/cpu{cpu}/online" for cpu in cpus]
        if all(switch.exists() and switch.read_text().strip() == "0" for switch in switches):
            yield folder.name
