"""Achieved shares of the roof: bars in percent of what each network's intensity allows."""

from __future__ import annotations

import json

import altair as alt
import polars as pl

from mansard.analytics.pages.figures.charting import Chart, bar_names, following, plot, with_tooltip
from mansard.analytics.pages.figures.figure import (
    Figure,
    Following,
    Missing,
    Prefix,
    make_figure,
    si_prefix,
)
from mansard.analytics.pages.figures.network_points import (
    SHOWN,
    SIGNS,
    Points,
    bound_scale,
)
from mansard.analytics.pages.figures.parameters import (
    EVERY,
    Chosen,
    How,
    LiveTable,
    Name,
    Shown,
    equals_or_all,
)
from mansard.analytics.pages.figures.roofline import HEADING, NO_ROOFS, title
from mansard.analytics.pages.figures.tables import Column
from mansard.analytics.pages.results import Results
from mansard.core.precision import unit_title

WIDTH_PX, BAR_PX = 170, 19
FULL = 100.0
_AXIS = (0, 25, 50, 75, 100)
NO_SHARES = (
    "No network has a roof here: its work, traffic, time and the peak of its precision are needed. "
    "`mansard bench model.onnx` measures all of them."
)
NONE_HERE = "No network at batch {batch} has a roof of its precision in {mode}."
_SOLID = "{solid} Solid: measured. The line across a bar is the model's bound."
_HOLLOW = (
    "{hollow} Hollow: modelled. The gap to 100 % arises because layers differ in what limits them."
)
_ROOF = (
    "Roof: the peak of the network's precision, and main memory. Data in caches can exceed it. The "
    "limit is modelled."
)


def share_figure(results: Results, chosen: Chosen, points: Points) -> Figure | Missing:
    """Bars of the share of the roof: measured networks first, then modelled ones."""
    if not results.roofs:
        return Missing(NO_ROOFS)
    bars = share_bars(points)
    if bars.is_empty():
        return Missing(NO_SHARES)
    by: dict[Name, How] = {"mode": "equal", "batch": "equal", "precision": "all", "network": "all"}
    table = LiveTable("shares", "Shares of the roof in {mode}", _columns(bars), Shown(bars, by))
    follows = Following(Shown(bars, by), chosen, HEADING, NONE_HERE)
    said = [_SOLID.format(solid=SIGNS["measured"])] if len(points.measured) else []
    said += [_HOLLOW.format(hollow=SIGNS["modelled"])] if "modelled" in bars["kind"] else []
    chart = share_chart(bars, chosen)
    said.append(_ROOF)
    return make_figure("roof-shares", chart, table, said, follows=follows, subtitle=_subtitle(bars))


def _columns(bars: pl.DataFrame) -> tuple[Column, ...]:
    prefix = _prefix(bars)
    rate = unit_title(f"{prefix.letter}{{}}/s", bars["precision"])
    return (
        *(Column.text("Network", "network"), Column.text("Batch", "batch")),
        Column.text("Precision", "precision"),
        Column.text("Kind", "kind"),
        Column.number("Of the roof, %", "share"),
        Column.number(rate, "rate", per=prefix.per),
        Column.number(f"Roof, {rate}", "roof", per=prefix.per),
        *(Column.text("Time", "time", is_numeric=True), Column.text("Bound by", "bound")),
    )


def _prefix(bars: pl.DataFrame) -> Prefix:
    return si_prefix(float(bars["roof"].to_numpy().max(initial=0.0)))


def _subtitle(bars: pl.DataFrame) -> str:
    """The numbers of bars and of networks, for Vega."""
    both = pl.concat([bars.with_columns(precision=pl.lit(EVERY)), bars])
    counts = both.group_by("mode", "batch", "precision", "kind", maintain_order=True).agg(
        n=pl.len(), n_drawn=pl.col("is_drawn").sum()
    )
    said: dict[str, list[str]] = {}
    for row in counts.sort("kind").iter_rows(named=True):
        of = "" if row["n"] == row["n_drawn"] else f" of {row['n']}"
        line = f"{SIGNS[row['kind']]} {row['n_drawn']}{of} {row['kind']}"
        key = f"{row['mode']}|{row['batch']}|{row['precision']}"
        said.setdefault(key, []).append(line)
    lines = json.dumps({key: ", ".join(parts) for key, parts in said.items()})
    return f"({lines})[mode + '|' + batch + '|' + precision] || ''"


