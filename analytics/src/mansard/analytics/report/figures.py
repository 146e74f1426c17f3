"""The report's figures: a chart, the table under it, and its drawing without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
from markupsafe import Markup

from mansard.analytics.charts.data import Drawn
from mansard.analytics.report.page_limits import shortened
from mansard.analytics.report.page_parts import Table
from mansard.analytics.report.stills import still_picture

Chart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.HConcatChart | alt.VConcatChart
Dataset = Mapping[str, Any]  # "n" rows; "columns" by name, see _column


@dataclass(frozen=True)
class Figure:
    """One chart of the page. ``spec`` is JSON that is safe inside a script element.

    Its data is apart, by a name made from the content: charts that draw the same rows share them.
    """

    name: str
    description: str
    spec: Markup
    datasets: Mapping[str, Dataset]
    picture: Markup  # data URI of a static drawing
    width_px: int  # of the drawing at its own scale
    table: Table
    notes: tuple[str, ...]


def make_figure(name: str, chart: Chart, table: Table, notes: tuple[str, ...] = ()) -> Figure:
    """``chart`` as a figure of a page; its description is the picture's text."""
    # Each part was checked against Vega-Lite's schema when it was made; the rows are not.
    spec = chart.to_dict(validate=False)
    description = str(spec["description"])
    spec.pop("config", None)  # the page sets it, for light or for dark
    picture, width_px = still_picture(spec)
    datasets = {key: _by_columns(rows) for key, rows in spec.pop("datasets", {}).items()}
    spec["datasets"] = list(datasets)  # the page puts the rows in their place
    return Figure(
        name, description, json_markup(spec), datasets, picture, width_px, shortened(table), notes
    )


def pool(figures: Iterable[Figure]) -> Markup:
    """The data of all ``figures``, each set once, as JSON for the page."""
    found = {name: data for figure in figures for name, data in figure.datasets.items()}
    return json_markup(found)


def _by_columns(rows: list[dict[str, Any]]) -> Dataset:
    """Rows as columns, without the keys in each row, which would be half of the page."""
    names = list(rows[0]) if rows else []
    columns = {name: _column([row[name] for row in rows]) for name in names}
    return {"n": len(rows), "columns": columns}


def _column(values: list[Any]) -> Any:
    """One column; words that come again are set once and counted, numbers have six digits."""
    if any(isinstance(value, str) for value in values):
        words = list(dict.fromkeys(values))
        if len(words) < len(values) / 2:
            places = {word: at for at, word in enumerate(words)}
            return {"words": words, "at": [places[value] for value in values]}
    if all(value is True or value is False for value in values):
        return {"words": [False, True], "at": [int(value) for value in values]}
    return [float(f"{value:.6g}") if isinstance(value, float) else value for value in values]


def json_markup(value: Any) -> Markup:
    """``safe_json`` for a template that escapes everything else."""
    return Markup(safe_json(value))  # noqa: S704 - safe_json leaves no markup in it


def safe_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever its strings hold."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def sweep_notes(found: Drawn) -> tuple[str, ...]:
    """What crosses mean, and how many trials are not drawn."""
    n_crosses = int(found.frame["is_disturbed"].sum())
    crosses = f"Crosses ({n_crosses}) are trials that something disturbed; no roof rests on them."
    dropped = dropped_note(found.n_dropped, "trials", "they have no positive rate")
    return (crosses, *dropped) if n_crosses else dropped


def dropped_note(n_dropped: int, what: str, why: str) -> tuple[str, ...]:
    """A note about marks that are missing, if any are."""
    return (f"{n_dropped} {what} are not drawn: {why}.",) if n_dropped else ()
