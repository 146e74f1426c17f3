"""Networks in modes by whatever is known of them: roofs, or times that somebody saw."""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.model_frames import NETWORK, PREDICTION_SCHEMA
from mansard.analytics.predict.engine import predict
from mansard.analytics.predict.groups import group_frame
from mansard.analytics.scaling.observed_networks import predict_observed


def predict_layers(
    layers: pl.DataFrame, scores: pl.DataFrame, coefficients: pl.DataFrame, modes: pl.DataFrame
) -> pl.DataFrame:
    """PREDICTION_SCHEMA of every score of ``layers`` in those of ``modes`` that have roofs.

    ``layers``: data.frames.LAYER_SCHEMA, ``scores``: scores.SCORE_SCHEMA of them; the others are
    of data.model_frames.
    """
    roofed = modes.join(coefficients, on=["device", "mode"], how="semi", maintain_order="left")
    found = predict(group_frame(layers), scores, coefficients, roofed).collect()
    return found.select(list(PREDICTION_SCHEMA))


def with_observed(
    predictions: pl.DataFrame, observations: pl.DataFrame, modes: pl.DataFrame, wanted: pl.DataFrame
) -> pl.DataFrame:
    """``predictions``, and what is observed of networks that they do not know.

    ``modes``: those of the observations, ``wanted``: those that are asked for (MODE_SCHEMA).
    """
    alone = observations.join(predictions, on=list(NETWORK), how="anti", nulls_equal=True)
    return pl.concat([predictions, predict_observed(alone, modes, wanted)])
