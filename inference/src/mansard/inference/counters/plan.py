"""The plan of a run of counters, as a record: which networks, and which metrics of them."""

from __future__ import annotations

from typing import ClassVar, Literal

from mansard.core.records import Schema
from mansard.inference.plan import NetworkTrial
from mansard.measuring.plan import RunPlan

# Whether the caches are emptied before each kernel, so that what it reads comes from the memory.
CacheControl = Literal["all", "none"]


class CounterTrial(NetworkTrial, frozen=True, kw_only=True):
    """One network to be run under Nsight Compute; the fields are those of ``CounterRun``."""

    chip: str
    metrics: tuple[str, ...]
    lacking: tuple[str, ...]
    n_calls: int
    cache_control: CacheControl = "all"


class CounterPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of counters."""

    schema: ClassVar[Schema] = Schema("counter-plan", 1)
    kind: ClassVar[str] = "mansard.inference.counters.trial:COUNTERS"

    trials: tuple[CounterTrial, ...]
