"""A figure of a page: its chart, its table, and a still picture for browsers without scripts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import polars as pl
import vl_convert
from markupsafe import Markup

from mansard.analytics.data.quantities import GIGA
from mansard.analytics.pages.figures.charting import FONT, LIGHT, Chart, vega_config
from mansard.analytics.pages.figures.parameters import Chosen, LiveTable, Shown, words
from mansard.analytics.pages.figures.tables import shortened
from mansard.core.table import Table
from mansard.core.text import capitalized

Dataset = Mapping[str, Any]  # "n" rows; "columns" by name, see _column
Row = Mapping[str, object]
Schema = dict[str, pl.DataType | type]
T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """No figure, with the reason and what would give one."""

    reason: str


@dataclass(frozen=True)
class Figure:
    """One chart of the page. ``spec`` is JSON that is safe inside a script element.

    Its data is apart, by a name made from the content: charts that draw the same rows share them.
    ``none`` stands in its place where the choice leaves nothing to draw; ``live`` is for report.js.
    """

    reason: ClassVar[None] = None  # see ``Missing``
    name: str
    description: str
    spec: Markup
    datasets: Mapping[str, Dataset]
    picture: Markup  # data URI of a static drawing
    width_px: int  # of the drawing at its own scale
    table: Table
    caption: Sequence[str]  # paragraphs; str is escaped, Markup is not
    notes: Sequence[str]
    none: str = ""
    live: Sequence[Mapping[str, Any]] = ()
    beside: Table | None = None  # a second table, which the page shows beside the chart


@dataclass(frozen=True, eq=False)
class Following:
    """How a figure follows the reader's choice, and the first choice.

    ``heading`` and ``none`` are templates of ``parameters.words``: what the chart shows, and why it
    shows nothing where ``shown`` has no rows for the choice. ``equal``: a field, and the words in
    place of a chart of which it is the same everywhere.
    """

    shown: Shown
    chosen: Chosen
    heading: str
    none: str
    equal: tuple[str, str] | None = None


def make_figure(
    name: str,
    chart: Chart,
    table: Table | LiveTable,
    caption: Sequence[str] = (),
    notes: Sequence[str] = (),
    *,
    follows: Following | None = None,
    beside: LiveTable | None = None,
    subtitle: str = "",
) -> Figure:
    """``chart`` as a figure of a page; the chart's description is the alternative text.

    ``subtitle``: an expression for the line under the title.
    """
    # Each part was checked against Vega-Lite's schema when it was made; the rows are not.
    spec = chart.to_dict(validate=False)
    description = str(spec["description"])
    spec.pop("config", None)  # the page sets it, for light or for dark
    if subtitle:  # of which Vega-Lite draws expressions, and Altair's schema knows only texts
        spec["title"]["subtitle"] = {"expr": subtitle}
    if follows is not None:
        chosen, rows = follows.shown.resolve(follows.chosen)
        for parameter in spec["params"]:
            if parameter["name"] == "heading":
                parameter["value"] = words(follows.heading, rows, chosen)
        keys = _follow_in_legends(spec, rows.columns)
        spec["params"] += [
            {"name": f"shown_{key}", "value": rows[key].unique().sort().to_list()} for key in keys
        ]
    picture, width_px = still_picture(spec)
    rows_of = dict(spec.pop("datasets", {}))
    spec["datasets"] = list(rows_of)  # the page puts the rows in their place
    first = follows.chosen if follows is not None else Chosen()
    tables = [live_table for live_table in (table, beside) if isinstance(live_table, LiveTable)]
    live = [live_table.script(_data_name(rows_of, live_table.shown)) for live_table in tables]
    if follows is not None:
        rule = follows.shown.rule(_data_name(rows_of, follows.shown))
        spec["usermeta"] = {"rule": rule, "heading": follows.heading, "keys": keys}
        spec["usermeta"] |= {} if follows.equal is None else {"equal": list(follows.equal)}
    return Figure(
        name=name,
        description=description,
        spec=json_markup(spec),
        datasets={key: _by_columns(rows) for key, rows in rows_of.items()},
        picture=picture,
        width_px=width_px,
        table=table.at(first) if isinstance(table, LiveTable) else shortened(table),
        caption=caption,
        notes=notes,
        none=follows.none if follows is not None else "",
        live=live,
        beside=None if beside is None else beside.at(first),
    )


def _follow_in_legends(part: Any, columns: Sequence[str]) -> list[str]:
    """Let legends name what the shown rows have: report.js sets ``shown_`` and the field.

    Which fields of ``columns`` have a legend in ``part`` of a specification.
    """
    if isinstance(part, list):
        return sorted({key for inner in part for key in _follow_in_legends(inner, columns)})
    if not isinstance(part, dict):
        return []
    followed = {key for inner in part.values() for key in _follow_in_legends(inner, columns)}
    for channel in ("color", "shape", "strokeDash"):
        encoded = part.get(channel)
        if not isinstance(encoded, dict) or encoded.get("type") != "nominal":
            continue
        field, legend = encoded.get("field"), encoded.get("legend", {})
        if isinstance(field, str) and field in columns and legend is not None:
            encoded["legend"] = {**legend, "values": {"expr": f"shown_{field}"}}
            followed.add(field)
    return sorted(followed)


def _data_name(rows_of: dict[str, Any], shown: Shown) -> str:
    """The name of the data set with the rows of ``shown``, added if the chart draws others."""
    shown_rows = shown.frame.to_dicts()
    name_of_data = next((name for name, rows in rows_of.items() if rows == shown_rows), None)
    if name_of_data is None:
        name_of_data = f"rows-{hashlib.sha256(json.dumps(shown_rows).encode()).hexdigest()[:16]}"
        rows_of[name_of_data] = shown_rows
    return name_of_data


def pool(figures: Iterable[Figure]) -> Markup:
    """The data of all ``figures``, each set once, as JSON for the page."""
    datasets = {name: data for figure in figures for name, data in figure.datasets.items()}
    return json_markup(datasets)


def live_tables(figures: Iterable[Figure]) -> Markup:
    """How the tables of ``figures`` follow the choice, as JSON for the page."""
    return json_markup([table for figure in figures for table in figure.live])


def _by_columns(rows: list[dict[str, Any]]) -> Dataset:
    """Rows as columns: keys in each row would be half of the page."""
    names = list(rows[0]) if rows else []
    columns = {name: _column([row[name] for row in rows]) for name in names}
    return {"n": len(rows), "columns": columns}


def _column(values: list[Any]) -> Any:
    """One column: repeated texts as indices into a list of texts, numbers with six digits."""
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
    """JSON that cannot end its script element, whatever its strings hold."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def dropped_note(n_dropped: int, what: str, why: str) -> tuple[str, ...]:
    """A note about marks that are missing, if any are."""
    note = f"{capitalized(what)} that are not drawn: {n_dropped:,} ({why})."
    return (note,) if n_dropped else ()


