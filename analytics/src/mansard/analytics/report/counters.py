"""Tables of kernels that were counted."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.counters.by_kernel import KernelSum
from mansard.analytics.data.names import display_text
from mansard.analytics.data.quantities import percent, quantity, seconds
from mansard.analytics.figures.tables import Column, Table, tabulate

_LONGEST_KERNEL = 60  # characters: names of templates have hundreds


def kernel_table(caption: str, kernels: Sequence[KernelSum]) -> Table:
    """Kernels by their share of the time of a call."""
    columns = [
        Column("Kernel", lambda row: kernel_text(row.kernel)),
        Column("Launches", lambda row: f"{row.launches:.4g}", is_numeric=True),
        Column("Time", lambda row: seconds(row.time_s), is_numeric=True),
        Column("Share", lambda row: percent(row.share), is_numeric=True),
        Column("Work", lambda row: quantity(row.work_flop, "FLOP"), is_numeric=True),
        Column("Read", lambda row: quantity(row.read_bytes, "B"), is_numeric=True),
        Column("Written", lambda row: quantity(row.write_bytes, "B"), is_numeric=True),
        Column("Both", lambda row: quantity(row.traffic_bytes, "B"), is_numeric=True),
    ]
    return tabulate(caption, columns, kernels)


def kernel_text(kernel: str) -> str:
    """The name of a kernel without what all templates have, cut where it is long."""
    name = display_text(kernel)
    for word in ("void ", "at::native::", "at::", "<unnamed>::", "std::enable_if"):
        name = name.replace(word, "")
    return name if len(name) <= _LONGEST_KERNEL else f"{name[: _LONGEST_KERNEL - 1]}…"