def share_bars(points: Points) -> pl.DataFrame:
    """A bar for each network at each batch in each mode: the measured first, each from the best.

    ``best``: the share that the model allows a measured one, %. ``place`` orders them.
    """
    same = ["mode", "batch", "network", "precision"]
    known = points.networks.filter(pl.col("share") > 0)
    ran = points.measured.filter(pl.col("share") > 0).join(
        known.select(*same, best="share"), on=same, how="left"
    )
    others = known.join(ran, on=same, how="anti")
    several = pl.col("precision").n_unique().over("mode", "batch", "network") > 1
    runs = pl.len().over(same) > 1
    engine = pl.col("engine") if "engine" in ran.columns else pl.lit("")
    columns = [*points.networks.columns, "kind", "best", "engine"]
    both = pl.concat(
        [
            ran.with_columns(kind=pl.lit("measured"), engine=engine).select(columns),
            others.with_columns(
                kind=pl.lit("modelled"), best=pl.lit(None, pl.Float64), engine=pl.lit("")
            ).select(columns),
        ]
    )
    names = pl.concat_str(
        pl.col("kind").replace_strict(SIGNS, return_dtype=pl.String),
        pl.col("network"),
        pl.when(several).then(pl.col("precision")),
        pl.when(runs).then(pl.col("engine")),
        separator=" ",
        ignore_nulls=True,
    )
    return (
        both.with_columns(label=names)
        .sort("mode", "batch", "kind", "share", descending=[False, False, False, True])
        .with_columns(place=pl.col("label").cum_count().over("mode", "batch"))
    )


def share_chart(bars: pl.DataFrame, chosen: Chosen) -> Chart:
    """Bars from 0 to the greatest share or 100 %, coloured by what binds the network."""
    prefix = _prefix(bars)
    rate = unit_title(f"{prefix.letter}{{}}/s", bars["precision"])
    shown = {
        f"{name}_shown": f"format(datum.{name} / {prefix.per}, '.4~r')" for name in ("rate", "roof")
    }
    widest = max(FULL, *bars["share"].to_list()) * 1.02
    base = with_tooltip(
        plot(bars).transform_filter(SHOWN).transform_calculate(**shown),
        network="network",
        batch="batch",
        precision="precision",
        kind="it is",
        engine="engine",
        share="of its roof, %",
        best="at best by the model, %",
        rate_shown=rate,
        roof_shown=f"roof, {rate}",
        time="time",
        bound="bound by, modelled",
    )
    y = bar_names("label", alt.EncodingSortField("place", op="min", order="ascending"))
    x = alt.X(
        "share:Q",
        scale=alt.Scale(domain=[0, widest], nice=False),
        axis=alt.Axis(title="Percent of the roof", values=list(_AXIS)),
    )
    faint = alt.condition(equals_or_all("network"), alt.value(1), alt.value(0.3))
    # Without a key: the words beside each bar say it, and the roofline's key has the colours.
    color = alt.Color("limit:N", scale=bound_scale(), legend=None)
    words = "format(datum.share, '.2r') + ' %, ' + datum.limit"
    words += " + (datum.is_disturbed ? ', disturbed' : '')"
    shapes = {
        "measured": {},
        "modelled": {"filled": False, "strokeWidth": 1.6, "style": "m-hollow"},
    }
    solid, hollow = (
        base.transform_filter(f"datum.kind === '{kind}'")
        .mark_bar(height={"band": 0.74}, **look)
        .encode(x=x, y=y, color=color, opacity=faint)
        for kind, look in shapes.items()
    )
    best = base.transform_filter("isValid(datum.best)").mark_tick(style="m-best-share")
    text = base.mark_text(
        style="m-network-label", align="left", baseline="middle", x=alt.ExprRef("width + 8")
    ).encode(y=y, text=alt.value(alt.ExprRef(words)), opacity=faint)
    return following(
        alt.layer(hollow, solid, best.encode(x="best:Q", y=y), text),
        chosen,
        *("mode", "batch", "network", "precision"),
        width=WIDTH_PX,
        height=alt.Step(BAR_PX),
        title=title("Percent of the roof", offset_px=16),
        description="Percent of the roof at its intensity that each network reaches in the chosen "
        "power mode, measured ones first, coloured by what binds it",
    )
