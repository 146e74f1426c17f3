"""What the charts draw, computed beforehand: tidy frames, one row per mark.

Rates are in GFLOP/s and GB/s, rounded to four digits to keep the page small.
Every frame holds only values that a logarithmic axis can show; how many rows were
dropped for that is in ``Drawn.n_dropped``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.names import network_key, shown
from mansard.analytics.data.quantities import NBSP, joules, percent, quantity, seconds
from mansard.analytics.roofs.ceilings import Ceiling

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


def network_points(networks: pl.DataFrame, names: Mapping[str, str]) -> Drawn:
    """Whole networks: intensity, attainable GFLOP/s, GFLOP/J, W, and what the tooltip says.

    Energy and power are null where they are unknown; ``under_roofs`` keeps the others.
    """
    schema = {
        "mode": pl.String,
        "network": pl.String,
        "batch": pl.String,
        "precision": pl.String,
        "intensity": pl.Float64,
        "rate": pl.Float64,
        "efficiency": pl.Float64,
        "power": pl.Float64,
        "time": pl.String,
        "energy": pl.String,
        "bound": pl.String,
    }
    rows = [
        {
            "mode": row["label"],
            "network": names[network_key(row["model"], row["model_hash"])],
            "batch": batch_text(row["batch"]),
            "precision": row["precision"],
            "intensity": row["intensity"],
            "rate": in_giga(row["attainable_flop_per_s"]),
            **_priced(row["work_flop"], row["energy_j"], row["time_s"]),
            "time": seconds(row["time_s"], row["low_s"], row["high_s"]),
            "energy": joules(row["energy_j"], row["energy_low_j"], row["energy_high_j"]),
            "bound": bound_text(row["bound"], row["bound_share"]),
        }
        for row in networks.iter_rows(named=True)
    ]
    return positive(rows, schema, "intensity", "rate")


LAYER_POINT_SCHEMA = {
    "mode": pl.String,
    "network": pl.String,
    "batch": pl.String,
    "precision": pl.String,
    "is_main": pl.Boolean,
    "layer": pl.String,
    "operator": pl.String,
    "rank": pl.Int64,
    "intensity": pl.Float64,
    "rate": pl.Float64,
    "efficiency": pl.Float64,
    "power": pl.Float64,
    "share": pl.Float64,  # of the network's time, %
    "time_ms": pl.Float64,
    "energy_mj": pl.Float64,
    "bound": pl.String,
    "energy_bound": pl.String,
}


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
            "layer": f"{row['group']} {shown(row['name'])}",
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


def ceiling_text(ceiling: Ceiling) -> str:
    """A ceiling in words: "16.0 ± 0.1 GB/s (read)"."""
    text = quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)
    return f"{text} ({ceiling.kernel})" if ceiling.unit == "B/s" and ceiling.kernel else text


def value_text(ceiling: Ceiling) -> str:
    """A ceiling without its interval: "16.00 GB/s"."""
    return quantity(ceiling.value, ceiling.unit)


def batch_text(batch: int | None) -> str:
    """A batch size, or that the model has none."""
    return "none" if batch is None else str(batch)


def bound_text(bound: str | None, share: float | None) -> str:
    """What bounds a network, and the share of its time for which that holds if there is one."""
    if bound is None:
        return "unknown"
    return bound if share is None else f"{bound}{NBSP}{percent(share)}"


def in_giga(value: float | None) -> float | None:
    """Per second in GFLOP/s or GB/s; None stays None."""
    return None if value is None else value / GIGA
