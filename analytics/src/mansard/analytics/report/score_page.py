"""One page about the layers of scored networks, with a machine's roofs where one is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.analytics.charts.parameters import Chosen
from mansard.analytics.charts.score_charts import share_chart, spread_chart
from mansard.analytics.charts.score_data import busy_layers, point_frame, share_frame
from mansard.analytics.data.differences import differing_dimensions
from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.names import in_order, shown
from mansard.analytics.report import figures, page
from mansard.analytics.report.controls import controls, first_choice
from mansard.analytics.report.figures import Figure
from mansard.analytics.report.page_parts import Table
from mansard.analytics.report.roof_figures import roof_points, roofline_figure
from mansard.analytics.report.score_tables import (
    class_table,
    full_name,
    layer_table,
    operator_table,
    summary_table,
)
from mansard.analytics.results import Results, compute
from mansard.core.files import make_folder, write_atomic
from mansard.core.records import ModelScore

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
    names = in_order([shown(score.model) for score in scores])
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
        "datasets": figures.pool(drawn),
    }
    return page.render("score.html.j2", context)


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
    return " and ".join(in_order([shown(roof.machine) for roof in results.roofs]))


def _section(number: int, score: ModelScore, sizes: str) -> Section:
    layers = busy_layers(score)
    name = full_name(score, sizes)
    title = name if score.batch is None else f"{name}, batch {score.batch}"
    table, note = layer_table(score)
    return Section(
        anchor=f"network-{number}",
        title=f"{title}, {score.phase}" if score.phase == "training" else title,
        sentence=_sentence(score, len(layers)),
        shares=figures.make_figure(
            f"shares-{number}",
            share_chart(share_frame(layers), f"Shares of work and bytes of the layers of {name}"),
            operator_table(score),
        ),
        spread=figures.make_figure(
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
    sizes = ", ".join(f"{shown(name)} = {size}" for name, size in score.dimensions.items())
    parts = [f"{len(score.layers)} nodes, {n_busy} of which work or move something"]
    if sizes:
        parts.append(f"with {sizes}")
    if score.alternatives:
        parts.append(f"{len(score.alternatives)} more in branches that are not taken")
    if unknown:
        parts.append(f"{unknown} are unknown and in no sum of this page")
    return "; ".join(parts) + "."
