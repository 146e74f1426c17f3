"""Seconds and peak memory of reading 100,000 trials and 10 million power samples.

    python benchmarks/dataset_size.py [--modes 500] [--samples 10000000] [--folder FOLDER]

Makes up runs in a temporary folder (about 2 GB), beside scores of the zoo's 32 networks in two
batch sizes, then does each step in a process of its own.
Memory is the process's largest resident set, with the interpreter and Polars (about 120 MB).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from synthetic_runs import TRIALS_OF_A_MODE, write_modes, write_samples

from mansard.api.scores import score_networks
from mansard.core.jsonl import write_rows
from mansard.core.records import ModelScore

LIMIT_MB = 2000


def main() -> None:
    """Make the runs and measure each step, or do the one step that ``--step`` names."""
    parser = argparse.ArgumentParser(description="Time and memory of large datasets")
    parser.add_argument("--modes", type=int, default=500)
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="keep the runs here; used again if they exist")
    parser.add_argument("--step", choices=STEPS, help="do this alone, on the runs in --folder")
    arguments = parser.parse_args()
    if arguments.step is not None:
        _do(arguments.step, arguments.folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        _make(folder, arguments.modes, arguments.samples)
        n_trials = arguments.modes * TRIALS_OF_A_MODE
        print(f"{n_trials:,} trials in {arguments.modes} modes, {arguments.samples:,} samples")
        print(f"{'step':<28} {'seconds':>8} {'peak MB':>8}   of {LIMIT_MB} MB")
        for step in STEPS:
            command = [sys.executable, __file__, "--step", step, "--folder", str(folder)]
            subprocess.run(command, check=True)


def _make(folder: Path, n_modes: int, n_samples: int) -> None:
    if not (folder / "trials").exists():
        write_modes(folder / "trials", n_modes)
        write_rows(folder / "trials" / "scores.jsonl", ModelScore, score_networks((), (1, 8), {}))
    if not (folder / "samples").exists():
        write_modes(folder / "samples", 1)
        (run,) = (folder / "samples").iterdir()
        write_samples(run, n_samples)


def _do(step: str, folder: Path) -> None:
    started_s = time.perf_counter()
    STEPS[step](folder)
    seconds = time.perf_counter() - started_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    verdict = "within" if peak_mb <= LIMIT_MB else "TOO MUCH"
    print(f"{step:<28} {seconds:8.1f} {peak_mb:8.0f}   {verdict}")


def _ingest_trials(folder: Path) -> None:
    from mansard.analytics.data.ingest import ingest

    ingest(folder / "trials")


def _ingest_samples(folder: Path) -> None:
    from mansard.analytics.data.ingest import ingest

    ingest(folder / "samples")


def _power(folder: Path) -> None:
    import polars as pl

    from mansard.analytics.data.ingest import ingest

    samples = ingest(folder / "samples").samples
    samples.group_by("run_id", "rail").agg(pl.col("power_w").mean()).collect(engine="streaming")


def _rooflines(folder: Path) -> None:
    from mansard.analytics.data.ingest import ingest
    from mansard.analytics.roofs.roofline import rooflines

    rooflines(ingest(folder / "trials"))


def _results(folder: Path) -> None:
    from mansard.analytics.data.ingest import ingest
    from mansard.analytics.results import compute

    compute(ingest(folder / "trials"))


def _report(folder: Path) -> None:
    from mansard.analytics.data.ingest import ingest
    from mansard.analytics.report.write import write_report

    path = write_report(ingest(folder / "trials"), folder / "report.html")
    print(f"the page has {path.stat().st_size / 1e6:.2f} MB")


STEPS: dict[str, Callable[[Path], None]] = {
    "ingest trials, cold": _ingest_trials,
    "ingest trials, warm": _ingest_trials,
    "ingest samples, cold": _ingest_samples,
    "ingest samples, warm": _ingest_samples,
    "mean power of each rail": _power,
    "rooflines of all modes": _rooflines,
    "everything computed": _results,
    "report": _report,
}

if __name__ == "__main__":
    main()
