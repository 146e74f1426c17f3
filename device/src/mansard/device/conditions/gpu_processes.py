"""Which other processes use the GPU: from nvmap on a Jetson, from NVML where it answers.

Sources: debugfs ``nvmap/iovmm/clients`` of L4T's kernel, lines of client, process, pid and size
with a ``total`` at the end, readable by root alone; NVML API reference,
nvmlDeviceGetComputeRunningProcesses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.text import printable
from mansard.device.cards import load_nvml, nvml_errors
from mansard.device.system import SYSTEM_ROOT, below, read_text, why_unreadable

CLIENTS = "/sys/kernel/debug/nvmap/iovmm/clients"
_SIZE = re.compile(r"[0-9]{1,20}[KMG]?")
_PID = re.compile(r"[0-9]{1,10}")
_LONGEST_NAME = 64
_MOST_ANCESTORS = 64  # of a process; a chain that is longer goes in a circle
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
        """Take what comes onto the GPU meanwhile for this process, which opens it now.

        The driver lists processes by the host's numbers; in a container a process does not know
        its own.
        """
        before = self._listed()
        yield
        found = self._listed()
        if not isinstance(found, str) and not isinstance(before, str):
            self._own |= found.keys() - before.keys()

    def find(self) -> GpuProcessesFound:
        """Every process on the GPU that is neither this one nor started by it."""
        found = self._listed()
        if isinstance(found, str):
            return GpuProcessesFound(None, found)
        names = [f"{name} ({pid})" for pid, name in sorted(found.items()) if self._is_other(pid)]
        return GpuProcessesFound(tuple(names), "")

    def _listed(self) -> dict[int, str] | str:
        """Name of each process on the GPU by its id, or why they cannot be seen."""
        clients = below(self._root, CLIENTS)
        text = read_text(clients)
        if text is not None:
            return parse_clients(text[:_MOST_CHARACTERS])
        found = self._ask_nvml()
        return f"{why_unreadable(clients)}; {found}" if isinstance(found, str) else found

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
            found: dict[int, str] = {}
            for at in range(nvml.nvmlDeviceGetCount()):
                card = nvml.nvmlDeviceGetHandleByIndex(at)
                for process in nvml.nvmlDeviceGetComputeRunningProcesses(card):
                    found[process.pid] = self._name(process.pid)
        except nvml_errors(nvml) as error:
            return f"NVML: {str(error).lower()}"
        return found

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
    found: dict[int, str] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 3 and _PID.fullmatch(words[-2]) and _SIZE.fullmatch(words[-1]):
            found[int(words[-2])] = printable(" ".join(words[1:-2]), _LONGEST_NAME)
    return found
