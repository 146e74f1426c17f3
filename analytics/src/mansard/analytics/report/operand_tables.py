"""What the values of operands cost: the same trial with chaotic and with constant ones."""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.dataset import UNDISTURBED, Dataset
from mansard.analytics.data.names import shown
from mansard.analytics.data.quantities import digits, quantity
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results
from mansard.analytics.roofs.rates import TRIAL_ORDER, describe

_SAME = ["run_id", "kernel", "backend", "precision", "fma_per_element"]
_SAME += ["working_set_bytes", "scope", "memory"]


def operand_table(results: Results) -> Table:
    """Chaotic and constant operands side by side: what the values themselves cost."""
    labels = results.labels()
    rows = [
        [
            shown(labels[row["run_id"]]),
            describe(row),
            quantity(row["power_w"], "W"),
            quantity(row["constant_w"], "W"),
            digits(row["constant_w"] / row["power_w"], 3),
            digits(row["constant_rate"] / row["rate"], 3),
        ]
        for row in operand_twins(results.dataset).iter_rows(named=True)
    ]
    return Table(
        caption="Power with values that never settle, and with constant ones",
        columns=("Mode", "Trial", "Chaotic", "Constant", "Power ratio", "Rate ratio"),
        rows=rows,
        numeric=frozenset({2, 3, 4, 5}),
    )


def operand_twins(dataset: Dataset) -> pl.DataFrame:
    """Metered trials that differ in their operands alone: total power W and repetitions/s.

    The columns of the chaotic trial, and power_w, rate, constant_w, constant_rate.
    """
    totals = (
        dataset.energy.filter(pl.col("rail").is_null() & (pl.col("energy_j") > 0))
        .filter(pl.col("trial_id").is_not_null())
        .group_by("run_id", "trial_id")
        .agg(
            power_w=pl.col("energy_j").sum() / pl.col("window_s").sum(),
            rate=pl.col("repetitions").sum() / pl.col("window_s").sum(),
        )
    )
    calm = dataset.trials.filter(UNDISTURBED).join(totals, on=["run_id", "trial_id"])
    constant = calm.filter(pl.col("operands") == "constant").select(
        *_SAME, constant_w=pl.col("power_w"), constant_rate=pl.col("rate")
    )
    # A stream has no chain, so its length is null on both sides.
    chaotic = calm.filter((pl.col("operands") == "chaotic") & (pl.col("rate") > 0))
    return chaotic.join(constant, on=_SAME, nulls_equal=True).sort(TRIAL_ORDER)
