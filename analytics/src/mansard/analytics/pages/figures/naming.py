"""The names of the roofs and the points of any roofline, and their places.

They are laid out for two widths of the chart, for each mode and each batch: the chart shows those
of its own width, as ``layout_width`` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import altair as alt
import numpy as np
import polars as pl

from mansard.analytics.pages.figures.charting import Chart, plot
from mansard.analytics.pages.figures.figure import Row, schema_of
from mansard.analytics.pages.figures.parameters import EVERY, equals, equals_or_all
from mansard.analytics.pages.figures.plane import (
    LONGEST_LABEL,
    NARROW_PX,
    SLOPE_PX,
    Layout,
    Window,
    distinct_labels,
)

POINT_NAME_SCHEMA = schema_of(
    text="mode batch network precision text align",
    number="x y point_x point_y",
    count="width_px",
    flag="is_led",
)
ROOF_NAME_SCHEMA = schema_of(
    text="mode batch precision kind text", number="x y", count="width_px", flag="is_main"
)
_LONGEST_NARROW = 18  # characters of a point's name in a narrow chart


@dataclass(frozen=True)
class NamedLine:
    """A roof and its name. ``path``: its corners from left to right, as values of the axes.
    ``texts``: its name, then shorter ones for where there is no place for it.

    ``precision``: those whose roof it is, with spaces between; "" of memory. ``kind``: whether the
    name stands along a slope or level. ``is_alone``: it is shown without the
    names of other roofs, so that none has to give way.
    """

    mode: str
    precision: str
    texts: Sequence[str]
    kind: Literal["slope", "level"]
    path: Sequence[tuple[float, float]]
    is_main: bool = True
    is_alone: bool = False


@dataclass(frozen=True, eq=False)
class Names:
    """Positions of names, and the number of points without one, by mode, batch and width."""

    roofs: pl.DataFrame  # ROOF_NAME_SCHEMA
    points: pl.DataFrame  # POINT_NAME_SCHEMA
    n_unnamed: dict[tuple[str, str, int], int]

    def counts(self) -> Counter[tuple[str, str, int, str]]:
        """The number of names of points, by mode, batch, width and precision."""
        return Counter(self.points.select("mode", "batch", "width_px", "precision").iter_rows())


def place_names(
    roofs: Sequence[NamedLine],
    marks: pl.DataFrame,
    points: pl.DataFrame,
    seen: Window,
    share: float | None = None,
    *,
    may_cross: bool = True,
) -> Names:
    """Names for ``roofs`` and for ``points``, in a chart as wide as ``seen`` and in a narrow one.

    ``points`` has mode, batch, network, precision, text, x and y, and is_measured: these are named
    before others; ``marks`` has mode, x and y. No name covers any of both. ``share`` and
    ``may_cross``: see Layout.
    """
    roof_rows: list[Row] = []
    point_rows: list[Row] = []
    n_unnamed: dict[tuple[str, str, int], int] = {}
    batches = points["batch"].unique(maintain_order=True).to_list() or [EVERY]
    for width_px in sorted({NARROW_PX, seen.width_px}):
        window = seen.wide(width_px)
        for mode in dict.fromkeys(line.mode for line in roofs):
            inside = [line for line in roofs if line.mode == mode]
            empty = Layout(window.width_px, window.height_px, share, may_cross=may_cross)
            for line in inside:
                empty.line([window.pixels(*corner) for corner in line.path])
            there = marks.filter(pl.col("mode") == mode).select("x", "y").unique()
            empty.mark([window.pixels(*spot) for spot in there.rows()])
            for batch in batches:
                there = points.filter(pl.col("mode") == mode, pl.col("batch") == batch)
                layout = empty.copy()
                layout.mark([window.pixels(*spot) for spot in there.select("x", "y").rows()])
                roof_rows += [
                    {**row, "batch": batch} for row in _roof_names(inside, layout, window)
                ]
                if len(there):
                    named, n_unnamed[mode, batch, width_px] = _point_names(there, layout, window)
                    point_rows += named
    return Names(
        pl.DataFrame(roof_rows, ROOF_NAME_SCHEMA),
        pl.DataFrame(point_rows, POINT_NAME_SCHEMA),
        n_unnamed,
    )


def _roof_names(roofs: Sequence[NamedLine], layout: Layout, seen: Window) -> Iterator[Row]:
    """The names of roofs, which then are in ``layout``."""
    taken = []
    for line in roofs:
        alone = layout.copy() if line.is_alone else layout
        yield from _roof_name(line, alone, seen)
        taken += [alone.taken[len(layout.taken) :]] if line.is_alone else []
    layout.taken = np.vstack([layout.taken, *taken])


def _roof_name(line: NamedLine, layout: Layout, seen: Window) -> Iterator[Row]:
    """A shorter name comes before one that crosses a line."""
    path = [seen.pixels(*corner) for corner in line.path]
    for may_cross, text in product(layout.crossings, line.texts):
        kind = line.kind
        if kind == "slope":
            anchor = layout.on_slope(text, path[0], path[-1], may_cross=may_cross)
            if anchor is None and not may_cross:
                kind, anchor = "level", layout.below_slope(text, path[0], path[-1])
        else:
            placed = layout.along(text, path, may_cross=may_cross)
            anchor = None if placed is None else placed.anchor
        if anchor is not None:
            x, y = seen.values(*anchor)
            yield {
                **{name: getattr(line, name) for name in ("mode", "precision", "is_main")},
                "kind": kind,
                "text": text,
                "x": x,
                "y": y,
                "width_px": seen.width_px,
            }
            return


def _point_names(points: pl.DataFrame, layout: Layout, seen: Window) -> tuple[list[Row], int]:
    rows = points.rows(named=True)
    spots = [seen.pixels(row["x"], row["y"]) for row in rows]
    n_most = _LONGEST_NARROW if seen.width_px == NARROW_PX else LONGEST_LABEL
    texts = distinct_labels([row["text"] for row in rows], n_most)
    places = layout.beside(texts, spots, len(points.filter("is_measured")))
    name_rows: list[Row] = []
    for row, text, placed in zip(rows, texts, places, strict=True):
        if placed is None:
            continue
        x, y = seen.values(*placed.anchor)
        name_rows.append(
            {
                **{name: row[name] for name in ("mode", "batch", "network", "precision")},
                "text": text,
                "align": placed.align,
                "x": x,
                "y": y,
                "point_x": row["x"],
                "point_y": row["y"],
                "width_px": seen.width_px,
                "is_led": placed.is_led,
            }
        )
    return name_rows, len(rows) - len(name_rows)


def layout_width(seen: Window) -> str:
    """For Vega: the width that the names of a chart were laid out for, which is at most its own."""
    return f"(width < {seen.width_px} ? {NARROW_PX} : {seen.width_px})"


def roof_name_marks(
    names: pl.DataFrame, x: alt.X, y: alt.Y, seen: Window, top: str = "1e300"
) -> list[Chart]:
    """The names of roofs, each on a halo; of those along slopes that begin below ``top``."""
    rounded = names.with_columns(pl.col("x", "y").round_sig_figs(5))
    base = plot(rounded).transform_filter(
        f"{equals('mode')} && {equals_or_all('batch')} && datum.width_px === {layout_width(seen)}"
        f" && (precision === '' || datum.precision === '' && datum.y <= {top}"
        " || indexof(split(datum.precision, ' '), precision) >= 0)"
    )
    # Equal peaks may have the name of one of them: then that of the chosen precision.
    is_named = "precision === '' || datum.precision === '' || indexof(datum.text, precision) >= 0"
    unit = "(indexof(datum.text, ' tensor') < 0 ? '' : ' tensor')"
    base = base.transform_calculate(name=f"{is_named} ? datum.text : precision + {unit}")
    angle = alt.ExprRef(seen.angle)
    return roof_texts(base.encode(x=x, y=y, text="name:N"), set(rounded["kind"]), angle)


def roof_texts(base: Chart, kinds: Collection[str], angle: float | alt.ExprRef) -> list[Chart]:
    """The texts of ``base``, in ROOF_NAME_SCHEMA, on halos; those along slopes have ``angle``."""
    return [
        mark.transform_filter(f"datum.kind === '{kind}'")
        for style in ("m-roof-label-halo", "m-roof-label")
        for kind, mark in (
            ("slope", base.mark_text(style=style, align="left", dy=-SLOPE_PX, angle=angle)),
            ("level", base.mark_text(style=style, align="right", baseline="middle")),
        )
        if kind in kinds
    ]


def point_name_marks(names: pl.DataFrame, x: alt.X, y: alt.Y, seen: Window) -> list[Chart]:
    """The names of points, each on a halo, and the thin lines to those that stand apart.

    Of a network that is chosen the title has the name: its layers stand around it.
    """
    rounded = names.with_columns(pl.col("x", "y", "point_x", "point_y").round_sig_figs(5))
    shown = (
        f"network === '' && {equals('mode')} && {equals('batch')} && {equals_or_all('precision')}"
        f" && datum.width_px === {layout_width(seen)}"
    )
    base = plot(rounded).transform_filter(shown)
    return point_texts(base, x, y)


def point_texts(base: Chart, x: alt.X | str = "x:Q", y: alt.Y | str = "y:Q") -> list[Chart]:
    """The texts of ``base``, in POINT_NAME_SCHEMA, on halos, and the lines to their points."""
    leaders = base.transform_filter("datum.is_led").mark_rule(style="m-leader")
    ends: dict[str, Any] = {"x": "point_x:Q", "y": "point_y:Q", "x2": "x:Q", "y2": "y:Q"}
    return [
        leaders.encode(**ends),
        *(
            base.transform_filter(f"datum.align === '{align}'")
            .mark_text(style=style, align=align, baseline="middle")
            .encode(x=x, y=y, text="text:N")
            for style in ("m-network-label-halo", "m-network-label")
            for align in ("left", "right", "center")
        ),
    ]
