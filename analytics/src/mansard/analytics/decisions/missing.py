"""What is missing to answer, and why: limits, values, and modes without a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from mansard.analytics.decisions.limits import Mask, Screen
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.decisions.values import Values

_NO_ROW = "nothing that was measured tells of it"


def unknown_modes(
    predictions: pl.DataFrame, modes: Sequence[str], batches: Sequence[int] | None = None
) -> dict[str, str]:
    """Those of ``modes`` in which no row of ``predictions`` has a time, with the reason.

    ``predictions``: PREDICTION_SCHEMA of one network on one device; ``batches``: those that are
    open, None for any.
    """
    rows = predictions
    if batches is not None:
        rows = rows.filter(pl.col("batch").fill_null(1).is_in(list(batches)))
    has_time = pl.col("latency_s").is_finite() & (pl.col("latency_s") > 0)
    known = set(rows.filter(has_time.fill_null(value=False))["mode"].to_list())
    said = dict(rows.filter(pl.col("reason").is_not_null()).select("mode", "reason").iter_rows())
    missing = (mode for mode in dict.fromkeys(modes) if mode not in known)
    return {mode: said.get(mode, _NO_ROW) for mode in missing}


def why_missing(values: Values, rows: Mask) -> str:
    """The reason that most of ``rows`` have, in parentheses' words; empty where none is said."""
    reasons = values.frame["reason"].to_list()
    said = [reasons[at] for at in np.flatnonzero(rows) if reasons[at]]
    return max(sorted(set(said)), key=said.count) if said else ""


def missing_quantity(values: Values, screened: Screen, wanted: Wanted, rows: Mask) -> str:
    """What ``rows`` lack to be compared: "power", "energy", or both."""
    limited = {quantity for quantity, _ in screened.limits}
    lacks = []
    for name, band in (("energy", values.energy), ("power", values.power)):
        is_used = name in limited or wanted.minimise in (name, "edp" if name == "energy" else name)
        if is_used and np.isnan(band.value[rows]).any():
            lacks.append(name)
    return " and ".join(lacks) or wanted.minimise


def without_energy(predictions: pl.DataFrame, whys: Mapping[tuple[str, str], str]) -> pl.DataFrame:
    """PREDICTION_SCHEMA without the energies and powers that cannot be true.

    ``whys``: the reason by device and network.
    """
    for (device, network), why in whys.items():
        is_it = (pl.col("device") == device) & (pl.col("network") == network)
        lost = [name for name in predictions.columns if name.startswith(("energy_", "power_"))]
        predictions = predictions.with_columns(
            *(pl.when(~is_it).then(pl.col(name)).alias(name) for name in lost),
            reason=pl.when(is_it).then(pl.lit(why)).otherwise("reason"),
        )
    return predictions
