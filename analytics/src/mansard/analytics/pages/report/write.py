"""The report of a folder of runs: one self-contained page."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.decisions.offload.records import Hierarchical
from mansard.analytics.models.contention import VictimContention
from mansard.analytics.models.counters.check import CheckedNetwork
from mansard.analytics.models.layers.measured import layers_with_scores
from mansard.analytics.models.roofs.rates import unused_trials
from mansard.analytics.pages.figures.accuracy import accuracy_figure
from mansard.analytics.pages.figures.batches import batch_figure
from mansard.analytics.pages.figures.contexts import context_figures
from mansard.analytics.pages.figures.energy_roofline import arch_figure
from mansard.analytics.pages.figures.figure import Figure, evenly, live_tables, pool
from mansard.analytics.pages.figures.layers import layer_figures
from mansard.analytics.pages.figures.modes import gather, heat_figure, pareto_figure
from mansard.analytics.pages.figures.network_points import roof_points
from mansard.analytics.pages.figures.offload import offload_sections
from mansard.analytics.pages.figures.parameters import (
    Chosen,
    controls,
    device_options,
    first_choice,
    roof_devices,
    starts,
)
from mansard.analytics.pages.figures.roof_shares import share_figure
from mansard.analytics.pages.figures.roofline import roofline_figure
from mansard.analytics.pages.figures.sweeps import chain_figure, latency_figure, staircase_figure
from mansard.analytics.pages.report import next_step, opening, page
from mansard.analytics.pages.report.layers_page import layers_sections
from mansard.analytics.pages.report.summary import notices, warnings
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables import (
    advice,
    calibration,
    ceilings,
    contention,
    counters,
    energy,
    headline,
    modes,
    networks,
    offloads,
    provenance,
)
from mansard.core.text import listed

MOST_ROOFS, LEAST_ROOFS = 16, 4  # power modes with roofs, sweeps and tables of their own
MOST_NOTES = 8  # of more the rest is folded
MOST_NAMED = 3  # machines in the title
_KINDS = (" (published)", " (simulated)")
_METHODS = {
    (): "How was it measured?",
    ("measured",): "How was it measured?",
    ("simulated",): "How was it simulated?",
}
MOST_ENGINES, MOST_LAYERS = 6, 40  # whose layers are drawn, and listed of each
MOST_PAIRS = 300  # of a mode and a network in one precision, each with its layers


def write_report(
    dataset: Dataset,
    path: Path,
    results: Results | None = None,
    *,
    within: Path | None = None,
    answers: Mapping[str, Hierarchical] = MappingProxyType({}),
    checked: Sequence[CheckedNetwork] = (),
    contended: Sequence[VictimContention] = (),
) -> Path:
    """Write the report of ``dataset`` to ``path``, whole or not at all; returns ``path``.

    ``within``: a folder of runs that it is part of, as in ``core.storage.files``. ``answers``: of
    hierarchical inference, by name. ``checked``: estimates held against counters. ``contended``:
    contention, with its fits. The same dataset gives the same page. Raises StorageError where the
    page cannot be written.
    """
    context = _context(results or compute(dataset), answers, checked, contended)
    return page.write_page("report.html.j2", context, path, within)


def render(results: Results) -> str:
    """The page as text."""
    return page.render("report.html.j2", _context(results))


def _context(
    every: Results,
    answers: Mapping[str, Hierarchical] = MappingProxyType({}),
    checked: Sequence[CheckedNetwork] = (),
    contended: Sequence[VictimContention] = (),
) -> dict[str, Any]:
    """What the template shows of ``every`` result, by the names in it."""
    results, left_out = for_page(every)
    ran = in_order([row.source for row in results.measured])
    ran_programs = in_order([row.source for row in results.programs])
    served = in_order([row.source for row in results.generations])
    times = [*results.observations["source"].to_list(), *ran, *ran_programs, *served]
    chosen = first_choice(results)
    offloaded = offload_sections(answers)
    beside = contention.sections(contended)
    own_figures = [figure for section in offloaded for figure in section.figures]
    own_figures += [figure for section in beside for figure in section.figures]
    of_layers = layers_with_scores(results.dataset, results.roofs, MOST_ENGINES + 1)
    engines = layers_sections(of_layers, MOST_ENGINES, MOST_LAYERS)
    own_figures += [figure for section in engines for figure in section.figures]
    of_models = context_figures(results)
    own_figures += of_models
    # Where the roofs come from; without any, the times of networks.
    sources = in_order([roof.source for roof in results.roofs] or times)
    return {
        "offloads": offloaded,
        "ran_offloads": offloads.ran_offloads(results.dataset),
        "contention": beside,
        "engines": engines,
        "has_more_engines": len(of_layers) > len(engines),
        "contexts": of_models,
        "counted": counters.sections(checked),
        "title": _title(results, chosen),
        "sources": sources,
        "method": _METHODS.get(tuple(sources), "Where do the numbers come from?"),
        "when": _when(results, sources),
        "warnings": warnings(every),
        # Of all modes, drawn or not.
        "most_notes": MOST_NOTES,
        "notes": [*_refused(every), *left_out, *map(display_text, notices(every))],
        "controls": controls(results, chosen),
        "choice": page.choice(chosen, starts(results)),
        **_first_screen(every, results, chosen),
        "has_kernels": bool(results.dataset.manifests),
        "is_metered": any(run.total_rails is not None for run in results.dataset.all_manifests),
        "has_gpu": any(roof.processor == "gpu" for roof in results.roofs),
        "known_modes": modes.known_modes_table(results),
        "scaling": modes.scaling_table(results),
        **_figures(results, chosen, own_figures),
        "peaks": ceilings.peak_table(results),
        "bandwidths": ceilings.bandwidth_table(results),
        "ridges": ceilings.ridge_table(results),
        "latencies": ceilings.latency_table(results),
        "launches": ceilings.launch_table(results),
        "backends": ceilings.backend_table(results),
        "networks": networks.network_table(results),
        "measured": networks.measured_tables(results),
        "programs": networks.program_table(results),
        "generations": networks.generation_table(results),
        "accuracies": networks.accuracy_table(results),
        "parts": networks.part_tables(results),
        "memory": networks.memory_tables(results),
        "calibration": calibration.calibration_tables(
            calibration.calibration_summaries(
                results.calibration, results.of_runs.models.node_launches
            )
        ),
        "measured_sources": ran,
        "program_sources": ran_programs,
        "generation_sources": served,
        "machine_tables": modes.machine_tables(results),
        "protocol": modes.protocol_facts(results),
        "traffic": modes.traffic_facts(results),
        "unstable": modes.unstable_table(results),
        "disturbed": modes.disturbed_table(results),
        "unused": list(unused_trials(results.dataset)),
        "power": energy.power_table(results),
        "meters": energy.meter_facts(results),
        "energy": energy.energy_table(results),
        "energy_facts": energy.energy_facts(results),
        "operands": energy.operand_table(results),
        "rails": energy.rail_table(results),
        "origins": provenance.origin_table(results),
        "provenance": provenance.provenance_table(results),
        "published": provenance.published_table(results.published),
        "published_sources": provenance.source_table(results.published),
    }


def _refused(every: Results) -> list[str]:
    """Why nothing is recommended, where there are modes to choose between."""
    return [] if next_step.is_one_mode(every) else advice.refusals(every)


def _first_screen(every: Results, results: Results, chosen: Chosen) -> dict[str, Any]:
    """Of one mode what it does and limits; of several the recommendation and the choices."""
    is_one = next_step.is_one_mode(every)
    lines = zip(advice.overview(results), advice.overview_sources(results), strict=True)
    shown_device = f"{display_name(chosen.device)}: "  # of several devices the one that charts show
    return {
        "is_one_mode": is_one,
        "facts": opening.limits(results, chosen),
        "ceilings": opening.ceilings(results, chosen) if is_one else [],
        "next": (step := next_step.next_step(every)).title,
        "next_command": step.on_page(every),
        "results": headline.headlines(every, chosen),
        "choices": [] if is_one else opening.choice_tables(every, chosen.device),
        "overview": sorted(lines, key=lambda line: not line[0].startswith(shown_device)),
        "advice": advice.advice(results),
        "advice_table": advice.advice_table(results),
        "n_refused": 0
        if is_one
        else sum(answer.choice is None for answer in every.recommendations),
        "no_advice": advice.NO_ADVICE,
    }


def _figures(results: Results, chosen: Chosen, others: Sequence[Figure]) -> dict[str, Any]:
    """Every chart of the page by the name the template has for it, and their data.

    ``others``: of sections that bring their own.
    """
    points = roof_points(results)
    mode_points = gather(results, chosen)
    of_energy = arch_figure(results, chosen, points, "efficiency")
    by_name = {
        "roofline": roofline_figure(results, chosen, points),
        "shares": share_figure(results, chosen, points),
        "energy_roofline": of_energy,
        "power_roof": arch_figure(results, chosen, points, "power"),
        "pareto": pareto_figure(mode_points, chosen),
        "heat": heat_figure(mode_points, chosen),
        **layer_figures(points, chosen, mode_points.first, mode_points.why_empty),
        "batches": batch_figure(results, chosen, mode_points.first),
        "accuracy": accuracy_figure(results, chosen),
        "staircase": staircase_figure(results, chosen),
        "chains": chain_figure(results, chosen),
        "latency": latency_figure(results, chosen),
    }
    drawn = [figure for figure in (*by_name.values(), *others) if isinstance(figure, Figure)]
    return {
        "layer_energy": None,  # where none is known
        **by_name,
        "mode_sources": in_order(mode_points.drawn.frame["source"].to_list()),
        "layered": in_order(points.layers["network"].to_list()),
        "figures": drawn,
        "datasets": pool(drawn),
        "tables": live_tables(drawn),
    }


def _when(results: Results, sources: Sequence[str]) -> str:
    """``published; simulated on 2026-11-29``: the sources, and the days of the runs."""
    days = sorted({run.started_utc[:10] for run in results.dataset.all_manifests})
    of_runs = " and ".join(source for source in sources if source in {"measured", "simulated"})
    others = [source for source in sources if source not in {"measured", "simulated"}]
    if of_runs and days:
        dated = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"
        return "; ".join([*others, f"{of_runs} {dated}"])
    return " and ".join(sources)


def _title(results: Results, chosen: Chosen) -> str:
    """The machines, the chosen one first; once at the end that all are published or simulated."""
    devices = roof_devices(results)
    machines = {display_name(roof.full_name): devices[roof.label] for roof in results.roofs}
    machines = machines or {display_name(name): name for name in device_options(results)}
    names = sorted(in_order([*machines]), key=lambda name: machines[name] != chosen.device)
    kinds = {kind for kind in _KINDS if all(name.endswith(kind) for name in names)}
    plain = [name.removesuffix(next(iter(kinds), "")) for name in names]
    if len(plain) > MOST_NAMED:
        plain = [plain[0], f"{len(plain) - 1} more"]
    title = f"{'Rooflines' if results.roofs else 'Power modes'} of {listed(plain)}{''.join(kinds)}"
    sources = {roof.source for roof in results.roofs}
    if "simulated" not in sources or title.endswith("(simulated)"):
        return title
    return f"{title} (simulated)" if len(sources) == 1 else f"{title} (partly simulated)"


def for_page(results: Results) -> tuple[Results, tuple[str, ...]]:
    """``results`` with at most MOST_ROOFS roofs, fewer under many networks, and a note.

    The recommended modes are kept, of the others an even choice in their order. Predictions,
    modes and recommendations stay whole: their charts make a choice of their own. So the page
    stays under 2 MB.
    """
    n_networks = results.networks.select("model", "model_hash", "precision").n_unique()
    n_most = max(LEAST_ROOFS, min(MOST_ROOFS, MOST_PAIRS // max(1, n_networks)))
    if len(results.roofs) <= n_most:
        return results, ()
    wanted = {answer.choice.mode for answer in results.recommendations if answer.choice is not None}
    first = [roof.run_id for roof in results.roofs if roof.mode in wanted][: n_most // 2]
    others = [roof.run_id for roof in results.roofs if roof.run_id not in first]
    shown_ids = {*first, *evenly(others, n_most - len(first))}
    is_shown = pl.col("run_id").is_in(sorted(shown_ids))
    dataset, of_runs = results.dataset, results.of_runs
    kept_results = dataclasses.replace(
        results,
        dataset=dataclasses.replace(
            dataset,
            manifests=tuple(run for run in dataset.manifests if run.run_id in shown_ids),
            trials=dataset.trials.filter(is_shown),
            repetitions=dataset.repetitions.filter(is_shown),
            energy=dataset.energy.filter(is_shown),
        ),
        roofs=tuple(roof for roof in results.roofs if roof.run_id in shown_ids),
        of_runs=dataclasses.replace(
            of_runs, modes=of_runs.modes.filter(pl.col("mode").is_in(sorted(shown_ids)))
        ),
        rates=tuple(rate for rate in results.rates if rate.run_id in shown_ids),
        networks=results.networks.filter(is_shown),
        energies={run: fit for run, fit in results.energies.items() if run in shown_ids},
    )
    note = (
        f"{len(shown_ids)} of {len(results.roofs)} modes have their roofs on this page; "
        "predictions and recommendations use all of them."
    )
    return kept_results, (note,)
