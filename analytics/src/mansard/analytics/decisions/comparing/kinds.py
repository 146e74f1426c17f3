"""The kinds of quantities that are compared: which way is better, and what is allowed by default.

By default a time may rise by 5 %, an energy by 3 %, memory, the tail of times and the time to first
token by 10 %; a rate may fall by 5 %. These are choices, not measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Kind = Literal[
    "p50",
    "p99",
    "first-token",
    "token-time",
    "rate",
    "energy",
    "memory",
    "metric",
    "peak",
    "bandwidth",
    "cost",
    "layer",
]


class KindTraits(NamedTuple):
    """``better``: "" for a metric of the user's, which may not change in either direction."""

    words: str  # behind the name of what was measured
    better: Literal["lower", "higher", ""]
    allowed: float  # a share


KINDS: Mapping[Kind, KindTraits] = MappingProxyType(
    {
        "p50": KindTraits("time", "lower", 0.05),
        "p99": KindTraits("99th percentile of 100 calls", "lower", 0.1),
        "first-token": KindTraits("time to first token", "lower", 0.1),
        "token-time": KindTraits("time per output token", "lower", 0.05),
        "rate": KindTraits("rate", "higher", 0.05),
        "energy": KindTraits("energy", "lower", 0.03),
        "memory": KindTraits("peak memory", "lower", 0.1),
        "metric": KindTraits("metric", "", 0.05),
        "peak": KindTraits("", "higher", 0.05),
        "bandwidth": KindTraits("", "higher", 0.05),
        "cost": KindTraits("", "lower", 0.1),
        "layer": KindTraits("", "lower", 0.1),
    }
)
