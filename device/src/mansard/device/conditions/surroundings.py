"""What else runs on a board: its engines, memory, GPU and fans, used by any program.

Sources: Documentation/power/runtime_pm.rst of the Linux kernel and its ABI sysfs-devices-power
(``power/runtime_status`` of a device is "active" while it works, and for some tenths of a second
after that); names of the devices below host1x in NVIDIA's device trees and configurations of
nvpmodel, r32 to r38; proc(5) for ``pswpin`` and ``pswpout`` of /proc/vmstat, in pages; the kernel's
hwmon/sysfs-interface.rst (fan*_input in revolutions a minute, pwm* from 0 to 255), and L4T's own
fan drivers: ``rpm`` of pwm_tach (from r34), /sys/devices/pwm-fan up to r32.

Use of the memory's bandwidth: L4T's activity monitor (actmon) counts the activity of the memory
controller for all its clients (``mc_all``) in kHz of the memory's clock, averaged over some
milliseconds; activity over clock is what tegrastats prints as EMC_FREQ. Its file is
actmon_avg_activity/mc_all on r32, cactmon/mc_all of debugfs on r35 and r36 (root alone), and on
some kernels the boot processor's own. NVML API reference, nvmlUtilization_t: ``memory`` is the per
cent of the last sample period (a sixth of a second to a second) in which the card's memory was read
or written at all: of time, not of bandwidth, so it is used on cards alone, which have nothing
better.

Processes on the GPU: debugfs ``nvmap/iovmm/clients`` of L4T's kernel, lines of client, process, pid
and size with a ``total`` at the end, readable by root alone; NVML API reference,
nvmlDeviceGetComputeRunningProcesses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import MemoryUse
from mansard.core.text import printable
from mansard.device.cards import card_handle, load_nvml, nvml_errors
from mansard.device.system import (
    SYSTEM_ROOT,
    below,
    find_paths,
    follow_links,
    glob,
    read_int,
    read_text,
    why_unreadable,
)

ACTIVITIES = (
    "/sys/kernel/actmon_avg_activity/mc_all",
    "/sys/kernel/debug/cactmon/mc_all",
    "/sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
)
_ACTIVITY_UNIT_HZ = 1000
_MOST_SHARE = 1.05  # activity and clock are not read at once; beyond that one of them is wrong


class MemoryMonitor(msgspec.Struct, frozen=True, kw_only=True):
    """Where the share of the memory's bandwidth in use is read; ``why_not``: why nowhere."""

    source: str = ""  # as a record names it
    activity: Path | None = None
    nvml: Any = None
    card: Any = None
    why_not: str = ""

    def read_share(self, memory_hz: float | None) -> float | None:
        """The share in use now, 0 to 1, at the memory's clock; None where it is not known."""
        if self.activity is not None:
            active = read_int(self.activity)
            if active is None or active < 0 or not memory_hz:
                return None
            share = active * _ACTIVITY_UNIT_HZ / memory_hz
            return min(share, 1.0) if share <= _MOST_SHARE else None
        if self.nvml is not None:
            try:
                percent = self.nvml.nvmlDeviceGetUtilizationRates(self.card).memory
            except self.nvml.NVMLError:
                return None
            return float(percent) / 100 if 0 <= percent <= 100 else None
        return None


def find_memory_monitor(root: Path, *, uses_gpu: bool) -> MemoryMonitor:
    """The board's activity monitor; else, where the GPU is used, the first card's NVML."""
    paths = [below(root, path) for path in ACTIVITIES]
    activity = next((path for path in paths if read_int(path) is not None), None)
    if activity is not None:
        return MemoryMonitor(source="actmon", activity=activity)
    hidden = next((path for path in paths if path.is_file()), None)
    if hidden is not None:
        return MemoryMonitor(why_not=why_unreadable(hidden))
    why_not = "there is no activity monitor of the memory, or only root can read it"
    if not uses_gpu or root != SYSTEM_ROOT:
        return MemoryMonitor(why_not=why_not)
    try:
        nvml = load_nvml()
        card = card_handle(nvml, 0, None)
        nvml.nvmlDeviceGetUtilizationRates(card)
    except DeviceError as error:
        return MemoryMonitor(why_not=f"{why_not}; {error}")
    except nvml.NVMLError as error:
        return MemoryMonitor(why_not=f"{why_not}; NVML: {str(error).lower()}")
    return MemoryMonitor(source="NVML, share of time", nvml=nvml, card=card)


def memory_use_of(source: str, shares: Sequence[float | None]) -> MemoryUse | None:
    """Mean and extremes of the readings that were taken while the trial ran; None without any."""
    answered = [share for share in shares if share is not None]
    if not answered:
        return None
    return MemoryUse(
        mean_share=sum(answered) / len(answered),
        low_share=min(answered),
        high_share=max(answered),
        n_readings=len(answered),
        source=source,
    )


CLIENTS = "/sys/kernel/debug/nvmap/iovmm/clients"
_SIZE = re.compile(r"[0-9]{1,20}[KMG]?")
_PID = re.compile(r"[0-9]{1,10}")
_LONGEST_NAME = 64
_MOST_ANCESTORS = 64  # of a process; a longer chain is a circle
_MOST_CHARACTERS = 1 << 20


class GpuProcessesFound(msgspec.Struct, frozen=True):
    """Other processes as ``name (pid)``; None where they cannot be seen, with the reason."""

    names: tuple[str, ...] | None
    why_not: str


