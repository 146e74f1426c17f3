"""``mansard multi run`` with four networks of the zoo on two CPUs, in every way that it runs them.

``PYTHONPATH=. python benchmarks/multi.py > docs/results/multi.md``. Each line of the first table is
a command of its own. Then a sweep of drawn mappings is killed by SIGKILL between two rows, and run
again.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from reproductions.nn_profiler.__main__ import main as draw

NETWORKS = ("squeezenet1_0", "mnasnet0_5", "shufflenet_v2_x0_5", "alexnet")
# The last node of each stage and its device; 9999: the end, whatever its number is.
SPLIT = {
    "squeezenet1_0": {"21": "cpu:0", "9999": "cpu:1"},
    "mnasnet0_5": {"69": "cpu:1", "9999": "cpu:0"},
    "shufflenet_v2_x0_5": {"76": "cpu:0", "9999": "cpu:0"},
    "alexnet": {"9999": "cpu:1"},
}
WAYS = (
    ("whole", "in turn", "threads", ""),
    ("whole", "in turn", "processes", "--processes"),
    ("split", "in turn", "threads", ""),
    ("split", "in turn", "processes", "--processes"),
    ("split", "pipelined", "threads", "--pipelined"),
    ("split", "pipelined", "processes", "--pipelined --processes"),
    ("split", "pipelined", "threads, `--exclusive`", "--pipelined --exclusive"),
)
SECONDS_S = 10.0
NAMES = "SqueezeNet | MNASNet | ShuffleNet | AlexNet"  # of NETWORKS, as columns
PAGE = """# Four networks at once

`PYTHONPATH=. python benchmarks/multi.py`: SqueezeNet 1.0, MNASNet 0.5, ShuffleNet V2 x0.5 and
AlexNet in fp32 on two CPUs of a shared virtual machine ({cpu}), ONNX Runtime {version},
{seconds:g} s after warm-up. *Whole*: one CPU each, the first and third on `cpu:0`. *Split*:
SqueezeNet and MNASNet on both CPUs, ShuffleNet on `cpu:0`, AlexNet on `cpu:1`. *Others*: CPU time
of other programs; above 5 % a row is disturbed. *Accounted*: time of all stages over window times
threads. *Off*: largest error of runs times mean stage times against the window.

Runs a second of each network:

| networks | order | in | {names} | accounted | off | memory | others |
|---|---|---|---|---|---|---|---|---|---|---|
{ways}

Median latency, ms:

| networks | order | in | {names} |
|---|---|---|---|---|---|---|
{latencies}

Time of each stage, split and pipelined in threads, `--exclusive`:

| network | stage | inference | transfer | wait for input | wait for room | wait for device |
|---|---|---|---|---|---|---|
{stages}

{killed}
"""


def main() -> None:
    """Measure, and print the document."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mapping = folder / "split.json"
        mapping.write_text(json.dumps(SPLIT))
        rows = [row for way in WAYS for row in _measured(folder, mapping, way)]
        killed = _kill_and_resume(folder)
    lines = [_way_line(way, row) for way, row in zip(WAYS, rows, strict=True)]
    page = PAGE.format(
        names=NAMES,
        cpu=_processor(),
        version=rows[0]["engine_version"],
        seconds=SECONDS_S,
        ways="\n".join(lines),
        latencies="\n".join(_latencies(way, row) for way, row in zip(WAYS, rows, strict=True)),
        stages="\n".join(_stage_line(each) for each in rows[-1]["stages"]),
        killed=killed,
    )
    sys.stdout.write(page)


def _command(runs: Path, *options: str) -> list[str]:
    base = [
        sys.executable,
        "-m",
        "mansard.cli",
        "multi",
        "run",
        "--local",
        "--profile",
        "brief",
        "--json",
    ]
    return [*base, "--runs", str(runs), *options]


