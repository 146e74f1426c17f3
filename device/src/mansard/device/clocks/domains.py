"""Clock domains of the CPU clusters, the GPU and the memory: files, frequencies, permissions.

Sources for the memory clock (EMC): facts from public listings and configurations. The cap is
nvpmodel's: nvpmodel_emc_cap/emc_iso_cap on L4T r32 and r35, nvpmodel_clk_cap/emc from r36. The rate
is held through the boot processor's debug files (TX2 to Orin), override.emc (TX1, Nano), or
devfreq's bwmgr (Thor). From r36 on the boot processor manages bandwidth itself, and people's
scripts for Orin halt that as well (bwmgr_halt). All debug files are root's alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from mansard.core.errors import DeviceError
from mansard.device.cards import read_card_limits
from mansard.device.system import (
    SYSTEM_ROOT,
    below,
    exists,
    find_paths,
    follow_links,
    read_int,
    read_text,
)
from mansard.device.topology import CPU_FOLDER, list_cpus, online_path, related_cpus

CAPS = ("/sys/kernel/nvpmodel_clk_cap/emc", "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap")
BWMGR = "/sys/class/devfreq/bwmgr"
_DEBUG = "/sys/kernel/debug"


class Lock(msgspec.Struct, frozen=True):
    """The files that hold the memory clock: write 1 to ``switches``, then the rate in Hz.

    The first switch is there wherever the rate is; of the others only some kernels have all.
    """

    rate: str
    switches: tuple[str, ...]
    floor: str
    ceiling: str


LOCKS = (
    Lock(
        f"{_DEBUG}/bpmp/debug/clk/emc/rate",
        (
            f"{_DEBUG}/bpmp/debug/clk/emc/mrq_rate_locked",
            f"{_DEBUG}/bpmp/debug/clk/emc/state",
            f"{_DEBUG}/bpmp/debug/bwmgr/bwmgr_halt",
        ),
        f"{_DEBUG}/bpmp/debug/clk/emc/min_rate",
        f"{_DEBUG}/bpmp/debug/clk/emc/max_rate",
    ),
    Lock(
        f"{_DEBUG}/clk/override.emc/clk_update_rate",
        (f"{_DEBUG}/clk/override.emc/clk_state",),
        f"{_DEBUG}/tegra_bwmgr/emc_min_rate",
        f"{_DEBUG}/tegra_bwmgr/emc_max_rate",
    ),
    Lock(  # L4T r28
        f"{_DEBUG}/clock/override.emc/rate",
        (f"{_DEBUG}/clock/override.emc/state",),
        f"{_DEBUG}/clock/emc/min",
        f"{_DEBUG}/clock/emc/max",
    ),
)
# In kHz but for the mainline driver's list; seen with "(kHz)" behind the numbers on r36.
_TABLES = (
    (f"{_DEBUG}/bpmp/debug/emc/possible_rates", 1000),
    (f"{_DEBUG}/bpmp/debug/clk/emc/possible_rates", 1000),
    (f"{_DEBUG}/clk/override.emc/clk_possible_rates", 1000),
    (f"{_DEBUG}/clock/emc/possible_rates", 1000),
    (f"{_DEBUG}/emc/available_rates", 1),
)


class Emc(msgspec.Struct, frozen=True, kw_only=True):
    """The memory clock: as a domain (devfreq's files on Thor), its cap and its lock."""

    domain: Domain
    cap_path: str | None
    lock: Lock | None

    @property
    def can_be_held(self) -> bool:
        """Whether there are files that hold its rate, beside those that cap it."""
        return self.lock is not None or self.domain.max_path is not None

    def cap_hz(self, root: Path) -> float | None:
        """The cap in force, or None where there is none: 0, -1 and huge values mean uncapped."""
        value = read_int(below(root, self.cap_path)) if self.cap_path else None
        return float(value) if value is not None and 0 < value < UNCAPPED_HZ else None

    def locked_hz(self, root: Path) -> float | None:
        """The rate at which the clock is locked; None if the system governs it."""
        if self.lock is None:
            low, high = (
                self.domain.read_hz(root, path)
                for path in (self.domain.min_path, self.domain.max_path)
            )
            return high if low == high else None
        if read_int(below(root, self.lock.switches[0])) != 1:
            return None
        return self.domain.read_hz(root, self.lock.rate)

    def top_hz(self, root: Path) -> float | None:
        """The highest rate the memory can have under its present cap."""
        if self.domain.max_path is not None:
            return self.domain.read_hz(root, self.domain.max_path)
        tops = [
            self.lock and self.domain.read_hz(root, self.lock.ceiling),
            self.domain.available_hz[-1] if self.domain.available_hz else None,
        ]
        readable_hz = [top for top in tops if top]
        caps = [cap for cap in (self.cap_hz(root),) if cap]
        return min([max(readable_hz), *caps]) if readable_hz else next(iter(caps), None)


def find_emc(root: Path) -> Emc | None:
    """The memory clock's files; None on a machine that shows none of them."""
    cap_path = next((path for path in CAPS if exists(root, path)), None)
    has_devfreq = exists(root, f"{BWMGR}/max_freq")
    # Thor has the debug files too; devfreq is the kernel's own way, and open to all readers.
    locks = () if has_devfreq else LOCKS
    lock = next((lock for lock in locks if exists(root, lock.rate)), None)
    if cap_path is None and lock is None and not has_devfreq:
        return None
    paths = (f"{BWMGR}/max_freq", f"{BWMGR}/min_freq") if has_devfreq else (None, None)
    held = [path for path in (lock.rate, *lock.switches) if exists(root, path)] if lock else []
    domain = Domain(
        name="emc",
        kind="emc",
        available_hz=_available(root, has_devfreq),
        max_path=paths[0],
        min_path=paths[1],
        cur_path=lock.rate if lock else f"{BWMGR}/cur_freq" if has_devfreq else None,
        why_not=why_not_writable(root, cap_path, *paths, *held),
    )
    return Emc(domain=domain, cap_path=cap_path, lock=lock)


def _available(root: Path, has_devfreq: bool) -> tuple[float, ...]:
    if has_devfreq:
        listed = read_frequencies(root, f"{BWMGR}/available_frequencies", 1)
        if listed:
            return listed
    for path, unit_hz in _TABLES:
        listed = read_frequencies(root, path, unit_hz)
        if listed and listed[-1] >= UNCAPPED_HZ:  # then this kernel's table is in Hz
            listed = read_frequencies(root, path, 1)
        if listed:
            return listed
    return ()


def emc_settings(root: Path) -> tuple[str, ...]:
    """Every file of the memory clock that Mansard or the board's tools may change."""
    paths = [*CAPS, f"{BWMGR}/max_freq", f"{BWMGR}/min_freq", f"{BWMGR}/governor"]
    for lock in LOCKS:
        paths += [lock.rate, *lock.switches]
    return tuple(path for path in paths if exists(root, path))


def read_gpu_step_hz(root: Path = SYSTEM_ROOT) -> float | None:
    """The usual step between neighbouring clocks of the first GPU, Hz; None where none is listed.

    It reads, and sets nothing.
    """
    for clock in find_gpu_clocks(root)[:1]:
        return _usual_step(clock.available_hz)
    if root != SYSTEM_ROOT:
        return None  # NVML answers for this machine only
    try:
        return _usual_step([mhz * 1e6 for mhz in read_card_limits().gpu_mhz])
    except DeviceError:
        return None


def _usual_step(clocks_hz: Sequence[float]) -> float | None:
    steps_hz = [high - low for low, high in pairwise(clocks_hz)]
    return median(steps_hz) if steps_hz else None


KHZ = 1000
UNCAPPED_HZ = 1e11  # above any clock: 9223372036854775807 means "no cap"


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """A clock. Paths are the board's absolute ones; ``unit_hz`` is what 1 in its files is worth.

    ``available_hz`` is ascending, and empty where the kernel does not say. ``why_not``: why it
    cannot be set, and what would allow it; empty where it can.
    """

    name: str
    kind: Literal["cpu", "gpu", "emc", "dla"]
    unit_hz: int = 1
    available_hz: tuple[float, ...] = ()
    is_continuous: bool = False  # only the ends are known; everything between can be set
    max_path: str | None = None
    min_path: str | None = None
    cur_path: str | None = None
    cpus: tuple[int, ...] = ()
    why_not: str = ""

    def read_hz(self, root: Path, path: str | None) -> float | None:
        """The rate in the file ``path`` of this clock, in Hz; None without one."""
        value = read_int(below(root, path)) if path else None
        return value * float(self.unit_hz) if value is not None else None


def read_frequencies(root: Path, path: str, unit_hz: int) -> tuple[float, ...]:
    """The frequencies that a table such as available_frequencies lists, ascending, in Hz."""
    words = (read_text(below(root, path)) or "").split()
    numbers = {int(word) for word in words if word.isdecimal() and len(word) <= 12}
    return tuple(float(number * unit_hz) for number in sorted(numbers) if number)


def why_not_writable(root: Path, *paths: str | None) -> str:
    """Why one of the files cannot be written and what would allow it; empty if all can."""
    for path in filter(None, paths):
        if not os.access(below(root, path), os.W_OK):
            return f"{path} cannot be written; run as root (sudo), on the board itself"
    return ""


# CPU clusters and cores: cpufreq policies, and which CPUs are on.
#
# Source: Documentation/admin-guide/pm/cpufreq.rst and cpu-hotplug in the Linux kernel.


def read_online(root: Path) -> dict[int, bool]:
    """Each CPU of the machine and whether it is on.

    A CPU without a file ``online`` cannot be switched off; the first one often has none.
    """
    return {cpu: read_int(below(root, online_path(cpu))) != 0 for cpu in list_cpus(root)}


def find_clusters(root: Path) -> tuple[Domain, ...]:
    """The CPUs that share a clock, by cluster; those that are wholly off cannot be seen."""
    clusters: dict[tuple[int, ...], Domain] = {}
    for cpu in read_online(root):
        folder = f"{CPU_FOLDER}/cpu{cpu}/cpufreq"
        if not exists(root, f"{folder}/scaling_max_freq"):
            continue
        cpus = related_cpus(root, cpu) or (cpu,)
        if cpus not in clusters and read_int(below(root, f"{folder}/scaling_max_freq")) is not None:
            clusters[cpus] = _cluster(root, folder, cpus)
    return tuple(clusters.values())


def _cluster(root: Path, folder: str, cpus: tuple[int, ...]) -> Domain:
    available_hz = read_frequencies(root, f"{folder}/scaling_available_frequencies", KHZ)
    is_continuous = not available_hz
    if is_continuous:  # intel_pstate and amd_pstate list none
        ends = [read_int(below(root, f"{folder}/cpuinfo_{end}_freq")) for end in ("min", "max")]
        available_hz = tuple(float(end * KHZ) for end in ends if end)
    maximum, minimum = f"{folder}/scaling_max_freq", f"{folder}/scaling_min_freq"
    return Domain(
        name=f"cpu{cpus[0]}-{cpus[-1]}" if len(cpus) > 1 else f"cpu{cpus[0]}",
        kind="cpu",
        unit_hz=KHZ,
        available_hz=available_hz,
        is_continuous=is_continuous and len(available_hz) == 2,
        max_path=maximum,
        min_path=minimum,
        cur_path=f"{folder}/scaling_cur_freq",
        cpus=cpus,
        why_not=why_not_writable(root, maximum, minimum),
    )


# The GPU's clock: its devfreq entry, whose path changes with every generation of boards.
#
# Source: facts gathered from public sysfs listings of boards from TX1 to Thor: the entry's
# name, or that of its device-tree node, is gpu, gp10b, gv11b, ga10b, gb10b or gpu-gpc-0.

_NAME = re.compile(r"(gpu|gp10b|gv11b|ga10b|gb10b)(-(gpc|nvd)-[0-9])?")
_PLACES = (
    "/sys/class/devfreq/*",
    "/sys/devices/*/devfreq/*",
    "/sys/devices/*/devfreq_dev",
    "/sys/devices/platform/*/devfreq/*",
    "/sys/devices/platform/*/devfreq_dev",
    "/sys/devices/platform/bus@0/*/devfreq/*",
    "/sys/devices/platform/bus@0/*/devfreq_dev",
)
# Settings of the GPU's device that nvpmodel or jetson_clocks change beside its clock.
_DEVICE_SETTINGS = ("railgate_enable", "power/control", "tpc_pg_mask", "fbp_pg_mask")


def find_gpu_clocks(root: Path) -> tuple[Domain, ...]:
    """The GPU's clocks, that of its streaming multiprocessors first; empty without a GPU.

    Thor has a second one, gpu-nvd-0, for its video engines.
    """
    clocks: dict[Path, Domain] = {}
    for place in _PLACES:
        for folder in find_paths(root, place):
            real = follow_links(below(root, folder))
            if real not in clocks and _is_gpu(root, folder):
                clocks[real] = _clock(root, folder)
    return tuple(sorted(clocks.values(), key=lambda clock: "nvd" in clock.name))


def _is_gpu(root: Path, folder: str) -> bool:
    if not exists(root, f"{folder}/max_freq"):
        return False
    parts = folder.split("/")
    device = parts[-2] if parts[-1] == "devfreq_dev" else parts[-1]
    names = [device.rpartition(".")[2], device, _node_name(root, folder)]
    return any(_NAME.fullmatch(name) for name in names)


def _node_name(root: Path, folder: str) -> str:
    return read_text(below(root, f"{folder}/device/of_node/name")) or ""


def _clock(root: Path, folder: str) -> Domain:
    maximum, minimum = f"{folder}/max_freq", f"{folder}/min_freq"
    return Domain(
        name="gpu-nvd" if "nvd" in folder.rpartition("/")[2] else "gpu",
        kind="gpu",
        available_hz=read_frequencies(root, f"{folder}/available_frequencies", 1),
        max_path=maximum,
        min_path=minimum,
        cur_path=f"{folder}/cur_freq",
        why_not=why_not_writable(root, maximum, minimum),
    )


def gpu_settings(root: Path, clocks: tuple[Domain, ...]) -> tuple[str, ...]:
    """Files beside the GPU's clocks that the board's tools change: governor, gating, power."""
    paths: list[str] = []
    for clock in clocks:
        folder = (clock.max_path or "").rpartition("/")[0]
        paths.append(f"{folder}/governor")
        real = os.path.relpath(follow_links(below(root, folder)), follow_links(root))
        device = f"/{real}".partition("/devfreq")[0]
        if real.startswith("../"):
            continue  # it leads out of the board
        paths += [f"{device}/{name}" for name in _DEVICE_SETTINGS]
    for alias in ("/sys/devices/gpu.0", "/sys/devices/platform/gpu.0"):
        paths += [f"{alias}/{name}" for name in _DEVICE_SETTINGS]
    return tuple(path for path in paths if exists(root, path))
