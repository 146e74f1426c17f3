"""Pages about one answer: of hierarchical inference, of a schedule, or of scored networks.

Layers of scored networks are drawn under the roofs of a machine where one is named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.data.quantities import UNKNOWN, counted, digits
from mansard.analytics.decisions.offload.records import Hierarchical
from mansard.analytics.pages.figures.figure import Figure, live_tables, pool
from mansard.analytics.pages.figures.gantt import gantt_figure, last_s
from mansard.analytics.pages.figures.layers import (
    busy_layers,
    layer_name,
    share_figure,
    spread_figure,
)
from mansard.analytics.pages.figures.network_points import roof_points
from mansard.analytics.pages.figures.offload import offload_sections
from mansard.analytics.pages.figures.parameters import controls, first_choice, starts
from mansard.analytics.pages.figures.roofline import roofline_figure
from mansard.analytics.pages.figures.tables import Column, scaled, tabulate
from mansard.analytics.pages.report.page import choice, write_page
from mansard.analytics.pages.results import compute
from mansard.analytics.pages.tables.schedules import method_table, network_table
from mansard.core.precision import unit_title
from mansard.core.records import LayerScore, ModelScore, Problem, Schedule
from mansard.core.table import Table
from mansard.core.text import listed
from mansard.estimator.summary import differing_dimensions

MOST_NETWORKS = 12  # with charts and tables of their own; the summary has all
_NO_ROOFS: dict[str, Any] = {"roofline": None, "machine": "", "sources": [], "controls": []}
MOST_ROWS = 600  # layers listed of one network: the page stays small


@dataclass(frozen=True)
class ScoreSection:
    """The part of the page about one score."""

    anchor: str
    title: str
    sentence: str
    shares: Figure
    spread: Figure
    operators: Table
    classes: Table
    layers: Table
    note: str


def write_score_page(scores: Sequence[ModelScore], path: Path, machine: Path | None) -> None:
    """Write the page about ``scores`` to ``path``, whole or not at all.

    ``machine`` is a folder of runs; its roofs are drawn with the layers under them.
    Raises StorageError, and what ``ingest`` raises for a folder that holds no runs.
    """
    write_page("score.html.j2", _context(scores, machine), path)


def _context(scores: Sequence[ModelScore], machine: Path | None) -> dict[str, Any]:
    sizes = differing_dimensions(scores)
    sections = [
        _section(number, score, sizes[number])
        for number, score in enumerate(scores[:MOST_NETWORKS])
    ]
    roofs = _under_roofs(scores, machine) if machine is not None else _NO_ROOFS
    names = in_order([display_name(score.model) for score in scores])
    left = len(scores) - len(sections)
    drawn = [
        *([roofs["roofline"]] if roofs["roofline"] is not None else []),
        *(figure for section in sections for figure in (section.shares, section.spread)),
    ]
    return {
        "title": f"Work of {names[0]}" if len(names) == 1 else f"Work of {len(names)} networks",
        "summary": summary_table(scores, sizes),
        "left_out": f"{left} more have no section of their own." if left else "",
        "networks": sections,
        **roofs,
        "figures": drawn,
        "datasets": pool(drawn),
        "tables": live_tables(drawn),
    }


# A page of a score has the machine's roofs and not what else ran on it.
_NOTHING_RUN: dict[str, Any] = {
    "workload_manifests": (),
    "measurements": (),
    "programs": (),
    "generations": (),
    "accuracy_manifests": (),
    "accuracies": (),
}


def _under_roofs(scores: Sequence[ModelScore], machine: Path) -> dict[str, Any]:
    """The template's context for scores under the roofs of ``machine``.

    Where upper bounds of work and of traffic lie there says nothing of the network.
    """
    exact = [score for score in scores if not score.bounds]
    if not exact:
        return _NO_ROOFS
    results = compute(
        dataclasses.replace(
            ingest(machine),
            scores=tuple(exact),
            layers=layer_frame(exact),
            **_NOTHING_RUN,
        )
    )
    chosen = first_choice(results)
    roofline = roofline_figure(results, chosen, roof_points(results))
    return {
        "roofline": roofline if isinstance(roofline, Figure) else None,
        "machine": " and ".join(in_order([display_name(roof.machine) for roof in results.roofs])),
        "sources": in_order([roof.source for roof in results.roofs]),
        "controls": controls(results, chosen),
        "choice": choice(chosen, starts(results)),
    }


def _section(number: int, score: ModelScore, sizes: str) -> ScoreSection:
    layers = busy_layers(score)
    name = full_name(score, sizes)
    title = name if score.batch is None else f"{name}, batch {score.batch}"
    operators, classes = operator_table(score), class_table(score)
    table, note = layer_table(score)
    return ScoreSection(
        anchor=f"network-{number}",
        title=f"{title}, {score.phase}" if score.phase == "training" else title,
        sentence=_sentence(score, len(layers)),
        shares=share_figure(number, name, layers, operators),
        spread=spread_figure(number, name, layers, classes),
        operators=operators,
        classes=classes,
        layers=table,
        note=note,
    )


def _sentence(score: ModelScore, n_busy: int) -> str:
    unknown = sum(layer.work_flop is None for layer in score.layers)
    sizes = ", ".join(f"{display_name(name)} = {size}" for name, size in score.dimensions.items())
    parts = [f"{len(score.layers)} nodes, {n_busy} of which work or move something"]
    if sizes:
        parts.append(f"with {sizes}")
    if score.alternatives:
        parts.append(f"{len(score.alternatives)} more in branches that are not taken")
    if unknown:
        parts.append(f"{unknown} are unknown and not part of any sum of this page")
    if score.bounds:
        parts.append(
            f"{len(score.bounds)} sizes that depend on data are upper bounds: every figure here "
            "is the most that the network needs"
        )
    return "; ".join(parts) + "."


def full_name(score: ModelScore, sizes: str) -> str:
    """A network's name with the ``sizes`` in which its scores differ."""
    return (
        f"{display_name(score.model)}, {display_name(sizes)}"
        if sizes
        else display_name(score.model)
    )


