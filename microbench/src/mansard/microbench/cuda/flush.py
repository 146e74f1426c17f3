"""When the L2 cache must be emptied before a sample, and what empties it.

A sample is a steady state: so many sweeps over the same arrays that it lasts 2 ms or
more, and the first sample of a block is dropped. What L2 holds at its start is what any
sweep leaves behind, so nothing is flushed: a set that fits is meant to be read from L2,
and one of 4 times L2 or more finds next to nothing of itself (under random replacement
a share h of hits solves h = exp(-4·(1 - h)): 2 %; least recently used leaves none).

The exception is a sample of a single sweep, where a set between one and four times L2 would
be read partly from what the sample before has left, and partly not: such a
sample begins cold. Matrix products are never flushed: one of them reads each operand from
L2 many times over, and what it reads once from memory is below a percent of its time.
"""

from __future__ import annotations

from mansard.core.records import Family

SAFE_SETS = 4  # working sets of so many times L2 see next to no hits
_FLUSH_SETS = 2  # what is written between samples, in sizes of L2


def needs_flush(
    family: Family, working_set_bytes: int, repetitions: int, l2_bytes: int | None
) -> bool:
    """Whether a sample of so many sweeps must find L2 empty of its working set."""
    if l2_bytes is None or family != "stream" or repetitions > 1:
        return False
    return l2_bytes < working_set_bytes < SAFE_SETS * l2_bytes


def flush_bytes(l2_bytes: int) -> int:
    """How much is written to push everything else out of L2."""
    return _FLUSH_SETS * l2_bytes
