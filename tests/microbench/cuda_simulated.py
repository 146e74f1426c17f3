"""Run Numba's kernels in its simulator and print what they leave. A process of its own.

Numba decides at its import whether ``numba.cuda`` is the simulator: NUMBA_ENABLE_CUDASIM=1
must be set before. Arguments: a file to write, an .npz archive with an array "<kernel>_<k>"
for every array of each kernel.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from mansard.microbench.kernel import Case, Launch, Shape, find_kernel, gpu_case
from tests.microbench.cuda_cpu_runs import fill

ONE_SM = Shape(sm=87, n_sms=1)
N_REPETITIONS = 3
# Name in the archive -> case.
CASES = {
    "chaotic": gpu_case("fma", "fp32", 16_384, 1),
    "long": gpu_case("fma", "fp32", 16_384, 33),
    "constant": gpu_case("fma", "fp32", 16_384, 3, operands="constant"),
    "read": gpu_case("read", "fp32", 32_768),
    "copy": gpu_case("copy", "fp32", 2 * 16_384),
    "triad": gpu_case("triad", "fp32", 3 * 16_384),
}


def launch_of(case: Case) -> Launch:
    """One block instead of two, so that each of its threads takes two tiles."""
    launch = find_kernel(case.kernel, "numba-cuda").launch(case, ONE_SM)
    assert launch.grid == 2
    arrays = launch.array_bytes
    if case.kernel == "read":  # a word of results from each thread
        arrays = (arrays[0], arrays[1] // 2)
    return replace(launch, grid=1, array_bytes=arrays)


def run(case: Case) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What the arrays of a case hold before and after."""
    kernel = find_kernel(case.kernel, "numba-cuda")
    launch = launch_of(case)
    patterns = kernel.pattern(case, launch)
    if case.fma_per_element == 1:  # squares of few bits: unfused as the simulator is, it is exact
        patterns = (np.round(patterns[0] * 64).astype(np.float32) / np.float32(64),)
    before = tuple(fill(p, n) for p, n in zip(patterns, launch.array_bytes, strict=True))
    arrays = [array.copy() for array in before]
    # The simulator copies back every argument: what is missing must not be one that is there.
    arguments = [*arrays, *(np.zeros(1, dtype=arrays[0].dtype) for _ in range(3 - len(arrays)))]
    assert kernel.build is not None
    kernel.build(case)[launch.grid, launch.block](
        *arguments,
        launch.n_elements,
        launch.fma_per_element,
        1 if case.fma_per_element == 1 else N_REPETITIONS,
        np.zeros(2, dtype=np.uint64),
    )
    return before, tuple(arrays)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of a simulator that warns of its own speed
    found: dict[str, Any] = {}
    for name, case in CASES.items():
        before, after = run(case)
        found |= {f"{name}_before_{k}": array for k, array in enumerate(before)}
        found |= {f"{name}_after_{k}": array for k, array in enumerate(after)}
    np.savez(sys.argv[1], **found)
