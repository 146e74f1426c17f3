"""A figure of a page: its chart, its table, and a still picture for browsers without scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import altair as alt
import polars as pl
import vl_convert
from markupsafe import Markup

from mansard.analytics.figures.tables import Table, shortened
from mansard.analytics.figures.theme import FONT, LIGHT, vega_config


@dataclass(frozen=True)
class Missing:
    """Stands where a chart would be: why there is none, and what would bring it."""

    reason: str


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


# What no picture needs: words for screen readers (it has its own), reactions, defaults.
_IDLE = re.compile(
    r' (?:aria-[a-z]+|role|class|pointer-events|opacity|stroke-opacity|fill-opacity)="(?:none|1)?"'
    r'| (?:aria-[a-z]+|role|class|cursor)="[^"]*"| pointer-events="[^"]*"'
)


_HIDDEN = re.compile(r'<path[^>]*d=""[^>]*/>|<path[^>]*d="M0,0h0v0h0Z"[^>]*/>')


_FAMILY = re.compile(r' font-family="[^"]*"')


# What XML 1.0 cannot hold (section 2.2): the drawing is XML, and vl-convert ends the whole
# process where a name has such a character.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def still_picture(spec: dict[str, Any]) -> tuple[Markup, int]:
    """``spec`` drawn under the light appearance, and how wide that is, pixels.

    The drawing is a data URI that is safe inside double quotes.
    """
    svg = vl_convert.vegalite_to_svg(drawable(spec), config=vega_config(LIGHT))
    width = re.search(r'<svg[^>]* width="([0-9.]+)"', svg)
    svg = _FAMILY.sub("", _HIDDEN.sub("", _IDLE.sub("", _renumbered(svg))))
    family = FONT.replace("'", "")
    svg = svg.replace("<svg ", f'<svg font-family="{family}" ', 1)
    text = svg.replace("%", "%25").replace("#", "%23").replace("&", "%26")
    text = text.replace("'", "%27").replace('"', "'").replace("<", "%3C").replace(">", "%3E")
    uri = Markup(f"data:image/svg+xml,{text}")  # noqa: S704 - nothing in it ends the attribute
    return uri, round(float(width[1])) if width else 0


def drawable(part: Any) -> Any:
    """``part`` of a specification, with U+FFFD for each character that no drawing can hold."""
    if isinstance(part, str):
        return _NO_XML.sub("\ufffd", part)
    if isinstance(part, dict):
        return {drawable(name): drawable(value) for name, value in part.items()}
    return [drawable(one) for one in part] if isinstance(part, (list, tuple)) else part


def _renumbered(svg: str) -> str:
    """The drawing with its clip paths counted from 0; Vega counts over the process's life."""
    numbers: dict[str, int] = {}
    return re.sub(
        r'(url\(#clip|id="clip)(\d+)',
        lambda match: f"{match[1]}{numbers.setdefault(match[2], len(numbers))}",
        svg,
    )


GIGA = 1e9


Row = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A frame to draw, and how many rows a logarithmic axis could not show."""

    frame: pl.DataFrame
    n_dropped: int


def positive(rows: Iterable[Row], schema: Mapping[str, pl.DataType | type], *names: str) -> Drawn:
    """The rows whose ``names`` are all known, finite and above zero."""
    frame = pl.DataFrame(list(rows), schema=schema)
    kept = frame.filter(pl.all_horizontal(pl.col(*names) > 0, pl.col(*names).is_finite()))
    rounded = kept.with_columns(
        pl.col(name).round_sig_figs(4) for name, kind in schema.items() if kind == pl.Float64
    )
    return Drawn(rounded, len(frame) - len(kept))


def in_giga(value: float | None) -> float | None:
    """Per second in GFLOP/s or GB/s; None stays None."""
    return None if value is None else value / GIGA


MILLI, MEGA = 1e-3, 1e6


T = TypeVar("T")


def evenly(values: Sequence[T], n_most: int) -> list[T]:
    """At most ``n_most`` of ``values``, evenly apart, the first and the last among them."""
    if len(values) <= n_most:
        return list(values)
    step = (len(values) - 1) / (n_most - 1)
    return [values[round(at * step)] for at in range(n_most)]
