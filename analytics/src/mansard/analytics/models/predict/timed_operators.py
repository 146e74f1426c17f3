"""Operators that an engine timed in profiles of networks, and those of other networks beside them.

A layer of an engine is one operator: it has the work and the traffic of all its groups, and the
shape and class of the one with most work. A group of a network that is predicted is one operator.
"""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.models.predict.group_rows import predict_groups
from mansard.analytics.models.predict.groups import WORK, halves
from mansard.analytics.models.predict.operator_shapes import SHAPE_SCHEMA
from mansard.analytics.models.predict.operator_times import (
    TimedOperator,
)

_SHAPE = tuple(name for name in SHAPE_SCHEMA if name not in {"score_id", "group"})
_COUNTS = ("work_flop", "traffic_bytes", "work_s", "traffic_s", "n_launches")
_PLACE = ("device", "mode", "score_id", "group")
# A group of a score in a mode, with its seconds at the roofs.
OPERATOR_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    **{name: SHAPE_SCHEMA[name] for name in ("score_id", "group")},
    "kind": pl.String,
    **dict.fromkeys((*_SHAPE, *_COUNTS), pl.Float64),
}
_LAYER = ("device", "mode", "engine", "phase", "network", "batch", "precision", "layer")


def operator_frame(
    shapes: pl.DataFrame, groups: pl.DataFrame, coefficients: pl.DataFrame, modes: pl.DataFrame
) -> pl.DataFrame:
    """OPERATOR_SCHEMA of ``groups`` in ``modes``; those without a time at the roof are left out.

    SHAPE_SCHEMA, GROUP_SCHEMA, COEFFICIENT_SCHEMA and MODE_SCHEMA; the cost of launches is left
    out of the times.
    """
    of_roofs = coefficients.filter(pl.col("quantity") != "launch")
    by_half = predict_groups(halves(groups), of_roofs, modes).with_columns(
        is_work=pl.col("op_class").str.ends_with(f" {WORK}"),
        kind=pl.col("op_class").str.split(" ").list.first(),
    )
    works, moves = by_half.filter("is_work"), by_half.filter(~pl.col("is_work"))
    joined = moves.select(*_PLACE, "kind", "traffic_bytes", "n_launches", traffic_s="time_s").join(
        works.select(*_PLACE, "work_flop", work_s="time_s", n_starts="n_launches"),
        on=list(_PLACE),
        how="left",
        maintain_order="left",
    )
    return (
        joined.join(shapes, on=["score_id", "group"], how="left", maintain_order="left")
        .with_columns(
            pl.col("work_flop", "work_s").fill_null(0.0),
            n_launches=pl.col("n_launches") + pl.col("n_starts").fill_null(0),
        )
        .select(pl.col(name).cast(kind) for name, kind in OPERATOR_SCHEMA.items())
        .drop_nulls([*_SHAPE, *_COUNTS])
    )


def operators_of(frame: pl.DataFrame, precision: str) -> list[TimedOperator]:
    """The rows of ``frame`` (OPERATOR_SCHEMA; ``measured_s`` where it was timed)."""
    known = frame if "measured_s" in frame.columns else frame.with_columns(measured_s=None)
    names = ("kind", *_SHAPE, "work_flop", "traffic_bytes", "work_s", "traffic_s", "measured_s")
    return [
        TimedOperator(
            precision=precision,
            unknown={} if row["measured_s"] else {"measured_s": "it is predicted"},
            **row,
        )
        for row in known.select(names).iter_rows(named=True)
    ]


def timed_frame(placed: pl.DataFrame, operators: pl.DataFrame) -> pl.DataFrame:
    """A row for each layer that was timed: OPERATOR_SCHEMA, _LAYER and ``measured_s``.

    ``placed``: LAYER_GROUP_SCHEMA; ``operators``: OPERATOR_SCHEMA of its scores and modes. A layer
    is left out where one of its groups is.
    """
    joined = placed.join(
        operators, on=list(_PLACE), how="left", maintain_order="left", nulls_equal=True
    )
    most = pl.col("work_s").fill_null(-1.0) + 1e-6 * pl.col("traffic_s").fill_null(0.0)
    return (
        joined.sort(most, descending=True, maintain_order=True)
        .group_by(_LAYER, maintain_order=True)
        .agg(
            pl.col("score_id", "group", "kind", *_SHAPE).first(),
            pl.when(pl.col(*_COUNTS).null_count() == 0).then(pl.col(*_COUNTS).sum()),
            pl.col("measured_s").first(),
        )
        .drop_nulls([*_SHAPE, *_COUNTS])
        .filter(pl.col("measured_s") > 0)
    )
