"""Latency of random accesses: one thread that chases pointers through the working set.

The array holds one random cycle over all its lines of 128 bytes; each load says where the
next one goes, so a step lasts as long as one access, plus the 64-bit addition that makes an
address of an offset (two dependent integer instructions). A repetition is 1024 steps of 4
bytes; launches go on where the last one stopped, so that a working set larger than L2 is not
seen again before all of it was. With the scope gpu loads go past L1, with the scope sm
through it; either way it is one thread on one SM, and the working set is what it goes round.
"""

from __future__ import annotations

import numpy as np

from mansard.microbench.cuda.building import hash_source, read_source
from mansard.microbench.kernel import Array, Case, Kernel, Launch, Shape

STEPS_PER_REPETITION = 1024  # as sources/latency.cu has it
LINE_BYTES = 128  # of L1 and L2 on every GPU since Volta
_ELEMENT_BYTES = 4
_ELEMENTS_PER_LINE = LINE_BYTES // _ELEMENT_BYTES
_MOST_BYTES = 2**32 - LINE_BYTES  # offsets are 32 bits
_SEED = 5


def _launch(case: Case, _shape: Shape) -> Launch:
    n_lines = max(2, min(case.working_set_bytes, _MOST_BYTES) // LINE_BYTES)
    return Launch(
        grid=1,
        block=1,
        n_elements=n_lines * _ELEMENTS_PER_LINE,
        array_bytes=(n_lines * LINE_BYTES, _ELEMENT_BYTES),
    )


def _pattern(_case: Case, launch: Launch) -> tuple[Array, ...]:
    """The whole array, at the start of each line the offset of the next; and where to begin."""
    n_lines = launch.n_elements // _ELEMENTS_PER_LINE
    # A random order of all lines that begins at the first, closed to a ring: one cycle.
    order = np.random.default_rng(_SEED).permutation(n_lines)
    order = np.roll(order, -int(np.flatnonzero(order == 0)[0]))
    array = np.zeros((n_lines, _ELEMENTS_PER_LINE), dtype=np.uint32)
    array[order, 0] = np.roll(order, -1) * LINE_BYTES
    return array.reshape(-1), np.zeros(1, dtype=np.uint32)


def _reference(
    _case: Case, _launch: Launch, arrays: tuple[Array, ...], repetitions: int
) -> tuple[Array, ...]:
    """The array, and the offset at which the chase stops."""
    a, position = arrays
    offset = int(position[0])
    for _ in range(repetitions * STEPS_PER_REPETITION):
        offset = int(a[offset // _ELEMENT_BYTES])
    return a, np.array([offset], dtype=np.uint32)


_SOURCE = read_source("latency.cu")

LATENCY = Kernel(
    name="latency",
    family="latency",
    backend="cupy",
    n_arrays=1,
    precisions={"fp32": 50},  # words of 32 bits; they hold offsets
    launch=_launch,
    work_flop=lambda _case, _launch: 0,
    traffic_bytes=lambda _case, _launch: STEPS_PER_REPETITION * _ELEMENT_BYTES,
    counting=f"{STEPS_PER_REPETITION} dependent reads of 4 bytes, one in each line of 128 bytes",
    pattern=_pattern,
    reference=_reference,
    entry=lambda case: f"latency_{case.scope}",
    source=_SOURCE,
    source_hash=hash_source(_SOURCE),
    scopes=("gpu", "sm"),
    level_scopes=("gpu", "sm"),
)

KERNELS = (LATENCY,)
