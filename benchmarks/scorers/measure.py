"""What one scoring of one file by one tool costs, as a whole process, seen from outside.

CPU time is user and system time from the start of the interpreter to its end, with child
processes (``os.wait4``); wall time likewise.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

TIMEOUT_S = 120
_HERE = Path(__file__).resolve().parents[1]
COMMAND = "mansard score"  # the side that is our command, as a user types it


@dataclass(frozen=True)
class Run:
    """What one scoring took and found, or why there is none; of our command the time alone."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    flop: int = 0
    error: str | None = None


def run_apart(side: str, path: Path) -> Run:
    """Score ``path`` with ``side`` in a new process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        started_s = time.monotonic()
        process = subprocess.Popen(
            _command(side, path), stdout=out, stderr=told, cwd=_HERE, env=_environment()
        )
        limit = threading.Timer(TIMEOUT_S, process.kill)
        limit.start()
        _, status, used = os.wait4(process.pid, 0)
        limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - started_s
        out.seek(0)
        told.seek(0)
        if process.returncode != 0:
            last = (told.read().decode(errors="replace").splitlines() or ["no message"])[-1]
            return Run(error=last[:120])
        cpu_s = used.ru_utime + used.ru_stime
        if side == COMMAND:
            return Run(cpu_s, wall_s)
        flop, peak_bytes = map(int, out.read().split())
        return Run(cpu_s, wall_s, peak_bytes, flop)


def _command(side: str, path: Path) -> Sequence[str]:
    if side == COMMAND:
        return (str(Path(sys.executable).with_name("mansard")), "score", str(path))
    return (sys.executable, "-m", "scorers.alone", side, str(path))


@cache
def _caches() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def _environment() -> dict[str, str]:
    """Bytecode is kept for all tools alike: an installed tool has it, a checkout may not."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": _caches().name}


def middle(runs: list[Run]) -> Run:
    """The medians of several runs; a failed one makes all failed."""
    failed = next((run for run in runs if run.error), None)
    if failed is not None:
        return failed
    return Run(
        median(run.cpu_s for run in runs),
        median(run.wall_s for run in runs),
        int(median(run.peak_bytes for run in runs)),
        runs[0].flop,
    )


def spread(runs: list[Run]) -> float:
    """Half the range of the CPU times over their median: the machine's noise."""
    times = [run.cpu_s for run in runs if run.error is None]
    return (max(times) - min(times)) / 2 / median(times) if times and median(times) else 0.0
