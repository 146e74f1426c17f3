"""CPU time and peak memory of reading 100,000 trials and 10 million power samples.

    python benchmarks/dataset_size.py [--modes 500] [--samples 10000000] [--folder FOLDER]

Makes up runs in a temporary folder (about 2 GB), beside scores of the zoo's networks in two
batch sizes, then does each step in a process of its own: three times where that takes less than
a minute, and the least counts.
CPU time is of all threads. Memory is the process's largest resident set, with the interpreter and
Polars (about 120 MB).
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from synthetic_runs import TRIALS_OF_A_MODE, write_modes, write_samples

from mansard.api.scores import score_networks
from mansard.core.jsonl import write_rows
from mansard.core.records import ModelScore

LIMIT_MB = 2000
_N_TIMES, _LONG_S = 3, 60.0


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
        print(f"{'step':<28} {'CPU s':>8} {'peak MB':>8}   of {LIMIT_MB} MB")
        for step in STEPS:
            _measure(step, folder)


def _measure(step: str, folder: Path) -> None:
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder)]
    cpu_s: list[float] = []
    peak_mb = 0.0
    while len(cpu_s) < _N_TIMES and sum(cpu_s) < _LONG_S:
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        own_s, own_mb = map(float, told.stdout.split())
        cpu_s.append(own_s)
        peak_mb = max(peak_mb, own_mb)
    verdict = "within" if peak_mb <= LIMIT_MB else "TOO MUCH"
    print(f"{step:<28} {min(cpu_s):8.1f} {peak_mb:8.0f}   {verdict}", flush=True)


def _make(folder: Path, n_modes: int, n_samples: int) -> None:
    if not (folder / "trials").exists():
        write_modes(folder / "trials", n_modes)
        write_rows(folder / "trials" / "scores.jsonl", ModelScore, score_networks((), (1, 8), {}))
    if not (folder / "samples").exists():
        write_modes(folder / "samples", 1)
        (run,) = (folder / "samples").iterdir()
        write_samples(run, n_samples)


def _do(step: str, folder: Path) -> None:
    if step.endswith("cold"):
        shutil.rmtree(folder / step.split()[1].strip(",") / "dataset", ignore_errors=True)
    before_s = _cpu_s()
    STEPS[step](folder)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(_cpu_s() - before_s, peak_mb)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


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
    from mansard.analytics.models.roofs.roofline import rooflines

    rooflines(ingest(folder / "trials"))


def _results(folder: Path) -> None:
    from mansard.analytics.data.ingest import ingest
    from mansard.analytics.pages.results import compute

    compute(ingest(folder / "trials"))


def _report(folder: Path) -> None:
    from mansard.analytics.data.ingest import ingest
    from mansard.analytics.pages.report.write import write_report

    write_report(ingest(folder / "trials"), folder / "report.html")


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
