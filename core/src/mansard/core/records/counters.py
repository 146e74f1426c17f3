"""What a GPU's hardware counters say of the kernels that a network launched."""

from __future__ import annotations

from typing import ClassVar, Literal

from mansard.core.records.base import Record, Schema, Source
from mansard.core.records.score import Phase
from mansard.core.records.trial import Conditions

# "memory": the DRAM by its own counters; where there are none (Tegra) what crosses the L2 cache's
# side to the system's memory, an upper bound of the DRAM's.
MemoryLevel = Literal["L1", "L2", "memory"]


class WorkCount(Record, frozen=True, kw_only=True):
    """FLOP of one precision on one unit; a multiply-add is two, an operation of integers is one.

    ``formula``: of the metrics. ``error``: how far ``flop`` may be off at most, as a share of it,
    because it was made of rates as they were printed; 0 where instructions were counted.
    """

    unit: Literal["tensor core", "CUDA core"]
    precision: str
    flop: float
    formula: str
    error: float = 0.0


class TrafficCount(Record, frozen=True, kw_only=True):
    """Bytes that crossed one level of memory; ``traffic_bytes`` is both directions.

    ``error``: as in WorkCount.
    """

    level: MemoryLevel
    read_bytes: float | None
    write_bytes: float | None
    traffic_bytes: float | None
    formula: str
    error: float = 0.0


class KernelCounters(Record, frozen=True, kw_only=True):
    """One kernel launch as Nsight Compute counted it, or the mean of ``n_launches`` alike.

    ``work_flop`` is the sum of ``work``, and None where a unit that ran was not counted.
    ``pagoda_flop`` is the work by the rule of Pagoda's ``ert_method.py``, for comparison.
    """

    schema: ClassVar[Schema] = Schema("kernel-counters", 2)

    table_id: str  # hash of an imported file's rows; of a measured one the run's id
    row: int  # line of the export at which the launch begins
    source: Source
    device: str
    citation: str | None  # of a published export
    mode: str  # power mode
    network: str | None
    model_hash: str | None  # as that of ModelScore
    batch: int | None
    precision: str | None  # of the network
    phase: Phase
    iteration: int | None  # which call of the network, from 0
    index: int  # in the order of launching
    n_launches: int
    kernel: str
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    compute_capability: int | None  # 87 is 8.7
    n_sms: int | None
    nvtx: tuple[str, ...] | None  # ranges around the launch, outermost first
    nodes: tuple[int, ...] | None  # that it ran, by LayerScore.index; empty: the engine added it
    time_s: float | None
    clocks_hz: dict[str, float]  # that really ran: "gpc", "sm", "l2", "memory"
    sm_cycles: float | None  # elapsed, the mean of the SMs
    work: tuple[WorkCount, ...]
    work_flop: float | None
    pagoda_flop: float | None
    traffic: tuple[TrafficCount, ...]
    tool: str | None  # with its version


class CounterRun(Record, frozen=True, kw_only=True):
    """A network that was run under Nsight Compute; its counters are the table ``export``."""

    schema: ClassVar[Schema] = Schema("counter-run", 1)

    run_id: str
    trial_id: str
    source: Source
    model: str
    model_hash: str  # as that of ModelScore: without the weights
    phase: Phase
    engine: str
    engine_version: str
    provider: str
    options: dict[str, str]  # of the engine
    precision: str
    batch: int | None
    dimensions: dict[str, int]
    inputs: str  # what it was fed, in words
    tool: str  # with its version
    chip: str  # as ``ncu --list-chips`` calls it
    metrics: tuple[str, ...]
    lacking: tuple[str, ...]  # what the chip has no metric for: ``core/formats/ncu.py``
    n_calls: int  # that were counted; a few before them were not
    cache_control: Literal["all", "none"]  # which caches are emptied before each kernel
    export: str | None  # raw page as CSV, in the folder of the run
    failure: str | None  # why it could not be run; no table then
    conditions: Conditions
    started_utc: str
    duration_s: float
