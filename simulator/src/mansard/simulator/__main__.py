"""``python -m mansard.simulator ROOT``: switch a simulated board on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mansard.core.errors import MansardError
from mansard.simulator.daemon import serve


def main(arguments: list[str]) -> int:
    """The exit code."""
    if len(arguments) not in {1, 2} or not all(map(str.isdigit, arguments[1:])):
        sys.stderr.write("give the root of a simulated board\n")
        return 2
    try:
        # The starting process gives its own id: it may have ended before getppid is called.
        parent = int(arguments[1]) if len(arguments) > 1 else os.getppid()
        serve(Path(arguments[0]), sys.stdout, parent)
    except MansardError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
