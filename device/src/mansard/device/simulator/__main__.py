"""``python -m mansard.device.simulator ROOT``: switch a simulated board on."""

from __future__ import annotations

import sys
from pathlib import Path

from mansard.core.errors import MansardError
from mansard.device.simulator.daemon import serve


def main(arguments: list[str]) -> int:
    """The exit code."""
    if len(arguments) != 1:
        sys.stderr.write("give the root of a simulated board\n")
        return 2
    try:
        serve(Path(arguments[0]), sys.stdout)
    except MansardError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
