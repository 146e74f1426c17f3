"""The report of a folder of runs: one page that holds everything and needs nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.figures.accuracy import accuracy_figure
from mansard.analytics.figures.batches import batch_figure
from mansard.analytics.figures.energy_roofline import arch_figure, balances
from mansard.analytics.figures.figure import Figure, evenly, pool
from mansard.analytics.figures.layers import layer_figure
from mansard.analytics.figures.modes import gather, heat_figure, pareto_figure
from mansard.analytics.figures.network_points import roof_points
from mansard.analytics.figures.parameters import Chosen, controls, device_options, first_choice
from mansard.analytics.figures.roofline import roofline_figure
from mansard.analytics.figures.sweeps import chain_figure, latency_figure, staircase_figure
from mansard.analytics.report import page
from mansard.analytics.report.advice import NO_ADVICE, advice, advice_table, overview
from mansard.analytics.report.cards import mode_cards
from mansard.analytics.report.ceilings import (
    backend_table,
    bandwidth_table,
    latency_table,
    peak_table,
    ridge_table,
)
from mansard.analytics.report.energy import (
    energy_facts,
    energy_table,
    meter_facts,
    operand_table,
    power_table,
    rail_table,
)
from mansard.analytics.report.measured import (
    disturbed_table,
    machine_tables,
    protocol_facts,
    traffic_facts,
    unstable_table,
    unused,
)
from mansard.analytics.report.modes import known_modes_table, scaling_table
from mansard.analytics.report.networks import measurement_table, network_details, network_table
from mansard.analytics.report.notices import notices
from mansard.analytics.report.provenance import (
    origin_table,
    provenance_table,
    published_table,
    source_table,
)
from mansard.analytics.results import Results, compute
from mansard.core.files import make_folder, write_atomic


def write_report(dataset: Dataset, path: Path, results: Results | None = None) -> Path:
    """Write the report of ``dataset`` to ``path`` whole or not at all; returns ``path``.

    The same dataset gives the same page. Raises StorageError where the page cannot
    be written.
    """
    text = render(results or compute(dataset))
    make_folder(path.parent)
    write_atomic(path, text.encode())
    return path


def render(results: Results) -> str:
    """The page as text."""
    shown_results, left_out = for_page(results)
    notes = [*left_out, *map(display_text, notices(results))]  # of all modes, drawn or not
    return page.render("report.html.j2", _context(shown_results, notes))


def _context(results: Results, notes: Sequence[str]) -> dict[str, Any]:
    machines = in_order([display_name(roof.full_name) for roof in results.roofs])
    chosen = first_choice(results)
    return {
        "title": _title(results, machines),
        "machines": machines,
        "sources": _sources(results),
        "started": _started(results),
        "notes": notes,
        "controls": controls(results, chosen),
        "cards": mode_cards(results, chosen.mode),
        "has_gpu": any(roof.processor == "gpu" for roof in results.roofs),
        "overview": overview(results),
        "advice": advice(results),
        "advice_table": advice_table(results),
        "no_advice": NO_ADVICE,
        "known_modes": known_modes_table(results),
        "scaling": scaling_table(results),
        **_figures(results, chosen),
        "balances": balances(results, chosen.mode),
        **_tables(results),
    }


def _figures(results: Results, chosen: Chosen) -> dict[str, Any]:
    """Every chart of the page by the name the template has for it, and their data."""
    points = roof_points(results)
    modes = gather(results)
    energy = arch_figure(results, chosen, points, "efficiency")
    is_half = isinstance(energy, Figure)
    found = {
        "roofline": roofline_figure(results, chosen, points, is_half=is_half),
        "energy_roofline": energy,
        "power_roof": arch_figure(results, chosen, points, "power"),
        "pareto": pareto_figure(modes, chosen),
        "heat": heat_figure(modes, chosen),
        "layers": layer_figure(points, chosen, modes.first),
        "batches": batch_figure(results, chosen, modes.first),
        "accuracy": accuracy_figure(results, chosen),
        "staircase": staircase_figure(results, chosen),
        "chains": chain_figure(results, chosen),
        "latency": latency_figure(results, chosen),
    }
    drawn = [figure for figure in found.values() if isinstance(figure, Figure)]
    return {**found, "figures": drawn, "datasets": pool(drawn)}


def _tables(results: Results) -> dict[str, Any]:
    return {
        "peaks": peak_table(results),
        "bandwidths": bandwidth_table(results),
        "ridges": ridge_table(results),
        "latencies": latency_table(results),
        "backends": backend_table(results),
        "networks": network_table(results),
        "measurements": measurement_table(results),
        "details": network_details(results),
        "machine_tables": machine_tables(results),
        "protocol": protocol_facts(results),
        "traffic": traffic_facts(results),
        "unstable": unstable_table(results),
        "disturbed": disturbed_table(results),
        "unused": unused(results),
        "power": power_table(results),
        "meters": meter_facts(results),
        "energy": energy_table(results),
        "energy_facts": energy_facts(results),
        "operands": operand_table(results),
        "origins": origin_table(results),
        "rails": rail_table(results),
        "provenance": provenance_table(results),
        "published": published_table(results.published),
        "published_sources": source_table(results.published),
    }


def _sources(results: Results) -> list[str]:
    """Where the roofs come from; without any, the times of networks."""
    roofs = [roof.source for roof in results.roofs]
    return in_order(roofs or results.observations["source"].to_list())


def _started(results: Results) -> str:
    """The day of the first run; published roofs have none."""
    days = [manifest.started_utc[:10] for manifest in results.dataset.manifests]
    return f"from {min(days)}" if days else ""


def _title(results: Results, machines: list[str]) -> str:
    if not machines:
        return f"Power modes of {' and '.join(map(display_name, device_options(results)))}"
    title = f"Rooflines of {' and '.join(machines)}"
    sources = {roof.source for roof in results.roofs}
    if "simulated" not in sources or title.endswith("(simulated)"):
        return title
    return f"{title} (simulated)" if len(sources) == 1 else f"{title} (partly simulated)"


MOST_ROOFS, LEAST_ROOFS = 12, 4  # power modes with roofs, sweeps and tables of their own


MOST_PAIRS = 300  # of a mode and a network in one precision, each with its layers


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
