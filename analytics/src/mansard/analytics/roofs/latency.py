"""The ladder of latencies: how long one dependent load takes from each level of a GPU.

One thread follows a random cycle through the working set, so each load waits for the one
before. A level's latency is the plateau of its trials, those within 5 % of the fastest: in
larger sets translation of addresses adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.roofs.levels import gpu_levels, in_level
from mansard.analytics.roofs.plateau import estimate, members
from mansard.analytics.roofs.rates import TrialRate
from mansard.analytics.roofs.standings import measured_clock_hz
from mansard.core.records import Gpu, Record

TOLERANCE = 0.05


class Latency(Record, frozen=True, kw_only=True):
    """Seconds of one load from one level, with the 95 % interval, and SM cycles."""

    level: str
    value_s: float | None
    low_s: float | None
    high_s: float | None
    cycles: float | None
    trial_ids: tuple[str, ...]
    n_disturbed: int


def find_latencies(gpu: Gpu | None, rates: Sequence[TrialRate]) -> tuple[Latency, ...]:
    """The latency of each level that a single SM sees; empty where none was measured."""
    loads = [rate for rate in rates if rate.family == "latency" and rate.memory != "zero-copy"]
    if gpu is None or not loads:
        return ()
    found = []
    for level in gpu_levels(gpu, 1):
        # Loads of the scope gpu go past L1; those through it miss it in larger sets.
        seen = [rate for rate in loads if level.scope != "sm" or rate.scope == "sm"]
        inside = [rate for rate in seen if in_level(level, rate.working_set_bytes)]
        found.append(_latency(level.name, inside))
    return tuple(found)


def _latency(level: str, inside: Sequence[TrialRate]) -> Latency:
    calm = [rate for rate in inside if not rate.disturbances]
    n_disturbed = len(inside) - len(calm)
    if not calm:
        reason = "all its trials were disturbed" if inside else f"no working set lies in {level}"
        names = ("value_s", "low_s", "high_s", "cycles")
        return Latency(
            level=level,
            value_s=None,
            low_s=None,
            high_s=None,
            cycles=None,
            trial_ids=(),
            n_disturbed=n_disturbed,
            unknown=dict.fromkeys(names, reason),
        )
    chosen = [calm[at] for at in members([rate.blocks for rate in calm], TOLERANCE)]
    loads = estimate([rate.blocks for rate in chosen])  # per second
    clock_hz = measured_clock_hz(chosen)
    few = f"too few blocks ({loads.n_blocks}) to show their own spread"
    unknown = {} if loads.low is not None else {"low_s": few, "high_s": few}
    if clock_hz is None:
        unknown["cycles"] = "the kernel did not measure the clock"
    return Latency(
        level=level,
        value_s=1 / loads.value,
        low_s=None if loads.high is None else 1 / loads.high,
        high_s=None if loads.low is None else 1 / loads.low,
        cycles=None if clock_hz is None else clock_hz / loads.value,
        trial_ids=tuple(sorted(rate.trial_id for rate in chosen)),
        n_disturbed=n_disturbed,
        unknown=unknown,
    )
