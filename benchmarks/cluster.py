"""Scoring on workers of Dask against processes of this machine: the same rows, and the time.

    python benchmarks/cluster.py docs/results/cluster.md [--models 5000]

Small networks of one to five convolutions, each of its own sizes, are scored by ``mansard score``:
in one process, in two (``--jobs 2``), and by two workers of Dask on this machine (``--dask``), of
which one is killed (SIGKILL) half way in a second run. What is printed is compared byte by byte.
Then recommendations over a grid of modes and searches of schedules, alone and on the workers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from schedules.instances import XAVIER, drawn

from mansard import api
from mansard.api.parallel.cluster import connected
from mansard.core.records import Problem, Schedule
from mansard.scheduler.search import solve
from tests.api.dask_cluster import DaskCluster, dask_cluster, kill, small_models

NETWORKS = ("resnet50", "yolov8n", "vgg16", "densenet121")


class Ran(msgspec.Struct, frozen=True):
    """A command: what it printed, how long it took, and the most memory of its process."""

    output: bytes
    seconds_s: float
    memory_bytes: int


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all of it and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="the file that is written")
    parser.add_argument("--models", type=int, default=5000)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name, options.page.open("w", encoding="utf-8") as out:
        for line in page(Path(name), options.models):
            out.write(f"{line}\n")
            out.flush()  # all of it takes minutes
    return 0


def page(folder: Path, n_models: int) -> Iterator[str]:
    """Its lines, as they are known."""
    yield "# Work on other machines"
    yield ""
    yield "`python benchmarks/cluster.py docs/results/cluster.md`: Dask's scheduler and workers are"
    yield f"processes of one machine with {os.cpu_count()} CPUs and other load. Seconds are wall"
    yield "time of commands."
    yield ""
    yield from scoring(small_models(folder / "models", n_models), n_models)
    yield ""
    yield from recommending(folder)
    yield ""
    yield from searching()


def scoring(models: Path, n_models: int) -> Iterator[str]:
    """Rows of many models."""
    alone = {form: score(models, form, "--jobs", "1") for form in ("json", "csv")}
    two = {form: score(models, form, "--jobs", "2") for form in ("json", "csv")}
    with dask_cluster(2) as cluster:
        score(models, "json", "--dask", cluster.address)  # what workers import is imported
        on = {form: score(models, form, "--dask", cluster.address) for form in ("json", "csv")}
    with dask_cluster(2) as cluster:
        halfway = threading.Timer(0.5 * on["json"].seconds_s, kill, [cluster.workers[0]])
        halfway.start()
        lost = {"json": score(models, "json", "--dask", cluster.address)}
        is_killed = cluster.workers[0].poll() is not None
    yield f"## {n_models:,} models scored"
    yield ""
    yield "| way | JSON, s | CSV, s | same bytes as one process |"
    yield "|---|--:|--:|---|"
    for name, ran in (
        ("one process", alone),
        ("`--jobs 2`", two),
        ("`--dask`, two workers", on),
        (f"`--dask`, one of two workers {'killed' if is_killed else 'NOT killed'} half way", lost),
    ):
        times = [f"{ran[form].seconds_s:.1f}" if form in ran else "–" for form in ("json", "csv")]
        same = all(each.output == alone[form].output for form, each in ran.items())
        yield f"| {name} | {times[0]} | {times[1]} | {'yes' if same else 'NO'} |"


def recommending(folder: Path) -> Iterator[str]:
    """Networks in a grid of modes: the memory of the process that asks."""
    runs, modes = folder / "orin/runs", folder / "modes.csv"
    api.demo(folder / "orin")
    cells = [
        (gpu, emc, cpu, sms)
        for gpu in range(300, 1301, 10)
        for emc in (665, 2133, 3199)
        for cpu in range(700, 2201, 100)
        for sms in (4, 8, 14, 16)
    ]
    lines = [f"m{at},{','.join(map(str, cell))}" for at, cell in enumerate(cells)]
    modes.write_text("\n".join(["mode,gpu_mhz,emc_mhz,cpu_mhz,sms", *lines]) + "\n")
    words = ["recommend", *NETWORKS, "--batch", "auto", "--precision", "fp16,fp32", "--json"]
    words += ["--runs", str(runs), "--mode", str(modes)]
    alone = command(words)
    with dask_cluster(2) as cluster:
        on = command([*words, "--dask", cluster.address])
    yield f"## {len(NETWORKS)} networks recommended for {len(cells):,} modes"
    yield ""
    yield "Seven batch sizes, two precisions, the Orins of `mansard demo`; peak memory of the"
    yield "command."
    yield ""
    yield "| way | s | memory, MB | same bytes |"
    yield "|---|--:|--:|---|"
    same = "yes" if on.output == alone.output else "NO"
    yield f"| one process | {alone.seconds_s:.0f} | {alone.memory_bytes / 1e6:.0f} | – |"
    yield f"| `--dask`, two workers | {on.seconds_s:.0f} | {on.memory_bytes / 1e6:.0f} | {same} |"


def searching() -> Iterator[str]:
    """Schedules: the optimum, its proof, and how much was simulated."""
    yield "## Searches of schedules"
    yield ""
    yield "Random networks on a GPU and DLAs. A search alone uses all CPUs too."
    yield ""
    columns = ("groups", "goal", "assignments", "alone, s", "workers, s", "simulated alone")
    yield f"| {' | '.join(columns)} | on workers | same optimum and proof |"
    yield "|---|---|--:|--:|--:|--:|--:|---|"
    with dask_cluster(2) as cluster:
        for groups, changes, n_dlas, goal in (
            ((8, 8, 8), 1, 2, "weighted_latency"),
            ((10, 9, 8), 2, 1, "makespan"),
            ((10, 9, 8), 2, 1, "weighted_latency"),
        ):
            problem = drawn(np.random.default_rng(5), XAVIER, groups, changes, n_dlas)
            problem = msgspec.structs.replace(problem, goal=goal)
            yield _row(str(groups), goal, *both(problem, cluster))


def both(problem: Problem, cluster: DaskCluster) -> tuple[Schedule, Schedule]:
    """The best schedule alone, and by the workers."""
    alone = solve(problem, time_limit_s=300.0)
    with connected(cluster.address) as workers:
        return alone, solve(problem, time_limit_s=300.0, workers=workers)


def _row(groups: str, goal: str, alone: Schedule, found: Schedule) -> str:
    same = all(
        getattr(alone, name) == getattr(found, name) for name in ("value", "bound", "is_optimal")
    )
    cells = (
        groups,
        goal,
        f"{alone.n_assignments:,}",
        f"{alone.solve_s:.1f}",
        f"{found.solve_s:.1f}",
        f"{alone.n_simulated:,}",
        f"{found.n_simulated:,}",
        "yes" if same and alone.is_optimal else "NO",
    )
    return f"| {' | '.join(cells)} |"


def score(models: Path, form: str, *words: str) -> Ran:
    """``mansard score`` of a folder."""
    return command(["score", str(models), "--batch", "1", "--format", form, *words])


def command(words: Sequence[str]) -> Ran:
    """``mansard`` with these words, to its end."""
    began_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "mansard.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        output = process.stdout.read() if process.stdout is not None else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words[:2])} ended with {process.returncode}")
    return Ran(output, time.monotonic() - began_s, 1024 * usage.ru_maxrss)


if __name__ == "__main__":
    raise SystemExit(main())
