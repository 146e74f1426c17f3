"""The modes of a device for one network: the Pareto front, and a map over the clocks.

One batch size of each network is drawn: that of the page, else the recommended one, else its
smallest. Latencies are in ms, energies in mJ of one item, powers in W, clocks in MHz.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import altair as alt
import polars as pl

from mansard.analytics.data.names import in_order
from mansard.analytics.data.quantities import MEGA, MILLI, UNKNOWN, joules, seconds, watts
from mansard.analytics.decisions.alternatives import pareto_front
from mansard.analytics.decisions.records import Candidate, Recommendation
from mansard.analytics.pages.figures.charting import (
    SHAPE_SIGNS,
    STAR,
    Chart,
    following,
    plot,
    shape_scale,
    with_tooltip,
)
from mansard.analytics.pages.figures.figure import (
    Drawn,
    Figure,
    Following,
    Missing,
    dropped_note,
    evenly,
    make_figure,
    schema_of,
)
from mansard.analytics.pages.figures.parameters import (
    EVERY,
    Chosen,
    How,
    Key,
    LiveTable,
    Name,
    Shown,
    equals,
    equals_or_all,
    heading,
    mode_labels,
)
from mansard.analytics.pages.figures.tables import Column
from mansard.analytics.pages.results import Results
from mansard.core.text import natural_key

MOST_ROWS = 2000  # in all: each is some 60 bytes of a page that stays under 2 MB
MOST_TABLE_ROWS = 60  # of modes in one table
LEAST_CELLS = 12  # of one network, whatever the number of networks
LETTER_PX, CELL_EDGE_PX = 7.5, 6.0  # a cell's text is left out where the cell is narrower
PARETO_PX, MAP_PX = (470, 400), (450, 165)
HEADING = "{network}, batch {batch}, {precision}: {reading}"
AT_BEST, BOUNDS = "at best by the roofs", "within bounds"
_DRAWN = f"{equals_or_all('device')} && {equals('network')} && {equals('precision')}"
_SET = ["device", "network", "precision"]
_CELL = [*_SET, "cell"]
# *_shade: 0 is the least of the network, 1 the most. is_cell: the best of its GPU and memory
# clock. is_front: no other mode is better in latency, energy and power at once. is_edge: of the
# front, no slower mode costs less energy. is_main: the precision shown where none is chosen.
MODE_POINT_SCHEMA = {
    **schema_of(text="mode device network precision", count="batch"),
    **schema_of(
        number="gpu memory latency energy power", text="bound source reading remark time item watts"
    ),
    **schema_of(flag="is_extrapolated", number="latency_shade energy_shade"),
    **schema_of(flag="is_cell is_front is_edge is_recommended is_main"),
}
# As texts with their intervals: time is the latency of one batch, item the energy of one item.
# Every row follows the device, the network and the precision of the reader.
BY: Mapping[Name, How] = MappingProxyType(
    {"device": "all", "network": "first", "precision": "main"}
)
PARETO_CAPTION = (
    "Star: the recommended mode. Faint: dominated, another mode is better in latency, energy and "
    "power.",
    "Filled (●): measured, simulated or published. Hollow (○): modelled with an interval, within "
    "bounds, or at best by the roofs. Click a point to choose its mode.",
)
NONE = (
    "No prediction of {network} in {precision} on {device}: `mansard bench model.onnx` predicts "
    "networks, `mansard data import` reads measured times."
)
NONE_PRICED = "The energy of {network} in {precision} on {device} is unknown, so there is no front."
NONE_MAPPED = (
    "No mode of {device} has a GPU clock, a memory clock and a time of {network} in {precision}."
)
HEAT_CAPTION = (
    "Stronger colour: more. Click a cell to choose its mode.",
    "A cell has the value, the range of bounds, or ≥ and the value at best by the roofs, if there "
    "is room. The tooltip has the interval.",
)
NO_NETWORK = "No network was predicted: `mansard bench model.onnx` predicts one in every mode."
NO_ROOFS_OF_RUNS = (
    "The networks ran, but no roofs were measured to predict other modes from: `mansard bench` "
    "measures them."
)
DISTURBED = (
    "Other work disturbed every network that ran, so no prediction uses it: the same command "
    "measures it again."
)
ONE_MODE = (
    "The Pareto front needs two modes: `mansard bench --mode all` measures the board's modes, "
    "`mansard board plan` selects a few."
)
NO_ENERGY = "The Pareto front needs energies, and no power meter was read."
NO_CLOCKS = "No map over clocks: the modes do not differ in two known clocks."


@dataclass(frozen=True, eq=False)
class ModePoints:
    """What both figures draw, and the network they show while none is chosen."""

    drawn: Drawn
    first: str
    n_modes: int
    why_empty: str  # where there are no points


def gather(results: Results, chosen: Chosen) -> ModePoints:
    """The points of every device and network; empty without predictions."""
    picks = starred(results.recommendations)
    batch = int(chosen.batch) if chosen.batch.isdigit() else None
    labels = mode_labels(results)
    drawn = mode_points(results.decided, results.modes, labels, picks, batch)
    networks = sorted(set(drawn.frame["network"].to_list()), key=natural_key)
    first = [pick.network for pick in picks if pick.network in networks] or networks or [EVERY]
    # Of a network that was run there is most to see.
    was_run = set(drawn.frame.filter(pl.col("source") != "modelled")["network"])
    first.sort(key=lambda name: name not in was_run)
    n_modes = results.decided.select("device", "mode").n_unique()
    return ModePoints(drawn, first[0], n_modes, why_no_network(results))


def starred(recommendations: Iterable[Recommendation]) -> list[Candidate]:
    """The recommended candidates that charts mark with a star; none with ``lacks_rivals``."""
    return [
        advice.choice
        for advice in recommendations
        if advice.choice is not None and not advice.lacks_rivals
    ]


def why_no_network(results: Results) -> str:
    """Why no network is predicted, and the command that changes it."""
    if not results.measured:
        return NO_NETWORK
    if results.roofs and all(run.disturbed_s for run in results.measured):
        return DISTURBED
    return NO_NETWORK if results.roofs else NO_ROOFS_OF_RUNS


def pareto_figure(points: ModePoints, chosen: Chosen) -> Figure | Missing:
    """Latency against energy, coloured by power."""
    frame = points.drawn.frame
    if frame.is_empty():
        return Missing(points.why_empty)
    priced = frame.filter(pl.col("energy") > 0)
    if priced["mode"].n_unique() < 2:
        return Missing(ONE_MODE if points.n_modes < 2 else NO_ENERGY)
    shown = Shown(priced, BY, points.first)
    chart = pareto_chart(priced, shown.resolve(chosen)[0])
    follows = Following(shown, chosen, HEADING, NONE_PRICED)
    table = mode_point_table("pareto", shown)
    return make_figure("pareto", chart, table, PARETO_CAPTION, _notes(points), follows=follows)


def heat_figure(points: ModePoints, chosen: Chosen) -> Figure | Missing:
    """Latency and energy over GPU clock and memory clock."""
    if points.drawn.frame.is_empty():
        return Missing(points.why_empty)
    cells = points.drawn.frame.filter(
        pl.col("is_cell") & (pl.col("gpu") > 0) & (pl.col("memory") > 0)
    )
    if cells.select("gpu", "memory").n_unique() < 2:
        return Missing(ONE_MODE if points.n_modes < 2 else NO_CLOCKS)
    shown = Shown(cells, BY, points.first)
    chart = heat_chart(cells, shown.resolve(chosen)[0])
    follows = Following(shown, chosen, HEADING, NONE_MAPPED)
    return make_figure(
        "heat", chart, mode_point_table("heat", shown), HEAT_CAPTION, (), follows=follows
    )


def mode_points(
    predictions: pl.DataFrame,
    modes: pl.DataFrame,
    labels: Mapping[Key, str],
    recommended: Sequence[Candidate] = (),
    batch: int | None = None,
) -> Drawn:
    """Every mode worth a mark for each device, network and precision; see MODE_POINT_SCHEMA.

    ``batch``: the one to draw where a network has it, else the recommended one, else the smallest.
    ``predictions`` has PREDICTION_SCHEMA, ``modes`` MODE_SCHEMA, ``labels`` the name of each device
    and mode. Of modes with one pair of clocks the one of least energy is kept, of many clocks an
    even choice. ``n_dropped``: predictions of that batch without a positive latency.
    """
    chosen = _of_one_batch(predictions, recommended, batch)
    known = chosen.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite())
    n_dropped = len(chosen) - len(known)
    if known.is_empty():
        return Drawn(pl.DataFrame(schema=MODE_POINT_SCHEMA), n_dropped)
    few = _thinned(_marked(_with_clocks(known, modes), recommended))
    rows = [(*key, label) for key, label in labels.items()]
    names = pl.DataFrame(rows, schema=schema_of(text="device name mode"), orient="row")
    frame = (
        with_cost_texts(few)
        .with_columns(
            remark=pl.Series([_remark(row) for row in few.iter_rows(named=True)], dtype=pl.String)
        )
        .rename({"mode": "name"})
        .join(names, on=["device", "name"], how="left")
        .with_columns(
            mode=pl.coalesce("mode", "name"),
            gpu=(pl.col("gpu_hz") / MEGA).round_sig_figs(5),
            memory=(pl.col("memory_hz") / MEGA).round_sig_figs(5),
            latency=_rounded(pl.col("latency_s") / MILLI),
            energy=_rounded(pl.col("energy_j") / pl.col("batch") / MILLI),
            power=pl.col("power_w").round_sig_figs(4),
            bound="time_bound",
        )
        .select(list(MODE_POINT_SCHEMA))
        .sort(*_SET, "latency", "mode")
    )
    return Drawn(frame, n_dropped)


def _rounded(value: pl.Expr) -> pl.Expr:
    """``value`` with four digits; a value of the roofs rounded down, as tables show it."""
    step = 10.0 ** (value.log10().floor() - 3)
    # What a float is meant to be: 0.3 is no more than 3/10.
    down = ((value / step + 1e-6).floor() * step).round_sig_figs(4)
    return pl.when(pl.col("reading") == AT_BEST).then(down).otherwise(value.round_sig_figs(4))


# Title and column of each cost of ``with_cost_texts``.
COST_COLUMNS = (
    ("Latency of one batch", "time"),
    ("Energy of one item", "item"),
    ("Power", "watts"),
)


def with_cost_texts(predictions: pl.DataFrame) -> pl.DataFrame:
    """``predictions`` (PREDICTION_SCHEMA) with their costs as texts: time, item, watts.

    And ``reading``: measured or published, or what a modelled value is.
    """
    texts = [_costs(row) for row in predictions.iter_rows(named=True)]
    names = ("time", "item", "watts")
    is_modelled = pl.col("source") == "modelled"
    return predictions.with_columns(
        *(
            pl.Series(name, [text[at] for text in texts], dtype=pl.String)
            for at, name in enumerate(names)
        ),
        reading=pl.when(is_modelled & (pl.col("interval") == "roof"))
        .then(pl.lit(AT_BEST))
        .when(is_modelled & (pl.col("interval") == "bounds"))
        .then(pl.lit(BOUNDS))
        .otherwise("source"),
    )


def _costs(row: dict[str, Any]) -> tuple[str, str, str]:
    def interval(name: str, unit: str, share: int = 1) -> tuple[Any, ...]:
        ends = [row[f"{name}{end}_{unit}"] for end in ("", "_low", "_high")]
        return *(None if end is None else end / share for end in ends), row["interval"]

    items = row["batch"] or 1
    return (
        seconds(*interval("latency", "s"), advise=False),
        joules(*interval("energy", "j", items), advise=False),
        watts(*interval("power", "w"), advise=False),
    )


def _of_one_batch(
    predictions: pl.DataFrame, recommended: Sequence[Candidate], batch: int | None
) -> pl.DataFrame:
    wanted = pl.DataFrame(
        [(pick.device, pick.network, pick.precision, pick.batch) for pick in recommended],
        schema=[*((key, pl.String) for key in _SET), ("wanted", pl.Int64)],
        orient="row",
    ).unique(_SET, keep="first", maintain_order=True)
    phases = set(predictions["phase"].drop_nulls().to_list())
    phase = "inference" if "inference" in phases or not phases else min(phases)
    inference = predictions.filter(pl.col("phase") == phase)
    smallest = inference.group_by(_SET).agg(smallest=pl.col("batch").min())
    preferred = inference.filter(pl.col("batch") == pl.lit(batch, pl.Int64))
    there = smallest.join(preferred.select(*_SET, preferred="batch").unique(), on=_SET, how="left")
    one = there.join(wanted, on=_SET, how="left").select(
        *_SET, one=pl.coalesce("preferred", "wanted", "smallest")
    )
    return (
        inference.join(one, on=_SET).filter(pl.col("batch").eq_missing(pl.col("one"))).drop("one")
    )


def _with_clocks(known: pl.DataFrame, modes: pl.DataFrame) -> pl.DataFrame:
    clocks = modes.select("device", "mode", "gpu_hz", "memory_hz").unique(["device", "mode"])
    cell = pl.when(pl.col("gpu_hz").is_not_null() & pl.col("memory_hz").is_not_null())
    return known.join(clocks, on=["device", "mode"], how="left").with_columns(
        cell=cell.then(pl.format("{}|{}", "gpu_hz", "memory_hz")).otherwise(pl.col("mode"))
    )


def _marked(known: pl.DataFrame, recommended: Sequence[Candidate]) -> pl.DataFrame:
    keys = ["device", "network", "precision", "mode"]
    chosen = {(pick.device, pick.network, pick.precision, pick.mode) for pick in recommended}
    front = set(pareto_front(known).select(keys).iter_rows())
    flags = [
        {"is_recommended": row in chosen, "is_front": row in front}
        for row in known.select(keys).iter_rows()
    ]
    by_energy = ["energy_j", "latency_s", "mode"]
    ordered = (
        pl.concat([known, pl.DataFrame(flags)], how="horizontal")
        .sort(*_SET, *by_energy, nulls_last=True)
        .with_columns(is_cell=pl.col("mode").cum_count().over(_CELL) == 1)
        .sort(*_SET, "latency_s", "energy_j", nulls_last=True)
    )
    least_before = pl.col("energy_j").cum_min().shift(1).over(_SET)
    cheaper = least_before.is_null() | (pl.col("energy_j") < least_before)
    return ordered.with_columns(
        is_edge=pl.col("energy_j").is_not_null() & cheaper,
        latency_shade=_shade("latency_s"),
        energy_shade=_shade("energy_j"),
    ).join(_main_precisions(ordered), on=_SET)


def _shade(name: str) -> pl.Expr:
    """A value on a log scale from the network's least (0) to its most (1)."""
    log = pl.when(pl.col(name) > 0).then(pl.col(name).log())
    low, high = log.min().over(_SET), log.max().over(_SET)
    return pl.when(high > low).then((log - low) / (high - low)).otherwise(0.0).round(2)


