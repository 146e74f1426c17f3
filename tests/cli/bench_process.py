"""A bench in a process of its own, watched by what it leaves on disk."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from mansard.core.jsonl import read_rows
from mansard.core.records import Trial


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
