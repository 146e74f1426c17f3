"""A bench in a process of its own, watched by what it leaves on disk."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Set
from pathlib import Path

import pytest

from mansard.core.records import Manifest, Trial
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows

Start = Callable[..., subprocess.Popen[str]]  # the fixture ``start``: a command, and of Popen
# Cores, CPU MHz, GPU MHz, EMC MHz and SMs of the AGX Orin 64 GB, as NVIDIA's tables have them.
AGX_ORIN_MODES = {
    "15W": (4, 1113.6, 408.0, 2133.0, 6),
    "30W": (8, 1728.0, 612.0, 3199.0, 8),
    "50W": (12, 1497.6, 816.0, 3199.0, 16),
    "MAXN": (12, 2201.6, 1300.5, 3199.0, 16),
}


def finished_trials(runs: Path, board: str = "") -> list[Trial]:
    """Every trial of a kernel that is on disk, of boards that are named like ``board``."""
    return [
        trial
        for path in runs.glob("*/manifest.json")
        for manifest in [read_document(path, Manifest)]
        if manifest.kind == "kernels" and board in str(manifest.machine.board)
        for trial in read_rows(path.parent / "trials.jsonl", Trial).rows
    ]


def wait_for_trials(
    runs: Path,
    n_trials: int,
    process: subprocess.Popen[str],
    board: str = "",
    patience_s: float = 300,
) -> None:
    """Wait until so many trials are on disk; fails when the bench ends before."""
    end_s = time.monotonic() + patience_s
    while len(finished_trials(runs, board)) < n_trials:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s, "no trial was finished in time"
        time.sleep(0.05)


def check_read_back(manifests: Iterable[Manifest], modes: Set[str]) -> None:
    """Runs of an AGX Orin are of these modes, and those were in force as NVIDIA has them."""
    found = {manifest.mode_read_back.name: manifest.mode_read_back for manifest in manifests}
    assert found.keys() == modes
    for name, mode in found.items():
        n_cpus, cpu_mhz, gpu_mhz, emc_mhz, n_sms = AGX_ORIN_MODES[name]
        clocks = (mode.cpu_hz, mode.gpu_hz, mode.memory_hz)
        assert clocks == pytest.approx((cpu_mhz * 1e6, gpu_mhz * 1e6, emc_mhz * 1e6))
        assert (mode.n_cpus, mode.n_sms) == (n_cpus, n_sms)
