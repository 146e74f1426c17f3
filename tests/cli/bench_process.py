"""A bench in a process of its own, watched by what it leaves on disk."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from mansard.core.jsonl import read_rows
from mansard.core.records import Trial

# Cores, CPU MHz, GPU MHz, EMC MHz and SMs of the AGX Orin 64 GB, as NVIDIA's tables have them.
AGX_ORIN_MODES = {
    "15W": (4, 1113.6, 408.0, 2133.0, 6),
    "30W": (8, 1728.0, 612.0, 3199.0, 8),
    "50W": (12, 1497.6, 816.0, 3199.0, 16),
    "MAXN": (12, 2201.6, 1300.5, 3199.0, 16),
}


def finished_trials(runs: Path) -> list[Trial]:
    """Every trial that is on disk."""
    return [trial for path in runs.glob("*/trials.jsonl") for trial in read_rows(path, Trial).rows]


def wait_for_trials(
    runs: Path, n_trials: int, process: subprocess.Popen[str], patience_s: float = 300
) -> None:
    """Wait until so many trials are on disk; fails when the bench ends before."""
    end_s = time.monotonic() + patience_s
    while len(finished_trials(runs)) < n_trials:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s, "no trial was finished in time"
        time.sleep(0.05)
