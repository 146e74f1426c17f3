"""What does a window cost the program that it is in?

    python benchmarks/window_cost.py [--windows 10000] [--rounds 5]

``mansard.api.window`` around nothing, in a loop: by itself on a simulated board whose meters are
read meanwhile, and with its lines going to a file as inside ``mansard measure``. Beside it an empty
loop. Microseconds of one window, the least and the median of the rounds. The exit code is 1 where
a window costs 50 µs or more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mansard.inference.programs.windows import VARIABLE
from mansard.simulator import create_board, running

_LIMIT_S = 50e-6
_PROGRAM = """
import sys, time
from pathlib import Path
from statistics import median
from mansard import api
board, n, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
with api.window("first", board): pass
costs = []
for _ in range(rounds):
    start_s = time.perf_counter()
    for _ in range(n): pass
    empty_s = time.perf_counter() - start_s
    start_s = time.perf_counter()
    for _ in range(n):
        with api.window("one", board): pass
    costs.append((time.perf_counter() - start_s - empty_s) / n)
print(min(costs), median(costs))
"""


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    worst_s = 0.0
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "windows"
        lines.touch()
        with running(create_board("agx-orin", Path(folder) / "board")) as board:
            arguments = [str(board), str(options.windows), str(options.rounds)]
            for name, variables in (("by itself", {}), ("in a measure", {VARIABLE: str(lines)})):
                done = subprocess.run(
                    [sys.executable, "-c", _PROGRAM, *arguments],
                    env={**os.environ, **variables},
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                least_s, median_s = map(float, done.stdout.split())
                print(f"{name}: {1e6 * least_s:.2f} µs, median {1e6 * median_s:.2f} µs")
                worst_s = max(worst_s, median_s)
    return int(worst_s >= _LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
