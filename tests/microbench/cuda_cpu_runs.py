"""The CUDA C++ sources compiled for the CPU, where their results can be looked at."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mansard.microbench.cuda import building
from mansard.microbench.kernel import Array, Case, Kernel, Launch

_HERE = Path(__file__).parent
_SOURCES = Path(building.__file__).parent / "sources"


def _has_compiler() -> bool:
    """Whether there is a g++ with C++20's barriers: 11 or newer."""
    if shutil.which("g++") is None:
        return False
    version = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True)
    return int(version.stdout.split(".")[0]) >= 11


has_compiler = _has_compiler()


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


@cache
def compile_for_cpu(
    source: str, entries: tuple[str, ...], runner: str = "RUN", sm: int | None = None
) -> ctypes.CDLL:
    """A library with ``run_<entry>`` for each entry of a file in sources/.

    ``sm``: the architecture the text is to be for, where it has several versions.
    """
    text = "\n".join(
        [
            '#include "cuda_on_cpu.h"',
            *((_SOURCES / name).read_text() for name in ("sweep.cuh", source)),
            *(f"{runner}({entry})" for entry in entries),
        ]
    )
    base = Path(_folder().name) / f"{sm or 'any'}_{source}"
    base.write_text(text)
    library = base.with_suffix(".so")
    defined = () if sm is None else (f"-D__CUDA_ARCH__={10 * sm}",)
    options = ("-std=c++20", "-O2", "-ffp-contract=off", "-w", "-shared", "-fPIC", "-pthread")
    subprocess.run(
        ["g++", *options, *defined, "-I", str(_HERE), "-x", "c++", str(base), "-o", str(library)],
        check=True,
    )
    return ctypes.CDLL(str(library))


def fill(pattern: Array, n_bytes: int) -> Array:
    """The pattern repeated until the array is full."""
    return np.resize(pattern, n_bytes // pattern.itemsize)


def run_on_cpu(
    library: ctypes.CDLL,
    kernel: Kernel,
    case: Case,
    launch: Launch,
    launches: tuple[int, ...],
) -> tuple[tuple[Array, ...], tuple[Array, ...], Array]:
    """What the arrays hold before and after launches of so many repetitions, and the clock."""
    patterns = kernel.pattern(case, launch)
    before = tuple(fill(p, n) for p, n in zip(patterns, launch.array_bytes, strict=True))
    arrays = tuple(array.copy() for array in before)
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    addresses += [ctypes.c_void_p(None)] * (3 - len(arrays))
    for number in range(3):  # accesses elsewhere end the program
        n_bytes = arrays[number].nbytes if number < len(arrays) else 0
        library.set_array(number, addresses[number], ctypes.c_longlong(n_bytes))
    clock = np.zeros(2, dtype=np.uint64)
    function = getattr(library, f"run_{kernel.entry(case)}")
    for repetitions in launches:
        function(
            launch.grid,
            launch.block,
            *addresses,
            ctypes.c_longlong(launch.n_elements),
            launch.fma_per_element,
            repetitions,
            ctypes.c_void_p(clock.ctypes.data),
        )
    return before, arrays, clock
