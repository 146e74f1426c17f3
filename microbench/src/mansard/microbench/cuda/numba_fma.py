"""The chains of fused multiply-adds again, written in Python and compiled by Numba.

Work, traffic, values and references are those of fma.py, so the two can be compared on one
card. Numba has no accesses of 128 bits: neighbouring threads load neighbouring words. A
thread has 8 chains in flight. The clocks are not read: Numba has no word for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mansard.microbench.cuda import fma
from mansard.microbench.cuda.building import hash_source
from mansard.microbench.cuda.kernel import CudaCase, CudaKernel, Launch, Shape
from mansard.microbench.cuda.shaping import shape_sweep

_TILE_VECTORS = 2  # 8 words in each thread


def _launch(case: CudaCase, shape: Shape) -> Launch:
    return shape_sweep(case, shape, n_arrays=1, tile_vectors=_TILE_VECTORS, element_bytes=4)


def _build(case: CudaCase) -> Any:
    """The kernel, compiled for the card at hand; in the simulator it runs as it stands."""
    from mansard.microbench.cuda.numba_functions import build_chains

    return build_chains(fma.CHAOS_C["fp32"] if case.operands == "chaotic" else fma.CONSTANT_C)


SOURCE = Path(__file__).with_name("numba_functions.py").read_text(encoding="utf-8")

NUMBA_FMA = CudaKernel(
    name="fma",
    family="fma",
    backend="numba-cuda",
    n_arrays=1,
    precisions={"fp32": 50},
    launch=_launch,
    work_flop=fma.work_flop,
    traffic_bytes=fma.traffic_bytes,
    counting=fma.COUNTING,
    pattern=fma.fill_pattern,
    reference=fma.run_reference,
    entry=lambda _case: "chains",
    source=SOURCE,
    source_hash=hash_source(SOURCE),
    build=_build,
)
