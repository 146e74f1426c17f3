"""Seconds of whole commands, each in a process of its own, beside the import of their libraries.

    python benchmarks/command_speed.py [--times 5] [--networks 80]

The data are made up and imported: ``--networks`` networks in 12 modes for ``plan`` (with a table of
52 modes, and with one of 18,096), one network in 12 modes for ``recommend``, 32 networks in 4 modes
for ``report``. The peer, ``import polars, altair``, runs before each of them. Printed are the least
of all times, as other work on the machine only adds to them: seconds, seconds of CPU with those of
child processes, and the ratio of these to the peer's.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

GPU_MHZ = np.linspace(114.75, 1300.5, 13).round(2).tolist()
EMC_MHZ = (204.0, 665.6, 2133.0, 3199.0)
CPU_MHZ = np.linspace(115.2, 2201.6, 29).round(1).tolist()
CORES = range(1, 13)
PEER = (sys.executable, "-c", "import polars, altair")
MANSARD = (sys.executable, "-m", "mansard.cli")
Mode = Sequence[float]


def write_table(path: Path, modes: Iterable[Mode], n_networks: int = 0) -> Path:
    """A table of modes, by GPU, EMC and CPU clock in MHz and cores; or of networks in them."""
    random = np.random.default_rng(1)
    settings = "gpu_mhz,emc_mhz,cpu_mhz,cpus"
    lines = [f"network,batch,precision,{settings},latency_ms,power_w" if n_networks else settings]
    weights = random.uniform((0.1, 1.0, 1.0, 0.1), (1.0, 10.0, 10.0, 1.0), (max(1, n_networks), 4))
    for gpu, emc, cpu, cores in modes:
        mode = f"{gpu},{emc},{cpu},{cores}"
        power_w = 5 + gpu / 200 + emc / 1000 + 5 * (gpu / 1e3) ** 3 + cores * cpu / 2000
        terms = (1.0, 1e3 / gpu, 2e3 / emc, 2e3 / cpu)
        noise = np.exp(random.normal(0.0, 0.01, n_networks))
        times_ms = (weights[:n_networks] @ terms) * noise
        lines += [
            f"net{at},1,fp16,{mode},{each:.4f},{power_w:.3f}" for at, each in enumerate(times_ms)
        ] or [mode]
    path.write_text("\n".join(lines) + "\n")
    return path


def seconds(command: Sequence[str]) -> tuple[float, float]:
    """Of one process: seconds on the wall, and of CPU."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def least(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Of each kind of seconds the least."""
    return min(wall_s for wall_s, _ in times), min(cpu_s for _, cpu_s in times)


def make(folder: Path, n_networks: int) -> dict[str, tuple[str, ...]]:
    """The tables and folders of runs, and the commands that are timed."""
    grid = list(itertools.product(GPU_MHZ, EMC_MHZ, CPU_MHZ, CORES))
    few = list(itertools.product(GPU_MHZ, EMC_MHZ, CPU_MHZ[-1:], [12]))
    picked = [grid[at] for at in np.random.default_rng(2).choice(len(grid), 12, replace=False)]
    wide, narrow = write_table(folder / "18096.csv", grid), write_table(folder / "52.csv", few)
    tables = {"many": (picked, n_networks), "few": (few[::5][:12], n_networks)}
    tables |= {"one": (picked, 1), "page": (picked[:4], 32)}
    runs = {name: str(folder / name) for name in tables}
    for name, (modes, n) in tables.items():
        table = write_table(folder / f"{name}.csv", modes, n)
        options = ("--device", "board", "--citation", "made up", "--runs", runs[name])
        subprocess.run((*MANSARD, "import", str(table), *options), check=True, capture_output=True)
    return {
        "--help": ("--help",),
        f"plan, {n_networks} networks, 52 modes": (
            "plan",
            "--runs",
            runs["few"],
            "--mode",
            str(narrow),
        ),
        f"plan, {n_networks} networks, 18,096 modes": (
            "plan",
            "--runs",
            runs["many"],
            "--mode",
            str(wide),
        ),
        "recommend, 1 network": ("recommend", "net0", "--runs", runs["one"]),
        "report, 32 networks × 4 modes": ("report", "--runs", runs["page"]),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--networks", type=int, default=80)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mansard-speed-") as name:
        commands = make(Path(name), options.networks)
        print("| command | s | s of CPU | of the peer's |\n|---|---|---|---|")
        peer: list[tuple[float, float]] = []
        for words, command in commands.items():
            times = []
            for _ in range(options.times):
                peer.append(seconds(PEER))
                times.append(seconds((*MANSARD, *command)))
            (wall_s, cpu_s), (_, peer_s) = least(times), least(peer)
            print(f"| {words} | {wall_s:.2f} | {cpu_s:.2f} | {cpu_s / peer_s:.1f} |", flush=True)
        print("| the peer, `import polars, altair` | {:.2f} | {:.2f} | 1 |".format(*least(peer)))


if __name__ == "__main__":
    main()
