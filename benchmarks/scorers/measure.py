"""One scoring of one file by one tool, in a process of its own.

    python -m scorers.measure SIDE MODEL

Prints one JSON line. CPU time is user and system time of the whole process, wall time
from its first statement on, memory the kernel's high-water mark (VmHWM of
/proc/self/status: ru_maxrss is inherited from the parent and would be wrong).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median

TIMEOUT_S = 120
_HERE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Run:
    """What one scoring took and found, or why there is none."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    flop: int = 0
    error: str | None = None


def run_apart(side: str, path: Path) -> Run:
    """Score ``path`` with ``side`` in a new process."""
    command = [sys.executable, "-m", "scorers.measure", side, str(path)]
    started_s = time.monotonic()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            cwd=_HERE,
            env=_environment(),
        )
    except subprocess.TimeoutExpired:
        return Run(error=f"no answer within {TIMEOUT_S} s")
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Run(error=last[:120])
    return Run(**{**json.loads(lines[-1]), "wall_s": time.monotonic() - started_s})


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


def _main() -> None:
    from scorers.sides import SIDES

    side, path = sys.argv[1:]
    with contextlib.redirect_stdout(io.StringIO()):  # some tools print as they go
        flop = SIDES[side](path)
    print(json.dumps(asdict(Run(time.process_time(), 0.0, _peak_bytes(), flop))))


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/self/status has no VmHWM")


if __name__ == "__main__":
    _main()
