"""One network closer: its layers by time and energy, and its batch sizes."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from mansard.analytics.charts.mode_charts import network_title, of_network
from mansard.analytics.charts.parameters import Chosen, Name, equals, equals_or_all
from mansard.analytics.charts.sweeps import inline, layered, shape_scale, tooltips

TIME_BOUNDS = ("compute", "memory", "launch", "power")
ENERGY_BOUNDS = ("work", "traffic", "constant")
MOST_BARS = 14  # layers of one network
_BAR_PX, _BARS_PX, _CURVE_PX = 21, 340, (430, 280)
_OF_PRECISION = "(precision === '' ? datum.is_main : datum.precision === precision)"


_LAYER_WORDS = {
    "layer": "layer",
    "operator": "operator",
    "time_ms": "modelled time, ms",
    "share": "of the network's time, %",
    "energy_mj": "modelled energy, mJ",
    "intensity": "FLOP/byte",
    "bound": "time bound by",
    "energy_bound": "energy mostly for",
}


def bar_chart(layers: pl.DataFrame, chosen: Chosen, first: str) -> alt.HConcatChart:
    """The slowest layers: time on the left, energy on the right, what bounds each at its bar."""
    kinds: list[tuple[str, str, Sequence[str], str]] = [
        ("time_ms", "bound", TIME_BOUNDS, "Time, ms")
    ]
    if layers["energy_mj"].is_not_null().any():
        kinds += [("energy_mj", "energy_bound", ENERGY_BOUNDS, "Energy, mJ")]
    shown = (
        f"{of_network(first)} && {equals('mode')} && {_OF_PRECISION} && datum.rank <= {MOST_BARS}"
    )
    data = inline(layers)
    bars = [
        _bars(data, kind, bound, bounds, with_names=kind == "time_ms")
        .transform_filter(shown)
        .properties(width=_BARS_PX, height=MOST_BARS * _BAR_PX, title=network_title(first, title))
        for kind, bound, bounds, title in kinds
    ]
    names: tuple[Name, ...] = ("mode", "network", "precision")
    chart: alt.HConcatChart = (
        alt.hconcat(*bars, spacing=24)
        .add_params(*[chosen.parameter(name) for name in names])
        .resolve_scale(color="independent")
        .properties(
            description="The layers of a network that take most time: their modelled time in ms "
            "and energy in mJ, coloured by what bounds them"
        )
    )
    return chart


def _bars(
    data: alt.InlineData,
    kind: str,
    bound: str,
    bounds: Sequence[str],
    *,
    with_names: bool,
) -> alt.LayerChart:
    # A bar of no length where nothing is known: its text says so, and the axis keeps an extent.
    known = f"isValid(datum.{kind})"
    base = (
        alt.Chart(data)
        .transform_calculate(
            length=f"{known} ? datum.{kind} : 0", why=f"{known} ? datum.{bound} : 'unknown'"
        )
        .encode(
            y=alt.Y(
                "layer:N",
                sort=alt.EncodingSortField("time_ms", op="max", order="descending"),
                axis=alt.Axis(title=None, labelLimit=190) if with_names else None,
            ),
            x=alt.X("length:Q", axis=alt.Axis(title=None, format=".3~r", tickCount=5)),
        )
    )
    color = alt.Color(
        f"{bound}:N", scale=alt.Scale(domain=list(bounds)), legend=alt.Legend(title=None, offset=4)
    )
    chart: alt.LayerChart = layered(
        [
            base.mark_bar(height={"band": 0.72}).encode(
                color=color, tooltip=tooltips(**_LAYER_WORDS)
            ),
            base.mark_text(style="m-rule-label", align="left", dx=5).encode(text="why:N"),
        ]
    )
    return chart


def batch_chart(points: pl.DataFrame, chosen: Chosen, first: str) -> alt.HConcatChart:
    """Items per second and energy of an item over the batch size, a line for each precision."""
    kinds = [("rate", "Items per second")]
    kinds += [("energy", "Energy of one item, mJ")] if points["energy"].is_not_null().any() else []
    precisions = sorted(set(points["precision"].to_list()))
    shown = f"{of_network(first)} && {equals('mode')} && {equals_or_all('precision')}"
    curves = [
        _curve(points, kind, precisions)
        .transform_filter(shown)
        .properties(width=_CURVE_PX[0], height=_CURVE_PX[1], title=network_title(first, title))
        for kind, title in kinds
    ]
    names: tuple[Name, ...] = ("mode", "network", "precision")
    chart: alt.HConcatChart = (
        alt.hconcat(*curves, spacing=30)
        .add_params(*[chosen.parameter(name) for name in names])
        .properties(
            description="Items per second and energy of one item in mJ over the batch size, for "
            "each precision of the chosen network and mode"
        )
    )
    return chart


def _curve(points: pl.DataFrame, kind: str, precisions: Sequence[str]) -> alt.LayerChart:
    batches = sorted(set(points["batch"].to_list()))
    base = alt.Chart(inline(points)).encode(
        x=alt.X(
            "batch:Q",
            scale=alt.Scale(type="log", base=2, nice=False, padding=14),
            axis=alt.Axis(title="Batch", values=batches, format="d"),
        ),
        y=alt.Y(
            f"{kind}:Q",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(title=None, format=".3~s" if kind == "rate" else ".3~r", tickCount=5),
        ),
        color=alt.Color("precision:N", scale=alt.Scale(domain=list(precisions)), title=None),
        tooltip=tooltips(
            network="network",
            mode="mode",
            precision="precision",
            batch="batch",
            rate="items per second",
            latency="latency, ms",
            energy="energy of one item, mJ",
            power="power, W",
            bound="bound by",
        ),
    )
    dash = alt.StrokeDash("precision:N", scale=alt.Scale(domain=list(precisions)), title=None)
    shape = alt.Shape("precision:N", scale=shape_scale(precisions), title=None)
    chart: alt.LayerChart = layered(
        [
            base.mark_line(strokeWidth=2, opacity=0.85).encode(strokeDash=dash),
            base.mark_point(size=60, opacity=1).encode(shape=shape),
        ]
    )
    return chart