def _measured(folder: Path, mapping: Path, way: tuple[str, str, str, str]) -> list[dict[str, Any]]:
    whole = (*NETWORKS, "--devices", "cpu:0,cpu:1")
    chosen = ("--mapping", str(mapping)) if way[0] == "split" else whole
    options = [*chosen, "--duration", str(SECONDS_S), *way[3].split()]
    done = subprocess.run(_command(folder / "runs", *options), stdout=subprocess.PIPE, check=True)
    return [each["row"] for each in json.loads(done.stdout)["rows"]]


def _way_line(way: tuple[str, str, str, str], row: dict[str, Any]) -> str:
    spent_s: dict[tuple[int, int], float] = defaultdict(float)
    for stage in row["stages"]:
        is_alone = row["order"] == "pipelined"
        spent_s[stage["network_number"], stage["stage"] if is_alone else 0] += _total_s(stage)
    window_s = row["window_s"]
    accounted = sum(spent_s.values()) / len(spent_s) / window_s
    off = max(abs(each_s / window_s - 1) for each_s in spent_s.values())
    rates = " | ".join(f"{each['n_runs'] / window_s:.3g}" for each in row["networks"])
    memory, others = row["memory_bytes"], row["other_cpu_share"]
    return (
        f"| {' | '.join(way[:3])} | {rates} | {100 * accounted:.2f} % | "
        f"{off:.0e} | {'–' if memory is None else f'{memory / 1e6:.0f} MB'} | "
        f"{'–' if others is None else f'{100 * others:.0f} %'} |"
    )


def _latencies(way: tuple[str, str, str, str], row: dict[str, Any]) -> str:
    medians = (f"{1e3 * median(each['latency_s']):.3g}" for each in row["networks"])
    return f"| {' | '.join((*way[:3], *medians))} |"


def _total_s(stage: dict[str, Any]) -> float:
    waits = ("input_wait_s", "device_wait_s", "output_wait_s")
    # Runs times the means of a run: what a reader of the table would add up.
    n_runs = stage["n_runs"]
    means_s = [stage[name] / n_runs for name in ("inference_s", "transfer_s", *waits)]
    return float(n_runs * sum(means_s))


def _stage_line(stage: dict[str, Any]) -> str:
    is_last = stage["stage"] == stage["n_stages"] - 1
    place = stage["device"] if is_last else f"{max(stage['nodes'])} {stage['device']}"
    names = ("inference_s", "transfer_s", "input_wait_s", "output_wait_s", "device_wait_s")
    means = [f"{1e3 * stage[name] / stage['n_runs']:.3g} ms" for name in names]
    return f"| {stage['network']} | `{place}` | {' | '.join(means)} |"


def _kill_and_resume(folder: Path) -> str:
    """A sweep of six drawn mappings, killed when two rows are there; what it says of itself."""
    runs = folder / "killed"
    mapping = str(folder / "drawn.json")
    draw(["draw", *NETWORKS, "--devices", "cpu:0,cpu:1", "-n", "6", "-o", mapping])
    wanted = _command(runs, "--mapping", mapping, "--duration", "3", "--processes")
    process = subprocess.Popen(wanted, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while _n_rows(runs) < 2:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = b"".join(path.read_bytes() for path in runs.glob("*/multi.jsonl"))
    done = subprocess.run(wanted, stdout=subprocess.PIPE, check=True)
    after = b"".join(path.read_bytes() for path in runs.glob("*/multi.jsonl"))
    n_kept = before.count(b"\n") - 1
    is_kept = after.startswith(before[: before.rindex(b"\n") + 1])
    n_printed = len(json.loads(done.stdout)["rows"])
    return (
        f"After SIGKILL in a sweep of six mappings, {n_kept} rows are "
        f"{'unchanged' if is_kept else 'LOST'};\nthe same command measures the others and prints "
        f"{n_printed}."
    )


def _n_rows(runs: Path) -> int:
    return sum(path.read_bytes().count(b"\n") - 1 for path in runs.glob("*/multi.jsonl"))


def _processor() -> str:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names else "this machine"


if __name__ == "__main__":
    main()
