"""Every network under the roofs of every run, and group by group: what the page's tables show.

Runs are kept apart here even where two of them are of one mode: each has roofs of its own. Both
frames have run_id and label for device and mode, and model, batch, precision and phase.
"""

from __future__ import annotations

import polars as pl

from mansard.analytics.predict.engine import SHARE_SCHEMA
from mansard.analytics.predict.group_rows import predict_groups
from mansard.analytics.predict.prediction import Prediction

_RUNS_AT_ONCE = 25  # each has a row for each group: of the zoo in two batch sizes 20,000
_NETWORK_ORDER = ("model", "batch", "precision", "phase", "score_id", "label")
_SHARES = tuple(SHARE_SCHEMA)
_SHORT = {
    "latency_s": "time_s",
    "latency_low_s": "low_s",
    "latency_high_s": "high_s",
    "time_bound": "bound",
}


def groups_of_runs(prediction: Prediction) -> pl.DataFrame:
    """group_rows.GROUP_ROW_SCHEMA of a ``predict(…, each_run=True)``."""
    same = prediction.scores.select(
        "score_id", "model", "model_hash", "batch", "precision", "phase"
    )
    rows = predict_groups(prediction.groups, prediction.coefficients, prediction.modes)
    found = _by_run(prediction, rows.join(same, on="score_id"))
    return found.sort("score_id", "run_id", "group")


def networks_of_runs(prediction: Prediction) -> pl.DataFrame:
    """The networks of a ``predict(…, each_run=True)``.

    PREDICTION_SCHEMA, where the latency is called time_s, low_s and high_s and its bound
    ``bound``, scores.SCORE_SCHEMA, and

    - n_groups: those that work, move or start something
    - least_s: what is known of it takes, also where the time is unknown
    - memory_share, bound_share: of the time, in groups bound by memory, and by ``bound``; null
      where there is no such share, as of a power limit
    - intensity: FLOP/byte; attainable_flop_per_s: work over time
    """
    predicted, scores = prediction.predictions, prediction.scores
    own = [name for name in scores.columns if name not in predicted.columns]
    work, traffic, time = pl.col("work_flop"), pl.col("traffic_bytes"), pl.col("time_s")
    spent = pl.sum_horizontal(_SHARES, ignore_nulls=False)
    in_bound = pl.coalesce(
        pl.when(pl.col("bound") == name.removesuffix("_s")).then(name) for name in _SHARES
    )
    found = (
        predicted.rename(_SHORT)
        .join(scores.select("score_id", *own), on="score_id", maintain_order="left")
        .join(_group_totals(prediction), on=["mode", "score_id"], how="left", maintain_order="left")
        .with_columns(pl.col("n_groups", "least_s").fill_null(0))
        .with_columns(
            memory_share=pl.when(spent > 0).then(pl.col("memory_s") / spent),
            bound_share=pl.when(spent > 0).then(in_bound / spent),
            intensity=pl.when(traffic > 0).then(work / traffic),
            attainable_flop_per_s=pl.when(time > 0).then(work / time),
        )
        .drop(_SHARES)
    )
    return _by_run(prediction, found).sort(_NETWORK_ORDER, nulls_last=True, maintain_order=True)


def _group_totals(prediction: Prediction) -> pl.DataFrame:
    """By mode and score: the number of groups and the sum of ``least_s``; some runs at a time."""
    modes = prediction.modes
    pieces = [
        predict_groups(prediction.groups, prediction.coefficients, modes.slice(at, _RUNS_AT_ONCE))
        .group_by("mode", "score_id")
        .agg(pl.len().cast(pl.Int64).alias("n_groups"), pl.col("least_s").sum())
        for at in range(0, max(1, len(modes)), _RUNS_AT_ONCE)
    ]
    return pl.concat(pieces)


def _by_run(prediction: Prediction, frame: pl.DataFrame) -> pl.DataFrame:
    roofs = prediction.models.roofs
    labels = pl.DataFrame(
        {"mode": [roof.run_id for roof in roofs], "label": [roof.label for roof in roofs]},
        schema={"mode": pl.String, "label": pl.String},
    )
    return frame.drop("device").join(labels, on="mode").rename({"mode": "run_id"})
