"""Numba's names for kernels on a GPU, which carry no types of their own."""

from __future__ import annotations

from typing import Any


def load_numba_cuda() -> Any:
    """The module numba.cuda: Numba's own, numba-cuda's where it is installed, or the simulator."""
    from numba import cuda

    return cuda
