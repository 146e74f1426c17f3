"""The protocol of a trial on a machine that others may use too: how much, and when to stop."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Literal

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import Record

Profile = Literal["brief", "quick", "full"]


class Protocol(Record, frozen=True, kw_only=True):
    """What every trial of a plan keeps to. Intervals are relative half widths at 95 %."""

    n_accepted_min: int  # samples
    n_blocks_min: int
    sample_s: float  # aimed length of one sample
    cpu_share_min: float  # CPU time over wall time of an accepted sample, on every thread
    fma_interval: float  # stop when the block medians are known to this
    stream_interval: float
    time_cap_s: float  # of one trial; what is not stable by then is reported as unstable
    # Where there is a meter, the kernel then runs without pause:
    n_energy_windows: int
    energy_window_s: float  # at least
    n_changed_min: int  # values that the sensor must change to in a window
    energy_window_cap_s: float  # a window that has not seen them by then has no energy
    settle_s: float  # stretches of this length, until the power of two in a row agrees
    settle_change: float  # to this, relative
    settle_cap_s: float
    idle_s: float  # of each idle window: before the first trial, half way, after the last

    @property
    def n_per_block(self) -> int:
        """Samples of a block."""
        return -(-self.n_accepted_min // self.n_blocks_min)


# The minima, the CPU share and the intervals are the protocol for shared machines that was
# found to bring medians from up to 34 % down to 3 to 9 % of the truth. A sample of 2 ms is
# long against the clock (tens of ns) and short against a scheduler's time slice (3 to 10 ms).
# The energy windows of "full" are the protocol for boards: 5 of at least 2 s and 20 changed
# values, once the power has settled to 0.5 %. "quick" and "brief" take what still gives 20 values
# of a sensor that changes ten times a second.
_FULL = Protocol(
    n_accepted_min=200,
    n_blocks_min=20,
    sample_s=0.002,
    cpu_share_min=0.98,
    fma_interval=0.005,
    stream_interval=0.015,
    time_cap_s=8.0,
    n_energy_windows=5,
    energy_window_s=2.0,
    n_changed_min=20,
    energy_window_cap_s=6.0,
    settle_s=1.0,
    settle_change=0.005,
    settle_cap_s=10.0,
    idle_s=10.0,
)
_QUICK = msgspec.structs.replace(
    _FULL,
    n_accepted_min=80,
    n_blocks_min=8,
    fma_interval=0.01,
    stream_interval=0.03,
    time_cap_s=1.5,
    n_energy_windows=1,
    energy_window_s=0.5,
    energy_window_cap_s=3.0,
    settle_s=0.2,
    settle_change=0.02,
    settle_cap_s=1.0,
    idle_s=2.0,
)
_BRIEF = msgspec.structs.replace(
    _QUICK,
    n_accepted_min=40,
    fma_interval=0.02,
    stream_interval=0.05,
    time_cap_s=0.6,
    energy_window_s=0.3,
    energy_window_cap_s=2.5,
    settle_s=0.1,
    settle_change=0.05,
    settle_cap_s=0.4,
    idle_s=1.0,
)
PROTOCOLS: MappingProxyType[Profile, Protocol] = MappingProxyType(
    {"brief": _BRIEF, "quick": _QUICK, "full": _FULL}
)


def find_protocol(profile: str) -> Protocol:
    """The protocol of ``profile``; raises UsageError for an unknown one."""
    for name, protocol in PROTOCOLS.items():
        if name == profile:
            return protocol
    raise UsageError(f"unknown profile {profile!r}", fix=f"use {' or '.join(PROTOCOLS)}")


MODE_CHANGE_S = 3.0  # nvpmodel, a query, the locks and their reading back: seconds on a board


def sweep_time(plans: Iterable[tuple[Protocol, int]], *, has_meter: bool = True) -> float:
    """Seconds that a sweep takes at most: for each mode its protocol and how many trials it lacks.

    Every trial is taken to use up its caps. A mode without missing trials is not visited, and
    takes no time; cooling down between modes is not counted.
    """
    total_s = 0.0
    for protocol, n_missing in plans:
        if n_missing < 1:
            continue
        trial_s, idle_s = protocol.time_cap_s, 0.0
        if has_meter:
            trial_s += protocol.n_energy_windows * protocol.energy_window_cap_s
            trial_s += protocol.settle_cap_s
            idle_s = 3 * protocol.idle_s  # three idle windows bracket a mode's trials
        total_s += MODE_CHANGE_S + idle_s + n_missing * trial_s
    return total_s
