"""The figures behind each chart, as tables for those who cannot see it."""

from __future__ import annotations

import polars as pl

from mansard.analytics.report.page_parts import Table


def roofline_points(frame: pl.DataFrame) -> Table:
    """Networks under the roofs."""
    rows = [
        [
            row["network"],
            row["mode"],
            row["batch"],
            row["precision"],
            f"{row['intensity']:,.4g}",
            f"{row['rate']:,.4g}",
            row["time"],
            row["bound"],
        ]
        for row in frame.iter_rows(named=True)
    ]
    columns = ("Network", "Mode", "Batch", "Precision", "FLOP/byte", "GFLOP/s", "Time", "Bound by")
    return Table("Networks as drawn", columns, rows, frozenset({4, 5, 6}))


def staircase_points(frame: pl.DataFrame) -> Table:
    """Bandwidths over working sets."""
    rows = [
        [row["size"], row["mode"], row["kernel"], row["interval"], row["trial"]]
        for row in frame.iter_rows(named=True)
    ]
    columns = ("Working set", "Mode", "Kernel", "Bandwidth", "Trial")
    return Table("Bandwidth as drawn", columns, rows, frozenset({3}))


def chain_points(frame: pl.DataFrame) -> Table:
    """FMA rates over the length of the chain."""
    rows = [
        [
            f"{row['fma_per_element']:g}",
            row["mode"],
            row["precision"],
            row["interval"],
            row["trial"],
        ]
        for row in frame.iter_rows(named=True)
    ]
    columns = ("FMA per element", "Mode", "Precision", "Rate", "Trial")
    return Table("FMA rates as drawn", columns, rows, frozenset({3}))
