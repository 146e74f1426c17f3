"""Peak memory of commands under attack, beside the same commands on usual input.

    python benchmarks/memory_attacks.py [PART_OF_A_NAME ...]

Each case runs twice, each time as a process of its own: on usual input and on input made to fill
the memory. Peak memory is that process's largest resident set, or that of the largest of the
processes it waited for. An attack has to stay within 500 MB over the usual, end by itself, and
say what it has to say in a few lines. The stand-in of an engine has no image, so that its usual
end is one line too. The last column has the end of what it said. Needs about 3 GB of disk for the
time of a case.

Cases stand in ``memory_cases``, one file a room: a list ``CASES`` of ``Case``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from memory_cases.analytics import CASES as ANALYTICS
from memory_cases.case import Case
from memory_cases.containers import CASES as CONTAINERS
from memory_cases.programs import CASES as PROGRAMS

CASES: tuple[Case, ...] = (*ANALYTICS, *CONTAINERS, *PROGRAMS)
MOST_OVER_MB = 500
MOST_LINES = 10
_ENTRY = "import sys; from mansard.cli.__main__ import main; sys.exit(main())"
_MOST_KIB = 6 << 20  # resident: an attack that succeeds ends here, not the machine


@dataclass(frozen=True)
class Found:
    """How one process ended: peak memory, time, and the last words of its messages."""

    peak_mb: float
    seconds: float
    ended: str
    words: str
    n_lines: int


def main() -> int:
    """Run the cases that are named, or all; 1 if one takes too much."""
    parser = argparse.ArgumentParser(description="Peak memory under attack")
    parser.add_argument("names", nargs="*", help="parts of names of cases")
    names = parser.parse_args().names
    print(f"{'case':<38} {'usual MB':>9} {'attack MB':>10} {'over':>6} {'s':>6}  end")
    is_fine = True
    for case in CASES:
        if not names or any(name in case.name for name in names):
            is_fine &= _compare(case)
    return 0 if is_fine else 1


def _compare(case: Case) -> bool:
    usual, attack = _measure(case, is_attack=False), _measure(case, is_attack=True)
    over_mb = attack.peak_mb - usual.peak_mb
    is_fine = over_mb <= MOST_OVER_MB and attack.ended.startswith("exit")
    is_fine &= attack.n_lines <= MOST_LINES and usual.ended.startswith("exit")
    verdict = "" if is_fine else f"TOO MUCH (usual: {usual.ended}): "
    print(
        f"{case.name:<38} {usual.peak_mb:9.0f} {attack.peak_mb:10.0f} {over_mb:6.0f} "
        f"{attack.seconds:6.1f}  {verdict}{attack.ended}: {attack.words}",
        flush=True,
    )
    return is_fine


def _measure(case: Case, *, is_attack: bool) -> Found:
    with tempfile.TemporaryDirectory(prefix="mansard-memory-") as name:
        folder = Path(name)
        (folder / "input").mkdir()
        # In a process of its own: a child's peak begins with what its parent had.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            run = pool.apply(case.prepare, (folder / "input", is_attack))
        command = list(run.command)
        if command[0] == "mansard":
            command = [sys.executable, "-c", _ENTRY, *command[1:]]
        said = folder / "said"
        start_s = time.monotonic()
        with said.open("wb") as stream:
            process = subprocess.Popen(
                command,
                cwd=folder / "input",
                env={**os.environ, **run.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                start_new_session=True,
            )
            status, peak_kib = _wait(process, start_s + case.limit_s)
        lines = said.read_text(errors="replace").splitlines()
    signalled = os.WIFSIGNALED(status)
    return Found(
        peak_mb=peak_kib * 1024 / 1e6,
        seconds=time.monotonic() - start_s,
        ended=f"signal {os.WTERMSIG(status)}" if signalled else f"exit {os.WEXITSTATUS(status)}",
        words=" ".join((lines or [""])[-1].split())[-160:],
        n_lines=len(lines),
    )


def _wait(process: subprocess.Popen[bytes], end_s: float) -> tuple[int, int]:
    """The exit status and the peak memory in KiB.

    The process and its own are killed at ``end_s``, or when it fills the memory.
    """
    while True:
        found, status, usage = os.wait4(process.pid, os.WNOHANG)
        if found:
            process.returncode = os.waitstatus_to_exitcode(status)
            return status, usage.ru_maxrss
        if time.monotonic() > end_s or _resident_kib(process.pid) > _MOST_KIB:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.02)


def _resident_kib(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


if __name__ == "__main__":
    sys.exit(main())
