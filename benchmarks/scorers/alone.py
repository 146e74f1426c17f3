"""One scoring of one file by one tool as a whole program: the least that a user of it would write.

    python -m scorers.alone SIDE MODEL

Prints the FLOP of products and convolutions and the peak of memory in bytes (VmHWM of
/proc/self/status: ru_maxrss is inherited from the parent and would be wrong).
"""

import sys
from pathlib import Path

from scorers.sides import SIDES


def _peak_bytes() -> int:
    with Path("/proc/self/status").open() as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr  # some tools print as they go
    flop = SIDES[sys.argv[1]](sys.argv[2])
    print(flop, _peak_bytes(), file=out)