def summary_table(scores: Sequence[ModelScore], sizes: Sequence[str]) -> Table:
    """One row of sums for each score; ``sizes`` tell scores of one network apart."""

    def total(title: str, name: str, unit: float = 1e6) -> Column:
        def cell(row: tuple[ModelScore, str]) -> str:
            values = [getattr(layer, name) for layer in row[0].layers]
            known = sum(filter(None, values))
            if None not in values:
                return _most(row[0], scaled(known, unit))
            is_subtotal = known and not row[0].bounds
            return f"at least {scaled(known, unit)}" if is_subtotal else UNKNOWN

        return Column(title, cell, is_numeric=True)

    def own(title: str, name: str) -> Column:
        def cell(row: tuple[ModelScore, str]) -> str:
            value = getattr(row[0], name)
            return _most(row[0], scaled(value, 1e6)) if value is not None else UNKNOWN

        return Column(title, cell, is_numeric=True)

    work = unit_title("G{}", (score.precision for score in scores))
    columns = (
        Column("Network", lambda row: full_name(*row)),
        Column(
            "Batch",
            lambda row: UNKNOWN if row[0].batch is None else str(row[0].batch),
            is_numeric=True,
        ),
        Column("Precision", lambda row: row[0].precision),
        Column("Phase", lambda row: row[0].phase),
        *(total("GMAC", "macs", 1e9), total(work, "work_flop", 1e9)),
        *(total("Parameters, M", "parameters"), total("Weights, MB", "weight_bytes")),
        *(total("Traffic, MB", "traffic_bytes"), total("Fused, MB", "fused_traffic_bytes")),
        total("Cached, MB", "cached_traffic_bytes"),
        own("Activations, MB", "peak_activation_bytes"),
        own("KV cache, MB", "kv_cache_bytes"),
        Column("Memory, MB", _memory_cell, is_numeric=True),
    )
    return tabulate("Sums over all layers", columns, zip(scores, sizes, strict=True))


def _memory_cell(row: tuple[ModelScore, str]) -> str:
    """The sum of weights, activations and caches."""
    from mansard.estimator import totals

    n_bytes = totals(row[0]).memory_bytes
    return UNKNOWN if n_bytes is None else _most(row[0], scaled(n_bytes, 1e6))


def _most(score: ModelScore, text: str) -> str:
    return f"at most {text}" if score.bounds else text


def operator_table(score: ModelScore) -> Table:
    """Work and bytes by operator, the heaviest first."""
    work: dict[str, list[int]] = {}
    for layer in busy_layers(score):
        sums = work.setdefault(layer.op_type, [0, 0, 0])
        sums[0] += layer.runs
        sums[1] += layer.work_flop or 0
        sums[2] += layer.traffic_bytes or 0
    whole = sum(sums[1] for sums in work.values()) or 1
    rows = [
        [
            display_name(name),
            str(runs),
            scaled(flop, 1e6),
            f"{100 * flop / whole:.3g}",
            scaled(moved, 1e6),
        ]
        for name, (runs, flop, moved) in sorted(work.items(), key=lambda item: -item[1][1])
    ]
    columns = ("Operator", "Runs", _work_title("M{}", busy_layers(score)), "Share, %", "MB")
    return Table("By operator", columns, rows, frozenset({1, 2, 3, 4}))


