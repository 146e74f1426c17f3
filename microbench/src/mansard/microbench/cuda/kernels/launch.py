"""What it takes to start a kernel: an empty one of one warp, launched over and over.

A repetition is one launch, and a sample is many with one wait at its end. Launched one by one
("launch"), its time is that of the slower side: the CPU that enqueues, or the GPU that goes from
one kernel to the next. As nodes of a CUDA graph, each waiting for the one before ("graph"), it is
the GPU's side alone: the CPU enqueues thousands of nodes at once. Work and traffic are nothing, so
it raises no peak and no bandwidth.
"""

from __future__ import annotations

from mansard.microbench.cuda.building import hash_source, read_source
from mansard.microbench.kernel import Kernel, Launch

_SOURCE = read_source("launch.cu")


def _kernel(name: str, counting: str, *, is_graph: bool) -> Kernel:
    return Kernel(
        name=name,
        family="launch",
        backend="cupy",
        n_arrays=0,
        precisions={"fp32": 50},  # computes nothing; a record needs a name
        launch=lambda _case, _shape: Launch(grid=1, block=32, n_elements=0),
        work_flop=lambda _case, _launch: 0,
        traffic_bytes=lambda _case, _launch: 0,
        counting=f"no access: an empty kernel, {counting}",
        pattern=lambda _case, _launch: (),
        reference=lambda _case, _launch, _arrays, _repetitions: (),
        entry=lambda _case: "launch",
        source=_SOURCE,
        source_hash=hash_source(_SOURCE),
        is_graph=is_graph,
    )


LAUNCH = _kernel("launch", "launched one by one", is_graph=False)
GRAPH = _kernel("graph", "one node of a CUDA graph", is_graph=True)

KERNELS = (LAUNCH, GRAPH)
