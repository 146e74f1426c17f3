"""The program that runs under Nsight Compute: a network is loaded, warmed up, and called.

``python -m mansard.inference.counters.profiled JOB RESULT ALIVE``: only the calls lie between
cuProfilerStart and cuProfilerStop, each in an NVTX range of its own. It ends when the pipe ALIVE
has no writer any more: then the process that started ``ncu`` is gone. Exit codes: 0 done, 1 the
network cannot be run, which RESULT says.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from mansard.core.errors import MansardError, MeasurementError
from mansard.core.formats.ncu import call_range
from mansard.core.processes.line_channel import LineReader
from mansard.core.records import Record, Schema
from mansard.inference.engines import find_engine
from mansard.inference.inputs import make_inputs
from mansard.inference.plan import CounterTrial

_N_WARM = 3  # the first call allocates and chooses kernels; a CUDA library may do so in the second
# NVTX 2, which CUDA 13 no longer has, and NVTX 3 export the same functions. NVIDIA's wheels keep
# them in nvidia/nvtx/lib or nvidia/cu13/lib, where neither the loader nor cuda-pathfinder looks.
_NVTX_LIBRARIES = ("libnvToolsExt.so.1", "libnvtx3interop.so.1")
_NVTX_FUNCTIONS = ("nvtxRangePushA", "nvtxRangePop")


class ProfiledJob(Record, frozen=True, kw_only=True):
    """One trial to profile; ``folder`` holds the files that it names."""

    schema: ClassVar[Schema] = Schema("profiled-job", 1)

    trial: CounterTrial
    folder: str
    seed: int
    n_threads: int


class ProfiledResult(Record, frozen=True, kw_only=True):
    """The result of the job."""

    schema: ClassVar[Schema] = Schema("profiled-result", 1)

    failure: str | None
    options: dict[str, str]


def run_job(job: ProfiledJob) -> ProfiledResult:
    """Load the network and call it, counted; raises MansardError where it cannot be run."""
    trial, folder = job.trial, Path(job.folder)
    network = find_engine(trial.engine).load(
        trial, folder, make_inputs(trial, folder, job.seed), job.n_threads
    )
    try:
        for _ in range(_N_WARM):
            network.call()
        ranged = _nvtx()
        with nullcontext() if trial.provider == "cpu" else counted():
            for number in range(trial.n_calls):
                with nullcontext() if ranged is None else ranged(call_range(number)):
                    network.call()
        return ProfiledResult(
            failure=None,
            options=dict(network.options),
            unknown={"failure": "it ran"},
        )
    finally:
        network.close()


@contextmanager
def counted() -> Iterator[None]:
    """A block in which counters are read: CUDA Driver API, "Profiler Control"."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise MeasurementError(f"no NVIDIA driver answers: {error}") from error
    _check(cuda.cuProfilerStart(), "cuProfilerStart")
    try:
        yield
    finally:
        _check(cuda.cuProfilerStop(), "cuProfilerStop")


def _check(code: int, name: str) -> None:
    if code:
        raise MeasurementError(f"{name} fails with CUDA error {code}")


def _nvtx() -> Callable[[str], AbstractContextManager[Any]] | None:
    """A context manager for NVTX ranges, by the package nvtx or CUDA's library, or None."""
    try:
        ranged: Callable[[str], AbstractContextManager[Any]] = import_module("nvtx").annotate
    except (ImportError, AttributeError):
        pass
    else:
        return ranged
    library = _nvtx_library()
    if library is None:
        return None

    @contextmanager
    def in_range(text: str) -> Iterator[None]:
        library.nvtxRangePushA(text.encode())
        try:
            yield
        finally:
            library.nvtxRangePop()

    return in_range


def _nvtx_library() -> ctypes.CDLL | None:
    """The NVTX library: from NVIDIA's wheel in this Python, or where the loader finds it."""
    wheels = find_spec("nvidia")
    folders = (wheels.submodule_search_locations or ()) if wheels is not None else ()
    for name in _NVTX_LIBRARIES:
        installed = (str(path) for folder in folders for path in Path(folder).glob(f"*/lib/{name}"))
        for place in (*sorted(installed), name):
            with suppress(OSError):
                library = ctypes.CDLL(place)
                if all(hasattr(library, function) for function in _NVTX_FUNCTIONS):
                    return library
    return None


def _end_with(alive: str) -> None:
    """End this process when the other end of the pipe is closed."""
    handle = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)

    def watch() -> None:
        LineReader(handle).wait_for_end()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(job_file: str, result_file: str, alive: str) -> int:
    """Run the job in a file; returns the exit code."""
    os.dup2(2, 1)  # standard output is the table of counters: ncu writes it there
    _end_with(alive)
    try:
        result = run_job(msgspec.json.decode(Path(job_file).read_bytes(), type=ProfiledJob))
    except (MansardError, MemoryError) as error:
        failure = str(error) or "too little memory"
        result = ProfiledResult(failure=failure, options={})
    Path(result_file).write_bytes(msgspec.json.encode(result))
    return 0 if result.failure is None else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
