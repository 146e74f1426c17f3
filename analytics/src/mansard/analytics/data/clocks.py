"""The clock that a GPU's SMs really ran at, and whether it held.

Where the mode locks the GPU's clock, a sample more than 1 % off the median of its trial, or a
median more than 1 % off the mode's clock, disturbs the trial (docs/energy.md). A clock that is
left to the governor may change: rates are then compared with the limit at the clock measured.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mansard.core.records import Trial

MOST_DRIFT = 0.01
_LOCKING = frozenset({"nvpmodel", "clocks", "card"})


def median_clock_hz(trial: Trial) -> float | None:
    """The SM clock of the median sample, Hz; None where the kernel did not measure it."""
    return float(np.median(trial.clock_hz)) if trial.clock_hz else None


def clock_disturbances(trial: Trial, run: Mapping[str, object]) -> tuple[str, ...]:
    """What the clocks of ``trial`` say against it; ``run`` is its row of the run frame.

    Nothing where the measuring side has said it already.
    """
    cap_hz, middle_hz = run["gpu_hz"], median_clock_hz(trial)
    said = any("clock" in reason for reason in trial.disturbances)
    if run["mode_kind"] not in _LOCKING or not isinstance(cap_hz, float) or said:
        return ()
    if not trial.clock_hz or middle_hz is None:
        return ()
    if any(abs(hz - middle_hz) > MOST_DRIFT * middle_hz for hz in trial.clock_hz):
        ends = f"{_mhz(min(trial.clock_hz))} and {_mhz(max(trial.clock_hz))}"
        return (f"the SM clock drifted between {ends}",)
    if abs(middle_hz - cap_hz) > MOST_DRIFT * cap_hz:
        return (f"the SM clock was {_mhz(middle_hz)} instead of {_mhz(cap_hz)}",)
    return ()


def _mhz(clock_hz: float) -> str:
    return f"{clock_hz / 1e6:.4g} MHz"
