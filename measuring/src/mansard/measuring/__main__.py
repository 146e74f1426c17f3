"""``python -m mansard.measuring``: a job goes in as one line, events come out as JSON lines.

This is what runs in a container: it needs what the job's kind needs, and it measures in the
power mode that it finds. It ends with its input. Exit codes: 0 done, 1 failed, 2 wrong usage,
130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mansard.core.signals import turn_signals_into_interrupts
from mansard.device.system import SYSTEM_ROOT
from mansard.measuring.pipe import measure_for_pipe


def main(arguments: list[str] | None = None) -> int:
    """Do the job on standard input; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mansard.measuring", description=__doc__)
    parser.add_argument(
        "--board", type=Path, default=SYSTEM_ROOT, help="root folder of the board's /sys"
    )
    parser.add_argument(
        "--heartbeat", type=float, metavar="S", help="end when stdin is silent for so long"
    )
    options = parser.parse_args(arguments)
    turn_signals_into_interrupts()
    try:
        return measure_for_pipe(options.board, options.heartbeat)
    except KeyboardInterrupt:
        sys.stderr.write("mansard.measuring: interrupted; finished trials are kept\n")
        return 130


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Not sys.exit: an interrupt that a library's own exec() has seen would be the exit code.
    os._exit(code)
