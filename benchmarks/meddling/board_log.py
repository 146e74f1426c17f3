"""What a simulated board's clocks, cores and governors are, from its files alone, over time.

``python board_log.py ROOT`` prints a line for each change, with the time on the monotonic clock,
until its input ends. It uses no code of Mansard.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from bisect import bisect_right
from pathlib import Path
from typing import IO

CPU = "sys/devices/system/cpu"
EMC_RATE = "sys/kernel/debug/bpmp/debug/clk/emc/rate"
BWMGR = "sys/class/devfreq/bwmgr/cur_freq"
_PERIOD_S = 0.002
_LAST_S = 0.05  # after which the last change is in the log

State = dict[str, str]


def gpu_folders(root: Path) -> list[Path]:
    """The devfreq folders of the GPU."""
    return [path for path in sorted((root / "sys/class/devfreq").iterdir()) if path.name != "bwmgr"]


def _files(root: Path) -> dict[str, Path]:
    found = {f"online{path.parent.name}": path for path in (root / CPU).glob("cpu[0-9]*/online")}
    for policy in (root / CPU / "cpufreq").glob("policy*"):
        found[f"clock {policy.name}"] = policy / "scaling_cur_freq"
        found[f"governor {policy.name}"] = policy / "scaling_governor"
    for folder in gpu_folders(root):
        found[f"clock {folder.name}"] = folder / "cur_freq"
    memory = root / BWMGR if (root / BWMGR).exists() else root / EMC_RATE
    found["clock memory"] = memory
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def write_log(root: Path, out: IO[str]) -> None:
    """Print every change until the input ends."""
    files = _files(root)
    cores = {
        path.name: [f"onlinecpu{cpu}" for cpu in (path / "related_cpus").read_text().split()]
        for path in (root / CPU / "cpufreq").glob("policy*")
    }
    state: State = {}
    shown: State = {}
    while not select.select([sys.stdin], [], [], _PERIOD_S)[0]:
        now_s = time.monotonic()
        # A file that is being written is empty for a moment: it keeps what it was.
        state |= {name: text for name, path in files.items() if (text := _read(path))}
        # A cluster whose cores are all off has no clock.
        off = {name for name, mine in cores.items() if all(state.get(m, "1") == "0" for m in mine)}
        seen = {name: text for name, text in state.items() if name.rpartition(" ")[2] not in off}
        if seen != shown:
            shown = seen
            out.write(json.dumps([now_s, seen]) + "\n")
            out.flush()


class BoardLog:
    """``with BoardLog(root, file) as log: …``: the log of a board, kept by a process of its own."""

    def __init__(self, root: Path, file: Path) -> None:
        self._file = file
        with file.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(root)], stdin=subprocess.PIPE, stdout=out
            )

    def __enter__(self) -> BoardLog:
        while not self._file.read_text().endswith("\n"):
            time.sleep(_PERIOD_S)
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(_LAST_S)
        self._process.communicate()

    def states(self) -> list[tuple[float, State]]:
        """Each state with the time from which on it was."""
        lines = self._file.read_text().splitlines()
        return [(at_s, state) for at_s, state in map(json.loads, lines)]


def states_within(states: list[tuple[float, State]], start_s: float, end_s: float) -> list[State]:
    """Every state that the board was in from ``start_s`` to ``end_s``."""
    times_s = [at_s for at_s, _ in states]
    first, last = bisect_right(times_s, start_s) - 1, bisect_right(times_s, end_s)
    return [state for _, state in states[max(first, 0) : last]]


if __name__ == "__main__":
    write_log(Path(sys.argv[1]), sys.stdout)
