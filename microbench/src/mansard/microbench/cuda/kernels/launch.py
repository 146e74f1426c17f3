"""What it takes to start a kernel: an empty one of one warp, launched over and over.

A repetition is one launch, and a sample is many with one wait at its end. Launched one by one
("launch"), its time is that of the slower side: the CPU that enqueues, or the GPU that goes from
one kernel to the next. As nodes of a CUDA graph, each waiting for the one before ("graph"), it is
the GPU's side alone: the CPU enqueues thousands of nodes at once. Work and traffic are nothing, so
it raises no peak and no bandwidth.
"""

from __future__ import annotations

from functools import partial

from mansard.microbench.cuda.building import kernel_without_data

_empty = partial(kernel_without_data, family="launch", source="launch.cu", entry="launch")

LAUNCH = _empty("launch", counting="an empty kernel, launched one by one")
GRAPH = _empty("graph", counting="an empty kernel, one node of a CUDA graph", is_graph=True)

KERNELS = (LAUNCH, GRAPH)
