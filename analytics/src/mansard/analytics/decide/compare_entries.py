"""What a run has that can be held against another: ceilings, costs, measured networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mansard.analytics.data.names import shown
from mansard.analytics.decide.compare_records import Kind
from mansard.analytics.decide.probability import Array
from mansard.analytics.decide.significance import Span
from mansard.analytics.energy.fit import Coefficient, EnergyFit
from mansard.analytics.roofs.plateau import estimate
from mansard.analytics.roofs.rates import TrialRate
from mansard.analytics.roofs.roofline import Roofline
from mansard.core.records import Manifest, Measurement

_MOST_BLOCKS = 10  # that the repetitions of a network are cut into


@dataclass(frozen=True, eq=False)
class Side:
    """One run with all that was found of it, and what it is called."""

    label: str
    manifest: Manifest
    roof: Roofline
    rates: tuple[TrialRate, ...]
    energy: EnergyFit | None
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, eq=False)
class Entry:
    """One quantity of one side. ``blocks``: by trial, what was seen; empty for a fitted one."""

    kind: Kind
    unit: str
    span: Span
    blocks: Mapping[object, Array]


def entries_of(side: Side) -> dict[str, Entry]:
    """Everything that ``side`` has, by its name in words."""
    return {**_ceilings(side), **_costs(side.energy), **_networks(side.measurements)}


def _ceilings(side: Side) -> dict[str, Entry]:
    by_id = {rate.trial_id: rate for rate in side.rates}
    found = {}
    for ceiling in (*side.roof.peaks, *side.roof.bandwidths):
        if ceiling.value is None:
            continue
        rates = [by_id[trial_id] for trial_id in ceiling.trial_ids if trial_id in by_id]
        is_peak = ceiling.family != "stream"
        name = f"{ceiling.name} peak" if is_peak else f"{ceiling.subject} {ceiling.kernel}"
        found[name] = Entry(
            "peak" if is_peak else "bandwidth",
            ceiling.unit,
            (ceiling.value, ceiling.low, ceiling.high),
            {_trial_key(rate): rate.blocks for rate in rates},
        )
    return found


def _trial_key(rate: TrialRate) -> object:
    """What makes two trials the same experiment."""
    return (rate.kernel, rate.backend, rate.fma_per_element, rate.working_set_bytes)


def _costs(energy: EnergyFit | None) -> dict[str, Entry]:
    if energy is None:
        return {}
    kinds: list[tuple[str, str, Coefficient]] = [
        *((f"energy of {name} work", "J/FLOP", cost) for name, cost in energy.flop_j.items()),
        *((f"energy of {name} traffic", "J/B", cost) for name, cost in energy.byte_j.items()),
        ("constant power", "W", energy.constant_w),
    ]
    return {
        name: Entry("energy", unit, (cost.value, cost.low, cost.high), {})
        for name, unit, cost in kinds
        if cost.value is not None and cost.value > 0
    }


def _networks(measurements: Sequence[Measurement]) -> dict[str, Entry]:
    found = {}
    for row in measurements:
        seconds = np.asarray(row.seconds_s, dtype=np.float64)
        if not len(seconds) or not (seconds > 0).all():
            continue
        # Repetitions that follow each other are not independent: the medians of stretches are.
        parts = np.array_split(seconds, min(_MOST_BLOCKS, len(seconds)))
        blocks = np.array([float(np.median(part)) for part in parts])
        seen = estimate([blocks])
        name = f"{shown(row.model)} {row.phase}, batch {row.batch}, {row.precision}, {row.engine}"
        found[name] = Entry("network", "s", (seen.value, seen.low, seen.high), {"": blocks})
    return found
