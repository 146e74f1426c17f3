"""What a container may use: CPU time and memory, from the control groups we are in.

Source: Documentation/admin-guide/cgroup-v2.rst of the Linux kernel. ``cpu.max`` holds
a quota and a period in µs, or ``max``; ``memory.max`` holds bytes, or ``max``. A limit
of any group above ours holds too. Version 1 keeps the quota in ``cpu.cfs_quota_us``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mansard.device.system import read_int, read_text

_CPU_MAX = re.compile(r"([0-9]{1,15}) ([0-9]{1,15})")


def cpu_quota(root: Path) -> float | None:
    """CPUs' worth of time that our groups allow; None where there is no limit."""
    quotas = [_parse_cpu_max(read_text(group / "cpu.max")) for group in _groups(root)]
    quotas.append(_version_1_quota(root / "sys/fs/cgroup/cpu"))
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit_bytes(root: Path) -> int | None:
    """Bytes of memory that our groups allow; None where there is no limit."""
    limits = [read_int(group / "memory.max") for group in _groups(root)]
    return min((limit for limit in limits if limit and limit > 0), default=None)


def _groups(root: Path) -> Iterator[Path]:
    """Our group's folder and those above it, up to the top of what is mounted."""
    top = root / "sys/fs/cgroup"
    yield top
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        hierarchy, _, path = line.partition("::")
        if hierarchy == "0":
            group = top
            for name in Path(path.strip("/")).parts:
                group /= name
                yield group


def _parse_cpu_max(text: str | None) -> float | None:
    match = _CPU_MAX.fullmatch(text or "")
    if match is None or not int(match[2]):
        return None  # "max 100000", or no such file
    return int(match[1]) / int(match[2])


def _version_1_quota(folder: Path) -> float | None:
    quota_us, period_us = (
        read_int(folder / "cpu.cfs_quota_us"),
        read_int(folder / "cpu.cfs_period_us"),
    )
    if not quota_us or not period_us or quota_us < 0:
        return None
    return quota_us / period_us
