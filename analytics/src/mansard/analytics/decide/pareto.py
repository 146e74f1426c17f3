"""The Pareto front: what no other one beats in time, energy and power at once."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_CHUNK = 1024  # rows that are compared with the front at a time: 1024 × front, one byte each
_GROUP = ("device", "network", "precision", "phase")


def pareto_mask(points: Array) -> Mask:
    """Which rows of ``points`` (n × k, smaller is better) no other row dominates.

    A row dominates another that is nowhere smaller and somewhere greater; of equal rows none
    does. Rows that hold NaN can be compared with nothing and are not on the front.
    """
    found: Mask = np.zeros(len(points), dtype=np.bool_)
    usable = np.flatnonzero(~np.isnan(points).any(axis=1))
    # Sorted by the first column, then the next: a later row can no more dominate an earlier one.
    order = usable[np.lexsort(points[usable].T[::-1])]
    front = np.empty((0, points.shape[1]))
    for start in range(0, len(order), _CHUNK):
        at = order[start : start + _CHUNK]
        at = at[np.logical_not(_is_dominated(points[at], front))]
        at = at[np.logical_not(_is_dominated(points[at], points[at]))]
        found[at] = True
        front = np.concatenate([front, points[at]])
    return found


def _is_dominated(points: Array, by: Array) -> Mask:
    no_worse = np.ones((len(points), len(by)), dtype=np.bool_)
    better = np.zeros_like(no_worse)
    for mine, theirs in zip(points.T, by.T, strict=True):
        no_worse &= theirs[None, :] <= mine[:, None]
        better |= theirs[None, :] < mine[:, None]
    return np.asarray((no_worse & better).any(axis=1))


def pareto_front(predictions: pl.DataFrame) -> pl.DataFrame:
    """The rows of PREDICTION_SCHEMA on the front of (latency, energy of one item, power).

    One front for each device, network, precision and phase; batch sizes compete. Rows without
    a latency are on none. Where no row of a front has an energy and a power, it is the fastest
    alone; where some have, those without are left out. The order is that of ``predictions``.
    """
    if predictions.is_empty():
        return predictions
    numbered = predictions.with_row_index("_row")
    rows: list[NDArray[np.int64]] = []
    for group in numbered.partition_by(*_GROUP):
        points = group.select(
            "latency_s", item_j=pl.col("energy_j") / pl.col("batch"), power_w="power_w"
        )
        columns = ["latency_s"] if points.drop_nulls().is_empty() else points.columns
        mask = pareto_mask(points.select(pl.col(columns).cast(pl.Float64)).to_numpy())
        rows.append(group["_row"].to_numpy()[mask].astype(np.int64))
    kept = np.sort(np.concatenate(rows))
    return predictions[kept]
