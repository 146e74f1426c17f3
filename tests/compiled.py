"""Compiles what in a fresh checkout each worker would compile for itself, all at the same moment.

``make test`` runs it while packages are still being installed: the bytecode of all tests, 10 CPU
seconds, and the machine code of the searches for schedules, 12. What fails here fails in the tests.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest

from mansard import api

_PROBLEM = """
[[accelerator]]
name = "gpu"
kind = "gpu"
[[accelerator]]
name = "dla"
kind = "dla"
[[network]]
model = "a"
group = [{time = {gpu = "1ms", dla = "3ms"}}, {time = {gpu = "1ms", dla = "2ms"}}]
[[network]]
model = "b"
group = [{time = {gpu = "4ms", dla = "5ms"}}]
"""


def main() -> None:
    """Import every test, then search for the schedules of a small problem."""
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "tests.txt").open("w") as names, contextlib.redirect_stdout(names):
            pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider"])
        problem = Path(folder, "problem.toml")
        problem.write_text(_PROBLEM, "utf-8")
        for method in ("exact", "first_come", "local"):
            api.schedule(api.ScheduleRequest(problem=problem, method=method))


if __name__ == "__main__":
    main()
