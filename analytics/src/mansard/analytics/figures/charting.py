"""What the charts share: data, scales, axes and tooltips in Altair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from mansard.analytics.figures.theme import SHAPES

SIZE_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~g') + ' GiB'"
    " : datum.value >= 1048576 ? format(datum.value / 1048576, '~g') + ' MiB'"
    " : format(datum.value / 1024, '~g') + ' KiB'"
)


def tooltips(**titles: str) -> list[alt.Tooltip]:
    """Fields to show as they are, each under its title; numbers are rounded beforehand."""
    return [alt.Tooltip(field, type="nominal", title=title) for field, title in titles.items()]


def log_scale(low: float, high: float, base: int = 10) -> alt.Scale:
    """A logarithmic scale that ends exactly where it is told to."""
    return alt.Scale(type="log", base=base, domain=[low, high], nice=False, clamp=False)


def size_axis(low: float, high: float) -> alt.Axis:
    """An axis of working sets between ``low`` and ``high`` bytes, in binary units."""
    ticks = [1024.0 * 4**power for power in range(18) if low <= 1024.0 * 4**power <= high]
    return alt.Axis(title="Working set in all", labelExpr=SIZE_LABEL, values=ticks)


def rate_axis(title: str) -> alt.Axis:
    """An axis of rates, without SI prefixes: 0.1 must not read 100m."""
    return alt.Axis(title=title, format=".12~g", tickCount=6)


def shape_scale(domain: Sequence[str]) -> alt.Scale:
    """A shape for each category, beside its colour."""
    return alt.Scale(domain=list(domain), range=list(SHAPES))


class Rows(alt.InlineData):
    """Rows that never change: Altair copies a chart at every step, and these with it."""

    _class_is_valid_at_instantiation = False

    def __deepcopy__(self, _memo: object) -> Rows:
        return self


def inline(frame: pl.DataFrame) -> alt.InlineData:
    """A frame as part of the specification."""
    return Rows(values=frame.to_dicts())


def layered(charts: Sequence[alt.Chart]) -> Any:
    """``charts`` over each other. Altair's versions differ in what they say layer returns."""
    return alt.layer(*charts)
