"""Lines of tegrastats a second, against the plainest regex loop and jetson-stats' parser.

    python benchmarks/telemetry.py [--lines 100000] [--runs 5] [--peer-python PYTHON] [LOG ...]

Made-up logs of five families, or the LOGs. All sides read the same file on one core, each
run in a process of its own, taking turns. CPU time counts, of the fastest run of each side:
what slows a run down is the machine and not the parser. The ratio is our lines a second over
theirs. ``--peer-python`` is an interpreter that has jetson-stats; without it one is set up
in a folder that is removed afterwards, and where that cannot be, a line says so. At the
end: our peak memory over LINES and ten times as many.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from telemetry_sides.logs import FAMILIES, write_log

PEER = "jetson-stats==7.2.2"  # the newest in November 2026; its parser still reads lines
WORKER = Path(__file__).parent / "telemetry_sides/worker.py"
MIB = 1 << 20


def main() -> None:
    """Run all logs and print the table."""
    parser = argparse.ArgumentParser(description="Parsers of tegrastats' lines")
    parser.add_argument("logs", nargs="*", type=Path)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer-python", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = arguments.peer_python or _peer_python(folder / "peer")
        sides = {"ours": Path(sys.executable), "plain": Path(sys.executable)}
        if peer is not None:
            sides["jtop"] = peer
        print(f"{'log':28} {'chars':>6} {'ours/s':>9} {'regex/s':>9} {'ratio':>6} ", end="")
        print(f"{'jtop/s':>9} {'ratio':>6}")
        for log in arguments.logs or _made_up(folder, arguments.lines):
            _print_row(log, sides, arguments.runs)
        _print_memory(folder, arguments.lines)


def _made_up(folder: Path, n_lines: int) -> list[Path]:
    logs = []
    for name, family in FAMILIES.items():
        logs.append(folder / f"{name}.log")
        write_log(logs[-1], family, n_lines)
    return logs


def _peer_python(folder: Path) -> Path | None:
    """An interpreter with jetson-stats; None where it cannot be installed."""
    try:
        venv.create(folder, with_pip=True)
        python = folder / "bin/python"
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PEER],
            check=True,
            capture_output=True,
        )
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"{PEER} cannot be installed here ({error}): no comparison", file=sys.stderr)
        return None
    return python


def _run(side: str, python: Path, log: Path) -> dict[str, Any]:
    done = subprocess.run(
        [python, WORKER, side, log], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _print_row(log: Path, sides: dict[str, Path], n_runs: int) -> None:
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(n_runs):
        for side, python in sides.items():
            found = _run(side, python, log)
            rates[side].append(found["n_lines"] / found["cpu_s"])
    best = {side: max(found) for side, found in rates.items()}
    n_chars = log.stat().st_size / max(1, sum(1 for _ in log.open("rb")))
    cells = [f"{best['ours']:9.0f}"]
    for side in ("plain", "jtop"):
        rate = best.get(side)
        cells += (
            ["        –      –"] if rate is None else [f"{rate:9.0f} {best['ours'] / rate:6.1f}"]
        )
    print(f"{log.stem[:28]:28} {n_chars:6.0f} {' '.join(cells)}", flush=True)


def _print_memory(folder: Path, n_lines: int) -> None:
    for factor in (1, 10):
        log = folder / "memory.log"
        write_log(log, FAMILIES["TX2 r32"], factor * n_lines)
        peak_bytes = _run("ours", Path(sys.executable), log)["peak_bytes"]
        print(f"peak memory over {factor * n_lines} lines: {peak_bytes / MIB:.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