# Attributes that a picture does not need: texts for screen readers, reactions, defaults.
_UNUSED = re.compile(
    r' (?:aria-[a-z]+|role|class|pointer-events|opacity|stroke-opacity|fill-opacity)="(?:none|1)?"'
    r'| (?:aria-[a-z]+|role|class|cursor)="[^"]*"| pointer-events="[^"]*"'
)
_HIDDEN = re.compile(r'<path[^>]*d=""[^>]*/>|<path[^>]*d="M0,0h0v0h0Z"[^>]*/>')
_FAMILY = re.compile(r' font-family="[^"]*"')
# XML 1.0 cannot hold these (section 2.2), and vl-convert ends the process on one of them.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def still_picture(spec: dict[str, Any]) -> tuple[Markup, int]:
    """``spec`` drawn under the light appearance, and how wide that is, pixels.

    The drawing is a data URI that is safe inside double quotes.
    """
    svg = vl_convert.vegalite_to_svg(drawable(spec), config=vega_config(LIGHT))
    width = re.search(r'<svg[^>]* width="([0-9.]+)"', svg)
    svg = _FAMILY.sub("", _HIDDEN.sub("", _UNUSED.sub("", renumbered(svg))))
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


def renumbered(svg: str) -> str:
    """The drawing with clip paths and gradients counted from 0; Vega counts in its process."""
    numbers: dict[str, dict[str, int]] = {"clip": {}, "gradient_": {}}

    def number(match: re.Match[str]) -> str:
        known = numbers[match[2]]
        return f"{match[1]}{known.setdefault(match[3], len(known))}"

    return re.sub(r'((?:url\(#|id=")(clip|gradient_))(\d+)', number, svg)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A frame to draw, and how many rows a logarithmic axis could not show."""

    frame: pl.DataFrame
    n_dropped: int


def schema_of(*, text: str = "", number: str = "", count: str = "", flag: str = "") -> Schema:
    """The schema of a frame from the names of its columns, separated by spaces, by their type."""
    kinds = ((text, pl.String), (number, pl.Float64), (count, pl.Int64), (flag, pl.Boolean))
    return {name: kind for names, kind in kinds for name in names.split()}


def positive(rows: Iterable[Row], schema: Schema, *names: str) -> Drawn:
    """The rows whose ``names`` are all known, finite and above zero, rounded to four digits."""
    frame = pl.DataFrame(list(rows), schema=schema)
    above_zero = frame.filter(pl.all_horizontal(pl.col(*names) > 0, pl.col(*names).is_finite()))
    rounded = above_zero.with_columns(
        pl.col(name).round_sig_figs(4) for name, kind in schema.items() if kind == pl.Float64
    )
    return Drawn(rounded, len(frame) - len(above_zero))


def in_giga(value: float | None) -> float | None:
    """In 10⁹: GFLOP/s, GOP/s or GB/s; None stays None."""
    return None if value is None else value / GIGA


class Prefix(NamedTuple):
    """An SI prefix of an axis, and its size in the unit that values are kept in."""

    letter: str
    per: float

    @property
    def tick(self) -> str:
        """For Vega: the label of a tick."""
        return f"format(datum.value / {self.per}, '.12~g')"


_LETTERS = {15: "P", 12: "T", 9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n"}


def si_prefix(highest: float, power: int = 9, most: int = 15) -> Prefix:
    """The largest prefix, at most 10 to ``most``, in which ``highest`` is at least one.

    ``power``: values are kept in 10 to this: 9 of GFLOP/s, -3 of ms.
    """
    prefixes = [
        Prefix(letter, float(f"1e{exponent - power}"))
        for exponent, letter in _LETTERS.items()
        if exponent <= most
    ]
    return next((prefix for prefix in prefixes if highest >= prefix.per), prefixes[-1])


def evenly(values: Sequence[T], n_most: int) -> list[T]:
    """At most ``n_most`` of ``values``, evenly apart, the first and the last among them."""
    if len(values) <= n_most:
        return list(values)
    step = (len(values) - 1) / (n_most - 1)
    return [values[round(at * step)] for at in range(n_most)]
