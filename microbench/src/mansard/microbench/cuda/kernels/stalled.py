"""A GPU that holds its clocks and does nothing: what it draws is its constant power.

One warp sleeps (before compute capability 7.0, which has no sleep, it looks at its cycle
counter) and looks at the clock now and then. A repetition lasts 100 µs, work and traffic are
nothing. Idle without any kernel draws less where clocks or whole parts are switched off.
"""

from __future__ import annotations

from mansard.microbench.cuda.building import hash_source, read_source
from mansard.microbench.kernel import Kernel, Launch

REPETITION_S = 100e-6  # as sources/stalled.cu has it

_SOURCE = read_source("stalled.cu")

STALLED = Kernel(
    name="stalled",
    family="stalled",
    backend="cupy",
    n_arrays=0,
    precisions={"fp32": 50},  # computes nothing; a record needs a name
    launch=lambda _case, _shape: Launch(grid=1, block=32, n_elements=0),
    work_flop=lambda _case, _launch: 0,
    traffic_bytes=lambda _case, _launch: 0,
    counting="no access: one warp sleeps",
    pattern=lambda _case, _launch: (),
    reference=lambda _case, _launch, _arrays, _repetitions: (),
    entry=lambda _case: "stalled",
    source=_SOURCE,
    source_hash=hash_source(_SOURCE),
)

KERNELS = (STALLED,)
