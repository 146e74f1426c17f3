"""A network's time and power between modes, from measurements in a few of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA, NETWORK
from mansard.analytics.scaling.network_terms import (
    POWER_FORMS,
    SETTINGS,
    Array,
    evaluate,
    power_basis,
    setting_values,
    time_basis,
    usable,
    varying,
)
from mansard.analytics.scaling.term_fit import FEWEST_MODES, TermFit, fit_terms
from mansard.core.errors import InputError

_TRUST = ("measured", "simulated", "published", "modelled")  # of one network only the first
# How much of a layer's arithmetic and traffic overlap: nothing, most of it, all of it.
OVERLAPS = (1.0, 2.0, 4.0, math.inf)


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """What was measured of one network on one device, and what follows from it.

    ``measured``: a row for each mode, SETTINGS, ``latency_s`` and ``power_w`` (the median where
    it was measured more than once; null where it was not). ``time`` or ``power`` are None for
    the reason beside them. ``notes``: what was left out.
    """

    device: str
    network: str
    batch: int | None  # null, as the others, where the table does not say
    precision: str | None
    phase: str | None
    measured: pl.DataFrame
    time: TermFit | None
    time_reason: str
    power: TermFit | None
    power_reason: str
    notes: tuple[str, ...] = ()


def fit_networks(observations: pl.DataFrame, modes: pl.DataFrame) -> tuple[NetworkFit, ...]:
    """A fit for each network of ``observations`` (OBSERVATION_SCHEMA), in their order.

    ``modes``: MODE_SCHEMA. What was measured, what was published and what is modelled are never
    fitted together: of one network the first of these is taken, and a note says so.
    """
    return tuple(
        fit_network(rows, modes)
        for rows in observations.partition_by(*NETWORK, maintain_order=True)
    )


def fit_network(observations: pl.DataFrame, modes: pl.DataFrame) -> NetworkFit:
    """The fit of one network on one device; raises InputError where there are several."""
    identities = observations.select(NETWORK).unique(maintain_order=True)
    if identities.height != 1:
        raise InputError(
            f"{identities.height} networks or devices where one is fitted",
            fix="choose one network of one device, batch and precision",
        )
    kept, notes = _one_source(observations)
    measured, more = join_modes(kept, modes)
    time, time_reason = fit_times(measured)
    power, power_reason = fit_power(measured)
    return NetworkFit(
        **identities.row(0, named=True),
        measured=measured,
        time=time,
        time_reason=time_reason,
        power=power,
        power_reason=power_reason,
        notes=(*notes, *more),
    )


def join_modes(
    observations: pl.DataFrame, modes: pl.DataFrame
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """One row per mode with its settings and medians, and notes about rows that are left out.

    A time or power that is not a positive number is no measurement.
    """
    known = modes.select(*MODE_SCHEMA).unique(["device", "mode"], keep="first", maintain_order=True)
    known = known.with_columns(usable(name) for name in SETTINGS)
    medians = observations.group_by("device", "mode", maintain_order=True).agg(
        _positive("latency_s").median(), _positive("power_w").median()
    )
    joined = medians.join(known, on=["device", "mode"], how="inner").sort(
        *SETTINGS, "mode", nulls_last=True
    )
    lost = medians.join(known, on=["device", "mode"], how="anti").get_column("mode").to_list()
    notes = []
    if lost:
        named = ", ".join(lost[:5]) + (", …" if len(lost) > 5 else "")
        notes.append(f"left out, their clocks are unknown: {named}")
    n_timeless = joined.get_column("latency_s").null_count()
    if n_timeless:
        notes.append(f"left out, no positive time: {n_timeless} of {joined.height} modes")
    timed = joined.filter(pl.col("latency_s").is_not_null())
    for name in SETTINGS:
        n_lacking = timed.get_column(name).null_count()
        if 0 < n_lacking < timed.height:
            notes.append(f"{name} is in no term: {n_lacking} of {timed.height} modes lack it")
    return timed, tuple(notes)


def fit_times(measured: pl.DataFrame) -> tuple[TermFit | None, str]:
    """The fit of ``latency_s`` over the modes of ``measured``, or None and the reason."""
    values = setting_values(measured)
    reason = _why_not(measured.height, values, "time")
    if reason:
        return None, reason
    forms = {}
    for p in OVERLAPS:
        basis = time_basis(values, p)
        forms[f"overlap {p:g}"] = (basis, evaluate(basis, values))
    return fit_terms(forms, measured.get_column("latency_s").to_numpy()), ""


def fit_power(measured: pl.DataFrame) -> tuple[TermFit | None, str]:
    """The fit of ``power_w`` over those modes of ``measured`` that have it, or the reason."""
    metered = measured.filter(pl.col("power_w").is_not_null())
    values = setting_values(metered)
    reason = _why_not(metered.height, values, "power")
    if reason:
        return None, reason
    # Rates are relative to the typical time of all measured modes, as predictions will be.
    rate = typical_latency_s(measured) / metered.get_column("latency_s").to_numpy()
    forms = {}
    for form in POWER_FORMS:
        basis = power_basis(values, form)
        forms[form] = (basis, evaluate(basis, values, rate))
    return fit_terms(forms, metered.get_column("power_w").to_numpy()), ""


def typical_latency_s(measured: pl.DataFrame) -> float:
    """The geometric mean of the times that were measured, seconds."""
    return float(np.exp(np.log(measured.get_column("latency_s").to_numpy()).mean()))


def _positive(column: str) -> pl.Expr:
    is_usable = pl.col(column).is_finite() & (pl.col(column) > 0)
    return pl.col(column).filter(is_usable.fill_null(value=False))


def _one_source(observations: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    sources = observations.get_column("source").unique(maintain_order=True).to_list()
    if len(sources) < 2:
        return observations, ()
    best, *others = (source for source in _TRUST if source in sources)
    kept = observations.filter(pl.col("source") == best)
    return kept, (f"only {best} rows are fitted, not those that are {', '.join(others)}",)


def _why_not(n_modes: int, values: Mapping[str, Array], what: str) -> str:
    if n_modes < FEWEST_MODES:
        have = "no mode" if n_modes == 0 else f"{n_modes} mode{'s' if n_modes > 1 else ''}"
        return f"{what} was measured in {have}, a fit takes {FEWEST_MODES}"
    varies = [name for name in varying(values) if name != "power_limit_w"]
    if not varies:
        return "no clock that is known differs between the measured modes"
    return ""
