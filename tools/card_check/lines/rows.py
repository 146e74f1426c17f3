"""Trials as the lines want them: the fastest of a kind, its rate, its share of the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from mansard.core.records import Trial
from mansard.microbench.cuda.sampling import GpuLimits, share_of_limit
from mansard.microbench.kernel import find_kernel, gpu_case, shape_of


def seconds_of(row: Trial) -> float:
    """The median time of one repetition."""
    return float(median(row.seconds_s))


def rate_of(row: Trial) -> float:
    """FLOP/s of a kernel that computes, bytes/s of one that moves."""
    amount = row.work_flop if row.family in {"fma", "tensor"} else row.traffic_bytes
    return amount / seconds_of(row)


def cycles_of(row: Trial) -> float | None:
    """The median SM cycles of one repetition; None where the clock was not counted."""
    if row.clock_hz is None or not row.seconds_s:
        return None
    return float(median(s * hz for s, hz in zip(row.seconds_s, row.clock_hz, strict=True)))


def clock_note(row: Trial) -> str:
    """The clock that the kernel ran at."""
    return "" if not row.clock_hz else f"at {median(row.clock_hz) / 1e6:.0f} MHz"


def share_of(row: Trial, limits: GpuLimits) -> float | None:
    """Mansard's own share of the limit for a trial; None where no limit is known."""
    kernel = find_kernel(row.kernel, row.backend)
    case = gpu_case(
        row.kernel,
        row.precision,
        row.working_set_bytes,
        row.fma_per_element,
        row.operands,
        row.scope,
        row.memory,
    )
    launch = kernel.launch(case, shape_of(limits.gpu))
    return share_of_limit(kernel, case, launch, limits, row.seconds_s, row.clock_hz)


def fastest(rows: Iterable[Trial], fits: Callable[[Trial], bool] = lambda _: True) -> Trial | None:
    """The row of the highest rate among those that have one."""
    return max((row for row in rows if row.seconds_s and fits(row)), key=rate_of, default=None)


def plain(rows: Iterable[Trial]) -> list[Trial]:
    """Trials on changing data in the card's own memory, by CUDA C++ or cuBLAS."""
    return [
        row
        for row in rows
        if row.operands == "chaotic" and row.memory == "device" and row.backend != "numba-cuda"
    ]
