"""Tables about scores for the page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.names import differing_dimensions, display_name, in_order
from mansard.analytics.data.quantities import UNKNOWN, digits
from mansard.analytics.figures.figure import Figure, make_figure, pool
from mansard.analytics.figures.network_points import roof_points
from mansard.analytics.figures.parameters import Chosen, controls, first_choice
from mansard.analytics.figures.roofline import roofline_figure
from mansard.analytics.figures.score import (
    busy_layers,
    layer_name,
    point_frame,
    share_chart,
    share_frame,
    spread_chart,
)
from mansard.analytics.figures.tables import Table
from mansard.analytics.report.page import render
from mansard.analytics.results import Results, compute
from mansard.core.files import make_folder, write_atomic
from mansard.core.records import LayerScore, ModelScore

MOST_ROWS = 600  # layers listed of one network: the page stays small


def summary_table(scores: Sequence[ModelScore]) -> Table:
    """One row of sums for each score."""
    columns = ("Network", "Batch", "Precision", "Phase", "GMAC", "GFLOP", "Parameters, M")
    moved = ("Weights, MB", "Traffic, MB", "Fused, MB", "Cached, MB", "Activations, MB")
    memory = ("KV cache, MB",)
    rows = [
        [
            full_name(score, sizes),
            UNKNOWN if score.batch is None else str(score.batch),
            score.precision,
            score.phase,
            _sum(score, "macs", 1e9),
            _sum(score, "work_flop", 1e9),
            _sum(score, "parameters", 1e6),
            _sum(score, "weight_bytes", 1e6),
            _sum(score, "traffic_bytes", 1e6),
            _sum(score, "fused_traffic_bytes", 1e6),
            _sum(score, "cached_traffic_bytes", 1e6),
            _scaled(score.peak_activation_bytes, 1e6),
            _scaled(score.kv_cache_bytes, 1e6),
        ]
        for score, sizes in zip(scores, differing_dimensions(scores), strict=True)
    ]
    numeric = frozenset({1, *range(4, 13)})
    return Table("Sums over all layers", columns + moved + memory, rows, numeric)


def full_name(score: ModelScore, sizes: str) -> str:
    """A network's name, and the ``sizes`` that tell its scores apart."""
    return (
        f"{display_name(score.model)}, {display_name(sizes)}"
        if sizes
        else display_name(score.model)
    )


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
            _scaled(flop, 1e6),
            f"{100 * flop / whole:.3g}",
            _scaled(moved, 1e6),
        ]
        for name, (runs, flop, moved) in sorted(work.items(), key=lambda item: -item[1][1])
    ]
    columns = ("Operator", "Runs", "MFLOP", "Share, %", "MB")
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
        [by, display_name(name), _scaled(flop, 1e6), f"{100 * flop / whole:.3g}"]
        for (by, name), flop in sorted(parts.items(), key=lambda item: (item[0][0], -item[1]))
    ]
    return Table("By kind of work", ("By", "Work", "MFLOP", "Share, %"), rows, frozenset({2, 3}))


def layer_table(score: ModelScore) -> tuple[Table, str]:
    """The layers in the order of the file, and a note where some are left out."""
    layers = busy_layers(score)
    listed = layers
    if len(layers) > MOST_ROWS:
        heaviest = sorted(layers, key=lambda layer: -(layer.work_flop or 0))[:MOST_ROWS]
        listed = sorted(heaviest, key=lambda layer: layer.index)
    columns = ("Layer", "Operator", "Precision", "Unit", "Runs", "MFLOP", "MB", "FLOP/byte")
    rows = [_layer_row(layer) for layer in listed]
    left = len(layers) - len(listed)
    note = f"{left} layers with less work are left out; CSV and JSON hold all." if left else ""
    return Table("Layers", (*columns, "Fused, MB"), rows, frozenset({4, 5, 6, 7, 8})), note


def _layer_row(layer: LayerScore) -> list[str]:
    moved = layer.traffic_bytes or 0
    return [
        layer_name(layer),
        display_name(layer.op_type),
        layer.precision,
        layer.unit,
        str(layer.runs),
        _scaled(layer.work_flop, 1e6),
        _scaled(moved, 1e6),
        digits((layer.work_flop or 0) / moved, 3) if moved else "–",
        _scaled(layer.fused_traffic_bytes, 1e6),
    ]


def _sum(score: ModelScore, name: str, unit: float) -> str:
    values = [getattr(layer, name) for layer in score.layers]
    return UNKNOWN if None in values else _scaled(sum(values), unit)


def _scaled(value: float | None, unit: float) -> str:
    return UNKNOWN if value is None else digits(value / unit, 4)


MOST_NETWORKS = 12  # with charts and tables of their own; the summary has all


@dataclass(frozen=True)
class Section:
    """What the page says about one score."""

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
    text = render_scores(scores, machine)
    make_folder(path.parent)
    write_atomic(path, text.encode())


def render_scores(scores: Sequence[ModelScore], machine: Path | None = None) -> str:
    """The page as text."""
    results = _under_roofs(scores, machine) if machine is not None else None
    sizes = differing_dimensions(scores)
    sections = [
        _section(number, score, sizes[number])
        for number, score in enumerate(scores[:MOST_NETWORKS])
    ]
    chosen = first_choice(results) if results is not None else Chosen()
    roofline = _roofline(results, chosen) if results is not None else None
    names = in_order([display_name(score.model) for score in scores])
    left = len(scores) - len(sections)
    drawn = [
        *([roofline] if roofline is not None else []),
        *(figure for section in sections for figure in (section.shares, section.spread)),
    ]
    context: dict[str, Any] = {
        "title": f"Work of {names[0]}" if len(names) == 1 else f"Work of {len(names)} networks",
        "summary": summary_table(scores),
        "left_out": f"{left} more have no section of their own." if left else "",
        "networks": sections,
        "roofline": roofline,
        "machine": _machines(results) if results is not None else "",
        "sources": in_order([roof.source for roof in results.roofs]) if results else [],
        "controls": controls(results, chosen) if results is not None else [],
        "figures": drawn,
        "datasets": pool(drawn),
    }
    return render("score.html.j2", context)


def _under_roofs(scores: Sequence[ModelScore], machine: Path) -> Results:
    dataset = ingest(machine)
    return compute(
        dataclasses.replace(
            dataset, scores=tuple(scores), layers=layer_frame(scores), measurements=()
        )
    )


def _roofline(results: Results, chosen: Chosen) -> Figure | None:
    found = roofline_figure(results, chosen, roof_points(results), is_half=False)
    return found if isinstance(found, Figure) else None


def _machines(results: Results) -> str:
    return " and ".join(in_order([display_name(roof.machine) for roof in results.roofs]))


def _section(number: int, score: ModelScore, sizes: str) -> Section:
    layers = busy_layers(score)
    name = full_name(score, sizes)
    title = name if score.batch is None else f"{name}, batch {score.batch}"
    table, note = layer_table(score)
    return Section(
        anchor=f"network-{number}",
        title=f"{title}, {score.phase}" if score.phase == "training" else title,
        sentence=_sentence(score, len(layers)),
        shares=make_figure(
            f"shares-{number}",
            share_chart(share_frame(layers), f"Shares of work and bytes of the layers of {name}"),
            operator_table(score),
        ),
        spread=make_figure(
            f"spread-{number}",
            spread_chart(point_frame(layers), f"Work over intensity of the layers of {name}"),
            class_table(score),
        ),
        operators=operator_table(score),
        classes=class_table(score),
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
        parts.append(f"{unknown} are unknown and in no sum of this page")
    return "; ".join(parts) + "."
