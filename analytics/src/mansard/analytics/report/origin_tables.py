"""Where the numbers of a page come from, kind by kind, and what its modes cost on each rail."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from mansard.analytics.data.names import in_order, shown, shown_long
from mansard.analytics.data.quantities import UNKNOWN, fixed
from mansard.analytics.energy.fit import Coefficient
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results

PICO = 1e-12


def origin_table(results: Results) -> Table:
    """One row for each kind of number: its source, how many there are, and what they rest on."""
    rows = [
        *_roof_rows(results),
        _energy_row(results),
        *_mode_rows(results),
        _prediction_row(results),
        *_observation_rows(results),
        _clock_row(results),
        _boundary_row(results),
    ]
    return Table("Where the numbers come from", ("What", "Source", "How many", "Rests on"), rows)


def _roof_rows(results: Results) -> Iterator[list[str]]:
    for source in in_order([roof.source for roof in results.roofs]):
        own = {roof.run_id for roof in results.roofs if roof.source == source}
        n_trials = sum(rate.run_id in own for rate in results.rates)
        rests = "figures of others" if source == "published" else f"{n_trials:,} trials"
        yield ["Roofs", source, f"{len(own)} modes", rests]


def _energy_row(results: Results) -> list[str]:
    n_points = sum(fit.n_points for fit in results.energies.values())
    if not n_points:
        return ["Energy of work, traffic and time", "unknown", "none", "no metered trial"]
    n_modes = len(results.energies)
    rests = f"{n_points:,} metered points, by least squares"
    return ["Energy of work, traffic and time", "modelled", f"{n_modes} modes", rests]


def _mode_rows(results: Results) -> Iterator[list[str]]:
    modelled = results.coefficients.filter(pl.col("source") == "modelled")
    if modelled.is_empty():
        return
    n_modes = modelled.select("device", "mode").n_unique()
    n_fitted = max((n for n in modelled["n_fitted"].to_list() if n is not None), default=None)
    rests = f"scaled from {n_fitted or UNKNOWN} measured modes by their clocks"
    yield ["Roofs and costs of other modes", "modelled", f"{n_modes:,} modes", rests]


def _prediction_row(results: Results) -> list[str]:
    found = results.predictions
    n_outside = found.filter(pl.col("is_extrapolated").fill_null(False)).height
    n_calibrated = found.filter(pl.col("is_calibrated").fill_null(False)).height
    n_unknown = found["latency_s"].null_count()
    parts = ["work and traffic counted from the graphs"]
    parts += [f"{n_calibrated:,} fitted to measurements"] if n_calibrated else ["not calibrated"]
    parts += [f"{n_outside:,} outside the measured clocks"] if n_outside else []
    parts += [f"{n_unknown:,} unknown"] if n_unknown else []
    return ["Networks", "modelled", f"{len(found):,} predictions", "; ".join(parts)]


def _observation_rows(results: Results) -> Iterator[list[str]]:
    grouped = results.observations.group_by("source").agg(
        pl.len(), pl.col("citation").drop_nulls().unique().sort()
    )
    for row in grouped.sort("source").iter_rows(named=True):
        rests = "; ".join(shown_long(each) for each in row["citation"]) or "runs beside this page"
        yield ["Networks that were run", row["source"], f"{row['len']:,} times", rests]


def _clock_row(results: Results) -> list[str]:
    known = [roof for roof in results.roofs if roof.clock_hz is not None]
    source = in_order([roof.source for roof in known])
    if not known:
        reasons = in_order([roof.unknown.get("clock_hz", "") for roof in results.roofs])
        return ["GPU clocks", "unknown", "none", shown_long("; ".join(reasons))]
    rests = "counted by the kernels themselves, median over the trials"
    return ["GPU clocks", " and ".join(source), f"{len(known)} modes", rests]


def _boundary_row(results: Results) -> list[str]:
    metered = [each for each in results.dataset.manifests if each.total_rails is not None]
    if not metered:
        return ["Power", "unknown", "none", "no meter gives a total"]
    meters = in_order([name for each in metered for name in each.meters])
    rules = in_order([each.total_rule or UNKNOWN for each in metered])
    boundaries = in_order([each.boundary or UNKNOWN for each in metered])
    rests = (
        f"{shown_long(', '.join(meters))}; total: {shown_long(' or '.join(rules))}; "
        f"boundary: {shown_long(' or '.join(boundaries))}"
    )
    made_up = any(each.machine.is_simulated for each in metered)
    return ["Power", "simulated" if made_up else "measured", f"{len(metered)} modes", rests]


def rail_table(results: Results) -> Table:
    """What work, traffic and time cost on each rail, fitted apart; empty without several rails."""
    labels = results.labels()
    rows = [
        [shown(labels[run_id]), shown(rail), what, text]
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
        yield f"work in {shown(name)}", _scaled(cost, "pJ/FLOP", PICO)
    for name, cost in byte_j.items():
        yield f"traffic from {shown(name)}", _scaled(cost, "pJ/byte", PICO)
    yield "constant power", _scaled(constant_w, "W", 1.0)


def _scaled(cost: Coefficient, unit: str, factor: float) -> str:
    if cost.value is None or cost.low is None or cost.high is None:
        return UNKNOWN
    return fixed(cost.value / factor, unit, cost.low / factor, cost.high / factor)
