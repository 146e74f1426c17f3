"""What the two sweep charts draw: the staircase and the FMA chains, as tidy frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from mansard.analytics.charts.data import GIGA, Drawn, in_giga, positive
from mansard.analytics.data.names import shown_long
from mansard.analytics.data.quantities import capacity, quantity
from mansard.analytics.roofs.ceilings import STREAM_KERNELS
from mansard.analytics.roofs.rates import USUAL_BACKENDS, TrialRate

SLICED = ", sliced"  # of curves whose working set is dealt out to the SMs


def staircase(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """Bandwidth of each stream trial over its working set.

    Other backends of a GPU and memory of its host have a table of their own.
    """
    schema = {
        "mode": pl.String,
        "kernel": pl.String,
        "working_set_bytes": pl.Float64,
        "size": pl.String,
        "rate": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "interval": pl.String,
        "trial": pl.String,
        "is_disturbed": pl.Boolean,
    }
    rows = [
        {
            "mode": labels[rate.run_id],
            "kernel": series_name(rate),
            "working_set_bytes": float(rate.working_set_bytes),
            "size": capacity(rate.working_set_bytes),
            **_rate_fields(rate, "B/s"),
        }
        for rate in rates
        if rate.family == "stream" and is_drawn(rate)
    ]
    drawn = positive(rows, schema, "working_set_bytes", "rate")
    return Drawn(drawn.frame.sort("mode", "kernel", "working_set_bytes"), drawn.n_dropped)


def is_drawn(rate: TrialRate) -> bool:
    """Whether a trial is one of the curves: the usual backend, real values, own memory."""
    usual = rate.backend in USUAL_BACKENDS and rate.memory != "zero-copy"
    return usual and rate.operands == "chaotic"


def series_name(rate: TrialRate) -> str:
    """The curve of a stream: its kernel, and whether every SM of a GPU has a slice."""
    return f"{rate.kernel}{SLICED}" if rate.scope == "sm" else rate.kernel


def series_order(names: Iterable[str]) -> list[str]:
    """Each curve once, the kernels in their usual order; all of them where there is none."""
    found = set(names)
    usual = [f"{kernel}{end}" for end in ("", SLICED) for kernel in STREAM_KERNELS]
    return [*(name for name in usual if name in found), *sorted(found - set(usual))] or usual[:4]


def chains(rates: Sequence[TrialRate], labels: Mapping[str, str]) -> Drawn:
    """FLOP/s of each FMA trial over the FMA done per element.

    A precision that ran over several working sets has a curve for each of them.
    """
    schema = {
        "mode": pl.String,
        "precision": pl.String,
        "fma_per_element": pl.Float64,
        "rate": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "interval": pl.String,
        "trial": pl.String,
        "is_disturbed": pl.Boolean,
    }
    chosen = [rate for rate in rates if rate.family == "fma" and is_drawn(rate)]
    smallest: dict[tuple[str, str], int] = {}
    for rate in chosen:
        key = rate.run_id, rate.precision
        smallest[key] = min(smallest.get(key, rate.working_set_bytes), rate.working_set_bytes)
    rows = [
        {
            "mode": labels[rate.run_id],
            "precision": _chain_name(rate, smallest[rate.run_id, rate.precision]),
            "fma_per_element": rate.fma_per_element,
            **_rate_fields(rate, "FLOP/s"),
        }
        for rate in chosen
    ]
    drawn = positive(rows, schema, "fma_per_element", "rate")
    return Drawn(drawn.frame.sort("mode", "precision", "fma_per_element"), drawn.n_dropped)


def _chain_name(rate: TrialRate, smallest_bytes: int) -> str:
    if rate.working_set_bytes == smallest_bytes:
        return rate.precision
    return f"{rate.precision}, {capacity(rate.working_set_bytes)}"


def _rate_fields(rate: TrialRate, unit: str) -> dict[str, object]:
    found = rate.estimate
    return {
        "rate": found.value / GIGA,
        "low": in_giga(found.low),
        "high": in_giga(found.high),
        "interval": quantity(found.value, unit, found.low, found.high),
        "trial": trial_state(rate),
        "is_disturbed": bool(rate.disturbances),
    }


def trial_state(rate: TrialRate) -> str:
    """Whether a trial counts, in a word or with what disturbed it."""
    if rate.disturbances:
        return f"disturbed, in no ceiling: {shown_long('; '.join(rate.disturbances))}"
    return "unstable" if rate.unstable else "stable"
