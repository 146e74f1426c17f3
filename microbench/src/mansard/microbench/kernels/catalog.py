"""All kernels there are on the CPU."""

from __future__ import annotations

from mansard.core.errors import UsageError
from mansard.microbench.kernels.case import Kernel
from mansard.microbench.kernels.fma import FMA
from mansard.microbench.kernels.streams import COPY, READ, SCALE, TRIAD

CATALOG: tuple[Kernel, ...] = (FMA, READ, COPY, SCALE, TRIAD)

# The grid of intensities of the Empirical Roofline Toolkit (ERT).
FMA_PER_ELEMENT = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def find_kernel(name: str) -> Kernel:
    """The kernel called ``name``; raises UsageError with the known names."""
    for kernel in CATALOG:
        if kernel.name == name:
            return kernel
    raise UsageError(
        f"unknown kernel {name!r}", fix=f"use one of {', '.join(k.name for k in CATALOG)}"
    )
