"""Networks and their layers in every roofline: their points, and the marks that draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from mansard.analytics.data.names import display_name, in_order, network_key
from mansard.analytics.data.quantities import GIGA, UNKNOWN, joules, seconds
from mansard.analytics.models.predict.columns import NO_SLOWER_THAN_FP32
from mansard.analytics.models.predict.groups import COMPUTED_IN
from mansard.analytics.models.roofs.ceilings import DRAM
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.charting import Chart, plot, shape_scale, with_tooltip
from mansard.analytics.pages.figures.figure import Drawn, in_giga, positive, schema_of
from mansard.analytics.pages.figures.parameters import EVERY, equals, equals_or_all, mode_labels
from mansard.analytics.pages.figures.tables import batch_text, bound_text
from mansard.analytics.pages.results import Results
from mansard.core.precision import unit_title

MOST_LAYERS_DRAWN = 30  # of one network in one mode, under the roofs
MOST_LAYERS = 60  # of one network in one mode, in its table
MOST_LAYER_ROWS = 1600  # in all: each is some 90 bytes of a page that stays under 2 MB
MOST_CLASSES = 8  # of the layers of one network; those that take less are one
OTHERS = "others"
MOST_NETWORK_POINTS = 1200  # in all; networks of one batch are kept however many they are
MOST_HOLLOW = 12  # modelled networks that are drawn in one mode and batch
LEAST_APART = 0.03  # decades, across and up, between two of them: they would be one mark
BOUNDS = ("compute", "memory", "launch", "power")  # what a time can be bound by
# "limit": one of BOUNDS, by the model. "roof": the most that it can reach at its intensity, with
# data from main memory. "share": of that roof, %. "is_drawn": where no network is chosen.
# "is_disturbed": other work disturbed every sample.
_NETWORK_SCHEMA = schema_of(
    text="mode network batch precision time energy bound limit",
    number="intensity rate efficiency power roof share",
    flag="is_drawn is_disturbed",
)
_SAME = ("mode", "batch", "network", "precision")
_SETTING = ("batch", "precision", "phase")
# A filter: what is drawn of the chosen mode, batch and precision, and the chosen network.
SHOWN = (
    f"{equals('mode')} && {equals('batch')} && {equals_or_all('precision')}"
    " && (datum.is_drawn || datum.network === network)"
)
SIGNS = {"measured": "●", "modelled": "○"}  # in titles and beside names, as the marks are
LAYER_POINT_SCHEMA = schema_of(
    text="mode network batch precision layer operator bound energy_bound",
    # share: of the time, %
    number="intensity rate efficiency power share time_ms energy_mj mflop mbytes",
    count="rank n_layers",  # n_layers: of the network
    flag="is_main",
)
# ``class_*``: of the whole class, of which a row is the part with one bound; ``is_first`` of them.
_CLASS_SCHEMA = schema_of(
    text="mode network batch precision operator bound said",
    number="time_ms share class_ms class_share",
    count="n_layers",
    flag="is_main is_first",
)


@dataclass(frozen=True, eq=False)
class Points:
    """Networks and layers as the three figures draw them."""

    networks: pl.DataFrame
    layers: pl.DataFrame
    classes: pl.DataFrame  # the time of all layers by class and by what binds them
    measured: pl.DataFrame  # as ``networks``, with the engine; empty where none was run
    names: Sequence[str]
    n_networks_dropped: int

    @property
    def every(self) -> pl.DataFrame:
        """Measured and modelled networks, each with its engine."""
        if self.measured.is_empty():
            return self.networks
        modelled = self.networks.with_columns(engine=pl.lit("modelled"), source=pl.lit("modelled"))
        return pl.concat([self.measured, modelled])

    @property
    def marks(self) -> pl.DataFrame:
        """What is drawn where no network is chosen, with ``is_measured``: those come first."""
        drawn = self.networks.filter("is_drawn").with_columns(is_measured=False)
        ran = self.measured.select(self.networks.columns).with_columns(is_measured=True)
        return pl.concat([ran, drawn]).sort(
            "is_measured", "intensity", "network", descending=[True, True, False]
        )

    def counts(self, height: str = "rate") -> pl.DataFrame:
        """By mode, batch and precision: the marks of ``height``, and of how many networks.

        ``precision`` is EVERY in the rows of all precisions.
        ``n_measured``, ``n_drawn`` of the modelled, and ``n_modelled``: those that were not run.
        """
        ran = under_roofs(self.measured, height)
        others = under_roofs(self.networks, height).join(ran, on=_SAME, how="anti")
        key = ("mode", "batch", "precision")
        both = pl.concat(
            [
                frame.select(*key, "is_drawn", ran=pl.lit(value=is_ran))
                for frame, is_ran in ((ran, True), (others, False))
            ]
        )
        both = pl.concat([both.with_columns(precision=pl.lit(EVERY)), both])
        return both.group_by(key, maintain_order=True).agg(
            n_measured=pl.col("ran").sum(),
            n_drawn=(~pl.col("ran") & pl.col("is_drawn")).sum(),
            n_modelled=(~pl.col("ran")).sum(),
        )


def roof_points(results: Results) -> Points:
    """Networks under the roofs, and the slowest layers of each at its smallest batch."""
    roofs = {roof.label: roof for roof in results.roofs}
    networks = network_points(_few(results.networks), results.names, roofs)
    smallest = (
        results.networks.sort("batch", "score_id", nulls_last=True)
        .group_by("model", "model_hash", "precision", maintain_order=True)
        .agg(pl.col("score_id").first())
    )
    groups = results.groups.join(smallest.select("score_id"), on="score_id", how="semi")
    n_sets = max(1, results.networks.select("model", "model_hash", "precision", "label").n_unique())
    n_most = max(5, min(MOST_LAYERS, MOST_LAYER_ROWS // n_sets))
    layers = layer_points(groups.sort("score_id", "run_id", "group"), results.names, n_most)
    classes = layer_classes(groups, results.names)
    names = in_order(networks.frame["network"].to_list())
    measured = measured_points(results, roofs)
    modelled = spread(networks.frame, measured)
    return Points(modelled, layers.frame, classes, measured, names, networks.n_dropped)


def _few(networks: pl.DataFrame) -> pl.DataFrame:
    """The smallest batch of each network, and larger ones as long as there is room."""
    rank = pl.col("batch").fill_null(0).rank("dense").over("model", "model_hash", "precision")
    ranked = networks.with_columns(_rank=rank)
    n_at_most = ranked.group_by("_rank").len().sort("_rank").with_columns(pl.col("len").cum_sum())
    fits = n_at_most.filter(pl.col("len") <= MOST_NETWORK_POINTS)["_rank"].max()
    return ranked.filter(pl.col("_rank") <= (fits or 1)).drop("_rank")


def spread(networks: pl.DataFrame, measured: pl.DataFrame) -> pl.DataFrame:
    """``networks`` with ``is_drawn``: the MOST_HOLLOW that stand farthest apart.

    Of each mode and batch that of the least intensity in each precision and that of the greatest
    of all, then again and again the one farthest from all before it on the logarithmic axes, as
    long as it is LEAST_APART from them. None that was measured is among them: it is drawn as that.
    """
    chosen: list[dict[str, object]] = []
    others = networks.join(measured, on=_SAME, how="anti").sort("intensity", *_SAME)
    for _, group in others.group_by("mode", "batch", maintain_order=True):
        rows = group.select(*_SAME).rows(named=True)
        at = group.select(pl.col("intensity", "rate").log10()).to_numpy()
        apart = np.full(len(at), np.inf)
        firsts = {row["precision"]: place for place, row in reversed([*enumerate(rows)])}
        wanted = sorted(firsts.values())  # so that each precision has a mark when it is chosen
        ends = dict(enumerate([*wanted, len(at) - 1]))
        for place in range(min(MOST_HOLLOW, len(at) + len(wanted))):
            next_one = ends.get(place, int(apart.argmax()))
            if apart[next_one] < LEAST_APART and place >= len(wanted):
                continue
            chosen.append(rows[next_one])
            apart = np.minimum(apart, np.hypot(*(at - at[next_one]).T))
    few = pl.DataFrame(chosen, schema=dict.fromkeys(_SAME, pl.String)).with_columns(_few=True)
    marked = networks.join(few, on=_SAME, how="left", maintain_order="left")
    return marked.with_columns(is_drawn=pl.col("_few").fill_null(value=False)).drop("_few")


def spots(networks: pl.DataFrame, height: str) -> pl.DataFrame:
    """Where networks stand, with the name that the chart prints."""
    several = pl.col("precision").n_unique().over("batch", "mode") > 1
    both = pl.format("{} {}", pl.col("network"), pl.col("precision"))
    name = pl.when(several).then(both).otherwise(pl.col("network"))
    return networks.select(*_SAME, "is_measured", text=name, x="intensity", y=height)


def roof_at(roof: Roofline, precision: str, intensity: float | None) -> float | None:
    """The most that work in ``precision`` reaches at ``intensity`` from main memory, in 10⁹/s."""
    instead = "fp32" if precision in NO_SLOWER_THAN_FP32 else COMPUTED_IN.get(precision, precision)
    slope = roof.bandwidth(DRAM).value
    for name in (precision, instead):
        peaks = [peak.value for peak in roof.peaks if peak.subject == name and peak.value]
        if peaks and slope and intensity:
            return min(max(peaks), slope * intensity) / GIGA
    return None


def network_points(
    networks: pl.DataFrame, names: Mapping[str, str], roofs: Mapping[str, Roofline]
) -> Drawn:
    """Whole networks: intensity, attainable 10⁹ FLOP/s, 10⁹ FLOP/J, W, and what the tooltip says.

    Of integers it is OP instead of FLOP. Energy and power are null where they are unknown;
    ``under_roofs`` keeps the others.
    """
    rows = [
        {
            "mode": row["label"],
            "network": names[network_key(row["model"], row["model_hash"])],
            "batch": batch_text(row["batch"]),
            "precision": row["precision"],
            **_under(row, roofs, in_giga(row["attainable_flop_per_s"])),
            **_priced(row["work_flop"], row["energy_j"], row["time_s"]),
            "time": seconds(row["time_s"], row["low_s"], row["high_s"], row["interval"]),
            "energy": joules(
                row["energy_j"], row["energy_low_j"], row["energy_high_j"], row["interval"]
            ),
            "is_drawn": True,
            "is_disturbed": False,
        }
        for row in networks.iter_rows(named=True)
    ]
    return positive(rows, _NETWORK_SCHEMA, "intensity", "rate")


def _under(
    row: Mapping[str, Any], roofs: Mapping[str, Roofline], rate: float | None
) -> dict[str, object]:
    """Where a network stands under its roof, and what binds it by the model; ``rate``: 10⁹/s."""
    roof = roof_at(roofs[row["label"]], row["precision"], row["intensity"])
    return {
        "intensity": row["intensity"],
        "rate": rate,
        "roof": roof,
        "share": 100 * rate / roof if rate and roof else None,
        "bound": bound_text(row["bound"], row["bound_share"]),
        "limit": row["bound"] or UNKNOWN,
    }


def measured_points(results: Results, roofs: Mapping[str, Roofline]) -> pl.DataFrame:
    """Networks at their work over the recorded time; those that have a roof in that mode.

    As ``network_points``, the engine and the source; of one network several engines may be there.
    What binds them is the model's. Disturbed runs are among them, and say so. Published times come
    last.
    """
    labels = mode_labels(results)
    scored = {
        (row["label"], row["network"], row["batch"], row["precision"], row["phase"]): row
        for row in results.networks.iter_rows(named=True)
    }
    rows: list[dict[str, object]] = []
    for run in results.measured:
        key = (labels[run.device, run.mode], run.network, run.batch, run.precision)
        row = scored.get((*key, run.phase))
        (time_s, low_s, high_s), is_disturbed = run.shown_s, bool(run.disturbed_s)
        if row is None or time_s is None or not row["work_flop"]:
            continue
        if run.remark and not is_disturbed:
            continue
        time = seconds(time_s, low_s, high_s)
        rows.append(
            {
                **_ran(row, roofs, time_s, run.energy_j),
                "engine": run.engine,
                "source": run.source,
                "power": run.power_w,
                "time": f"{time}, disturbed" if is_disturbed else time,
                "is_disturbed": is_disturbed,
            }
        )
    for one in results.decided.filter(pl.col("source") == "published").iter_rows(named=True):
        where = labels.get((one["device"], one["mode"]), "")
        row = scored.get((where, *(one[name] for name in ("network", *_SETTING))))
        if row is None or not one["latency_s"] or not row["work_flop"]:
            continue
        ends = (one["latency_low_s"], one["latency_high_s"], one["interval"])
        rows.append(
            {
                **_ran(row, roofs, one["latency_s"], one["energy_j"]),
                "engine": "published",
                "source": "published",
                "time": seconds(one["latency_s"], *ends),
                "is_disturbed": False,
            }
        )
    schema = {**_NETWORK_SCHEMA, "engine": pl.String, "source": pl.String}
    return positive(rows[:MOST_NETWORK_POINTS], schema, "intensity", "rate").frame


def _ran(
    row: Mapping[str, Any], roofs: Mapping[str, Roofline], time_s: float, energy_j: float | None
) -> dict[str, object]:
    """The scored network of ``row`` at its work over a recorded time and energy."""
    return {
        "mode": row["label"],
        "network": row["network"],
        "batch": batch_text(row["batch"]),
        "precision": row["precision"],
        **_under(row, roofs, in_giga(row["work_flop"] / time_s)),
        **_priced(row["work_flop"], energy_j, time_s),
        "energy": joules(energy_j),
        "is_drawn": True,
    }


def layer_points(groups: pl.DataFrame, names: Mapping[str, str], n_most: int) -> Drawn:
    """The ``n_most`` slowest layers of each network in each mode, on the roofs.

    ``groups`` are fused layers: see ``Results.groups``. ``rank`` counts from the slowest;
    ``is_main`` marks the precision that is shown where none is chosen: the fastest.
    """
    key = ("score_id", "label")
    ranked = (
        groups.filter(pl.col("time_s") > 0)
        .with_columns(share=pl.col("time_s") / pl.col("time_s").sum().over(key))
        .sort(*key, "share", "group", descending=[False, False, True, False])
        .with_columns(rank=pl.col("share").cum_count().over(key), n_layers=pl.len().over(key))
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
            "n_layers": row["n_layers"],
            "intensity": row["intensity"],
            "rate": (row["work_flop"] or 0.0) / row["time_s"] / GIGA,
            **_priced(row["work_flop"], row["energy_j"], row["time_s"]),
            "share": 100 * row["share"],
            "time_ms": row["time_s"] * 1e3,
            "energy_mj": None if row["energy_j"] is None else row["energy_j"] * 1e3,
            "mflop": None if row["work_flop"] is None else row["work_flop"] / 1e6,
            "mbytes": None if row["traffic_bytes"] is None else row["traffic_bytes"] / 1e6,
            "bound": row["bound"],
            "energy_bound": row["energy_bound"],
        }
        for row in ranked.iter_rows(named=True)
    ]
    return positive(rows, LAYER_POINT_SCHEMA, "time_ms")


def layer_classes(groups: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """The time of the layers of each network in each mode, by class and by what binds them."""
    main = _main_precisions(groups)
    of_network = ["score_id", "label"]
    of_class = [*of_network, "operator"]
    known = groups.filter(pl.col("time_s") > 0)
    first = {name: pl.col(name).first() for name in ("model", "model_hash", "batch", "precision")}
    times = (
        known.group_by(*of_network, "op_class")
        .agg(pl.col("time_s").sum())
        .sort("time_s", "op_class", descending=[True, False])
        .with_columns(_rank=pl.col("time_s").cum_count().over(of_network))
        .with_columns(
            operator=pl.when(pl.col("_rank") <= MOST_CLASSES)
            .then("op_class")
            .otherwise(pl.lit(OTHERS))
        )
    )
    classes = (
        known.join(times.select(*of_network, "op_class", "operator"), on=[*of_network, "op_class"])
        .group_by(*of_class, "bound")
        .agg(time_ms=1e3 * pl.col("time_s").sum(), n_layers=pl.len(), **first)
        .sort(*of_network, "operator", "time_ms", "bound", descending=[*[False] * 3, True, False])
        .with_columns(
            share=100 * pl.col("time_ms") / pl.col("time_ms").sum().over(of_network),
            class_ms=pl.col("time_ms").sum().over(of_class),
            said=pl.col("bound").first().over(of_class),
            is_first=pl.col("time_ms").cum_count().over(of_class) == 1,
        )
        .with_columns(class_share=pl.col("share").sum().over(of_class))
        .sort(
            *of_network,
            "class_ms",
            "operator",
            "time_ms",
            descending=[*[False] * 2, True, False, True],
        )
    )
    rows = [
        {
            **row,
            "mode": row["label"],
            "network": names[network_key(row["model"], row["model_hash"])],
            "batch": batch_text(row["batch"]),
            "is_main": (row["model"], row["model_hash"], row["precision"]) in main,
        }
        for row in classes.iter_rows(named=True)
    ]
    return positive(rows, _CLASS_SCHEMA, "time_ms").frame


def under_roofs(points: pl.DataFrame, height: str) -> pl.DataFrame:
    """The ``points`` that have an intensity and a positive ``height`` to stand at."""
    return points.filter((pl.col("intensity") > 0) & (pl.col(height) > 0))


def _main_precisions(groups: pl.DataFrame) -> set[tuple[str, str, str]]:
    """The precision of each network in which it is fastest in some mode."""
    totals = groups.group_by("model", "model_hash", "precision", "label").agg(
        pl.col("time_s").sum(), n_unknown=pl.col("time_s").is_null().sum()
    )
    # A sum without its unknown layers is no time to compare.
    known = totals.filter(pl.col("time_s") > 0).sort("n_unknown", "time_s", "precision", "label")
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
    base = with_tooltip(
        plot(layers),
        layer="layer",
        operator="operator",
        network="network",
        intensity=unit_title("{}/byte", layers["precision"]),
        time_ms="time at best, ms",
        share="of the network's time, %",
        energy_mj="energy at best, mJ",
        bound="bound by",
    )
    return (
        base.transform_filter(
            f"{equals('network')} && datum.rank <= {MOST_LAYERS_DRAWN}"
            f" && datum.intensity > 0 && datum.{y} > 0"
        )
        .mark_point(style="m-layer", opacity=0.6, clip=True)
        .encode(
            x="intensity:Q",
            y=f"{y}:Q",
            size=alt.Size(
                "share:Q",
                scale=alt.Scale(domain=[0, 30], range=[25, 500], clamp=True),
                legend=None,
            ),
        )
    )


def network_marks(points: Points, y: str, *, with_key: bool) -> list[Chart]:
    """Networks at the chosen batch: solid where they were measured, hollow where modelled.

    Colour and shape say what binds them. Those that are not chosen are faint.
    """
    both = (
        (under_roofs(points.networks, y), {"filled": False, "style": "m-hollow"}),
        (under_roofs(points.measured, y), {"style": "m-network"}),
    )
    present = set(points.every["limit"].to_list())
    key = alt.Legend(
        title="bound by", titleOrient="left", values=[name for name in BOUNDS if name in present]
    )
    channels = {
        "color": alt.Color("limit:N", scale=bound_scale(), legend=key if with_key else None),
        "shape": alt.Shape("limit:N", scale=shape_scale(BOUNDS), legend=key if with_key else None),
    }
    return [
        _with_point_tooltip(frame, is_measured="engine" in frame.columns)
        .transform_filter(SHOWN)
        .mark_point(size=70, clip=True, **look)
        .encode(
            x="intensity:Q",
            y=f"{y}:Q",
            opacity=alt.condition(equals_or_all("network"), alt.value(1), alt.value(0.2)),
            **channels,
        )
        for frame, look in both
        if not frame.is_empty()
    ]


def bound_scale() -> alt.Scale:
    """The colour of each bound, the same in every chart."""
    return alt.Scale(domain=list(BOUNDS))


def _with_point_tooltip(points: pl.DataFrame, *, is_measured: bool) -> Chart:
    kind = "measured" if is_measured else "modelled"
    return with_tooltip(
        plot(points),
        network="network",
        batch="batch",
        precision="precision",
        **({"engine": "engine"} if is_measured else {}),
        intensity=unit_title("{}/byte", points["precision"]),
        time=f"{kind} time",
        share="of its roof, %",
        energy=f"{kind} energy",
        power="measured power, W" if is_measured else "power at the roof, W",
        bound="bound by, modelled" if is_measured else "bound by",
    )
