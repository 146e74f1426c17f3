"""How busy a simulated board is: as a test says, or as busy as the machine it runs on."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

_TICK_S = 0.01  # of /proc/stat


class Load(msgspec.Struct, frozen=True):
    """Utilisations from 0 to 1."""

    cpus: dict[int, float]
    gpu: float
    memory: float


class LoadSource:
    """Reads the tree's load file, or this machine's /proc/stat where there is none."""

    def __init__(self, file: Path, host_stat: Path = Path("/proc/stat")) -> None:
        self._file, self._host_stat = file, host_stat
        self._fixed = self._read_file()
        self._before = self._ticks()
        self._shares: dict[int, float] = {}

    def reread(self) -> None:
        """The load file was replaced."""
        self._fixed = self._read_file()

    def _read_file(self) -> dict[str, float] | None:
        try:
            found = json.loads(self._file.read_text())
            return {key: min(1.0, max(0.0, float(value))) for key, value in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def sample(self) -> None:
        """Look at this machine's counters again; they tick every 10 ms."""
        if self._fixed is not None:
            return
        now = self._ticks()
        for cpu, (busy, total) in now.items():
            old_busy, old_total = self._before.get(cpu, (0, 0))
            if total > old_total:
                self._shares[cpu] = min(1.0, max(0.0, (busy - old_busy) / (total - old_total)))
        self._before = now

    def load(self, on: set[int]) -> Load:
        """How busy the board's cores that are on are, and the rest of it."""
        if self._fixed is None:
            cpus = {cpu: self._shares.get(cpu, 0.0) for cpu in on}
            busiest = max(cpus.values(), default=0.0)
            return Load(cpus, 0.0, 0.3 * busiest)
        every = self._fixed.get("cpu", 0.0)
        gpu = self._fixed.get("gpu", 0.0)
        memory = self._fixed.get("memory", max(0.3 * every, 0.5 * gpu))
        return Load(dict.fromkeys(on, every), gpu, memory)

    def _ticks(self) -> dict[int, tuple[int, int]]:
        ticks: dict[int, tuple[int, int]] = {}
        try:
            lines = self._host_stat.read_text().splitlines()
        except OSError:
            return {}
        for line in lines:
            words = line.split()
            if words and words[0].startswith("cpu") and words[0] != "cpu":
                counts = [int(word) for word in words[1:9]]
                idle = counts[3] + counts[4]
                ticks[int(words[0][3:])] = (sum(counts) - idle, sum(counts))
        return ticks
