"""The report of a folder of runs: one page that holds everything and needs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import in_order, shown, shown_long
from mansard.analytics.predict.layers import NO_ENERGY
from mansard.analytics.report import (
    ceiling_tables,
    figures,
    gpu_tables,
    machine_tables,
    mode_cards,
    network_tables,
    page,
    sections,
)
from mansard.analytics.report.energy_tables import energy_facts, energy_table
from mansard.analytics.report.latency_figure import latency_figure
from mansard.analytics.report.meter_tables import meter_facts, power_table
from mansard.analytics.report.operand_tables import operand_table
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
    return page.render("report.html.j2", _context(results))


def _context(results: Results) -> dict[str, Any]:
    machines = in_order([shown(roof.place) for roof in results.roofs])
    return {
        "title": _title(results, machines),
        "machines": machines,
        "sources": in_order([roof.source for roof in results.roofs]),
        "cards": mode_cards.mode_cards(results),
        "peaks": ceiling_tables.peak_table(results),
        "bandwidths": ceiling_tables.bandwidth_table(results),
        "ridges": ceiling_tables.ridge_table(results),
        "roofline": figures.roofline_figure(results),
        "staircase": figures.staircase_figure(results),
        "chains": figures.chain_figure(results),
        "latency": latency_figure(results),
        "latencies": gpu_tables.latency_table(results),
        "backends": gpu_tables.backend_table(results),
        "has_gpu": any(roof.processor == "gpu" for roof in results.roofs),
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
        "no_energy": NO_ENERGY,
        "provenance": sections.provenance_table(results),
        "notes": [shown_long(note) for note in results.dataset.notes],
        "started": min(manifest.started_utc for manifest in results.dataset.manifests)[:10],
    }


def _title(results: Results, machines: list[str]) -> str:
    title = f"Rooflines of {' and '.join(machines)}"
    sources = {roof.source for roof in results.roofs}
    if "simulated" not in sources or title.endswith("(simulated)"):
        return title
    return f"{title} (simulated)" if len(sources) == 1 else f"{title} (partly simulated)"
