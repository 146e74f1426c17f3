"""A new process whose CuPy answers what the probe asks before it looks at a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_OPENED = """
import sys, types
cupy, cuda = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
cupy.__version__ = "14.2.0"
cuda.runtime = types.SimpleNamespace(runtimeGetVersion=lambda: MAJOR * 1000)
sys.modules |= {"cupy": cupy, "cupy.cuda": cuda}
from mansard.microbench.cuda.probe import open_cupy
library = open_cupy()
"""


def opened(major: int) -> str:
    """Code that opens a CuPy which was built for CUDA ``major``, as ``library``."""
    return _OPENED.replace("MAJOR", str(major))


def run_python(code: str, *folders: Path) -> str:
    """What a new process prints; ``folders`` come before all others that it imports from."""
    path = os.pathsep.join([*map(str, folders), *sys.path])
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment | {"PYTHONPATH": path},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
