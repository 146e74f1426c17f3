"""``watch --record`` beside the kernels: looks at the machine, each a row of a file."""

from __future__ import annotations

from pathlib import Path

from mansard.api.watching import record_samples, watch

FILE = "watch.jsonl"
INTERVAL_S = 1.0


def record_looks(path: Path, seconds: float) -> None:
    """Record one look a second for so long, or until this process is ended."""
    with record_samples(path) as file:
        for sample in watch(interval_s=INTERVAL_S, duration_s=seconds):
            file.take(sample)
