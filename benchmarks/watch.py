"""What does it cost to watch a board, and does it stay as small as it was?

    python benchmarks/watch.py [--hours 24] [--results FILE]

The looks of 24 hours at a simulated AGX Orin, one a second on a clock that does not wait: its files
are written anew before each look (loads, clocks, rails, temperatures; it throttles for a minute in
every ten). Each look is drawn on a screen of 80 by 24 and handed to the exporter, which answers a
scrape every 15 looks. The CPU time of looks, screen and exporter is counted, that of writing the
board's files is not. Memory: resident bytes and Python's allocated blocks after the first hour and
after the last. Then 600 looks that are recorded as well, in each format.

The exit code is 1 where a look costs 20 ms or more of CPU (2 % of a core at 1 Hz), or where the
blocks have grown by more than 1 %.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

from mansard.api.exporter import Exporter
from mansard.api.watching import record_samples
from mansard.cli.board.watch import WatchScreen
from mansard.core.clock import VirtualClock
from mansard.core.records import BoardSample
from mansard.device.watching import BoardWatch, samples
from mansard.simulator import create_board

_LIMIT_S = 20e-3
_MOST_GROWTH = 0.01
_SCRAPE_EVERY = 15
_N_RECORDED = 600
_JIFFIES_PER_S = 100


class MovingBoard:
    """A simulated board whose readings this process writes."""

    def __init__(self, root: Path) -> None:
        self.root, self._random = root, Random(1)
        self._zones = [*root.glob("sys/class/thermal/thermal_zone*/temp")]
        self._coolers = [
            path
            for path in root.glob("sys/class/thermal/cooling_device*/cur_state")
            if "alert" in (path.parent / "type").read_text()
        ]
        self._rails = [*root.glob("sys/class/hwmon/hwmon*/curr[1-3]_input")]
        self._clocks = [*root.glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq")]
        self._load = next(root.glob("sys/devices/platform/bus@0/*.gpu/load"))
        self._busy = [0] * 12
        self._idle = [0] * 12

    def move(self, second: int) -> None:
        """Another second of work."""
        hot = second % 600 < 60
        draw = self._random.randint
        for path in self._zones:
            path.write_text(f"{draw(96_000, 98_000) if hot else draw(50_000, 60_000)}\n")
        for path in self._coolers:
            path.write_text(f"{int(hot)}\n")
        for path in self._rails:
            path.write_text(f"{draw(200, 2000)}\n")
        for path in self._clocks:
            path.write_text(f"{1_036_800 if hot else draw(729_600, 1_728_000)}\n")
        self._load.write_text(f"{draw(0, 1000)}\n")
        lines = ["cpu  0 0 0 0 0 0 0 0 0 0"]
        for cpu in range(12):
            busy = draw(0, _JIFFIES_PER_S)
            self._busy[cpu] += busy
            self._idle[cpu] += _JIFFIES_PER_S - busy
            lines.append(f"cpu{cpu} {self._busy[cpu]} 0 0 {self._idle[cpu]} 0 0 0 0 0 0")
        (self.root / "proc/stat").write_text("\n".join(lines) + "\n")


def main() -> int:
    """Watch, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--results", type=Path, help="file to write, such as docs/results/watch.md")
    options = parser.parse_args()
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        board = MovingBoard(create_board("agx-orin", Path(folder)))
        cost_s, growth = _watch_for_hours(board, round(options.hours * 3600), lines.append)
        for ending in (".csv", ".jsonl"):
            _record(board, Path(folder) / f"looks{ending}", lines.append)
    text = "\n".join(lines)
    print(text)
    if options.results is not None:
        options.results.write_text(f"{_HEAD}\n\n{text}\n")
    return int(cost_s >= _LIMIT_S or growth > _MOST_GROWTH)


def _watch_for_hours(
    board: MovingBoard, n_looks: int, say: Callable[[str], None]
) -> tuple[float, float]:
    """CPU seconds of one look, and by how much the blocks have grown since the first hour."""
    exporter = Exporter()
    registry = CollectorRegistry()
    registry.register(exporter)
    null = Path(os.devnull).open("w")  # noqa: SIM115 - until the end of the process
    shown = WatchScreen(Console(file=null, force_terminal=True, width=80, height=24), (), 1.0)
    costs_s = {"look": 0.0, "screen": 0.0, "exporter": 0.0}
    at_hour = [_memory()]
    with shown:
        for at, (sample, look_s) in enumerate(_looks(board, n_looks), 1):
            start_s = time.thread_time()
            shown.take(sample)
            drawn_s = time.thread_time()
            exporter.take(sample)
            if at % _SCRAPE_EVERY == 0:
                generate_latest(registry)
            costs_s["look"] += look_s
            costs_s["screen"] += drawn_s - start_s
            costs_s["exporter"] += time.thread_time() - drawn_s
            if at == min(3600, n_looks // 2):
                at_hour.append(_memory())
    at_hour.append(_memory())
    whole_s = sum(costs_s.values()) / n_looks
    say(f"{n_looks} looks at a simulated AGX Orin, {n_looks / 3600:g} hours at 1 Hz.\n")
    say("| CPU of one look | ms |\n|---|---|")
    for name, seconds in costs_s.items():
        say(f"| {name} | {1e3 * seconds / n_looks:.2f} |")
    say(f"| all of it | {1e3 * whole_s:.2f} ({100 * whole_s:.2f} % of a core at 1 Hz) |\n")
    say("| after | resident MB | Python's blocks | threads | open files |\n|---|---|---|---|---|")
    for name, found in zip(("the start", "the first hour", "the last hour"), at_hour, strict=True):
        say(f"| {name} | {found[0] / 1e6:.1f} | {found[1]} | {found[2]} | {found[3]} |")
    return whole_s, at_hour[2][1] / at_hour[1][1] - 1


def _looks(board: MovingBoard, n_looks: int) -> Iterator[tuple[BoardSample, float]]:
    """Each look with the CPU seconds that it took; the board has moved before it."""
    clock = VirtualClock(0.0)
    watch = BoardWatch(board.root, clock=clock.now_s)

    def look() -> tuple[BoardSample, float]:
        board.move(round(clock.now_s()))
        start_s = time.thread_time()
        sample = watch.read()
        return sample, time.thread_time() - start_s

    def wait(seconds: float) -> bool:
        clock.sleep(seconds)
        return False

    return samples(look, interval_s=1.0, n_samples=n_looks, clock=clock.now_s, wait=wait)


def _record(board: MovingBoard, path: Path, say: Callable[[str], None]) -> None:
    cost_s = 0.0
    with record_samples(path) as file:
        for sample, _ in _looks(board, _N_RECORDED):
            start_s = time.thread_time()
            file.take(sample)
            cost_s += time.thread_time() - start_s
    size = path.stat().st_size / _N_RECORDED
    cost = f"{1e3 * cost_s / _N_RECORDED:.2f} ms of CPU and {size:.0f} bytes a look"
    a_day = f"{size * 86_400 / 1e6:.0f} MB a day at 1 Hz"
    say(f"\nRecording as `{path.suffix}`: {cost}, {a_day}.")


def _memory() -> tuple[int, int, int, int]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    resident = pages * os.sysconf("SC_PAGE_SIZE")
    n_open = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone
    return resident, sys.getallocatedblocks(), threading.active_count(), n_open


_HEAD = """# What watching a board costs

`python benchmarks/watch.py --results docs/results/watch.md` on two shared CPUs, with a simulated
board: CPU time of the process, without the I2C time of real sensors."""


if __name__ == "__main__":
    sys.exit(main())
