"""Every setting of this machine that Mansard, or a tool it calls, may change.

The journal holds what they were, and a restore writes to nothing else.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from mansard.core.errors import DeviceError, MansardError
from mansard.device.clocks.emc import emc_settings
from mansard.device.clocks.gpu import gpu_settings
from mansard.device.clocks.nodes import Clocks
from mansard.device.system import below, find_paths, find_tool, follow_links
from mansard.device.topology import CPU_FOLDER

MAX_SETTING_BYTES = 4096  # a page: the most that a file of sysfs can hold
# Files of a CPU, which vanish with it.
_CPU_FILE = re.compile(
    CPU_FOLDER + r"/(cpu[0-9]{1,4}|cpufreq/policy[0-9]{1,4})/"
    r"(online|(cpufreq/)?scaling_(min_freq|max_freq|governor)|cpuidle/state[0-9]{1,2}/disable)"
)
_PER_CPU = ("online", *(f"cpufreq/scaling_{name}" for name in ("governor", "min_freq", "max_freq")))


def find_settings(root: Path, clocks: Clocks) -> tuple[str, ...]:
    """The board's paths of all settings that are there now, each file once."""
    found: dict[Path, str] = {}
    for path in _candidates(root, clocks):
        real = _real_setting(root, path)
        if real is not None:
            found.setdefault(real, path)
    return tuple(found.values())


def is_setting(path: str, known: frozenset[str]) -> bool:
    """Whether a restore may write to ``path``: one of ``known``, or a file of a CPU."""
    return path in known or _CPU_FILE.fullmatch(path) is not None


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
    """What the modes of nvpmodel set; nothing where there are none or they cannot be read."""
    from mansard.device.nvpmodel.modes import read_modes

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
        return None  # nobody may write it: it is a reading, not a setting
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
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(content) <= MAX_SETTING_BYTES else None
