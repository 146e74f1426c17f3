"""What a recommendation is compared with: the highest mode, and the one that a board starts in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.decide.records import Candidate, Saving
from mansard.analytics.decide.values import Values

HIGHEST = "the highest mode"
DEFAULT = "the board's default"
_UNLIMITED = ("MAXN_SUPER", "MAXN")  # what NVIDIA calls its unlimited modes
_CLOCKS = ("n_sms", "gpu_hz", "memory_hz", "n_cpus", "cpu_hz", "power_limit_w")


@dataclass(frozen=True)
class Baseline:
    """Another mode to compare the choice with; ``label`` says what it is."""

    label: str
    mode: str


def highest_mode(modes: pl.DataFrame) -> str | None:
    """The mode of one device (MODE_SCHEMA) that is called unlimited, else the highest by clocks.

    That is by SMs, then GPU clock, memory clock, cores, CPU clock and power limit; what is
    unknown counts as lowest. None where there is no mode.
    """
    if modes.is_empty():
        return None
    names = {str(name).upper(): str(name) for name in modes["mode"].sort(descending=True)}
    for unlimited in _UNLIMITED:
        if unlimited in names:
            return names[unlimited]
    ranked = modes.sort(
        *_CLOCKS, "mode", descending=[*(True for _ in _CLOCKS), False], nulls_last=True
    )
    return str(ranked["mode"][0])


def find_savings(
    values: Values, choice: Candidate, baselines: Sequence[Baseline]
) -> tuple[Saving, ...]:
    """The choice beside each baseline, at the choice's own batch and precision."""
    return tuple(_saving(values, choice, baseline) for baseline in baselines)


def _saving(values: Values, choice: Candidate, baseline: Baseline) -> Saving:
    rows = (
        values.frame.with_row_index("_at")
        .filter(
            pl.col("mode") == baseline.mode,
            pl.col("batch") == choice.batch,
            pl.col("precision") == choice.precision,
            pl.col("phase") == choice.phase,
        )["_at"]
        .to_list()
    )
    if not rows:
        reason = f"mode {baseline.mode} has no prediction at batch {choice.batch}"
        unknown = dict.fromkeys(("other", "latency_ratio", "energy_ratio", "power_ratio"), reason)
        return Saving(
            baseline=baseline.label, mode=baseline.mode, other=None, latency_ratio=None,
            energy_ratio=None, power_ratio=None, unknown=unknown,
        )  # fmt: skip
    other = values.candidate(rows[0])
    energy_ratio = _ratio(choice.energy_j, other.energy_j)
    power_ratio = _ratio(choice.power_w, other.power_w)
    reasons = {"energy_ratio": energy_ratio, "power_ratio": power_ratio}
    return Saving(
        baseline=baseline.label,
        mode=baseline.mode,
        other=other,
        latency_ratio=choice.latency_s / other.latency_s,
        energy_ratio=energy_ratio,
        power_ratio=power_ratio,
        unknown={
            name: f"{name.removesuffix('_ratio')} is unknown in one of the two"
            for name, ratio in reasons.items()
            if ratio is None
        },
    )


def _ratio(mine: float | None, other: float | None) -> float | None:
    return None if mine is None or other is None else mine / other
