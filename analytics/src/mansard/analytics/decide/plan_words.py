"""Why a mode was picked, in a few words."""

from __future__ import annotations

import polars as pl

from mansard.analytics.decide.plan_choice import Step
from mansard.analytics.decide.records import Objective
from mansard.analytics.scaling.network_terms import SETTINGS

_WORDS = {
    "gpu_hz": "GPU clock",
    "memory_hz": "memory clock",
    "cpu_hz": "CPU clock",
    "n_sms": "number of SMs",
    "n_cpus": "number of cores",
    "power_limit_w": "power limit",
}
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
            parts.append(f"{_rank_word(rank)} {_WORDS[name]}")
    return ", ".join(parts) or "one of many alike"


def reason_of(step: Step, place: str, minimise: Objective) -> str:
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
