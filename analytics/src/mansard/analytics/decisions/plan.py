"""Which modes to measure next: those that tell most, and those that may be the best.

Before DESIGN_SIZE modes are measured a designed set completes them (``decisions.design``), with the
weights of the terms of time and power unknown. Then each mode counts by the expected improvement
of the objective plus the expected lessening of the error, both relative. A mode that was picked
counts as measured, with what is predicted there, for those after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.model_frames import (
    MODE_SCHEMA,
    OBSERVATION_SCHEMA,
    PREDICTION_KEY,
    SETTING_WORDS,
)
from mansard.analytics.decisions.design import DESIGN_SIZE, PlanStep, choose, design, find_ends
from mansard.analytics.decisions.modes import plan_modes
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
from mansard.core.hardware import SETTINGS
from mansard.core.records import Record
from mansard.core.text import printable

_NOUNS: dict[Objective, str] = {
    "energy": "energy",
    "latency": "time",
    "edp": "energy times time",
    "power": "power",
}


def place_of(modes: pl.DataFrame, at: int) -> str:
    """Where a mode lies among the others: "lowest GPU clock, middle memory clock"."""
    parts = []
    for name in SETTINGS:
        levels = modes.get_column(name).drop_nulls().unique().sort().to_list()
        value = modes.get_column(name)[at]
        if len(levels) > 1 and value is not None:
            rank = levels.index(value) / (len(levels) - 1)
            parts.append(f"{_rank_word(rank)} {SETTING_WORDS[name]}")
    return ", ".join(parts) or "one of many alike"


def reason_of(step: PlanStep, place: str, minimise: Objective) -> str:
    """The greatest of what a mode is expected to bring, and where it lies."""
    noun = _NOUNS[minimise]
    surer = step.error_before - step.error_after
    if step.chance is not None and step.chance > max(surer, step.improvement or 0.0):
        return f"within the limit with a chance of {_percent(step.chance)}: {place}"
    if step.improvement is not None and step.improvement > surer:
        return f"may lower the {noun} by {_percent(step.improvement)}: {place}"
    before, after = _percent(step.error_before), _percent(step.error_after)
    return f"expected error of {noun} {before} → {after}: {place}"


def _rank_word(rank: float) -> str:
    if rank in (0.0, 1.0):
        return "highest" if rank else "lowest"
    return "low" if rank < 1 / 3 else "high" if rank > 2 / 3 else "middle"


def _percent(share: float) -> str:
    """Two digits; more than the whole is no number worth telling."""
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


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

    ``device``: its name or a part of it; None where there is but one, or but one on which the
    ``network`` was run. ``modes``: those that were
    measured or published. ``predictions``: PREDICTION_SCHEMA rows from the roofs of these modes.
    A network that was not run on the device has them for observations, with a note: what its
    modes allow says where another mode may be better. Raises UsageError that names what there is.
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
    notes = []
    if allowed.height:
        names = allowed.get_column("network").unique(maintain_order=True).to_list()
        notes.append(f"not measured: {_few(names)}; what the roofs allow is used instead")
    return Observed(
        chosen,
        modes.filter(ours).select(*MODE_SCHEMA),
        pl.concat([runs.select(*OBSERVATION_SCHEMA), _as_observations(allowed)]),
        tuple(notes),
    )


def _choose_device(
    modes: pl.DataFrame, observations: pl.DataFrame, device: str | None, network: str | None
) -> str:
    devices = pl.concat([modes.get_column("device"), observations.get_column("device")])
    names: list[str] = devices.unique(maintain_order=True).to_list()
    if not names:
        raise UsageError("no mode was measured", fix="leave the folder out")
    asked = (device or "").casefold()
    found = [name for name in names if name == device] or [
        name for name in names if asked in name.casefold()
    ]
    if len(found) > 1 and network is not None:
        ran = observations.filter(pl.col("network").str.to_lowercase() == network.lower())
        on = ran.get_column("device").unique().to_list()
        found = [name for name in found if name in on] or found
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
        *(pl.lit(None, pl.String).alias(name) for name in ("engine", "citation")),
        *(pl.lit(None, pl.Float64).alias(f"{name}_deviation") for name in ("latency", "power")),
        pl.when(pl.col("power_w").is_null()).then(reason).alias("reason"),
    ).select(*OBSERVATION_SCHEMA)


def _few(names: list[str]) -> str:
    shown = [printable(name) for name in names[:8]]
    return ", ".join(shown) + (", …" if len(names) > 8 else "")


MOST_PICKS = 1000
_NO_BEST = "no mode is measured yet whose objective is known and within the limit"


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
    """Modes to measure, the most telling first. ``networks``: whose measurements were used.

    ``n_designed``: so many of the first picks are a set that tells most together; the others
    were chosen one after the other.
    """

    picks: tuple[Pick, ...]
    n_designed: int
    minimise: str
    networks: tuple[str, ...]
    n_candidates: int
    n_measured: int
    notes: tuple[str, ...]


def plan_next(
    candidates: pl.DataFrame,
    observations: pl.DataFrame | None = None,
    *,
    n: int = 10,
    minimise: Objective = "energy",
    max_latency_s: float | None = None,
    measured: pl.DataFrame | None = None,
) -> Plan:
    """The ``n`` modes of ``candidates`` (MODE_SCHEMA, one device) to measure next.

    ``observations``: OBSERVATION_SCHEMA rows of networks on that device. ``measured``: MODE_SCHEMA
    of modes that were measured, whether a network ran in them or not. Neither is picked again.
    The same rows give the same plan, whatever their order. Raises UsageError.
    """
    _check(n, max_latency_s)
    known = plan_modes(candidates, measured)
    modes = known.modes
    fits = () if observations is None else fit_networks(_as_device(observations, modes), modes)
    taken = known.measured.union(*(fit.measured.get_column("mode").to_list() for fit in fits))
    is_taken = modes.get_column("mode").is_in(sorted(taken)).to_numpy()
    free = np.flatnonzero(~is_taken)
    notes = [*known.notes, *dict.fromkeys(note for fit in fits for note in fit.notes)]
    outlook, blind = _outlook(fits, modes, minimise, max_latency_s, is_taken)
    notes += blind
    n_taken, n_picked = int(is_taken.sum()), min(n, free.size)
    if n > free.size:
        are = "is" if free.size == 1 else "are"
        notes.append(f"{free.size} of {modes.height} modes {are} left to measure")
    elif n_taken + n < DESIGN_SIZE:
        notes.append(
            f"fewer than {DESIGN_SIZE} measured modes predict the others badly: "
            f"ask for {DESIGN_SIZE - n_taken}"
        )
    if outlook is None and max_latency_s is not None:
        notes.append("the limit on time is not used yet: no time can be predicted")
    values = setting_values(modes)
    prior = prior_outlook(values, minimise, is_taken)
    n_designed = n_picked if outlook is None else min(n_picked, max(0, DESIGN_SIZE - n_taken))
    designed = design(prior, find_ends(values, is_taken), free, n_designed)
    steps, outlook = choose(prior if outlook is None else outlook, designed, n_designed)
    others = np.setdiff1d(free, designed)
    steps += choose(outlook, others, n_picked - n_designed)[0]
    return Plan(
        picks=tuple(
            _pick(modes, step, minimise, is_designed=number < n_designed)
            for number, step in enumerate(steps)
        ),
        n_designed=n_designed,
        minimise=minimise,
        networks=tuple(dict.fromkeys(fit.network for fit in fits)),
        n_candidates=modes.height,
        n_measured=n_taken,
        notes=tuple(notes),
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
) -> tuple[Outlook | None, list[str]]:
    """What is expected by the networks that can be predicted, and which cannot, and why."""
    predicted = predicted_networks(fits, modes)
    is_known = predicted.is_known(minimise)
    blind: dict[str, list[str]] = {}  # reason -> networks
    for fit, known in zip(fits, is_known, strict=True):
        if not known:
            blind.setdefault(fit.time_reason or fit.power_reason, []).append(fit.network)
    notes = [
        f"{minimise} of {', '.join(dict.fromkeys(networks))} cannot be predicted: {reason}"
        for reason, networks in blind.items()
    ]
    if not is_known.any():
        return None, notes
    values = setting_values(modes)
    return fitted_outlook(predicted.of(is_known), values, minimise, is_taken, max_latency_s), notes


def _pick(modes: pl.DataFrame, step: PlanStep, minimise: Objective, *, is_designed: bool) -> Pick:
    row, place = modes.row(step.at, named=True), place_of(modes, step.at)
    # Before anything is measured the expected error is of no network: it ranks modes, no more.
    reason = f"part of the set: {place}" if is_designed else reason_of(step, place, minimise)
    return Pick(
        device=row["device"],
        mode=row["mode"],
        settings={name: float(row[name]) for name in SETTINGS if row[name] is not None},
        reason=reason,
        improvement=step.improvement,
        error_before=step.error_before,
        error_after=step.error_after,
        unknown={} if step.improvement is not None else {"improvement": _NO_BEST},
    )
