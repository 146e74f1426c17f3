"""Energy in tables: fitted costs, costs on each rail, metered power, power by operand values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import UNDISTURBED
from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.quantities import UNKNOWN, counted, digits, fixed, percent, quantity
from mansard.analytics.data.totals import idle_power_w
from mansard.analytics.models.energy.fit import EnergyFit
from mansard.analytics.models.roofs.rates import TRIAL_ORDER, describe
from mansard.analytics.pages.results import Results
from mansard.core.precision import work_unit
from mansard.core.records import Manifest
from mansard.core.table import Table

PICO = 1e-12
TOTAL = "total"
# Trials that agree in these differ in their operands alone.
_SAME = ["run_id", "kernel", "backend", "precision", "fma_per_element"]
_SAME += ["working_set_bytes", "scope", "memory"]


def energy_table(results: Results) -> Table:
    """The coefficients of each metered mode with their intervals, or why there is none."""
    labels = results.labels()
    rows = [
        [display_name(labels[run_id]), *cells]
        for run_id, fit in results.energies.items()
        for cells in [*_costs(fit), *_true_idle(fit, results.dataset.manifest(run_id))]
    ]
    columns = ("Mode", "What", "Energy", "Remark")
    caption = "Energy of work, traffic and time, with 95 % intervals"
    return Table(caption, columns, rows, frozenset({2}))


def rail_table(results: Results) -> Table:
    """What work, traffic and time cost on each rail, fitted apart; empty without several rails."""
    labels = results.labels()
    rows = [
        [display_name(labels[run_id]), display_name(rail), what, cost]
        for run_id, fits in results.rail_energies.items()
        if run_id in labels and len(fits) > 1
        for rail, fit in fits.items()
        for what, cost, _ in _costs(fit)
    ]
    return Table("Costs on each rail", ("Mode", "Rail", "What", "Cost"), rows, frozenset({3}))


def _costs(fit: EnergyFit) -> Iterator[tuple[str, str, str]]:
    """What costs, its cost with an interval, and a remark where it is unknown."""
    costs = [
        *(
            (f"work in {display_name(name)}", cost, f"pJ/{work_unit(name)}", PICO)
            for name, cost in fit.flop_j.items()
        ),
        *(
            (f"traffic from {display_name(name)}", cost, "pJ/byte", PICO)
            for name, cost in fit.byte_j.items()
        ),
        ("constant power", fit.constant_w, "W", 1.0),
    ]
    for what, cost, unit, factor in costs:
        if cost.value is None or cost.low is None or cost.high is None:
            yield what, UNKNOWN, display_text(cost.unknown["value"])
        else:
            yield what, fixed(cost.value / factor, unit, cost.low / factor, cost.high / factor), ""


def _true_idle(fit: EnergyFit, manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """The power without a kernel, beside a constant power that was fitted with the clocks on."""
    idle_w = idle_power_w(manifest)
    if fit.n_stalled and idle_w is not None:
        yield "true idle", fixed(idle_w, "W"), "measured with nothing running; in no fit"


def energy_facts(results: Results) -> list[str]:
    """How well each fit describes its points, and which points are missing."""
    labels = results.labels()
    return [
        f"{display_name(labels[run_id])}: {_quality(fit)}"
        for run_id, fit in results.energies.items()
    ]


def _quality(fit: EnergyFit) -> str:
    idle = "with the clocks on and no work" if fit.n_stalled else "idle"
    points = f"{counted(fit.n_points, 'point')}, {fit.n_idle} of them {idle}"
    lacks = f"; {', '.join(fit.missing)}" if fit.missing else ""
    if not fit.residuals:
        return f"{points}{lacks}."
    typical, largest = (float(q(np.abs(fit.residuals))) for q in (np.median, np.max))
    misses = f"the model misses a point by {percent(typical)} (median), {percent(largest)} at most"
    return f"{points}; {misses}{lacks}."


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
    columns = ("Mode", "Rail", "Kernels", "Power", "Trials", "Idle")
    return Table("Median power of the trials", columns, rows, frozenset({3, 4, 5}))


def trial_powers(results: Results) -> pl.DataFrame:
    """Power of each undisturbed trial on each rail, W: energy over the length of its windows.

    Trials with constant operands are left out; ``operand_table`` has them.
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
    """Whether a value can be right: a rail may be off and read about 0, the total never is 0."""
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
    for manifest in results.dataset.all_manifests:
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


def operand_table(results: Results) -> Table:
    """Power and rate with chaotic operands beside those with constant operands."""
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
    columns = ("Mode", "Trial", "Chaotic", "Constant", "Power ratio", "Rate ratio")
    return Table(
        "Power with chaotic and with constant values", columns, rows, frozenset({2, 3, 4, 5})
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
