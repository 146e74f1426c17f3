"""Predictions to decide by: what was measured stands in the place of what is modelled.

A prediction from roofs is a lower bound of the time. In a mode where the network was run, its
measured time is used. In other modes, the fit to its own times and the roofs (calibrated or not)
are compared: first by the kind of interval (spread, bounds, roof), then by its width.
"""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.model_frames import PREDICTION_KEY, PREDICTION_SCHEMA
from mansard.analytics.models.predict.prediction import Prediction
from mansard.analytics.models.scaling.network_predict import predict_observed

# Kinds of intervals of modelled rows, the most informative first; the width decides within a kind.
_SAYS = {"spread": 0, "bounds": 1, "roof": 2}


def prefer_measured(found: Prediction) -> pl.DataFrame:
    """PREDICTION_SCHEMA: those of ``found``, by the networks' own times where these tell more."""
    models = found.models
    known = models.of_devices(models.modes)
    return prefer_observed(found.predictions, models.observations, known, found.modes)


def prefer_observed(
    modelled: pl.DataFrame, observations: pl.DataFrame, known: pl.DataFrame, modes: pl.DataFrame
) -> pl.DataFrame:
    """``prefer_measured`` of frames: predictions in ``modes``, and the ``known`` modes."""
    key = ["mode", *PREDICTION_KEY]
    ran = observations.join(modelled, on=list(PREDICTION_KEY), how="semi", nulls_equal=True)
    own = predict_observed(ran, known, modes)
    own = own.filter(pl.col("latency_s").is_not_null())
    own = own.join(modelled, on=key, how="semi", nulls_equal=True)
    both = pl.concat([own, modelled]).with_columns(
        is_modelled=pl.col("source") == "modelled",
        says=pl.col("interval").replace_strict(_SAYS, default=len(_SAYS), return_dtype=pl.Int64),
        width=(pl.col("latency_high_s") / pl.col("latency_low_s")).fill_null(float("inf")),
    )
    best = both.sort("is_modelled", "says", "width", maintain_order=True, nulls_last=True)
    best = best.unique(key, keep="first", maintain_order=True)
    # The order of the rows stays that of the predictions.
    place = modelled.select(*key, place=pl.int_range(pl.len()))
    best = best.join(place, on=key, how="left", nulls_equal=True).sort("place")
    return best.select(list(PREDICTION_SCHEMA))
