"""Which modes to measure next: those that tell most, and those that may be the best.

Before DESIGN_SIZE modes are measured, a designed set completes them (``decisions.design``), with
the weights of the terms of time and power unknown. Then a mode is scored by the expected
improvement of the objective plus the expected reduction of the error, both relative. For later
picks, a picked mode counts as measured, with its predicted values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.model_frames import (
    MODE_SCHEMA,
    OBSERVATION_SCHEMA,
    PREDICTION_KEY,
)
from mansard.analytics.decisions.design import DESIGN_SIZE, PlanStep, choose, design, find_ends
from mansard.analytics.decisions.modes import SettingGap, comparable_modes
from mansard.analytics.decisions.outlook import (
    Outlook,
    fitted_outlook,
    predicted_networks,
    prior_outlook,
)
from mansard.analytics.decisions.records import Objective
from mansard.analytics.models.scaling.network_fit import NetworkFit, fit_networks
from mansard.analytics.models.scaling.network_terms import setting_values
from mansard.core.errors import UsageError
from mansard.core.records import Record
from mansard.core.text import printable


@dataclass(frozen=True, eq=False)
class PlanningData:
    """One device's modes (MODE_SCHEMA) and observations (OBSERVATION_SCHEMA).

    ``modelled``: the networks whose observations are predictions, as they were not run there.
    """

    device: str
    modes: pl.DataFrame
    observations: pl.DataFrame
    modelled: tuple[str, ...]


def select_data(
    modes: pl.DataFrame,
    observations: pl.DataFrame,
    predictions: pl.DataFrame,
    *,
    device: str | None = None,
    network: str | None = None,
) -> PlanningData:
    """The modes and observations of one device, and of ``network`` or of all networks.

    ``device``: its name or a part of it; None if there is only one device, or only one that ran
    the ``network``. ``modes``: those that were measured or published. ``predictions``:
    PREDICTION_SCHEMA rows from the roofs of these modes; they are the observations of a network
    that was not run on the device. Raises UsageError, which lists the devices or networks.
    """
    chosen = _choose_device(modes, observations, device, network)
    ours = pl.col("device") == chosen
    runs = observations.filter(ours)
    allowed = predictions.filter(
        ours & pl.col("latency_s").is_not_null() & ~pl.col("is_extrapolated").fill_null(value=False)
    ).join(modes.select("device", "mode"), on=["device", "mode"], how="semi")
    allowed = allowed.join(runs, on=list(PREDICTION_KEY), how="anti", nulls_equal=True)
    if network is not None:
        runs, allowed = _choose_network(runs, allowed, network)
    return PlanningData(
        chosen,
        modes.filter(ours).select(*MODE_SCHEMA),
        pl.concat([runs.select(*OBSERVATION_SCHEMA), _as_observations(allowed)]),
        tuple(allowed.get_column("network").unique(maintain_order=True).to_list()),
    )


def _choose_device(
    modes: pl.DataFrame, observations: pl.DataFrame, device: str | None, network: str | None
) -> str:
    devices = pl.concat([modes.get_column("device"), observations.get_column("device")])
    names: list[str] = devices.unique(maintain_order=True).to_list()
    if not names:
        raise UsageError("no mode was measured", fix="leave the folder out")
    part = (device or "").casefold()
    matches = [name for name in names if name == device] or [
        name for name in names if part in name.casefold()
    ]
    if len(matches) > 1 and network is not None:
        ran = observations.filter(pl.col("network").str.to_lowercase() == network.lower())
        on = ran.get_column("device").unique().to_list()
        matches = [name for name in matches if name in on] or matches
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise UsageError(f"no measured device is called {device!r}", fix=f"use {_few(names)}")
    raise UsageError(
        f"{len(matches)} devices were measured", fix=f"choose one with --device: {_few(matches)}"
    )


def _choose_network(
    runs: pl.DataFrame, allowed: pl.DataFrame, network: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    is_it = pl.col("network").str.to_lowercase() == network.lower()
    selected = runs.filter(is_it), allowed.filter(is_it)
    if not any(frame.height for frame in selected):
        columns = [frame.get_column("network") for frame in (runs, allowed)]
        names = pl.concat(columns).unique(maintain_order=True).to_list()
        fix = f"use {_few(names)}" if names else "score or import it first"
        raise UsageError(f"nothing is known of a network {network!r}", fix=fix)
    return selected


def _as_observations(predictions: pl.DataFrame) -> pl.DataFrame:
    reason = pl.lit("not metered: modelled from the roofs of the mode")
    return predictions.with_columns(
        pl.lit("modelled").alias("source"),
        *(pl.lit(None, pl.String).alias(name) for name in ("engine", "citation")),
        *(pl.lit(None, pl.Float64).alias(f"{name}_deviation") for name in ("latency", "power")),
        pl.when(pl.col("power_w").is_null()).then(reason).alias("reason"),
    ).select(*OBSERVATION_SCHEMA)


def _few(names: list[str]) -> str:
    shown = [printable(name) for name in names[:8]]
    return ", ".join(shown) + (", …" if len(names) > 8 else "")


MOST_PICKS = 1000


class Pick(Record, frozen=True, kw_only=True):
    """A mode to measure, and why.

    ``improvement``: expected relative improvement of the objective over the best measured mode.
    ``error_before`` and ``error_after``: expected relative error of the objective over all
    modes, before and after this one is measured.
    """

    device: str
    mode: str
    settings: dict[str, float]  # those that are known: Hz, counts, W
    reason: str
    improvement: float | None
    error_before: float
    error_after: float


class Plan(Record, frozen=True, kw_only=True):
    """Modes to measure next, best first, in words (``pages.words.next_modes``).

    ``n_designed``: the number of first picks that were chosen together, as a set; the others
    were chosen one after the other. ``networks``: whose measurements were used.
    """

    picks: tuple[Pick, ...]
    n_designed: int
    minimise: str
    networks: tuple[str, ...]
    n_candidates: int
    n_measured: int
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class NextModes:
    """The modes to measure next: facts, which ``pages.words.next_modes`` puts in words.

    ``modes``: MODE_SCHEMA of all candidates. ``n_wanted``: how many were asked for, of ``n_free``
    that are not measured. ``unpredicted``: reasons why the objective cannot be predicted, with the
    networks. ``is_limit_unused``: the limit on time has no effect yet, as no time is predicted.
    """

    modes: pl.DataFrame
    steps: tuple[PlanStep, ...]
    n_designed: int
    minimise: Objective
    networks: tuple[str, ...]
    n_wanted: int
    n_free: int
    n_measured: int
    gaps: tuple[SettingGap, ...]
    n_alike: int
    fit_notes: tuple[str, ...]
    unpredicted: Mapping[str, tuple[str, ...]]
    is_limit_unused: bool


def plan_next(
    candidates: pl.DataFrame,
    observations: pl.DataFrame | None = None,
    *,
    n: int = 10,
    minimise: Objective = "energy",
    max_latency_s: float | None = None,
    measured: pl.DataFrame | None = None,
) -> NextModes:
    """The ``n`` modes of ``candidates`` (MODE_SCHEMA, one device) to measure next.

    ``observations``: OBSERVATION_SCHEMA rows of networks on that device. ``measured``: MODE_SCHEMA
    of modes that were measured, whether a network ran in them or not. Neither is picked again.
    The same rows give the same plan, whatever their order. Raises UsageError.
    """
    _check(n, max_latency_s)
    known = comparable_modes(candidates, measured)
    modes = known.modes
    fits = () if observations is None else fit_networks(_as_device(observations, modes), modes)
    taken = known.measured.union(*(fit.measured.get_column("mode").to_list() for fit in fits))
    is_taken = modes.get_column("mode").is_in(sorted(taken)).to_numpy()
    free = np.flatnonzero(~is_taken)
    unpredicted, outlook = _outlook(fits, modes, minimise, max_latency_s, is_taken)
    n_taken, n_picked = int(is_taken.sum()), min(n, free.size)
    is_limit_unused = outlook is None and max_latency_s is not None
    values = setting_values(modes)
    prior = prior_outlook(values, minimise, is_taken)
    n_designed = n_picked if outlook is None else min(n_picked, max(0, DESIGN_SIZE - n_taken))
    designed = design(prior, find_ends(values, is_taken), free, n_designed)
    steps, outlook = choose(prior if outlook is None else outlook, designed, n_designed)
    others = np.setdiff1d(free, designed)
    steps += choose(outlook, others, n_picked - n_designed)[0]
    return NextModes(
        modes=modes,
        steps=steps,
        n_designed=n_designed,
        minimise=minimise,
        networks=tuple(dict.fromkeys(fit.network for fit in fits)),
        n_wanted=n,
        n_free=free.size,
        n_measured=n_taken,
        gaps=known.gaps,
        n_alike=known.n_alike,
        fit_notes=tuple(dict.fromkeys(note for fit in fits for note in fit.notes)),
        unpredicted=unpredicted,
        is_limit_unused=is_limit_unused,
    )


def _check(n: int, max_latency_s: float | None) -> None:
    if not 1 <= n <= MOST_PICKS:
        raise UsageError(f"cannot plan {n} modes", fix=f"ask for 1 to {MOST_PICKS}")
    if max_latency_s is not None and not 0 < max_latency_s < math.inf:
        raise UsageError(f"no time is at most {max_latency_s} s", fix="give a positive limit")


def _as_device(observations: pl.DataFrame, modes: pl.DataFrame) -> pl.DataFrame:
    """The observations under the name that the modes give their device."""
    return observations.with_columns(pl.lit(modes.get_column("device")[0]).alias("device"))


def _outlook(
    fits: Sequence[NetworkFit],
    modes: pl.DataFrame,
    minimise: Objective,
    max_latency_s: float | None,
    is_taken: NDArray[np.bool_],
) -> tuple[dict[str, tuple[str, ...]], Outlook | None]:
    """Reasons why networks cannot be predicted, and what is expected by the others.

    None instead of an outlook where no network can be predicted.
    """
    predicted = predicted_networks(fits, modes)
    is_known = predicted.is_known(minimise)
    unpredicted: dict[str, tuple[str, ...]] = {}
    for fit, known in zip(fits, is_known, strict=True):
        if not known:
            reason = fit.time_reason or fit.power_reason
            networks = (*unpredicted.get(reason, ()), fit.network)
            unpredicted[reason] = tuple(dict.fromkeys(networks))
    if not is_known.any():
        return unpredicted, None
    outlook = fitted_outlook(
        predicted.of(is_known), setting_values(modes), minimise, is_taken, max_latency_s
    )
    return unpredicted, outlook
