"""The report of a folder of runs: one page that holds everything and needs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mansard.analytics.charts.parameters import Chosen
from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import in_order, shown, shown_long
from mansard.analytics.report import (
    advice,
    ceiling_tables,
    gpu_tables,
    machine_tables,
    mode_cards,
    mode_figures,
    mode_tables,
    network_figures,
    network_tables,
    origin_tables,
    page,
    roof_figures,
    sections,
    sweep_figures,
)
from mansard.analytics.report.controls import controls, device_options, first_choice
from mansard.analytics.report.energy_tables import energy_facts, energy_table
from mansard.analytics.report.figures import Figure, pool
from mansard.analytics.report.latency_figure import latency_figure
from mansard.analytics.report.meter_tables import meter_facts, power_table
from mansard.analytics.report.notices import notices
from mansard.analytics.report.operand_tables import operand_table
from mansard.analytics.report.page_limits import for_page
from mansard.analytics.report.published_tables import published_table, source_table
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
    notes = [*left_out, *map(shown_long, notices(results))]  # of all modes, drawn or not
    return page.render("report.html.j2", _context(shown_results, notes))


def _context(results: Results, notes: Sequence[str]) -> dict[str, Any]:
    machines = in_order([shown(roof.place) for roof in results.roofs])
    chosen = first_choice(results)
    return {
        "title": _title(results, machines),
        "machines": machines,
        "sources": _sources(results),
        "started": _started(results),
        "notes": notes,
        "controls": controls(results, chosen),
        "cards": mode_cards.mode_cards(results, chosen.mode),
        "has_gpu": any(roof.processor == "gpu" for roof in results.roofs),
        "overview": advice.overview(results),
        "advice": advice.advice(results),
        "advice_table": advice.advice_table(results),
        "no_advice": advice.NO_ADVICE,
        "known_modes": mode_tables.known_modes_table(results),
        "scaling": mode_tables.scaling_table(results),
        **_figures(results, chosen),
        "balances": roof_figures.balances(results, chosen.mode),
        **_tables(results),
    }


def _figures(results: Results, chosen: Chosen) -> dict[str, Any]:
    """Every chart of the page by the name the template has for it, and their data."""
    points = roof_figures.roof_points(results)
    modes = mode_figures.gather(results)
    energy = roof_figures.arch_figure(results, chosen, points, "efficiency")
    is_half = isinstance(energy, Figure)
    found = {
        "roofline": roof_figures.roofline_figure(results, chosen, points, is_half=is_half),
        "energy_roofline": energy,
        "power_roof": roof_figures.arch_figure(results, chosen, points, "power"),
        "pareto": mode_figures.pareto_figure(modes, chosen),
        "heat": mode_figures.heat_figure(modes, chosen),
        "layers": network_figures.layer_figure(points, chosen, modes.first),
        "batches": network_figures.batch_figure(results, chosen, modes.first),
        "accuracy": network_figures.accuracy_figure(results, chosen),
        "staircase": sweep_figures.staircase_figure(results, chosen),
        "chains": sweep_figures.chain_figure(results, chosen),
        "latency": latency_figure(results, chosen),
    }
    drawn = [figure for figure in found.values() if isinstance(figure, Figure)]
    return {**found, "figures": drawn, "datasets": pool(drawn)}


def _tables(results: Results) -> dict[str, Any]:
    return {
        "peaks": ceiling_tables.peak_table(results),
        "bandwidths": ceiling_tables.bandwidth_table(results),
        "ridges": ceiling_tables.ridge_table(results),
        "latencies": gpu_tables.latency_table(results),
        "backends": gpu_tables.backend_table(results),
        "networks": network_tables.network_table(results),
        "measurements": network_tables.measurement_table(results),
        "details": network_tables.network_details(results),
        "machine_tables": machine_tables.machine_tables(results),
        "protocol": sections.protocol_facts(results),
        "traffic": sections.traffic_facts(results),
        "unstable": sections.unstable_table(results),
        "disturbed": sections.disturbed_table(results),
        "unused": sections.unused(results),
        "power": power_table(results),
        "meters": meter_facts(results),
        "energy": energy_table(results),
        "energy_facts": energy_facts(results),
        "operands": operand_table(results),
        "origins": origin_tables.origin_table(results),
        "rails": origin_tables.rail_table(results),
        "provenance": sections.provenance_table(results),
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
        return f"Power modes of {' and '.join(map(shown, device_options(results)))}"
    title = f"Rooflines of {' and '.join(machines)}"
    sources = {roof.source for roof in results.roofs}
    if "simulated" not in sources or title.endswith("(simulated)"):
        return title
    return f"{title} (simulated)" if len(sources) == 1 else f"{title} (partly simulated)"
