"""One parser over one log, in a process of its own: lines, seconds and peak memory as JSON.

    python worker.py ours|plain|jtop LOG

``jtop`` is the parser of jetson-stats, called as its thread calls it; it runs in an
environment of its own, so nothing of it is imported here before it is asked for.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the side that the command line names."""
    side, log = sys.argv[1], Path(sys.argv[2])
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    count = {"ours": _ours, "plain": _plain, "jtop": _jtop}[side]()
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    n_lines = count(log)
    found = {
        "n_lines": n_lines,
        "wall_s": time.perf_counter() - start_s,
        "cpu_s": time.process_time() - start_cpu_s,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(found))


def _ours() -> Callable[[Path], int]:
    from mansard.device.tegrastats import stream
    from mansard.device.tegrastats.files import read_lines

    return lambda log: sum(1 for _ in stream(read_lines(log)))


def _plain() -> Callable[[Path], int]:
    from telemetry_sides.plain import parse

    return lambda log: _each(log, parse)


def _jtop() -> Callable[[Path], int]:
    # By name: it is no dependency of ours, and its types are not known here.
    jtop = importlib.import_module("jtop.core.tegrastats")
    return lambda log: _each(log, jtop.Tegrastats(print, "")._decode)


def _each(log: Path, parse: Callable[[str], Any]) -> int:
    n_lines = 0
    with log.open(encoding="utf-8") as stream:
        for line in stream:
            parse(line)
            n_lines += 1
    return n_lines


if __name__ == "__main__":
    main()
