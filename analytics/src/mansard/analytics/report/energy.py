"""Energy in tables: fitted costs, costs on each rail, metered power, power by operand values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from mansard.analytics.data.dataset import UNDISTURBED, Dataset
from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.quantities import UNKNOWN, digits, fixed, percent, quantity
from mansard.analytics.data.run_frames import idle_power_w
from mansard.analytics.energy.fit import Coefficient, EnergyFit
from mansard.analytics.figures.tables import Table
from mansard.analytics.results import Results
from mansard.analytics.roofs.rates import TRIAL_ORDER, describe
from mansard.core.records import Manifest

PICO = 1e-12


def energy_table(results: Results) -> Table:
    """The coefficients of each metered mode with their intervals, or why there is none."""
    labels = results.labels()
    rows = [
        [display_name(labels[run_id]), *cells]
        for run_id, found in results.energies.items()
        for cells in [*_rows(found), *_true_idle(found, results.dataset.manifest(run_id))]
    ]
    return Table(
        caption="Energy of work, traffic and time, with 95 % intervals",
        columns=("Mode", "What", "Energy", "Remark"),
        rows=rows,
        numeric=frozenset({2}),
    )


def energy_facts(results: Results) -> list[str]:
    """How well each fit describes its points, and what it lacks."""
    labels = results.labels()
    return [
        f"{display_name(labels[run_id])}: {_quality(found)}"
        for run_id, found in results.energies.items()
    ]


def _rows(found: EnergyFit) -> Iterator[list[str]]:
    for name, coefficient in found.flop_j.items():
        yield [f"work in {display_name(name)}", *_cells(coefficient, "pJ/FLOP", PICO)]
    for name, coefficient in found.byte_j.items():
        yield [f"traffic from {display_name(name)}", *_cells(coefficient, "pJ/byte", PICO)]
    yield ["constant power", *_cells(found.constant_w, "W", 1.0)]


def _true_idle(found: EnergyFit, manifest: Manifest) -> Iterator[list[str]]:
    """Beside a constant power with the clocks on: what the machine draws without a kernel."""
    idle_w = idle_power_w(manifest)
    if found.n_stalled and idle_w is not None:
        yield ["true idle", fixed(idle_w, "W"), "measured with nothing running; in no fit"]


def _cells(coefficient: Coefficient, unit: str, factor: float) -> tuple[str, str]:
    value, low, high = coefficient.value, coefficient.low, coefficient.high
    if value is None or low is None or high is None:
        return UNKNOWN, display_text(coefficient.unknown["value"])
    return fixed(value / factor, unit, low / factor, high / factor), ""


def _quality(found: EnergyFit) -> str:
    idle = "with the clocks on and nothing done" if found.n_stalled else "idle"
    points = f"{found.n_points} points, {found.n_idle} of them {idle}"
    lacks = f"; {', '.join(found.missing)}" if found.missing else ""
    if not found.residuals:
        return f"{points}{lacks}."
    typical, largest = (float(q(np.abs(found.residuals))) for q in (np.median, np.max))
    misses = f"the model misses a point by {percent(typical)} (median), {percent(largest)} at most"
    return f"{points}; {misses}{lacks}."


def rail_table(results: Results) -> Table:
    """What work, traffic and time cost on each rail, fitted apart; empty without several rails."""
    labels = results.labels()
    rows = [
        [display_name(labels[run_id]), display_name(rail), what, text]
        for run_id, fits in results.rail_energies.items()
        if run_id in labels and len(fits) > 1
        for rail, fit in fits.items()
        for what, text in _cost_cells(fit.flop_j, fit.byte_j, fit.constant_w)
    ]
    return Table("Costs on each rail", ("Mode", "Rail", "What", "Cost"), rows, frozenset({3}))


def _cost_cells(
    flop_j: dict[str, Coefficient], byte_j: dict[str, Coefficient], constant_w: Coefficient
) -> Iterator[tuple[str, str]]:
    for name, cost in flop_j.items():
        yield f"work in {display_name(name)}", _scaled(cost, "pJ/FLOP", PICO)
    for name, cost in byte_j.items():
        yield f"traffic from {display_name(name)}", _scaled(cost, "pJ/byte", PICO)
    yield "constant power", _scaled(constant_w, "W", 1.0)


def _scaled(cost: Coefficient, unit: str, factor: float) -> str:
    if cost.value is None or cost.low is None or cost.high is None:
        return UNKNOWN
    return fixed(cost.value / factor, unit, cost.low / factor, cost.high / factor)


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
            display_name(roof.label),
            TOTAL if row["rail"] is None else display_name(row["rail"]),
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
            facts[f"{display_name(meter)}: {display_text(what)}"] = None
    return list(facts)


def _total_fact(meters: Sequence[str], rule: str | None, boundary: str | None) -> str:
    read = f"{', '.join(map(display_name, meters))} {'was' if len(meters) == 1 else 'were'} read."
    total = UNKNOWN if rule is None else display_text(rule)
    covers = UNKNOWN if boundary is None else display_text(boundary)
    return f"{read} Total: {total}. It covers: {covers}."


_SAME = ["run_id", "kernel", "backend", "precision", "fma_per_element"]
_SAME += ["working_set_bytes", "scope", "memory"]


def operand_table(results: Results) -> Table:
    """Chaotic and constant operands side by side: what the values themselves cost."""
    labels = results.labels()
    rows = [
        [
            display_name(labels[row["run_id"]]),
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
