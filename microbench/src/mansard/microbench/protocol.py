"""The protocol of a trial on a machine that others may use too: how much, and when to stop."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from mansard.core.records import Record

Profile = Literal["quick", "full"]


class Protocol(Record, frozen=True, kw_only=True):
    """What every trial of a plan keeps to. Intervals are relative half widths at 95 %."""

    n_accepted_min: int  # samples
    n_blocks_min: int
    sample_s: float  # aimed length of one sample
    cpu_share_min: float  # CPU time over wall time of an accepted sample, on every thread
    fma_interval: float  # stop when the block medians are known to this
    stream_interval: float
    time_cap_s: float  # of one trial; what is not stable by then is reported as unstable


# The minima, the CPU share and the intervals are the protocol for shared machines that was
# found to bring medians from up to 34 % down to 3 to 9 % of the truth. A sample of 2 ms is
# long against the clock (tens of ns) and short against a scheduler's time slice (3 to 10 ms).
PROTOCOLS: MappingProxyType[Profile, Protocol] = MappingProxyType(
    {
        "quick": Protocol(
            n_accepted_min=80,
            n_blocks_min=8,
            sample_s=0.002,
            cpu_share_min=0.98,
            fma_interval=0.01,
            stream_interval=0.03,
            time_cap_s=1.5,
        ),
        "full": Protocol(
            n_accepted_min=200,
            n_blocks_min=20,
            sample_s=0.002,
            cpu_share_min=0.98,
            fma_interval=0.005,
            stream_interval=0.015,
            time_cap_s=8.0,
        ),
    }
)
