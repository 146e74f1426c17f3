"""What the tests and the processes that they start find in their environment.

Imported first: libraries read it as they are imported.
"""

from __future__ import annotations

import os
import sys

# Tests share the cores with one another, and with boards whose meters are read while kernels run.
# OpenBLAS's threads spin while they wait for one another: 5 of the 7.7 CPU seconds of a
# calibration. Frames that take every core for a second leave gaps in the readings.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

# `make test` runs several jobs; a make that a test starts is none of them.
for _name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
    os.environ.pop(_name, None)

# Hundreds of tests start a process that imports this project, and each would compile it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
