"""The figures behind each chart, as tables for those who cannot see it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mansard.analytics.charts.energy_data import PricedRoof
from mansard.analytics.data.quantities import UNKNOWN, digits, fixed, quantity
from mansard.analytics.energy.balance import Span
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


def balance_table(roofs: Sequence[PricedRoof]) -> Table:
    """Balance points and the best efficiency of every precision and mode."""
    rows = [
        [
            each.name,
            each.mode,
            _span(each.balance.time, ""),
            _span(each.balance.energy, ""),
            _span(each.balance.effective, ""),
            _span(each.balance.best_flop_per_j, "FLOP/J"),
        ]
        for each in roofs
    ]
    columns = (*("Precision", "Mode", "Time", "Energy", "Half the best FLOP/J", "Best efficiency"),)
    return Table(
        "Balance points from main memory, FLOP/byte", columns, rows, frozenset({2, 3, 4, 5})
    )


def short_balance_table(roofs: Sequence[PricedRoof], mode: str) -> Table:
    """The balance points of one mode without their intervals."""
    rows = [
        [
            each.name,
            *[
                UNKNOWN if span.value is None else digits(span.value, 3)
                for span in (each.balance.time, each.balance.energy, each.balance.effective)
            ],
            quantity(each.balance.best_flop_per_j.value, "FLOP/J", n_digits=3),
        ]
        for each in roofs
    ]
    columns = ("Precision", "Time", "Energy", "Half the best FLOP/J", "Best")
    caption = f"Balance points of {mode} from main memory, FLOP/byte"
    return Table(caption, columns, rows, frozenset({1, 2, 3, 4}))


def power_points(roofs: Sequence[PricedRoof], networks: pl.DataFrame) -> Table:
    """The power of each precision left of, at and right of its ridge; and of networks."""
    rows = []
    for each in roofs:
        ridge = each.roof.peak_flop_per_s / each.roof.bandwidth_bytes_per_s
        at = each.roof.power_w([ridge / 100, ridge, ridge * 100])
        rows.append([each.name, each.mode, *[fixed(float(watts), "W") for watts in at], ""])
    rows += [
        [
            row["network"],
            row["mode"],
            "",
            "",
            "",
            f"{fixed(row['power'], 'W')}, batch {row['batch']}",
        ]
        for row in networks.iter_rows(named=True)
    ]
    columns = (
        *("Precision or network", "Mode", "At a hundredth of the ridge", "At the ridge"),
        *("At a hundred times the ridge", "Mean power of the network"),
    )
    return Table("Power as drawn", columns, rows, frozenset({2, 3, 4, 5}))


def _span(span: Span, unit: str) -> str:
    if span.value is None:
        return f"{UNKNOWN}: {span.unknown['value']}"
    return quantity(span.value, unit, span.low, span.high, 3).strip()
