"""What is known already: the device, its measured modes, and its networks' times and powers."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA, NETWORK, OBSERVATION_SCHEMA
from mansard.core.errors import UsageError
from mansard.core.text import printable


@dataclass(frozen=True, eq=False)
class Observed:
    """One device's modes (MODE_SCHEMA) and observations (OBSERVATION_SCHEMA), and notes."""

    device: str
    modes: pl.DataFrame
    observations: pl.DataFrame
    notes: tuple[str, ...]


def observed(
    modes: pl.DataFrame,
    observations: pl.DataFrame,
    predictions: pl.DataFrame,
    *,
    device: str | None = None,
    network: str | None = None,
) -> Observed:
    """What is known of one device, and of ``network`` or all.

    ``device``: its name or a part of it; None where there is but one. ``modes``: those that were
    measured or published. ``predictions``: PREDICTION_SCHEMA rows from the roofs of these modes.
    A network that nobody ran on the device has them for observations, with a note: what its
    modes allow says where another mode may be better. Raises UsageError that names what there is.
    """
    chosen = _choose_device(modes, observations, device)
    ours = pl.col("device") == chosen
    runs = observations.filter(ours)
    allowed = predictions.filter(
        ours & pl.col("latency_s").is_not_null() & ~pl.col("is_extrapolated").fill_null(value=False)
    ).join(modes.select("device", "mode"), on=["device", "mode"], how="semi")
    allowed = allowed.join(runs, on=list(NETWORK), how="anti", nulls_equal=True)
    if network is not None:
        runs, allowed = _choose_network(runs, allowed, network)
    notes = []
    if allowed.height:
        names = allowed.get_column("network").unique(maintain_order=True).to_list()
        notes.append(f"nobody ran {_few(names)}: what the roofs allow stands for it")
    return Observed(
        chosen,
        modes.filter(ours).select(*MODE_SCHEMA),
        pl.concat([runs.select(*OBSERVATION_SCHEMA), _as_observations(allowed)]),
        tuple(notes),
    )


def _choose_device(modes: pl.DataFrame, observations: pl.DataFrame, device: str | None) -> str:
    devices = pl.concat([modes.get_column("device"), observations.get_column("device")])
    names: list[str] = devices.unique(maintain_order=True).to_list()
    if not names:
        raise UsageError("no mode was measured", fix="leave the folder out")
    asked = (device or "").casefold()
    found = [name for name in names if name == device] or [
        name for name in names if asked in name.casefold()
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"no measured device is called {device!r}", fix=f"use {_few(names)}")
    raise UsageError(
        f"{len(found)} devices were measured", fix=f"choose one with --device: {_few(found)}"
    )


def _choose_network(
    runs: pl.DataFrame, allowed: pl.DataFrame, network: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    is_it = pl.col("network").str.to_lowercase() == network.lower()
    found = runs.filter(is_it), allowed.filter(is_it)
    if not any(frame.height for frame in found):
        columns = [frame.get_column("network") for frame in (runs, allowed)]
        names = pl.concat(columns).unique(maintain_order=True).to_list()
        fix = f"use {_few(names)}" if names else "score or import it first"
        raise UsageError(f"nothing is known of a network {network!r}", fix=fix)
    return found


def _as_observations(predictions: pl.DataFrame) -> pl.DataFrame:
    reason = pl.lit("not metered: modelled from the roofs of the mode")
    return predictions.with_columns(
        pl.lit("modelled").alias("source"),
        pl.lit(None, pl.String).alias("citation"),
        pl.when(pl.col("power_w").is_null()).then(reason).alias("reason"),
    ).select(*OBSERVATION_SCHEMA)


def _few(names: list[str]) -> str:
    shown = [printable(name) for name in names[:8]]
    return ", ".join(shown) + (", …" if len(names) > 8 else "")
