"""``python -m mansard.inference --probe ENGINE``: an engine's version and providers, as JSON.

It runs on a board, in a container or not. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys

from mansard.core.processes.line_channel import encode_line, give_stdout_to_data
from mansard.inference.engines import ENGINES, find_engine


def main(arguments: list[str] | None = None) -> int:
    """Print the probe of the engine, in one line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mansard.inference", description=__doc__)
    parser.add_argument("--probe", choices=sorted(ENGINES), required=True, help="the engine")
    options = parser.parse_args(arguments)
    sys.stdout.buffer.write(encode_line(find_engine(options.probe).probe()))
    return 0


if __name__ == "__main__":
    give_stdout_to_data()
    sys.exit(main())
