"""Shared by the simulated tools: their tree's files, its faults and its facts.

Standard library alone: a copy of this folder stands in every simulated tree.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

STATE = "run/mansard-simulator"
FAULTS = f"{STATE}/faults.json"
INFO = "usr/lib/mansard-simulator/board.json"
CPU = "/sys/devices/system/cpu"


class BoardTree:
    """One simulated tree, through the absolute paths of the board."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.info: dict[str, Any] = self._json(INFO)
        self.n_writes = 0

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads((self.root / name).read_text())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def fault(self, name: str) -> Any:
        """What the tree's fault file says of ``name``; None where it says nothing."""
        return self._json(FAULTS).get(name)

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")

    def read(self, absolute: str) -> str | None:
        try:
            return self.path(absolute).read_text().strip("\0\n\t ")
        except (OSError, ValueError):
            return None

    def number(self, absolute: str) -> int | None:
        try:
            return int(self.read(absolute) or "")
        except ValueError:
            return None

    def write(self, absolute: str, text: str) -> None:
        """Set a file that is there; raises OSError. A power cut may come before it."""
        self._maybe_cut_power()
        handle = os.open(self.path(absolute), os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(handle, f"{text}\n".encode())
        finally:
            os.close(handle)

    def _maybe_cut_power(self) -> None:
        cut = self.fault("power_cut")
        if isinstance(cut, int) and self.n_writes >= cut:
            if os.getppid() > 1:
                os.kill(os.getppid(), signal.SIGKILL)
            os._exit(137)
        self.n_writes += 1

    def list_cpus(self) -> list[int]:
        """All CPUs that the board has."""
        return parse_list(self.read(f"{CPU}/present") or "")

    def is_on(self, cpu: int) -> bool:
        return self.read(f"{CPU}/cpu{cpu}/online") != "0"  # cpu0 may have no switch

    def online(self) -> list[int]:
        return [cpu for cpu in self.list_cpus() if self.is_on(cpu)]

    def note_online(self) -> None:
        """The kernel's lists follow the switches."""
        on = self.online()
        off = [cpu for cpu in self.list_cpus() if cpu not in on]
        self.path(f"{CPU}/online").write_text(format_list(on) + "\n")
        self.path(f"{CPU}/offline").write_text(format_list(off) + "\n")


def find_board(script: str) -> BoardTree:
    """The tree that ``script`` stands in: ROOT/usr/sbin/nvpmodel belongs to ROOT."""
    return BoardTree(Path(script).resolve().parents[2])


def hang() -> None:
    """Do nothing until a signal comes, or the parent process is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.1)


def fail(line: str) -> int:
    """Complain as the real tools do; the exit code."""
    sys.stderr.write(line + "\n")
    return 1


def parse_list(text: str) -> list[int]:
    """The kernel's list format: 0-3,6."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def format_list(cpus: list[int]) -> str:
    """The reverse of parse_list."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
