"""What the meters said: power per mode, rail and kernel family, with idle beside it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mansard.analytics.data.dataset import UNDISTURBED
from mansard.analytics.data.names import shown, shown_long
from mansard.analytics.data.quantities import UNKNOWN, quantity
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results

TOTAL = "total"


def power_table(results: Results) -> Table:
    """Median power over the undisturbed trials of a family; empty where nothing was metered.

    The power of a trial is its energy over its windows' length, watts; rails keep the names
    that the board gives them, and the total is formed by the rule of the run.
    """
    idle = _idle_powers(results)
    families = trial_powers(results).group_by("run_id", "family", "rail", maintain_order=True)
    powers = families.agg(pl.col("power_w").median(), n_trials=pl.col("power_w").count())
    by_run = powers.sort("family", "rail", nulls_last=True).partition_by("run_id", as_dict=True)
    rows = [
        [
            shown(roof.label),
            TOTAL if row["rail"] is None else shown(row["rail"]),
            row["family"],
            quantity(row["power_w"], "W"),
            str(row["n_trials"]),
            quantity(idle.get((roof.run_id, row["rail"])), "W"),
        ]
        for roof in results.roofs
        if (roof.run_id,) in by_run
        for row in by_run[roof.run_id,].iter_rows(named=True)
    ]
    return Table(
        caption="Median power of the trials",
        columns=("Mode", "Rail", "Kernels", "Power", "Trials", "Idle"),
        rows=rows,
        numeric=frozenset({3, 4, 5}),
    )


def trial_powers(results: Results) -> pl.DataFrame:
    """Power of each undisturbed trial on each rail, W: energy over the length of its windows.

    Trials with constant operands are left out: ``operands`` has them.
    Columns run_id, trial_id, rail (null: the total), power_w (null: not measurable), family.
    """
    calm = results.dataset.trials.filter(UNDISTURBED & (pl.col("operands") == "chaotic"))
    is_known = _is_power(pl.col("energy_j"))
    return (
        results.dataset.energy.filter(pl.col("trial_id").is_not_null())
        .group_by("run_id", "trial_id", "rail")
        .agg(
            power_w=pl.when(is_known.any()).then(
                pl.col("energy_j").filter(is_known).sum()
                / pl.col("window_s").filter(is_known).sum()
            )
        )
        .join(calm.select("run_id", "trial_id", "family"), on=["run_id", "trial_id"])
    )


def _is_power(column: pl.Expr) -> pl.Expr:
    """Whether it can be: a rail may be off and read about 0, a machine never draws nothing."""
    return column.is_not_null() & (pl.col("rail").is_not_null() | (column > 0))


def _idle_powers(results: Results) -> dict[tuple[str, str | None], float]:
    """Median power of each rail over the idle windows of each run, W."""
    idle = results.dataset.energy.filter(
        pl.col("trial_id").is_null() & _is_power(pl.col("power_w"))
    )
    medians = idle.group_by("run_id", "rail").agg(pl.col("power_w").median())
    return {(run_id, rail): power_w for run_id, rail, power_w in medians.iter_rows()}


def meter_facts(results: Results) -> list[str]:
    """Which meters were read, how the total is formed, what is missing and what to do about it."""
    facts: dict[str, None] = {}
    for manifest in results.dataset.manifests:
        if manifest.meters:
            facts[_total_fact(manifest.meters, manifest.total_rule, manifest.boundary)] = None
        for meter, what in manifest.meters_missing.items():
            facts[f"{shown(meter)}: {shown_long(what)}"] = None
    return list(facts)


def _total_fact(meters: Sequence[str], rule: str | None, boundary: str | None) -> str:
    read = f"{', '.join(map(shown, meters))} {'was' if len(meters) == 1 else 'were'} read."
    total = UNKNOWN if rule is None else shown_long(rule)
    covers = UNKNOWN if boundary is None else shown_long(boundary)
    return f"{read} Total: {total}. It covers: {covers}."
