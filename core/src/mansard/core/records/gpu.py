"""What CUDA says of a GPU, read where the kernels run."""

from __future__ import annotations

from typing import ClassVar

from mansard.core.records.base import Record, Schema


class Gpu(Record, frozen=True, kw_only=True):
    """The GPU that kernels run on, as it is now: a power mode or a MIG slice can shrink it."""

    schema: ClassVar[Schema] = Schema("gpu", 1)

    name: str
    sm: int  # compute capability: 87 is 8.7
    n_sms: int  # streaming multiprocessors that are on
    l1_bytes: int | None  # unified data cache of one SM, shared memory included
    l2_bytes: int | None
    memory_bytes: int | None
    memory_bus_bits: int | None
    memory_hz: float | None  # highest clock of the memory; two transfers a cycle
    gpu_hz: float | None  # highest clock of the SMs
    is_integrated: bool  # shares its memory with the CPU
    ecc: bool | None  # error correction of the memory
    mig: str | None  # profile of the MIG slice, such as 1g.12gb
    driver_cuda: str | None  # the newest CUDA that the driver runs
    runtime_cuda: str | None  # the CUDA that the kernels were built with
