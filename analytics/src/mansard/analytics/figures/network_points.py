"""Networks and their layers in every roofline: their points, and the marks that draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name, in_order, network_key
from mansard.analytics.data.quantities import joules, seconds
from mansard.analytics.figures.charting import Chart, plot, shape_scale, told
from mansard.analytics.figures.figure import GIGA, Drawn, in_giga, positive, schema_of
from mansard.analytics.figures.parameters import equals, equals_or_all, mode_labels
from mansard.analytics.figures.tables import batch_text, bound_text
from mansard.analytics.results import Results

MOST_LAYERS_DRAWN = 30  # of one network in one mode
MOST_LAYER_ROWS = 1200  # in all: each is some 150 bytes of a page that stays under 2 MB
MOST_NETWORK_POINTS = 1200  # in all; networks of one batch are drawn however many they are
_NAMED = f"{equals('batch')} && {equals_or_all('network')}"
_NETWORK_SCHEMA = schema_of(
    text="mode network batch precision time energy bound", number="intensity rate efficiency power"
)
LAYER_POINT_SCHEMA = schema_of(
    text="mode network batch precision layer operator bound energy_bound",
    number="intensity rate efficiency power share time_ms energy_mj",  # share: of the time, %
    count="rank",
    flag="is_main",
)


@dataclass(frozen=True, eq=False)
class Points:
    """Networks and layers as the three figures draw them."""

    networks: pl.DataFrame
    layers: pl.DataFrame
    measured: pl.DataFrame  # as ``networks``, with the engine; empty where none was run
    names: Sequence[str]
    n_networks_dropped: int

    @property
    def drawn(self) -> pl.DataFrame:
        """``networks``, and what was measured of them, each with what made it."""
        if self.measured.is_empty():
            return self.networks
        modelled = self.networks.with_columns(engine=pl.lit("modelled"))
        return pl.concat([modelled, self.measured])


def roof_points(results: Results) -> Points:
    """Networks under the roofs, and the slowest layers of each at its smallest batch."""
    networks = network_points(_few(results.networks), results.names)
    smallest = (
        results.networks.sort("batch", "score_id", nulls_last=True)
        .group_by("model", "model_hash", "precision", maintain_order=True)
        .agg(pl.col("score_id").first())
    )
    groups = results.groups.join(smallest.select("score_id"), on="score_id", how="semi")
    n_sets = max(1, results.networks.select("model", "model_hash", "precision", "label").n_unique())
    n_most = max(5, min(MOST_LAYERS_DRAWN, MOST_LAYER_ROWS // n_sets))
    layers = layer_points(groups.sort("score_id", "run_id", "group"), results.names, n_most)
    names = in_order(networks.frame["network"].to_list())
    measured = measured_points(results)
    return Points(networks.frame, layers.frame, measured, names, networks.n_dropped)


def _few(networks: pl.DataFrame) -> pl.DataFrame:
    """The smallest batch of each network, and larger ones as long as there is room."""
    rank = pl.col("batch").fill_null(0).rank("dense").over("model", "model_hash", "precision")
    ranked = networks.with_columns(_rank=rank)
    n_at_most = ranked.group_by("_rank").len().sort("_rank").with_columns(pl.col("len").cum_sum())
    fits = n_at_most.filter(pl.col("len") <= MOST_NETWORK_POINTS)["_rank"].max()
    return ranked.filter(pl.col("_rank") <= (fits or 1)).drop("_rank")


def spots(networks: pl.DataFrame, height: str) -> pl.DataFrame:
    """Where networks stand, with the name that the chart prints."""
    several = pl.col("precision").n_unique().over("network", "batch", "mode") > 1
    both = pl.format("{} {}", pl.col("network"), pl.col("precision"))
    name = pl.when(several).then(both).otherwise(pl.col("network"))
    return networks.select(
        "mode", "batch", "network", "precision", text=name, x="intensity", y=height
    )


def network_points(networks: pl.DataFrame, names: Mapping[str, str]) -> Drawn:
    """Whole networks: intensity, attainable GFLOP/s, GFLOP/J, W, and what the tooltip says.

    Energy and power are null where they are unknown; ``under_roofs`` keeps the others.
    """
    rows = [
        {
            "mode": row["label"],
            "network": names[network_key(row["model"], row["model_hash"])],
            "batch": batch_text(row["batch"]),
            "precision": row["precision"],
            "intensity": row["intensity"],
            "rate": in_giga(row["attainable_flop_per_s"]),
            **_priced(row["work_flop"], row["energy_j"], row["time_s"]),
            "time": seconds(row["time_s"], row["low_s"], row["high_s"], row["interval"]),
            "energy": joules(
                row["energy_j"], row["energy_low_j"], row["energy_high_j"], row["interval"]
            ),
            "bound": bound_text(row["bound"], row["bound_share"]),
        }
        for row in networks.iter_rows(named=True)
    ]
    return positive(rows, _NETWORK_SCHEMA, "intensity", "rate")


def measured_points(results: Results) -> pl.DataFrame:
    """Networks at their work over the measured time; those that have a roof in that mode.

    As ``network_points``, and the engine; of one network several engines may be there.
    """
    labels = mode_labels(results)
    scored = {
        (row["label"], row["network"], row["batch"], row["precision"], row["phase"]): row
        for row in results.networks.iter_rows(named=True)
    }
    rows = []
    for found in results.measured:
        key = (labels[found.device, found.mode], found.network, found.batch, found.precision)
        row = scored.get((*key, found.phase))
        if row is None or found.time_s is None or found.remark or not row["work_flop"]:
            continue
        rows.append(
            {
                "mode": row["label"],
                "network": found.network,
                "batch": batch_text(found.batch),
                "precision": found.precision,
                "engine": found.engine,
                "intensity": row["intensity"],
                "rate": in_giga(row["work_flop"] / found.time_s),
                **_priced(row["work_flop"], found.energy_j, found.time_s),
                "power": found.power_w,
                "time": seconds(found.time_s, found.low_s, found.high_s),
                "energy": joules(found.energy_j),
                "bound": "–",  # a model's
            }
        )
    schema = {**_NETWORK_SCHEMA, "engine": pl.String}
    return positive(rows[:MOST_NETWORK_POINTS], schema, "intensity", "rate").frame


def layer_points(groups: pl.DataFrame, names: Mapping[str, str], n_most: int) -> Drawn:
    """The ``n_most`` slowest layers of each network in each mode, on the roofs.

    ``groups`` are fused layers: see ``Results.groups``. ``rank`` counts from the slowest;
    ``is_main`` marks the precision that is shown where none is chosen: the fastest.
    """
    own = ("score_id", "label")
    ranked = (
        groups.filter(pl.col("time_s") > 0)
        .with_columns(share=pl.col("time_s") / pl.col("time_s").sum().over(own))
        .sort(*own, "share", "group", descending=[False, False, True, False])
        .with_columns(rank=pl.col("share").cum_count().over(own))
        .filter(pl.col("rank") <= n_most)
    )
    main = _main_precisions(groups)
    rows = [
        {
            "mode": row["label"],
            "network": names[network_key(row["model"], row["model_hash"])],
            "batch": batch_text(row["batch"]),
            "precision": row["precision"],
            "is_main": (row["model"], row["model_hash"], row["precision"]) in main,
            "layer": f"{row['group']} {display_name(row['name'])}",
            "operator": row["op_class"],
            "rank": row["rank"],
            "intensity": row["intensity"],
            "rate": (row["work_flop"] or 0.0) / row["time_s"] / GIGA,
            **_priced(row["work_flop"], row["energy_j"], row["time_s"]),
            "share": 100 * row["share"],
            "time_ms": row["time_s"] * 1e3,
            "energy_mj": None if row["energy_j"] is None else row["energy_j"] * 1e3,
            "bound": row["bound"],
            "energy_bound": row["energy_bound"],
        }
        for row in ranked.iter_rows(named=True)
    ]
    return positive(rows, LAYER_POINT_SCHEMA, "time_ms")


def under_roofs(points: pl.DataFrame, height: str) -> pl.DataFrame:
    """The ``points`` that have an intensity and a positive ``height`` to stand at."""
    return points.filter((pl.col("intensity") > 0) & (pl.col(height) > 0))


def _main_precisions(groups: pl.DataFrame) -> set[tuple[str, str, str]]:
    """The precision of each network in which it is fastest in some mode."""
    totals = groups.group_by("model", "model_hash", "precision", "label").agg(
        pl.col("time_s").sum()
    )
    known = totals.filter(pl.col("time_s") > 0).sort("time_s", "precision", "label")
    first = known.unique(["model", "model_hash"], keep="first", maintain_order=True)
    return set(first.select("model", "model_hash", "precision").iter_rows())


def _priced(
    work_flop: float | None, energy_j: float | None, time_s: float | None
) -> dict[str, float | None]:
    """GFLOP/J and W, where the energy is known."""
    if not energy_j or not time_s:
        return {"efficiency": None, "power": None}
    return {"efficiency": (work_flop or 0.0) / energy_j / GIGA, "power": energy_j / time_s}


def layer_marks(layers: pl.DataFrame, y: str) -> Chart:
    """The slowest layers of the chosen network, larger where they take more of its time."""
    base = told(
        plot(layers),
        layer="layer",
        operator="operator",
        network="network",
        intensity="FLOP/byte",
        time_ms="time at best, ms",
        share="of the network's time, %",
        energy_mj="energy at best, mJ",
        bound="bound by",
    )
    return (
        base.transform_filter(f"{equals('network')} && datum.intensity > 0 && datum.{y} > 0")
        .mark_point(style="m-layer", opacity=0.6, clip=True)
        .encode(
            x="intensity:Q",
            y=f"{y}:Q",
            size=alt.Size(
                "share:Q",
                scale=alt.Scale(domain=[0, 30], range=[40, 1300], clamp=True),
                legend=None,
            ),
        )
    )


def network_marks(
    points: pl.DataFrame,
    networks: Sequence[str],
    y: str,
    *,
    with_key: bool,
    are_hollow: bool = False,
) -> Chart:
    """Whole networks at the chosen batch; networks that are not chosen are faint.

    ``are_hollow``: where measured ones, which are solid, stand beside them.
    """
    key = alt.Legend(title=None, columns=4) if with_key else None
    base = told(
        plot(points),
        network="network",
        batch="batch",
        precision="precision",
        intensity="FLOP/byte",
        time="modelled time",
        energy="modelled energy",
        power="power at the roof, W",
        bound="bound by",
    )
    return (
        base.transform_filter(equals("batch"))
        .mark_point(
            **({"filled": False, "strokeWidth": 1.8} if are_hollow else {"style": "m-network"}),
            size=110,
        )
        .encode(
            x="intensity:Q",
            y=f"{y}:Q",
            color=alt.Color("network:N", scale=alt.Scale(domain=list(networks)), legend=key),
            shape=alt.Shape("network:N", scale=shape_scale(networks), legend=key),
            opacity=alt.condition(equals_or_all("network"), alt.value(1), alt.value(0.2)),
        )
    )


def measured_marks(points: pl.DataFrame, networks: Sequence[str], y: str) -> list[Chart]:
    """Networks as they were measured, solid; no mark where none was."""
    if points.is_empty():
        return []
    base = told(
        plot(points),
        network="network",
        batch="batch",
        precision="precision",
        engine="engine",
        intensity="FLOP/byte",
        time="measured time",
        energy="measured energy",
        power="measured power, W",
    )
    marks = base.transform_filter(f"{equals('batch')} && datum.{y} > 0").mark_point(
        style="m-network", size=110, clip=True
    )
    return [
        marks.encode(
            x="intensity:Q",
            y=f"{y}:Q",
            color=alt.Color("network:N", scale=alt.Scale(domain=list(networks)), legend=None),
            shape=alt.Shape("network:N", scale=shape_scale(networks), legend=None),
            opacity=alt.condition(equals_or_all("network"), alt.value(1), alt.value(0.2)),
        )
    ]


def leader_marks(labels: pl.DataFrame) -> Chart:
    """Thin lines from points to names that hang below them."""
    return (
        plot(labels.filter(pl.col("hangs")))
        .mark_rule(style="m-leader")
        .encode(x="point_x:Q", y="point_y:Q", y2="y:Q")
        .transform_filter(_NAMED)
    )


def label_marks(labels: pl.DataFrame, x: alt.X, y: alt.Y) -> list[Chart]:
    """The names of the networks at the chosen batch, each on a halo."""
    return [
        plot(labels.filter(pl.col("align") == align))
        .mark_text(style=style, align=align, baseline="middle")
        .transform_filter(_NAMED)
        .encode(x=x, y=y, text="text:N")
        for style in ("m-network-label-halo", "m-network-label")
        for align in ("left", "right")
    ]
