"""Why a calibration has nothing to go by: what was measured, what is predicted, what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from mansard.core.errors import InputError

_MOST = 3  # measured networks that are named
_SETTINGS = ("batch", "precision", "phase")


def calibration_gap(
    predictions: pl.DataFrame, observations: pl.DataFrame, locations: Sequence[str]
) -> InputError:
    """The error of a calibration without one measured time that has a prediction beside it.

    ``predictions``: PREDICTION_SCHEMA of the scored networks in the measured modes;
    ``observations``: OBSERVATION_SCHEMA; ``locations``: where both are from.
    """
    where = ", ".join(locations)
    measured = observations.filter(pl.col("latency_s") > 0)
    if measured.is_empty():
        return InputError(
            "--calibrate needs the measured time of a network, and there is none",
            where=where,
            fix="measure one, or import a table of times with 'mansard import'",
        )
    settings = measured.unique(["network", *_SETTINGS], maintain_order=True)
    named = settings.unique("network", maintain_order=True).head(_MOST).to_dicts()
    gaps = [_gap(row, measured, predictions) for row in named]
    n_more = settings["network"].n_unique() - len(named)
    more = f"; and {n_more} more" if n_more else ""
    return InputError(
        f"--calibrate finds no measured time with a prediction beside it: {'; '.join(gaps)}{more}",
        where=where,
        fix="a measured network is needed with its score, in a mode whose roofs are known",
    )


def _gap(one: Mapping[str, Any], measured: pl.DataFrame, predictions: pl.DataFrame) -> str:
    """What was measured of a network, and why no prediction is beside it."""
    own = measured.filter(pl.col("network") == one["network"])
    modes = ", ".join(own["mode"].unique(maintain_order=True).to_list()[:_MOST])
    said = f"{one['network']} ({_setting(one)}) was measured in {modes} of {one['device']}"
    return f"{said}, {_why(one, own, predictions)}"


def _why(one: Mapping[str, Any], own: pl.DataFrame, predictions: pl.DataFrame) -> str:
    scored = predictions.filter(pl.col("network") == one["network"])
    if scored.is_empty():
        names = predictions["network"].unique(maintain_order=True).to_list()
        others = f"scored are {', '.join(names[:_MOST])}" if names else "no network is"
        return f"but it is not scored ({others})"
    alike = scored
    for name in ("phase", "batch", "precision"):
        same = alike.filter(pl.col(name).is_in(own[name].to_list(), nulls_equal=True))
        if same.is_empty():
            return f"but its score has {name} {_values(alike[name])}"
        alike = same
    in_mode = alike.join(own, on=["device", "mode"], how="semi")
    if in_mode.is_empty():
        places = alike.unique(["device", "mode"], maintain_order=True)
        there = [f"{mode} of {device}" for device, mode in places.select("device", "mode").rows()]
        return f"but roofs are known of {', '.join(there[:_MOST])}"
    unknown = in_mode.filter(pl.col("latency_s").is_null())
    if not unknown.is_empty():
        return f"but its modelled time is unknown: {unknown['reason'][0]}"
    return "but in another batch, precision or mode than its score"


def _setting(row: Mapping[str, Any]) -> str:
    batch = "unknown" if row["batch"] is None else row["batch"]
    return f"batch {batch}, {row['precision'] or 'precision unknown'}, {row['phase']}"


def _values(column: pl.Series) -> str:
    known = column.unique(maintain_order=True).to_list()[:_MOST]
    return " and ".join("unknown" if each is None else str(each) for each in known)
