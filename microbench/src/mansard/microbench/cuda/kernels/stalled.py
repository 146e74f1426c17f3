"""A GPU that holds its clocks and does nothing: what it draws is its constant power.

One warp sleeps (before compute capability 7.0, which has no sleep, it looks at its cycle
counter) and looks at the clock now and then. A repetition lasts 100 µs, work and traffic are
nothing. Idle without any kernel draws less where clocks or whole parts are switched off.
"""

from __future__ import annotations

from mansard.microbench.cuda.building import kernel_without_data

REPETITION_S = 100e-6  # as sources/stalled.cu has it

STALLED = kernel_without_data(
    "stalled", "stalled", "one warp sleeps", source="stalled.cu", entry="stalled"
)

KERNELS = (STALLED,)
