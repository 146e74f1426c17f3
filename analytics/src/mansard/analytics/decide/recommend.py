"""The mode, batch and precision for a network: the best by an objective that keeps the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.decide.answering import (
    answer_chosen,
    answer_infeasible,
    answer_nothing,
)
from mansard.analytics.decide.baselines import (
    DEFAULT,
    HIGHEST,
    Baseline,
    highest_mode,
)
from mansard.analytics.decide.probability import Array
from mansard.analytics.decide.records import Recommendation, Wanted
from mansard.analytics.decide.screening import (
    Mask,
    Screen,
    screen,
)
from mansard.analytics.decide.values import Values, read_values
from mansard.core.errors import UsageError


def recommend_each(
    predictions: pl.DataFrame,
    modes: pl.DataFrame,
    wanted: Wanted,
    defaults: Mapping[str, str] | None = None,
) -> tuple[Recommendation, ...]:
    """One recommendation for each device, network and phase of ``predictions``.

    The highest of ``modes`` (MODE_SCHEMA) and the mode that ``defaults`` names for the device
    are what the choice is compared with.
    """
    found = []
    keys = ("device", "network", "phase")
    for rows in predictions.sort(*keys).partition_by(*keys, maintain_order=True):
        device = str(rows["device"][0])
        highest = highest_mode(modes.filter(pl.col("device") == device))
        baselines = [] if highest is None else [Baseline(HIGHEST, highest)]
        default = (defaults or {}).get(device)
        if default is not None and default != highest:
            baselines.append(Baseline(DEFAULT, default))
        elif default is not None:
            baselines = [Baseline(f"{HIGHEST} and {DEFAULT}", default)]
        found.append(recommend(rows, wanted, baselines))
    return tuple(found)


def recommend(
    predictions: pl.DataFrame, wanted: Wanted, baselines: Sequence[Baseline] = ()
) -> Recommendation:
    """The best of ``predictions`` (PREDICTION_SCHEMA), which are of one network on one device.

    Among those that keep every limit with the probability that was asked for, the one with the
    least objective; where there is none, the likeliest of those that keep them as predicted;
    where there is none of these either, the one that breaks them least. Ties go to the shorter
    time, then to less energy and power, then by name. Raises UsageError for a limit that bounds
    nothing, or for predictions of several networks, devices or phases.
    """
    _check_single(predictions)
    values = read_values(predictions, wanted)
    screened = screen(values, wanted)
    objective = values.objective(wanted.minimise).value
    usable = screened.is_known & ~np.isnan(objective)
    if not usable.any():
        return answer_nothing(predictions, values, wanted)
    likely, kept = usable & screened.is_likely, usable & screened.is_kept
    if likely.any():
        at = _best(values, objective, likely)
        return answer_chosen(values, screened, wanted, baselines, (at, likely, usable))
    if kept.any():
        at = _likeliest(values, screened, objective, kept)
        return answer_chosen(values, screened, wanted, baselines, (at, kept, usable))
    return answer_infeasible(values, screened, wanted, baselines, usable)


def _check_single(predictions: pl.DataFrame) -> None:
    for column in ("device", "network", "phase"):
        names = predictions[column].unique().sort()
        if len(names) > 1:
            raise UsageError(
                f"a recommendation is for one {column}, there are {len(names)}: "
                f"{', '.join(str(name) for name in names.head(3))}",
                fix="ask for each of them alone",
            )


def _best(values: Values, objective: Array, among: Mask) -> int:
    return int(_ranked(values, objective, among)[0])


def _ranked(values: Values, objective: Array, among: Mask) -> NDArray[np.int64]:
    """Rows of ``among``, the best first; rows are in order of their names already."""
    rows = np.flatnonzero(among)
    keys = (values.power.value, values.energy.value, values.latency.value, objective)
    order = np.lexsort([np.nan_to_num(key[rows], nan=np.inf) for key in keys])
    return rows[order].astype(np.int64)


def _likeliest(values: Values, screened: Screen, objective: Array, kept: Mask) -> int:
    """Of those that keep the limits as predicted, the one whose least likely limit is likeliest."""
    ranked = _ranked(values, objective, kept)
    return int(ranked[np.argmax(screened.margin[ranked])])
