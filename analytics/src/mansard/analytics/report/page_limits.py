"""How much one page shows: it stays under 2 MB, and a browser draws it at once.

What is left out is said beside what is shown; the dataset keeps all of it.
"""

from __future__ import annotations

import dataclasses

import polars as pl

from mansard.analytics.charts.mode_data import evenly
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results

MOST_ROOFS, LEAST_ROOFS = 12, 4  # power modes with roofs, sweeps and tables of their own
MOST_PAIRS = 300  # of a mode and a network in one precision, each with its layers
MOST_TABLE_ROWS = 200  # of the table under a chart


def for_page(results: Results) -> tuple[Results, tuple[str, ...]]:
    """``results`` with at most MOST_ROOFS roofs, fewer under many networks, and a note.

    The recommended modes are kept, of the others an even choice in their order. Predictions,
    modes and recommendations stay whole: their charts make a choice of their own.
    """
    n_networks = results.networks.select("model", "model_hash", "precision").n_unique()
    n_most = max(LEAST_ROOFS, min(MOST_ROOFS, MOST_PAIRS // max(1, n_networks)))
    if len(results.roofs) <= n_most:
        return results, ()
    wanted = {each.choice.mode for each in results.recommendations if each.choice is not None}
    first = [roof.run_id for roof in results.roofs if roof.mode in wanted][: n_most // 2]
    others = [roof.run_id for roof in results.roofs if roof.run_id not in first]
    kept = {*first, *evenly(others, n_most - len(first))}
    own = pl.col("run_id").is_in(sorted(kept))
    dataset = results.dataset
    shown = dataclasses.replace(
        results,
        dataset=dataclasses.replace(
            dataset,
            manifests=tuple(each for each in dataset.manifests if each.run_id in kept),
            trials=dataset.trials.filter(own),
            repetitions=dataset.repetitions.filter(own),
            energy=dataset.energy.filter(own),
        ),
        roofs=tuple(roof for roof in results.roofs if roof.run_id in kept),
        rates=tuple(rate for rate in results.rates if rate.run_id in kept),
        networks=results.networks.filter(own),
        energies={run: fit for run, fit in results.energies.items() if run in kept},
    )
    note = (
        f"{len(kept)} of {len(results.roofs)} modes have their roofs on this page; "
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
