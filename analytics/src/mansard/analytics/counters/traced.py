"""``nsys stats --report cuda_gpu_kern_sum``: times of kernels by name, without counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mansard.analytics.counters.cells import parse_number
from mansard.analytics.counters.launch import Export, Launch
from mansard.core.errors import InputError

if TYPE_CHECKING:
    from mansard.analytics.counters.pages import Lines

_COLUMNS = ("Total Time (ns)", "Instances", "Avg (ns)", "Name")


def is_kernel_sum(header: Sequence[str]) -> bool:
    """Whether a header is that of the sum by kernel."""
    return all(name in header for name in _COLUMNS)


def read_kernel_sum(lines: Lines) -> Export:
    """One launch for each kernel's name, with the mean time; raises InputError."""
    launches = []
    for line, cells in lines.dicts():
        try:
            mean_ns = parse_number(cells["Avg (ns)"], comma=False)
            runs = parse_number(cells["Instances"], comma=False)
        except ValueError:
            mean_ns = runs = None
        if mean_ns is None or not runs:
            raise InputError(
                f"line {line}: its time or its count is no number",
                where=lines.where,
                fix="export it again",
            )
        metrics = {"gpu__time_duration.sum": mean_ns * 1e-9}
        launches.append(Launch(line, cells["Name"] or "(no name)", metrics, n_launches=int(runs)))
    note = "was traced by Nsight Systems: times, and no counters"
    return Export("sum by kernel of nsys", tuple(launches), (note,))
