"""The machine's own files, under a root that tests can replace by a folder.

Every reader of ``/proc`` and ``/sys`` goes through here: with another root the
same code reads a recorded tree.
"""

from __future__ import annotations

import os
from pathlib import Path

SYSTEM_ROOT = Path("/")


def read_text(path: Path) -> str | None:
    """The stripped content of a small system file, or None where it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip("\0\n\t ")
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """The integer that a system file holds, or None where it holds none."""
    text = read_text(path)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def why_unreadable(path: Path) -> str:
    """The system's reason for not letting us read ``path``, in words."""
    try:
        path.read_bytes()
    except OSError as error:
        return f"{path}: {(error.strerror or str(error)).lower()}"
    return f"{path}: holds nothing that can be used"


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """CPU numbers from the kernel's list format: ``0-2,5`` is 0, 1, 2, 5.

    Source: "List format" in the Linux man page cpuset(7). Raises ValueError.
    """
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


def usable_cpus() -> tuple[int, ...]:
    """The logical CPUs that this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))
