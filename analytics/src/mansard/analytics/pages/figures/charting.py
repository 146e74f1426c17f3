"""What the charts share in Altair: data, scales, axes, tooltips, categories.

Marks name styles of ``theme`` instead of colours, so that one specification serves light and dark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import altair as alt
import polars as pl

from mansard.analytics.data.quantities import UNKNOWN
from mansard.analytics.pages.figures.parameters import Chosen, Name
from mansard.analytics.pages.figures.theme import SHAPES

Chart: TypeAlias = Any  # Altair types the methods of its charts as Any
SIZE_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~g') + ' GiB'"
    " : datum.value >= 1048576 ? format(datum.value / 1048576, '~g') + ' MiB'"
    " : format(datum.value / 1024, '~g') + ' KiB'"
)


class ChartRows(alt.InlineData):
    """ChartRows that never change: Altair copies a chart at every step, and these with it."""

    _class_is_valid_at_instantiation = False

    def __deepcopy__(self, _memo: object) -> ChartRows:
        return self


def plot(frame: pl.DataFrame) -> alt.Chart:
    """A chart of ``frame``, whose rows become part of the specification."""
    return alt.Chart(ChartRows(values=frame.to_dicts()))


def following(chart: Chart, chosen: Chosen, *names: Name, **properties: Any) -> Chart:
    """``chart`` with the parameters ``names`` and with ``properties``, such as its width.

    The parameter heading says in titles what is shown; ``make_figure`` sets it first.
    """
    parameters = [chosen.parameter(name) for name in names]
    heading = alt.param(name="heading", value="")
    return chart.add_params(*parameters, heading).properties(**properties)


def told(base: Chart, **titles: str) -> Chart:
    """``base`` with fields to show as they are, each under its title, in tooltips and to screen
    readers; a value that is not there reads "unknown". Numbers are rounded beforehand.
    """
    cells = {
        json.dumps(title): f"(isValid(datum.{name}) ? datum.{name} : '{UNKNOWN}')"
        for name, title in titles.items()
    }
    told_as = ", ".join(f"{title}: {cell}" for title, cell in cells.items())
    said = " + '; ' + ".join(f"{title} + ': ' + {cell}" for title, cell in cells.items())
    return base.encode(
        tooltip=alt.value(alt.ExprRef(f"{{{told_as}}}")), description=alt.value(alt.ExprRef(said))
    )


def log_scale(low: float, high: float, base: int = 10) -> alt.Scale:
    """A logarithmic scale from ``low`` to ``high``."""
    return alt.Scale(type="log", base=base, domain=[low, high], nice=False, clamp=False)


def size_axis(low: float, high: float) -> alt.Axis:
    """An axis of working sets between ``low`` and ``high`` bytes, in binary units."""
    ticks = [1024.0 * 4**power for power in range(18) if low <= 1024.0 * 4**power <= high]
    return alt.Axis(title="Working set in all", labelExpr=SIZE_LABEL, values=ticks)


def rate_axis(title: str) -> alt.Axis:
    """An axis of rates, without SI prefixes: 0.1 must not read 100m."""
    return alt.Axis(title=title, format=".12~g", tickCount=6)


def bar_names(field: str, sort: alt.EncodingSortField) -> alt.Y:
    """The names of bars at their left, in the order of ``sort``."""
    axis = alt.Axis(title=None, labelLimit=150, domain=False, grid=False)
    return alt.Y(f"{field}:N", sort=sort, axis=axis)


def colour(field: str, names: Sequence[str]) -> alt.Color:
    """A colour for each of ``names``."""
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(names)), title=None)


def dash(field: str, names: Sequence[str]) -> alt.StrokeDash:
    """A dash for each of ``names``, beside its colour."""
    return alt.StrokeDash(f"{field}:N", scale=alt.Scale(domain=list(names)), title=None)


def shape(field: str, names: Sequence[str]) -> alt.Shape:
    """A shape for each of ``names``, beside its colour."""
    return alt.Shape(f"{field}:N", scale=shape_scale(names), title=None)


def shape_scale(names: Sequence[str]) -> alt.Scale:
    """The scale of ``shape``."""
    return alt.Scale(domain=list(names), range=list(SHAPES))
