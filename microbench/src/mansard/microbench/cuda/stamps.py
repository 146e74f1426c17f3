"""The SM's clock around kernels that do not read it themselves: Numba's and cuBLAS's.

Two small kernels of ours, before and after, leave what went by (sources/stamp.cu). They lie
between the marks of time: some 6 µs of a sample of 2 ms.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mansard.microbench.cuda.runtime import CLOCK_WORDS, WORD_BYTES

if TYPE_CHECKING:
    from mansard.microbench.cuda.cupy_runtime import CudaMemory, CupyRuntime

# Blocks that stamp before the kernel: some for every SM, wherever they land.
_STAMPS_PER_SM = 4
_MOST_SMS = 1024  # as sources/stamp.cu has it
_WARP = 32


class Stamps:
    """Stamps on the runtime's stream; their memory goes when nobody holds them any more."""

    def __init__(self, runtime: CupyRuntime, clock: CudaMemory) -> None:
        from mansard.microbench.cuda.raw_module import compile_function

        source = _source()
        self._before = compile_function(source, "stamp_before")
        self._after = compile_function(source, "stamp_after")
        self._grid = (_STAMPS_PER_SM * runtime.n_sms,)
        self._clock = clock
        self._memory = runtime.allocate(_MOST_SMS * CLOCK_WORDS * WORD_BYTES, "device")
        runtime.fill(self._memory, np.zeros(1, dtype=np.uint8))

    def before(self) -> None:
        """Enqueue the stamp before a sample, on CuPy's current stream."""
        self._before(self._grid, (_WARP,), (self._memory.address,))

    def after(self, slot: int) -> None:
        """Enqueue the stamp after it, which leaves the sample's clock words."""
        words = self._clock.address + slot * CLOCK_WORDS * WORD_BYTES
        self._after((1,), (_WARP,), (self._memory.address, words))


@cache
def _source() -> str:
    return (Path(__file__).parent / "sources" / "stamp.cu").read_text(encoding="utf-8")
