"""How much one page shows: it stays under 2 MB, and a browser draws it at once.

What is left out is said beside what is shown; the dataset keeps all of it.
"""

from __future__ import annotations

import dataclasses

import polars as pl

from mansard.analytics.charts.mode_data import evenly
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results

MOST_ROOFS = 12  # power modes with roofs, sweeps and tables of their own
MOST_TABLE_ROWS = 200  # of the table under a chart


def for_page(results: Results) -> tuple[Results, tuple[str, ...]]:
    """``results`` with at most MOST_ROOFS roofs, and a note about the others.

    The recommended modes are kept, of the others an even choice in their order. Predictions,
    modes and recommendations stay whole: their charts make a choice of their own.
    """
    if len(results.roofs) <= MOST_ROOFS:
        return results, ()
    wanted = {each.choice.mode for each in results.recommendations if each.choice is not None}
    first = [roof.run_id for roof in results.roofs if roof.mode in wanted][: MOST_ROOFS // 2]
    others = [roof.run_id for roof in results.roofs if roof.run_id not in first]
    kept = {*first, *evenly(others, MOST_ROOFS - len(first))}
    own = pl.col("run_id").is_in(sorted(kept))
    shown = dataclasses.replace(
        results,
        roofs=tuple(roof for roof in results.roofs if roof.run_id in kept),
        rates=tuple(rate for rate in results.rates if rate.run_id in kept),
        groups=results.groups.filter(own),
        networks=results.networks.filter(own),
        energies={run: fit for run, fit in results.energies.items() if run in kept},
    )
    note = (
        f"{len(kept)} of {len(results.roofs)} measured modes have their roofs on this page; "
        "predictions and recommendations know all of them."
    )
    return shown, (note,)


def shortened(table: Table) -> Table:
    """``table`` with at most MOST_TABLE_ROWS rows, which its caption says."""
    n_rows = len(table.rows)
    if n_rows <= MOST_TABLE_ROWS:
        return table
    caption = f"{table.caption}, the first {MOST_TABLE_ROWS} of {n_rows:,} rows"
    return dataclasses.replace(table, caption=caption, rows=table.rows[:MOST_TABLE_ROWS])
