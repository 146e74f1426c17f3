"""How a CUDA C++ kernel is built and laid over the SMs. The text ships beside the code.

A sweep over arrays is laid out as plan_sweep in sources/access.cuh reads it. A thread works on a
tile of some vectors of 16 bytes at a time. With the scope gpu there are up to 1024 threads on an
SM in blocks of 256: enough to have 32 KiB and more in flight, and no more than any GPU holds at
once with 64 registers a thread (CUDA C++ Programming Guide, technical specifications per compute
capability: at least 1024 threads and 65,536 registers an SM), so all blocks stay from the first
repetition to the last. With the scope sm there is one block of 512 threads on every SM, and it
sweeps a piece of its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mansard.core.hashing import file_hash
from mansard.core.records import Family
from mansard.microbench.kernel import Case, Kernel, Launch, Shape

_FOLDER = Path(__file__).parent / "sources"

_SHARED = ("access.cuh", "sweep.cuh")

# For NVRTC 11.4 and newer, which JetPack 5 has. No headers are needed.
OPTIONS = ("--std=c++17",)


def read_source(*names: str) -> str:
    """The files of a kernel as one text, what all kernels share in front."""
    texts = [(_FOLDER / name).read_text(encoding="utf-8") for name in (*_SHARED, *names)]
    return "\n".join(texts)


def hash_source(text: str) -> str:
    """Hash of a kernel's text and of the options it is compiled with."""
    return file_hash("\0".join((text, *OPTIONS)).encode())[:16]


def kernel_without_data(
    name: str, family: Family, counting: str, *, source: str, entry: str, is_graph: bool = False
) -> Kernel:
    """A kernel of one warp without arrays, work and traffic: ``entry`` of the file ``source``."""
    text = read_source(source)
    return Kernel(
        name=name,
        family=family,
        backend="cupy",
        n_arrays=0,
        precisions={"fp32": 50},  # computes nothing; a record needs a name
        launch=lambda _case, _shape: Launch(grid=1, block=32, n_elements=0),
        work_flop=lambda _case, _launch: 0,
        traffic_bytes=lambda _case, _launch: 0,
        counting=f"no access: {counting}",
        pattern=lambda _case, _launch: (),
        reference=lambda _case, _launch, _arrays, _repetitions: (),
        entry=lambda _case: entry,
        source=text,
        source_hash=hash_source(text),
        is_graph=is_graph,
    )


VECTOR_BYTES = 16
GPU_BLOCK = 256
_GPU_BLOCKS_PER_SM = (4, 2, 1)
_SM_BLOCK = 512


def shape_sweep(
    case: Case, shape: Shape, *, n_arrays: int, tile_vectors: int, element_bytes: int
) -> Launch:
    """A grid in which every thread has as many tiles, and arrays of whole rounds of it.

    A working set too small for a tile in each thread takes fewer threads, then grows to one
    tile in each.
    """
    array_bytes = case.working_set_bytes // n_arrays
    block = GPU_BLOCK if case.scope == "gpu" else _SM_BLOCK
    tile_bytes = block * tile_vectors * VECTOR_BYTES
    grid = shape.n_sms
    if case.scope == "gpu":
        fitting = [k for k in _GPU_BLOCKS_PER_SM if k * shape.n_sms * tile_bytes <= array_bytes]
        grid *= fitting[0] if fitting else _GPU_BLOCKS_PER_SM[-1]
    n_rounds = max(1, array_bytes // (grid * tile_bytes))
    return Launch(
        grid=grid,
        block=block,
        n_elements=n_rounds * grid * tile_bytes // element_bytes,
        fma_per_element=case.fma_per_element or 0,
        array_bytes=(n_rounds * grid * tile_bytes,) * n_arrays,
    )


def numba_function(name: str, *arguments: object) -> Any:
    """What a function of numba_functions.py makes for the card at hand; in the simulator as is."""
    from mansard.microbench.cuda import numba_functions

    return getattr(numba_functions, name)(*arguments)


def in_numba(kernel: Kernel, name: str, *arguments: object) -> Kernel:
    """The same kernel in Python, made by the function ``name`` of numba_functions.py."""
    source = Path(__file__).with_name("numba_functions.py").read_text(encoding="utf-8")
    return replace(
        kernel,
        backend="numba-cuda",
        entry=lambda case: case.kernel,
        source=source,
        source_hash=hash_source(source),
        scopes=("gpu",),
        level_scopes=("gpu",),
        build=lambda _case: numba_function(name, *arguments),
    )
