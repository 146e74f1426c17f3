"""The time, energy and bound of each group of each network, in each of a few modes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import GROUP_SCHEMA
from mansard.analytics.models.predict.columns import (
    BANDWIDTH,
    BYTE_ENERGY,
    CONSTANT_POWER,
    LAUNCH,
    NONE,
    Array,
    CeilingAssignment,
    Codes,
    CoefficientTable,
    Key,
    WorkTable,
    busy_groups,
    coefficient_table,
    energy_key,
    work_table,
)
from mansard.analytics.models.predict.engine import ENERGY_BOUNDS, TIME_BOUNDS
from mansard.analytics.models.predict.groups import CUDA
from mansard.analytics.models.predict.times import ModePart, Rates, mode_parts

GROUP_ROW_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    **GROUP_SCHEMA,
    "work_flop": pl.Float64,  # of both units
    "intensity": pl.Float64,  # FLOP/byte; null without traffic
    "time_s": pl.Float64,  # with its launches; low and high span 95 %
    "low_s": pl.Float64,
    "high_s": pl.Float64,
    "least_s": pl.Float64,  # what is known of it takes
    "bound": pl.String,  # "compute", "memory" or "launch"
    "energy_j": pl.Float64,  # with the constant power of its time
    "energy_bound": pl.String,  # "work", "traffic" or "constant"
    "energy_reason": pl.String,  # why there is no energy; ``reason`` says why there is no time
}


def predict_groups(
    groups: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
    *,
    efficiency: Mapping[str, float] | None = None,
) -> pl.DataFrame:
    """GROUP_ROW_SCHEMA: one row for each mode and each group that works, moves or starts something.

    The summands of ``engine.predict_scores``, before a power limit stretches their sum. A row is
    made for each group in each mode: for the few modes of a page.
    """
    table = coefficient_table(coefficients, modes)
    work, rows = work_table(groups, efficiency), busy_groups(groups)
    pieces = [
        _rows(rows, work, part, table, index)
        for part in mode_parts(table, work.precisions)
        for index in range(len(part.at))
    ]
    empty = pl.DataFrame(schema=GROUP_ROW_SCHEMA)
    return pl.concat([empty, *pieces]).sort("device", "mode", "score_id", "group")


def _rows(
    rows: pl.DataFrame, work: WorkTable, part: ModePart, table: CoefficientTable, index: int
) -> pl.DataFrame:
    """The groups in the mode at ``index`` of ``part``."""
    compute_s, memory_s, launch_s = _times(work, part, part.middle, index)
    low_s, high_s = (_total(*_times(work, part, rates, index)) for rates in (part.fast, part.slow))
    time_s = _total(compute_s, memory_s, launch_s)
    work_j, traffic_j = _energies(work, part, index)
    constant_j = _cost(part.middle, CONSTANT_POWER, index) * time_s
    least_s = np.fmax(np.fmax(compute_s, memory_s), 0.0) + launch_s
    columns = {
        "work_flop": work.tensor_flop + work.cuda_flop,
        "time_s": time_s,
        "low_s": np.minimum(low_s, time_s),
        "high_s": np.maximum(high_s, time_s),
        "least_s": least_s,
        "energy_j": work_j + traffic_j + constant_j,
    }
    words = {
        "bound": _largest(TIME_BOUNDS, (compute_s, memory_s, launch_s)),
        "energy_bound": _largest(ENERGY_BOUNDS, (work_j, traffic_j, constant_j)),
        "reason": _time_reasons(work, part, table, index),
        "energy_reason": _energy_reasons(work, part, table, index),
    }
    mode = table.modes.row(int(part.at[index]), named=True)
    traffic = pl.col("traffic_bytes")
    return (
        rows.with_columns(
            *(pl.lit(mode[name]).alias(name) for name in ("device", "mode")),
            *(pl.Series(name, values, nan_to_null=True) for name, values in columns.items()),
            *(pl.Series(name, values, pl.String) for name, values in words.items()),
        )
        .with_columns(intensity=pl.when(traffic > 0).then(pl.col("work_flop") / traffic))
        .select(pl.col(name).cast(kind) for name, kind in GROUP_ROW_SCHEMA.items())
    )


def _times(work: WorkTable, part: ModePart, rates: Rates, index: int) -> tuple[Array, Array, Array]:
    """Seconds of the work, of the traffic and of the launches, NaN where unknown."""
    tensor, cuda = _places(work, part.ceilings)
    peaks = _by_place(rates, part.ceilings.keys, index)
    tensor_s, cuda_s = work.tensor_flop * peaks[tensor], work.cuda_flop * peaks[cuda]
    on_cuda = np.array([*(key[2] == CUDA for key in part.ceilings.keys), False])
    # Two kinds of work on CUDA cores come one after the other, the two units work side by side.
    work_s = np.where(on_cuda[tensor], tensor_s + cuda_s, np.maximum(tensor_s, cuda_s))
    memory_s = _times_cost(work.traffic_bytes, _cost(rates, BANDWIDTH, index))
    launch_s = np.zeros(len(memory_s))
    if LAUNCH in part.middle.costs:
        launch_s = _times_cost(work.n_launches, _cost(rates, LAUNCH, index))
    return work_s * work.factor, memory_s * work.factor, launch_s


def _energies(work: WorkTable, part: ModePart, index: int) -> tuple[Array, Array]:
    """Joules of the work and of the traffic, NaN where unknown."""
    keys = tuple(energy_key(key) for key in part.ceilings.keys)
    costs = _by_place(part.middle, keys, index)
    tensor, cuda = _places(work, part.ceilings)
    work_j = work.tensor_flop * costs[tensor] + work.cuda_flop * costs[cuda]
    return work_j, _times_cost(work.traffic_bytes, _cost(part.middle, BYTE_ENERGY, index))


def _places(work: WorkTable, ceilings: CeilingAssignment) -> tuple[Codes, Codes]:
    return ceilings.tensor[work.tensor], ceilings.cuda[work.cuda]


def _by_place(rates: Rates, keys: Sequence[Key], index: int) -> Array:
    """The costs of ``keys``, and 0 at the end, for NONE."""
    return np.array([*(_cost(rates, key, index) for key in keys), 0.0])


def _cost(rates: Rates, key: Key, index: int) -> float:
    pair = rates.costs.get(key)
    return float("nan") if pair is None else float(pair[index])


def _times_cost(amount: Array, cost: float) -> Array:
    return np.where(amount == 0, 0.0, amount * cost)  # what is not needed may be unknown


def _total(compute_s: Array, memory_s: Array, launch_s: Array) -> Array:
    return np.asarray(np.maximum(compute_s, memory_s) + launch_s)


def _largest(words: Sequence[str], parts: Sequence[Array]) -> list[str | None]:
    stacked = np.stack(parts)
    is_known = np.isfinite(stacked).all(axis=0) & (stacked.sum(axis=0) > 0)
    places = stacked.argmax(axis=0)
    return [words[at] if known else None for at, known in zip(places, is_known, strict=True)]


def _time_reasons(
    work: WorkTable, part: ModePart, table: CoefficientTable, index: int
) -> list[str | None]:
    """Why each group has no time; None where it has one."""
    missing = _why_missing(part.ceilings.keys, part, table, index)
    bandwidth = _why_missing((BANDWIDTH,), part, table, index)[0]
    return _joined(work, part.ceilings, missing, bandwidth, None)


def _energy_reasons(
    work: WorkTable, part: ModePart, table: CoefficientTable, index: int
) -> list[str | None]:
    """Why each group has no energy beside the reason why it has no time."""
    keys = tuple(energy_key(key) for key in part.ceilings.keys)
    missing = _why_missing(keys, part, table, index)
    traffic, constant = _why_missing((BYTE_ENERGY, CONSTANT_POWER), part, table, index)
    return _joined(work, part.ceilings, missing, traffic, constant)


def _why_missing(
    keys: Sequence[Key], part: ModePart, table: CoefficientTable, index: int
) -> list[str | None]:
    at = int(part.at[index])
    return [None if key in part.middle.costs else str(table.whys(key)[at]) for key in keys]


def _joined(
    work: WorkTable,
    ceilings: CeilingAssignment,
    of_work: Sequence[str | None],
    of_traffic: str | None,
    of_all: str | None,
) -> list[str | None]:
    if not any((*of_work, of_traffic, of_all, work.reason())):
        return [None] * len(work.factor)
    return list(_reasons(work, ceilings, of_work, of_traffic, of_all))


def _reasons(
    work: WorkTable,
    ceilings: CeilingAssignment,
    of_work: Sequence[str | None],
    of_traffic: str | None,
    of_all: str | None,
) -> Iterator[str | None]:
    tensor, cuda = _places(work, ceilings)
    for reason, one, other, moved in zip(
        work.reasons, tensor, cuda, work.traffic_bytes, strict=True
    ):
        said = [reason, *(of_work[at] for at in (one, other) if at != NONE)]
        said += [of_traffic if moved > 0 else None, of_all]
        yield "; ".join(dict.fromkeys(text for text in said if text)) or None
