"""Networks of which only times are known: as they were seen, and fitted where nobody looked."""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.model_frames import NETWORK, PREDICTION_SCHEMA
from mansard.analytics.scaling.network_fit import fit_networks
from mansard.analytics.scaling.network_predict import predict_modes

_NO_INTERVAL = "as it was seen, without an interval"


def predict_observed(
    observations: pl.DataFrame, modes: pl.DataFrame, wanted: pl.DataFrame
) -> pl.DataFrame:
    """PREDICTION_SCHEMA of every network of ``observations`` in each ``wanted`` mode of its device.

    ``observations``: OBSERVATION_SCHEMA; ``modes``, of those that were seen, and ``wanted``:
    MODE_SCHEMA. In a mode in which a network was seen, that stands as it is and keeps its source;
    in all others it is modelled by a fit to what was seen. A mode without a power that the fit
    knows is modelled too.
    """
    fitted = [
        predict_modes(fit, rows).select(list(PREDICTION_SCHEMA))
        for fit in fit_networks(observations, modes)
        if not (rows := wanted.filter(pl.col("device") == fit.device)).is_empty()
    ]
    if not fitted:
        return pl.DataFrame(schema=PREDICTION_SCHEMA)
    modelled = pl.concat(fitted)
    key = ["mode", *NETWORK]
    seen = _as_seen(observations, modelled)
    return pl.concat([modelled.join(seen, on=key, how="anti", nulls_equal=True), seen])


def _as_seen(observations: pl.DataFrame, modelled: pl.DataFrame) -> pl.DataFrame:
    """The observations in modes of ``modelled`` as rows that take the place of theirs."""
    key = ["mode", *NETWORK]
    known = observations.filter(pl.col("latency_s") > 0).unique(
        key, keep="first", maintain_order=True
    )
    own = modelled.select(*key, "score_id", modelled_w="power_w", modelled_bound="time_bound")
    joined = known.join(own, on=key, nulls_equal=True, maintain_order="left")
    return (
        joined.filter(pl.col("power_w").is_not_null() | pl.col("modelled_w").is_null())
        .with_columns(
            energy_j=pl.col("latency_s") * pl.col("power_w"),
            time_bound="modelled_bound",
            is_extrapolated=pl.lit(value=False),
            is_calibrated=pl.lit(value=True),
            notes=pl.lit(_NO_INTERVAL),
        )
        .with_columns(
            pl.lit(None, dtype=kind).alias(name)
            for name, kind in PREDICTION_SCHEMA.items()
            if "_low_" in name or "_high_" in name or name == "energy_bound"
        )
        .select(pl.col(name).cast(kind) for name, kind in PREDICTION_SCHEMA.items())
    )
