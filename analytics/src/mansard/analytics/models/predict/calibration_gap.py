"""Why a calibration has nothing to go by: what was measured, what is predicted, what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from mansard.analytics.data.names import first_names
from mansard.core.errors import InputError

_MOST = 3  # of a list, before the rest is a number
_SETTINGS = ("batch", "precision", "phase")


def calibration_gap(
    predictions: pl.DataFrame,
    scores: pl.DataFrame,
    observations: pl.DataFrame,
    locations: Sequence[str],
) -> InputError:
    """The error of a calibration without one measured time that has a prediction beside it.

    ``predictions``: PREDICTION_SCHEMA of ``scores`` (SCORE_SCHEMA) in the modes that have roofs;
    ``observations``: OBSERVATION_SCHEMA; ``locations``: where they are from.
    """
    where = ", ".join(locations)
    measured = observations.filter(pl.col("latency_s") > 0)
    if measured.is_empty():
        return InputError(
            "--calibrate needs the measured time of a network, and there is none",
            where=where,
            fix="measure one, or import a table of times with 'mansard data import'",
        )
    gaps: dict[str, list[str]] = {}  # networks by their explanation
    settings = measured.unique(["network", *_SETTINGS], maintain_order=True)
    for row in settings.unique("network", keep="first", maintain_order=True).to_dicts():
        of_network = measured.filter(pl.col("network") == row["network"])
        modes = ", ".join(of_network["mode"].unique(maintain_order=True).to_list()[:_MOST])
        said = f"measured in {modes} of {row['device']}, {_why(of_network, predictions, scores)}"
        gaps.setdefault(said, []).append(f"{row['network']} ({_setting(row)})")
    lines = [f"{first_names(names, _MOST)}: {said}" for said, names in list(gaps.items())[:_MOST]]
    return InputError(
        f"--calibrate finds no measured time with a prediction beside it. {'; '.join(lines)}",
        where=where,
        fix="a measured network is needed with its score, in a mode whose roofs are known",
    )


def _why(of_network: pl.DataFrame, predictions: pl.DataFrame, scores: pl.DataFrame) -> str:
    is_own = pl.col("network") == of_network["network"][0]
    scored = scores.filter(is_own)
    if scored.is_empty():
        names = scores["network"].unique(maintain_order=True).to_list()
        others = f"scored are {', '.join(names[:_MOST])}" if names else "no network is"
        return f"but it is not scored ({others})"
    alike = scored
    for name in ("phase", "batch", "precision"):
        same = alike.filter(pl.col(name).is_in(of_network[name].to_list(), nulls_equal=True))
        if same.is_empty():
            return f"but its score has {name} {_values(alike[name])}"
        alike = same
    timed = predictions.filter(is_own).join(alike, on="score_id", how="semi")
    in_mode = timed.join(of_network, on=["device", "mode"], how="semi")
    if in_mode.is_empty():
        places = predictions.unique(["device", "mode"], maintain_order=True)
        there = [f"{mode} of {device}" for device, mode in places.select("device", "mode").rows()]
        return f"but roofs are known of {', '.join(there[:_MOST]) or 'no mode'}"
    unknown = in_mode.filter(pl.col("latency_s").is_null())
    if not unknown.is_empty():
        return f"but its modelled time is unknown: {unknown['reason'][0]}"
    return "but in another batch, precision or mode than its score"


def _setting(row: Mapping[str, Any]) -> str:
    batch = "unknown" if row["batch"] is None else row["batch"]
    return f"batch {batch}, {row['precision'] or 'precision unknown'}, {row['phase']}"


def _values(column: pl.Series) -> str:
    known = column.unique(maintain_order=True).to_list()[:_MOST]
    return " and ".join("unknown" if value is None else str(value) for value in known)