class GpuProcesses:
    """Looks for processes on the GPU; NVML is opened once, at the first look."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._nvml: Any | None = None
        self._why_no_nvml: str | None = None  # not tried yet
        self._own: set[int] = set()

    @contextmanager
    def learn_own(self) -> Iterator[None]:
        """Count processes that appear on the GPU meanwhile as this one, which opens it now.

        The driver lists processes by the host's numbers; in a container a process does not know
        its own.
        """
        before = self._listed()
        yield
        after = self._listed()
        if not isinstance(after, str) and not isinstance(before, str):
            self._own |= after.keys() - before.keys()

    def find(self) -> GpuProcessesFound:
        """Every process on the GPU that is neither this one nor started by it."""
        processes = self._listed()
        if isinstance(processes, str):
            return GpuProcessesFound(None, processes)
        names = [
            f"{name} ({pid})" for pid, name in sorted(processes.items()) if self._is_other(pid)
        ]
        return GpuProcessesFound(tuple(names), "")

    def _listed(self) -> dict[int, str] | str:
        """Name of each process on the GPU by its id, or why they cannot be seen."""
        clients = below(self._root, CLIENTS)
        text = read_text(clients)
        if text is not None:
            return parse_clients(text[:_MOST_CHARACTERS])
        processes = self._ask_nvml()
        return (
            f"{why_unreadable(clients)}; {processes}" if isinstance(processes, str) else processes
        )

    def _is_other(self, pid: int) -> bool:
        if pid in self._own:
            return False
        for _ in range(_MOST_ANCESTORS):
            if pid == os.getpid():
                return False
            status = read_text(self._root / f"proc/{pid}/status") or ""
            parent = re.search(r"^PPid:\s*([0-9]{1,10})$", status, re.MULTILINE)
            if parent is None or int(parent[1]) in {0, pid}:
                return True
            pid = int(parent[1])
        return True

    def _ask_nvml(self) -> dict[int, str] | str:
        """Name of each process by its id, or why NVML does not tell."""
        if self._why_no_nvml is None:
            self._why_no_nvml = self._open_nvml()
        if self._nvml is None:
            return self._why_no_nvml
        nvml = self._nvml
        try:
            names: dict[int, str] = {}
            for at in range(nvml.nvmlDeviceGetCount()):
                card = nvml.nvmlDeviceGetHandleByIndex(at)
                for process in nvml.nvmlDeviceGetComputeRunningProcesses(card):
                    names[process.pid] = self._name(process.pid)
        except nvml_errors(nvml) as error:
            return f"NVML: {str(error).lower()}"
        return names

    def _open_nvml(self) -> str:
        if self._root != SYSTEM_ROOT:
            return "NVML knows this computer's cards only, not those of a folder"
        try:
            self._nvml = load_nvml()
        except DeviceError as error:
            return str(error)
        return ""

    def _name(self, pid: int) -> str:
        name = read_text(self._root / f"proc/{pid}/comm")
        return printable(name, _LONGEST_NAME) if name else "unknown"


def parse_clients(text: str) -> dict[int, str]:
    """Name of each process by its id, from nvmap's table; other lines are passed over."""
    names: dict[int, str] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 3 and _PID.fullmatch(words[-2]) and _SIZE.fullmatch(words[-1]):
            names[int(words[-2])] = printable(" ".join(words[1:-2]), _LONGEST_NAME)
    return names


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
        texts = {name: read_text(path) for name, path in self.states.items()}
        if all(state is None for state in texts.values()):
            return None
        return tuple(name for name, state in texts.items() if state == "active")


def find_engines(root: Path) -> Engines:
    """NVENC, NVDEC, NVJPG, OFA, VIC, DLA and PVA, where the kernel shows their power state."""
    states: dict[str, Path] = {}
    for host in _HOST1X:
        for folder in find_paths(root, f"{host}/*.*"):
            name = _ENGINE.fullmatch(folder.rpartition("/")[2])
            state = below(root, f"{folder}/power/runtime_status")
            if name is not None and read_text(state):
                states.setdefault(name[1].upper().replace("NVDLA", "DLA"), state)
    return Engines(dict(sorted(states.items())))


def read_swapped_bytes(root: Path) -> int | None:
    """Bytes swapped in and out since boot; None if they are not counted."""
    pages = _SWAPPED.findall(read_text(root / "proc/vmstat") or "")
    return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE") if len(pages) == 2 else None


class Fans(msgspec.Struct, frozen=True):
    """Files of fans: revolutions per minute, and the drive from 0 to 255."""

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
    values = [value for path in paths if (value := read_int(path)) is not None and value >= 0]
    return float(max(values)) if values else None


def find_fans(root: Path) -> Fans:
    """Every fan under /sys/class/hwmon, or r32's own folder; each file once."""
    chips = glob(below(root, "/sys/class/hwmon"), "hwmon[0-9]*")
    old = below(root, _OLD_FAN)
    speeds = [path for chip in chips for path in (*glob(chip, "fan[0-9]_input"), chip / "rpm")]
    drives = [path for chip in chips for path in glob(chip, "pwm[0-9]")]
    return Fans(_readable(*speeds, old / "rpm_measured"), _readable(*drives, old / "cur_pwm"))


def _readable(*paths: Path) -> tuple[Path, ...]:
    readable = {follow_links(path): path for path in paths if read_int(path) is not None}
    return tuple(readable.values())