def _main_precisions(known: pl.DataFrame) -> pl.DataFrame:
    """The precision of each network to show first: the recommended one, else the fastest."""
    best = known.group_by(_SET).agg(
        pl.col("is_recommended").any().alias("wanted"), pl.col("latency_s").min().alias("best")
    )
    ordered = best.sort("wanted", "best", "precision", descending=[True, False, False])
    first = pl.col("precision").cum_count().over("device", "network") == 1
    return ordered.with_columns(is_main=first).select(*_SET, "is_main")


def _thinned(marked: pl.DataFrame) -> pl.DataFrame:
    """The recommended modes, and even selections of those on the edge and in the cells."""
    n_sets = max(1, marked.select(_SET).n_unique())
    n_most = max(LEAST_CELLS, MOST_ROWS // n_sets)
    edge = pl.col("is_edge")
    step = (edge.cum_sum() * n_most / edge.sum()).floor().over(_SET)
    even_edge = edge & ((edge.sum().over(_SET) <= n_most) | (step != step.shift(1).over(_SET)))
    cells = pl.any_horizontal(
        [
            (pl.col("device") == device) & _is_even(inside, n_most)
            for (device,), inside in marked.group_by(["device"], maintain_order=True)
        ]
    )
    return marked.filter(
        pl.col("is_recommended") | even_edge.fill_null(True) | (pl.col("is_cell") & cells)
    )


def _is_even(inside: pl.DataFrame, n_most: int) -> pl.Expr:
    """Whether a mode's GPU clock, or its name where it has none, is of an even choice."""
    n_memory = max(1, inside["memory_hz"].n_unique())
    column = "gpu_hz" if inside["gpu_hz"].null_count() == 0 else "mode"
    n_columns = n_most // n_memory if column == "gpu_hz" else n_most
    return pl.col(column).is_in(
        evenly(sorted(inside[column].unique().to_list()), max(2, n_columns))
    )


def pareto_chart(points: pl.DataFrame, chosen: Chosen) -> Chart:
    """Energy over latency, both logarithmic: one point for each mode, the front as a line."""
    scale = alt.Scale(type="log", nice=False, padding=24)

    def axis(title: str) -> alt.Axis:
        return alt.Axis(title=title, format=".3~r", tickCount=6, labelOverlap="greedy")

    base = _with_mode_tooltip(points).encode(
        x=alt.X("latency:Q", scale=scale, axis=axis("Latency of one batch, ms")),
        y=alt.Y("energy:Q", scale=scale, axis=axis("Energy of one item, mJ")),
    )
    readings = in_order(points["reading"].to_list())
    # The symbols of a key are all filled, so that signs stand for them.
    signs = {
        name: sign[name in {AT_BEST, BOUNDS, "modelled"}]
        for name, sign in zip(readings, SHAPE_SIGNS, strict=False)
    }
    texts = f"({json.dumps(signs, ensure_ascii=False)})[datum.label] + ' ' + datum.label"
    key = alt.Legend(title=None, labelExpr=texts, symbolSize=0)
    power = alt.Legend(title="Power, W", type="gradient", gradientLength=180)

    # Conditions and not filters: a layer without rows would leave its axes without an extent.
    def size_if(test: str, size: int) -> Chart:
        return alt.condition(test, alt.value(size), alt.value(0))

    from_zero = alt.Scale(zero=True)  # the palest outline of a hollow point is visible
    marks = base.encode(
        opacity=alt.condition("datum.is_front", alt.value(1), alt.value(0.45)),
        shape=alt.Shape("reading:N", scale=shape_scale(readings), legend=key),
    )
    # In one layer fill and stroke would have a legend of symbols instead of a gradient.
    dots = [
        marks.mark_point(style="m-mode", filled=True).encode(
            fill=alt.Fill("power:Q", scale=from_zero, legend=None),
            size=size_if("datum.source !== 'modelled'", 75),
        ),
        marks.mark_point(style="m-mode", size=75, strokeWidth=1.6, filled=False).encode(
            stroke=alt.Stroke("power:Q", scale=from_zero, legend=power)
        ),
    ]

    is_picked = "datum.mode === picked"
    short = "replace(datum.mode, datum.device + ', ', '')"  # all points are of one device
    named = base.transform_calculate(name=f"datum.is_recommended || {is_picked} ? {short} : ''")
    layers = [
        base.mark_line(style="m-front", interpolate="step-after").transform_filter("datum.is_edge"),
        *dots,
        base.mark_point(style="m-picked", filled=False).encode(size=size_if(is_picked, 190)),
        base.mark_point(style="m-best", shape=STAR, opacity=1).encode(
            size=size_if("datum.is_recommended", 260)
        ),
        *[
            named.mark_text(style=style, dy=-17).encode(text="name:N")
            for style in ("m-network-label-halo", "m-network-label")
        ],
    ]
    return following(
        alt.layer(*[layer.transform_filter(_DRAWN) for layer in layers]),
        chosen,
        *("network", "precision", "device", "picked"),
        width=PARETO_PX[0],
        height=PARETO_PX[1],
        title=heading("Pareto front"),
        description="Energy of one item in mJ over latency in ms for every mode drawn, coloured by "
        "power; the line is the Pareto front of latency and energy, the star the recommended mode",
    )


def heat_chart(cells: pl.DataFrame, chosen: Chosen) -> Chart:
    """Latency above, energy below, over GPU clock and memory clock; darker is more."""
    has_energy = bool(cells["energy"].is_not_null().any())
    kinds = [("latency", "Latency, ms", "ms")]
    kinds += [("energy", "Energy of an item, mJ", "mJ")] if has_energy else []
    maps = [
        _map(cells, kind, unit)
        .properties(width=MAP_PX[0], height=MAP_PX[1], title=heading(title))
        .transform_filter(_DRAWN)
        for kind, title, unit in kinds
    ]
    return following(
        alt.vconcat(*maps, spacing=18),
        chosen,
        *("network", "precision", "device", "picked"),
        description="Heat map of latency in ms"
        + (" and of energy in mJ" if has_energy else "")
        + " over GPU clock and memory clock; the star is the recommended mode",
    )


def _map(cells: pl.DataFrame, kind: str, unit: str) -> Chart:
    is_known = f"isValid(datum.{kind})"
    text_field = "time" if kind == "latency" else "item"  # "at best 3.2 ms", rounded down
    placed = _with_mode_tooltip(cells).transform_calculate(
        shade=f"{is_known} ? datum.{kind}_shade : 0",
        text=f"!({is_known}) ? '{UNKNOWN}' : datum.reading === '{AT_BEST}' ? "
        f"'≥ ' + replace(datum.{text_field}, 'at best ', '') : datum.reading === '{BOUNDS}' ? "
        f"replace(replace(datum.{text_field}, 'between ', ''), ' and ', '–') : "
        f"format(datum.{kind}, '.3~r') + ' {unit}'",
    )
    base = placed.encode(
        x=alt.X("gpu:O", axis=alt.Axis(title="GPU clock, MHz", labelAngle=0, format="~g")),
        y=alt.Y("memory:O", sort="descending", axis=alt.Axis(title="Memory, MHz", format="~g")),
    )
    shade = alt.Color("shade:Q", scale=alt.Scale(domain=[0, 1]), legend=None)
    dark = "datum.shade > 0.45"
    fitting = base.transform_joinaggregate(n_clocks="distinct(gpu)").transform_filter(
        f"{LETTER_PX} * length(datum.text) + {CELL_EDGE_PX} < width / datum.n_clocks"
    )
    layers = [
        base.mark_rect(style="m-cell").encode(color=shade),
        *(
            fitting.mark_text(style=style).encode(text="text:N").transform_filter(where)
            for style, where in (("m-cell-low", f"!({dark})"), ("m-cell-high", dark))
        ),
        base.mark_rect(style="m-picked").transform_filter("datum.mode === picked"),
        base.mark_point(
            style="m-best", size=250, shape=STAR, opacity=1, yOffset=-18
        ).transform_filter("datum.is_recommended"),
    ]
    return alt.layer(*layers)


def _with_mode_tooltip(points: pl.DataFrame) -> Chart:
    return with_tooltip(
        plot(points),
        mode="mode",
        gpu="GPU, MHz",
        memory="memory, MHz",
        precision="precision",
        batch="batch",
        time="latency",
        item="energy of one item",
        watts="power",
        bound="bound by",
        remark="remark",
    )


def mode_point_table(name: str, shown: Shown) -> LiveTable:
    """The modes drawn for a network in a precision, the least energy first."""
    columns = (
        *(Column.name("Mode", "mode"), Column.number("GPU, MHz", "gpu", ",.5g")),
        Column.number("Memory, MHz", "memory", ",.5g"),
        *(Column.text(title, field, is_numeric=True) for title, field in COST_COLUMNS),
        *(Column.text("Bound by", "bound"), Column.text("Remark", "remark")),
    )
    return LiveTable(name, f"Modes as drawn for {HEADING}", columns, shown, order="energy")


def _remark(row: dict[str, Any]) -> str:
    words = [str(row["source"])]
    words += ["recommended"] if row["is_recommended"] else []
    words += ["on the front"] if row["is_front"] else []
    words += ["extrapolated"] if row["is_extrapolated"] else []
    return ", ".join(words)


def _notes(points: ModePoints) -> tuple[str, ...]:
    frame = points.drawn.frame
    n_drawn = frame.select("device", "mode").n_unique()
    few = (
        f"{n_drawn} of {points.n_modes:,} modes are drawn: of those with the same GPU and memory "
        "clock the one of least energy, an even choice of the clocks, and the front."
    )
    n_outside = frame.filter("is_extrapolated")["mode"].n_unique()
    outside = (
        f"Modes drawn that lie outside the clocks that were measured: {n_outside}; their tooltips "
        "say extrapolated."
    )
    why = "their latency is unknown; counted over all networks and modes"
    return (
        *([few] if n_drawn < points.n_modes else []),
        *([outside] if n_outside else []),
        *dropped_note(points.drawn.n_dropped, "predictions", why),
    )
