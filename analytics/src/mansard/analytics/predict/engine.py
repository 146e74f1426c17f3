"""Predictions of networks in modes: every device and mode × every score (docs/prediction.md).

T = Σ over groups of max(work / peak, traffic / bandwidth) × efficiency + launches × launch cost,
stretched where a power limit is exceeded; E = Σ ε_p W_p + ε_DRAM Q + π₀ T; power = E / T.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import PREDICTION_SCHEMA
from mansard.analytics.predict.coefficient_table import (
    Array,
    CoefficientTable,
    coefficient_table,
    repeated,
)
from mansard.analytics.predict.mode_parts import ModePart, mode_parts
from mansard.analytics.predict.score_prediction import (
    ENERGY_BOUNDS,
    TIME_BOUNDS,
    ScorePrediction,
)
from mansard.analytics.predict.work_table import work_table

Order = NDArray[np.int64]

# What a network's time goes into, before a power limit stretches it.
SHARE_SCHEMA: FrameSchema = {
    "compute_s": pl.Float64,  # in groups that work bounds
    "memory_s": pl.Float64,  # in groups that traffic bounds
    "launch_s": pl.Float64,
}
_KINDS = {**PREDICTION_SCHEMA, **SHARE_SCHEMA}
_TEXTS = ("reason", "notes")
_BOUNDS = {"time_bound": TIME_BOUNDS, "energy_bound": ENERGY_BOUNDS}
_SCORE_FIELDS = ("score_id", "network", "batch", "precision", "phase")


def predict_scores(
    groups: pl.DataFrame,
    scores: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
    *,
    efficiency: Mapping[str, float] | None = None,
    with_shares: bool = False,
) -> pl.LazyFrame:
    """PREDICTION_SCHEMA for every row of ``modes`` and every score, the modes of a score together.

    ``groups``: GROUP_SCHEMA; ``scores``: score_id, network, batch, precision, phase and, where
    there is one, ``note``; ``coefficients``: COEFFICIENT_SCHEMA; ``modes``: MODE_SCHEMA.
    ``efficiency``: by op_class, what a calibration multiplies the roof's time with; the
    predictions say that they are calibrated then. ``with_shares``: SHARE_SCHEMA beside it.

    Nothing is computed before the frame is collected, and then score by score: what is
    selected or filtered before that is never held whole.
    """
    table = coefficient_table(coefficients, modes)
    work = work_table(groups, efficiency)
    parts = mode_parts(table, work.precisions)
    order = _order(parts) if parts else None
    given = scores.select(
        *(pl.col(name).cast(PREDICTION_SCHEMA[name]) for name in _SCORE_FIELDS),
        pl.col("note") if "note" in scores.columns else pl.lit(None, pl.String).alias("note"),
    )
    is_calibrated = bool(efficiency)
    schema = {**PREDICTION_SCHEMA, **(SHARE_SCHEMA if with_shares else {})}

    def batches(
        wanted: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        names = list(schema) if wanted is None else wanted
        for row in given.iter_rows(named=True) if parts else ():
            if n_rows is not None and n_rows <= 0:
                return
            same = {name: row[name] for name in _SCORE_FIELDS}
            same |= {"source": "modelled", "is_calibrated": is_calibrated}
            one = work.of(row["score_id"])
            found = [ScorePrediction(one, part, table, row["note"]) for part in parts]
            frame = _frame(names, found, table, order, same)
            frame = frame if n_rows is None else frame.head(n_rows)
            n_rows = None if n_rows is None else n_rows - len(frame)
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(batches, schema=schema)


def _frame(
    names: Sequence[str],
    found: Sequence[ScorePrediction],
    table: CoefficientTable,
    order: Order | None,
    same: Mapping[str, object],
) -> pl.DataFrame:
    """One score over all modes of ``table``; ``order`` puts the parts of ``found`` together."""

    def column(name: str) -> pl.Series:
        if name in ("device", "mode"):
            return table.modes[name]
        if name in same:
            return repeated(pl.Series([same[name]], dtype=_KINDS[name]), table.n_modes)
        if name in _TEXTS:
            return _texts([part.words(name) for part in found], order)
        numbers = _numbers([part.numbers(name) for part in found], order)
        if name in _BOUNDS:
            return _bounds(numbers, _BOUNDS[name])
        return pl.Series(numbers, dtype=_KINDS[name], nan_to_null=True)

    return pl.DataFrame([column(name).alias(name) for name in names])


def _numbers(pieces: Sequence[Array], order: Order | None) -> Array:
    # The only part has the modes in their order.
    return pieces[0] if order is None else np.concatenate(pieces)[order]


def _texts(pieces: Sequence[pl.Series], order: Order | None) -> pl.Series:
    return pieces[0] if order is None else pl.concat(pieces).gather(order)


def _order(parts: Sequence[ModePart]) -> Order | None:
    if len(parts) == 1:
        return None
    return np.argsort(np.concatenate([part.at for part in parts]))


def _bounds(codes: Array, names: tuple[str, ...]) -> pl.Series:
    places = np.minimum(codes, len(names)).astype(np.uint32)
    return pl.Series([*names, None], dtype=pl.String).gather(places)
