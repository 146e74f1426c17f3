"""A kernel of your own under the roofs of this machine: a copy that runs backwards.

It is a function of Numba, checked against NumPy and measured as Mansard measures its own.
"""

from dataclasses import replace
from pathlib import Path
from statistics import median

from numba import carray, cfunc, types

from mansard import api

floats = types.CPointer(types.float32)


# Addresses of three arrays, their elements, a number that only chains use, and how often to repeat.
@cfunc(types.void(floats, floats, floats, types.int64, types.int64, types.int64))
def copy_backwards(a, b, _c, n_elements, _n_fma, repetitions):
    """Copy a to b, the last element first."""
    source, target = carray(a, n_elements), carray(b, n_elements)
    for _ in range(repetitions):
        for i in range(n_elements):
            target[i] = source[n_elements - 1 - i]


def reference(_case, _launch, arrays, _repetitions):
    """What the arrays hold afterwards; a kernel that computes something else is refused."""
    return arrays[0], arrays[0][::-1]


copy = api.find_kernel("copy")
backwards = replace(  # a stream of two arrays, 8 bytes an element, as the copy is
    copy,
    name="backwards",
    precisions={"fp32": 0},
    build=lambda _case: copy_backwards.address,
    variants=lambda case: (case,),
    reference=reference,
    has_stores=False,
    is_brief=True,
    source_hash="backwards of 2026-11-26",  # another text here is another measurement
)

# The run lies in the folder, so that `mansard report` draws it beside the roofs of `mansard bench`.
for trial in api.measure_kernels([backwards], runs=Path("runs")):
    shown = "every sample was disturbed"
    if trial.seconds_s:
        shown = f"{trial.traffic_bytes / median(trial.seconds_s) / 1e9:.1f} GB/s, {trial.stability}"
    print(f"{trial.kernel:10} {trial.working_set_bytes / 1024:12,.0f} KiB  {shown}")
