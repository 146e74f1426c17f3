"""The page that reproduces Pagoda: its table, its points, and our estimates beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mansard.analytics.charts import pagoda_charts, pagoda_data
from mansard.analytics.data.quantities import seconds
from mansard.analytics.published.pagoda import MODE, NETWORKS, OPERATOR_LAUNCH_S
from mansard.analytics.published.rooflines import published_rooflines
from mansard.analytics.report import page
from mansard.analytics.report.figures import Figure, make_figure, pool
from mansard.analytics.report.pagoda_points import Pagoda, pagoda_points
from mansard.analytics.report.pagoda_tables import (
    count_table,
    findings,
    mark_table,
    point_table,
    why_table,
)
from mansard.analytics.report.published_tables import published_table, source_table
from mansard.analytics.roofs.levels import DRAM
from mansard.core.files import make_folder, write_atomic
from mansard.core.records import ModelScore

WITHIN = 0.25  # the band around equality


def write_pagoda_page(scores: Sequence[ModelScore], path: Path) -> Pagoda:
    """Write the page to ``path``, whole or not at all; returns what it shows.

    ``scores``: see ``pagoda_points``. Raises StorageError.
    """
    found = pagoda_points(scores)
    text = page.render("pagoda.html.j2", _context(found))
    make_folder(path.parent)
    write_atomic(path, text.encode())
    return found


def _context(found: Pagoda) -> dict[str, Any]:
    points = point_table(found.points)
    drawn = {
        "roofs": _roofs(found),
        "comparison": _comparison(found),
    }
    figures = list(drawn.values())
    return {
        "title": "Pagoda's table and points, with Mansard's estimates",
        "findings": findings(found.points),
        "launch": seconds(OPERATOR_LAUNCH_S),
        "mode": MODE,
        **drawn,
        "counts": count_table(found.counts),
        "why": why_table(),
        "points": points,
        "rates": published_table(found.published),
        "sources": source_table(found.published),
        "figures": figures,
        "datasets": pool(figures),
    }


def _roofs(found: Pagoda) -> Figure:
    roof = next(roof for roof in published_rooflines(found.published) if roof.mode == MODE)
    peaks = {
        f"{peak.name} {peak.value / 1e12:.3g} TFLOP/s": peak.value
        for peak in roof.peaks
        if peak.value is not None and peak.subject in {"fp32", "tf32"}
    }
    marks = pagoda_data.roof_marks(found.points)
    bandwidth = roof.bandwidth(DRAM).value
    assert bandwidth is not None  # noqa: S101 - a figure that ships
    low, high = float(str(marks["intensity"].min())), float(str(marks["intensity"].max()))
    lines = pagoda_data.roof_lines(peaks, bandwidth, low / 1.5, high * 1.5)
    chart = pagoda_charts.roofs_chart(marks, lines, NETWORKS)
    return make_figure("pagoda-roofs", chart, mark_table(marks))


def _comparison(found: Pagoda) -> Figure:
    frame = pagoda_data.comparison(found.points)
    grounds = [
        (measured, estimate, title, pagoda_data.diagonal(frame, measured, estimate, WITHIN))
        for measured, estimate, title in (
            ("measured_ms", "estimate_ms", "time, ms"),
            ("measured_w", "estimate_w", "power, W"),
        )
    ]
    chart = pagoda_charts.comparison_chart(frame, grounds, NETWORKS)
    return make_figure("pagoda-comparison", chart, point_table(found.points))