def class_table(score: ModelScore) -> Table:
    """The work by class, by precision and by the unit that could do it."""
    layers = busy_layers(score)
    parts: dict[tuple[str, str], int] = {
        ("class", "multiply-adds"): sum(layer.multiply_add_flop or 0 for layer in layers),
        ("class", "single operations"): sum(layer.simple_flop or 0 for layer in layers),
        ("class", "functions"): sum(layer.function_flop or 0 for layer in layers),
    }
    for layer in layers:
        for key in (("precision", layer.precision), ("unit", layer.unit)):
            parts[key] = parts.get(key, 0) + (layer.work_flop or 0)
    whole = sum(layer.work_flop or 0 for layer in layers) or 1
    rows = [
        [by, display_name(name), scaled(flop, 1e6), f"{100 * flop / whole:.3g}"]
        for (by, name), flop in sorted(parts.items(), key=lambda item: (item[0][0], -item[1]))
    ]
    columns = ("By", "Work", _work_title("M{}", layers), "Share, %")
    return Table("By kind of work", columns, rows, frozenset({2, 3}))


def layer_table(score: ModelScore) -> tuple[Table, str]:
    """The layers in the order of the file, and a note where some are left out."""
    layers = busy_layers(score)
    listed = layers
    if len(layers) > MOST_ROWS:
        heaviest = sorted(layers, key=lambda layer: -(layer.work_flop or 0))[:MOST_ROWS]
        listed = sorted(heaviest, key=lambda layer: layer.index)
    work, intensity = (_work_title(form, listed) for form in ("M{}", "{}/byte"))
    columns = ("Layer", "Operator", "Precision", "Unit", "Runs", work, "MB", intensity)
    rows = [_layer_row(layer) for layer in listed]
    left = len(layers) - len(listed)
    note = f"{left} layers with less work are left out; --format csv has all." if left else ""
    return Table("Layers", (*columns, "Fused, MB"), rows, frozenset({4, 5, 6, 7, 8})), note


def _work_title(form: str, layers: Sequence[LayerScore]) -> str:
    """``form`` with the unit of the work of ``layers``."""
    return unit_title(form, (layer.precision for layer in layers if layer.work_flop))


def _layer_row(layer: LayerScore) -> list[str]:
    moved = layer.traffic_bytes or 0
    return [
        layer_name(layer),
        display_name(layer.op_type),
        layer.precision,
        layer.unit,
        str(layer.runs),
        scaled(layer.work_flop, 1e6),
        scaled(moved, 1e6),
        digits((layer.work_flop or 0) / moved, 3) if moved else "–",
        scaled(layer.fused_traffic_bytes, 1e6),
    ]


def write_offload_page(answer: Hierarchical, name: str, path: Path) -> None:
    """Write the page to ``path``, whole or not at all; raises StorageError."""
    offloads = offload_sections({name: answer})
    drawn = [figure for section in offloads for figure in section.figures]
    context: dict[str, Any] = {
        "title": f"Hierarchical inference: {display_name(name)}",
        "offloads": offloads,
        "figures": drawn,
        "datasets": pool(drawn),
        "tables": live_tables(drawn),
    }
    write_page("offloads.html.j2", context, path)


_MOST_NAMES = 4  # in the title


def write_schedule_page(
    path: Path,
    problem: Problem,
    schedules: Sequence[Schedule],
    baseline: Schedule | None,
    sentence: str,
    notes: Sequence[str],
) -> None:
    """Write the page to ``path``, whole or not at all; raises StorageError.

    ``schedules``: the best schedule, then others. ``baseline`` is drawn below the best, on the same
    axis: rounds that begin at one time can be compared, runs of steady schedules cannot.
    """
    best = schedules[0]
    others = [] if baseline is None or best.is_steady else [baseline]
    end_s = last_s(problem, (best, *others))
    figures = [gantt_figure("gantt", problem, best, end_s)]
    for other in others:  # what bars are is said above
        figures.append(replace(gantt_figure("gantt-other", problem, other, end_s), caption=()))
    headings = ["The best schedule", *(f"The best baseline, {other.method}" for other in others)]
    names = [display_name(network.name) for network in problem.networks]
    where = ", ".join(filter(None, (problem.machine, problem.mode)))
    title = listed(names) if len(names) <= _MOST_NAMES else counted(len(names), "network")
    context: dict[str, Any] = {
        "title": f"Schedule of {title}",
        "sentence": sentence,
        "sources": in_order(
            [group.source for network in problem.networks for group in network.groups]
        ),
        "where": display_text(where) if where else "",
        "notes": list(map(display_text, notes)),
        "charts": list(zip(headings, figures, strict=True)),
        "numbers": [method_table(schedules), network_table(problem, best)],
        "figures": figures,
        "datasets": pool(figures),
        "tables": live_tables(figures),
    }
    write_page("schedule.html.j2", context, path)
