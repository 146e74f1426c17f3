"""The table of the memory's use that a board reports, beside the modelled traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mansard.analytics.data.quantities import UNKNOWN, digits, percent, seconds
from mansard.analytics.models.predict.memory_use import MemoryTraffic
from mansard.analytics.pages.figures.tables import Column, Table, batch_text, scaled, tabulate


def memory_table(
    rows: Sequence[MemoryTraffic], mode: Callable[[MemoryTraffic], str]
) -> list[Table]:
    """One table, or none where no board reports it."""
    if not rows:
        return []
    columns = [
        Column("Network", lambda row: row.network),
        Column("Batch", lambda row: batch_text(row.batch), is_numeric=True),
        Column("Precision", lambda row: row.precision),
        Column("Engine", lambda row: row.engine),
        Column("Mode", mode),
        Column("Memory use", lambda row: percent(row.mean_share), is_numeric=True),
        Column("GB/s reported", lambda row: scaled(row.reported_bytes_per_s, 1e9), is_numeric=True),
        Column("Time", lambda row: seconds(row.time_s), is_numeric=True),
        Column("MB modelled", lambda row: scaled(row.traffic_bytes, 1e6), is_numeric=True),
        Column("GB/s modelled", lambda row: scaled(row.modelled_bytes_per_s, 1e9), is_numeric=True),
        Column(
            "Modelled / reported",
            lambda row: UNKNOWN if row.ratio is None else digits(row.ratio, 2),
            is_numeric=True,
        ),
        Column("Source", lambda row: row.source),
    ]
    caption = "Memory use that the board reports, beside our modelled traffic"
    return [tabulate(caption, columns, rows)]
