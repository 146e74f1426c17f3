"""Charts of records that a function returned, for notebooks: figures of pages, alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt

from mansard.analytics.decisions.offload.records import Hierarchical
from mansard.analytics.models.contention import VictimContention
from mansard.analytics.models.layers.rows import RoofedLayers
from mansard.analytics.pages.figures.charting import LIGHT, Chart, vega_config
from mansard.analytics.pages.figures.contention import contention_figure
from mansard.analytics.pages.figures.engine_layers import roofline_of_layers
from mansard.analytics.pages.figures.figure import Figure, Missing
from mansard.analytics.pages.figures.gantt import gantt_figure, last_s
from mansard.analytics.pages.figures.layers import busy_layers, point_frame, spread_chart
from mansard.analytics.pages.figures.offload import frontier_figure
from mansard.analytics.pages.tables.contention import contention_table
from mansard.core.records import ModelScore

MOST_CHARTS = 6


def charts(records: Iterable[Any]) -> Chart | None:
    """One chart below the other, of the first records that have a figure; None where none has."""
    drawn = [chart for record in records if (chart := record_chart(record)) is not None]
    if len(drawn) < 2:
        return drawn[0] if drawn else None
    return alt.vconcat(*drawn[:MOST_CHARTS])


def record_chart(record: Any) -> Chart | None:
    """The chart of one record; a schedule comes with its problem. None where there is no figure."""
    if isinstance(record, ModelScore):
        layers = busy_layers(record)
        return spread_chart(point_frame(layers)).properties(title=record.model) if layers else None
    figure: Figure | Missing | None = None
    if isinstance(record, RoofedLayers):
        figure = roofline_of_layers(0, record)
    elif isinstance(record, VictimContention):
        figure = contention_figure("contention", record, contention_table(record))
    elif isinstance(record, Hierarchical):
        figure = frontier_figure("frontier", record)
    elif isinstance(record, tuple):
        problem, schedule = record
        figure = gantt_figure("gantt", problem, schedule, last_s(problem, [schedule]))
    return as_chart(figure) if isinstance(figure, Figure) else None


def as_chart(figure: Figure) -> Chart:
    """A figure of a page as a chart that has its rows and its appearance with it."""
    spec = json.loads(str(figure.spec))
    spec["datasets"] = {name: _rows(data) for name, data in figure.datasets.items()}
    spec["config"] = vega_config(LIGHT)
    return alt.Chart.from_dict(spec, validate=False)


def _rows(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a data set of ``figure``, which has them by columns."""
    columns = {
        name: [column["words"][at] for at in column["at"]] if isinstance(column, dict) else column
        for name, column in data["columns"].items()
    }
    return [{name: column[at] for name, column in columns.items()} for at in range(data["n"])]
