"""Every network under the roofs of every run, and group by group: what the page's tables show.

Runs are kept apart here even where two of them are of one mode: each has roofs of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA
from mansard.analytics.energy.fit import EnergyFit
from mansard.analytics.predict.engine import SHARE_SCHEMA, predict
from mansard.analytics.predict.group_rows import predict_groups
from mansard.analytics.predict.groups import group_frame
from mansard.analytics.predict.scores import score_frame
from mansard.analytics.roofs.roofline import Roofline
from mansard.analytics.scaling.coefficients import roof_coefficients

ROOFS_AT_ONCE = 25  # each has a row for each group: of the zoo in two batch sizes 20,000
_NETWORK_ORDER = ("model", "batch", "precision", "phase", "score_id", "label")
_SHARES = tuple(SHARE_SCHEMA)
_SHORT = {
    "latency_s": "time_s",
    "latency_low_s": "low_s",
    "latency_high_s": "high_s",
    "time_bound": "bound",
}


@dataclass(frozen=True, eq=False)
class RunNetworks:
    """Both have run_id and label for device and mode, and model, batch, precision and phase.

    ``groups``: group_rows.GROUP_ROW_SCHEMA. ``networks``: PREDICTION_SCHEMA, where the latency is
    called time_s, low_s and high_s and its bound ``bound``, scores.SCORE_SCHEMA, and

    - n_groups: those that work, move or start something
    - least_s: what is known of it takes, also where the time is unknown
    - memory_share, bound_share: of the time, in groups bound by memory, and by ``bound``; null
      where there is no such share, as of a power limit
    - intensity: FLOP/byte; attainable_flop_per_s: work over time
    """

    groups: pl.DataFrame
    networks: pl.DataFrame


def run_networks(
    layers: pl.DataFrame,
    roofs: Sequence[Roofline],
    energies: Mapping[str, EnergyFit],
    limits_w: Mapping[str, float | None],
    names: Mapping[str, str],
    launches: pl.DataFrame | None = None,
) -> RunNetworks:
    """The networks of ``layers`` (data.frames.LAYER_SCHEMA) under each of ``roofs``.

    ``energies`` and ``limits_w`` (the power limit of the mode, W) by run id; ``names``: how
    networks are called, by data.names.network_key. ``launches``: rows of COEFFICIENT_SCHEMA, by
    the device and the mode of published roofs; what a launch takes is in no roof.
    """
    groups, scores = group_frame(layers), score_frame(layers, names)
    coefficients = pl.concat(
        [
            pl.DataFrame(schema=COEFFICIENT_SCHEMA),
            *(
                roof_coefficients(roof, energies.get(roof.run_id), device="", mode=roof.run_id)
                for roof in roofs
            ),
            *([] if launches is None else [_launches_of(roofs, launches)]),
        ]
    )
    modes = pl.DataFrame(
        [
            {"device": "", "mode": roof.run_id, "power_limit_w": limits_w.get(roof.run_id)}
            for roof in roofs
        ],
        schema=MODE_SCHEMA,
    )
    found = predict_groups(groups, coefficients, modes)
    labels = pl.DataFrame(
        {"mode": [roof.run_id for roof in roofs], "label": [roof.label for roof in roofs]},
        schema={"mode": pl.String, "label": pl.String},
    )
    predicted = predict(groups, scores, coefficients, modes, with_shares=True).collect()
    same = scores.select("score_id", "model", "model_hash", "batch", "precision", "phase")
    return RunNetworks(
        _by_run(found.join(same, on="score_id"), labels).sort("score_id", "run_id", "group"),
        _by_run(_with_totals(predicted, scores, found), labels).sort(
            _NETWORK_ORDER, nulls_last=True
        ),
    )


def networks_of_runs(
    layers: pl.DataFrame,
    roofs: Sequence[Roofline],
    energies: Mapping[str, EnergyFit],
    limits_w: Mapping[str, float | None],
    names: Mapping[str, str],
    launches: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """``run_networks(…).networks``, of hundreds of roofs as well: some of them at a time."""
    starts = range(0, max(1, len(roofs)), ROOFS_AT_ONCE)
    pieces = [
        run_networks(
            layers, roofs[at : at + ROOFS_AT_ONCE], energies, limits_w, names, launches
        ).networks
        for at in starts
    ]
    return pl.concat(pieces).sort(_NETWORK_ORDER, nulls_last=True, maintain_order=True)


def _launches_of(roofs: Sequence[Roofline], launches: pl.DataFrame) -> pl.DataFrame:
    keys = [
        {"device": roof.machine, "mode": roof.mode, "run_id": roof.run_id}
        for roof in roofs
        if roof.source == "published"
    ]
    schema = {"device": pl.String, "mode": pl.String, "run_id": pl.String}
    return (
        launches.join(pl.DataFrame(keys, schema=schema), on=["device", "mode"])
        .with_columns(device=pl.lit(""), mode="run_id")
        .select(list(COEFFICIENT_SCHEMA))
    )


def _by_run(frame: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    return frame.drop("device").join(labels, on="mode").rename({"mode": "run_id"})


def _with_totals(predicted: pl.DataFrame, scores: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    own = [name for name in scores.columns if name not in predicted.columns]
    totals = rows.group_by("mode", "score_id").agg(
        pl.len().cast(pl.Int64).alias("n_groups"), pl.col("least_s").sum()
    )
    work, traffic, time = pl.col("work_flop"), pl.col("traffic_bytes"), pl.col("time_s")
    spent = pl.sum_horizontal(_SHARES, ignore_nulls=False)
    in_bound = pl.coalesce(
        pl.when(pl.col("bound") == name.removesuffix("_s")).then(name) for name in _SHARES
    )
    return (
        predicted.rename(_SHORT)
        .join(scores.select("score_id", *own), on="score_id", maintain_order="left")
        .join(totals, on=["mode", "score_id"], how="left", maintain_order="left")
        .with_columns(pl.col("n_groups", "least_s").fill_null(0))
        .with_columns(
            memory_share=pl.when(spent > 0).then(pl.col("memory_s") / spent),
            bound_share=pl.when(spent > 0).then(in_bound / spent),
            intensity=pl.when(traffic > 0).then(work / traffic),
            attainable_flop_per_s=pl.when(time > 0).then(work / time),
        )
        .drop(_SHARES)
    )
