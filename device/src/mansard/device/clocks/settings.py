"""The clocks of a machine, and every setting that holding them may change."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError, MansardError
from mansard.core.storage.files import check_descriptors
from mansard.device.clocks.domains import (
    Domain,
    Emc,
    emc_settings,
    find_clusters,
    find_emc,
    find_gpu_clocks,
    gpu_settings,
    read_online,
    why_not_writable,
)
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.system import SYSTEM_ROOT, below, find_paths, find_tool, follow_links
from mansard.device.topology import CPU_FOLDER

# The caps of the deep-learning accelerators: r32 and r35 below acm, r36 without it.
_DLA_PLACES = (
    "/sys/devices/platform/bus@0/*.host1x/*.nvdla[0-9]/acm/clk_cap/dla[0-9]_core",
    "/sys/devices/platform/*.host1x/*.nvdla[0-9]/acm/clk_cap/dla[0-9]_core",
    "/sys/devices/platform/*.host1x/*.nvdla[0-9]/clk_cap/dla[0-9]_core",
    "/sys/devices/platform/bus@0/*.host1x/*.nvdla[0-9]/clk_cap/dla[0-9]_core",
)


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """The clock domains of a machine. ``online``: every CPU, and whether it is on."""

    cpu: tuple[Domain, ...]  # clusters of which at least one CPU is on
    gpu: Domain | None
    emc: Emc | None
    dla: tuple[Domain, ...]
    gpu_others: tuple[Domain, ...]  # video engines with a clock of their own
    online: dict[int, bool]

    def domains(self) -> tuple[Domain, ...]:
        """All of them in one row."""
        single = [self.gpu, self.emc.domain if self.emc else None]
        return (*self.cpu, *(domain for domain in single if domain is not None), *self.dla)


def find_clocks(root: Path = SYSTEM_ROOT) -> Clocks:
    """Every clock domain of the machine; what it does not have is empty or None."""
    gpus = find_gpu_clocks(root)
    return Clocks(
        cpu=find_clusters(root),
        gpu=gpus[0] if gpus else None,
        emc=find_emc(root),
        dla=_find_dla(root),
        gpu_others=gpus[1:],
        online=read_online(root),
    )


def _find_dla(root: Path) -> tuple[Domain, ...]:
    domains: dict[Path, Domain] = {}
    for place in _DLA_PLACES:
        for path in find_paths(root, place):
            real = follow_links(below(root, path))
            if real not in domains:
                name = path.rpartition("/")[2]
                why_not = why_not_writable(root, path)
                domains[real] = Domain(name=name, kind="dla", max_path=path, why_not=why_not)
    return tuple(domains.values())


# Every setting of this machine that Mansard, or a tool it calls, may change.
#
# The journal holds what they were, and a restore writes to nothing else.

MAX_SETTING_BYTES = 4096  # a page: the most that a file of sysfs can hold
# Files of a CPU, which vanish with it.
_CPU_FILE = re.compile(
    CPU_FOLDER + r"/(cpu[0-9]{1,4}|cpufreq/policy[0-9]{1,4})/"
    r"(online|(cpufreq/)?scaling_(min_freq|max_freq|governor)|cpuidle/state[0-9]{1,2}/disable)"
)
_PER_CPU = ("online", *(f"cpufreq/scaling_{name}" for name in ("governor", "min_freq", "max_freq")))


def find_settings(root: Path, clocks: Clocks) -> tuple[str, ...]:
    """The board's paths of all settings that are there now, each file once."""
    paths: dict[Path, str] = {}
    for path in _candidates(root, clocks):
        real = _real_setting(root, path)
        if real is not None:
            paths.setdefault(real, path)
    return tuple(paths.values())


def is_setting(path: str, listed: frozenset[str]) -> bool:
    """Whether a restore may write to ``path``: one of ``listed``, or a file of a CPU."""
    return path in listed or _CPU_FILE.fullmatch(path) is not None


def known_settings(root: Path, clocks: Clocks) -> frozenset[str]:
    """All names that a setting of this machine may go by, whichever of them is there now."""
    return frozenset(_candidates(root, clocks))


def _candidates(root: Path, clocks: Clocks) -> Iterator[str]:
    for folder in find_paths(root, f"{CPU_FOLDER}/cpu[0-9]*"):
        yield from (f"{folder}/{name}" for name in _PER_CPU)
    if find_tool(root, "jetson_clocks") is not None:  # it keeps CPUs from idling
        yield from find_paths(root, f"{CPU_FOLDER}/cpu[0-9]*/cpuidle/state[0-9]*/disable")
    gpus = (*((clocks.gpu,) if clocks.gpu else ()), *clocks.gpu_others)
    for domain in (*gpus, *clocks.dla):
        yield from (path for path in (domain.max_path, domain.min_path) if path)
    yield from gpu_settings(root, gpus)
    yield from emc_settings(root)
    yield from _configured(root)


def _configured(root: Path) -> Iterator[str]:
    """The settings of nvpmodel's modes; none if there are no modes or they cannot be read."""
    try:
        params = read_modes(root).config.params
    except MansardError:
        return
    for param in params:
        for argument, path in param.arguments.items():
            if argument.startswith("FREQ_TABLE") or not path.startswith("/sys/"):
                continue
            # An HWMON path is a pattern: its folder has another number at every start.
            yield from find_paths(root, path) if "*" in path and ".." not in path else (path,)


def real_path(root: Path, path: str) -> Path:
    """Where a setting really lies; raises DeviceError if that is outside the board's /sys."""
    real = follow_links(below(root, path))
    if not real.is_relative_to(follow_links(root) / "sys"):
        raise DeviceError("leads out of /sys and is not written", where=path)
    return real


def _real_setting(root: Path, path: str) -> Path | None:
    """The file behind ``path`` if it is one that can be a setting, inside the board's /sys."""
    try:
        real = real_path(root, path)
        status = real.stat()
    except (MansardError, OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o222:
        return None  # it cannot be written: it is a reading, not a setting
    return real


def read_setting(root: Path, path: str) -> str | None:
    """The whole content of a setting, newline and all; None where it cannot be read as text."""
    real = _real_setting(root, path)
    if real is None:
        return None
    try:
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            content = os.read(handle, MAX_SETTING_BYTES + 1)
        finally:
            os.close(handle)
        text = content.decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        check_descriptors(error, path)
        return None
    return text if len(content) <= MAX_SETTING_BYTES else None
