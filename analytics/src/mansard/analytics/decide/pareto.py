"""The Pareto front: what no other one beats in time, energy and power at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_GROUP = ("device", "network", "precision", "phase")


def pareto_mask(points: Array) -> Mask:
    """Which rows of ``points`` (n × k with k up to 3, smaller is better) no other row dominates.

    A row dominates another that is nowhere smaller and somewhere greater; of equal rows none
    does. Rows that hold NaN can be compared with nothing and are not on the front. Takes
    n log n steps however long the front is [Kung, Luccio, Preparata 1975].
    """
    found: Mask = np.zeros(len(points), dtype=np.bool_)
    usable = np.flatnonzero(~np.isnan(points).any(axis=1))
    missing = np.zeros((len(usable), 3 - points.shape[1]))
    rows = np.column_stack([points[usable], missing])
    # Sorted by the first column, then the next: a later row can no more dominate an earlier one.
    order = np.lexsort(rows.T[::-1])
    found[usable[order]] = _unbeaten(rows[order].tolist())
    return found


def _unbeaten(rows: list[list[float]]) -> list[bool]:
    """Whether no row before it beats a row of three, sorted; equal rows have the same fate."""
    found: list[bool] = []
    # Of the rows so far the front in the last two: the second rises and the third falls.
    seconds: list[float] = []
    thirds: list[float] = []
    before: list[float] = []
    for row in rows:
        if row == before:
            found.append(found[-1])
            continue
        before = row
        _, second, third = row
        at = bisect_right(seconds, second)
        is_free = at == 0 or thirds[at - 1] > third
        found.append(is_free)
        if is_free:
            start = end = bisect_left(seconds, second)
            while end < len(thirds) and thirds[end] >= third:
                end += 1
            seconds[start:end], thirds[start:end] = [second], [third]
    return found


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
