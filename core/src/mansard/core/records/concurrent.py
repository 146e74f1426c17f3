"""What was measured of several things at once: networks in stages, and demands on memory."""

from __future__ import annotations

from typing import ClassVar, Literal

from mansard.core.records.base import Record, Schema, Source
from mansard.core.records.trial import Conditions, EnergyWindow, Processor


class StageRun(Record, frozen=True, kw_only=True):
    """One stage of one network in a run of several: totals over the run's window.

    ``inference_s`` + ``transfer_s`` + ``wait_s`` is the time that its thread spent on it.
    """

    network: str
    network_number: int  # among those of the run: the same network may be there twice
    stage: int
    n_stages: int
    device: str  # as a mapping calls it: "gpu", "dla0", "cpu", "cpu:0-3"
    nodes: tuple[int, ...]  # of the network, by LayerScore.index; empty: all of them
    n_runs: int
    inference_s: float
    transfer_s: float
    input_wait_s: float  # for what the stage before it makes
    device_wait_s: float  # for its device or its turn
    output_wait_s: float  # for room before the next stage

    @property
    def wait_s(self) -> float:
        """All that it waited."""
        return self.input_wait_s + self.device_wait_s + self.output_wait_s


class RunNetwork(Record, frozen=True, kw_only=True):
    """One network of a run of several."""

    model: str
    model_hash: str
    precision: str
    batch: int | None
    dimensions: dict[str, int]
    n_stages: int
    n_runs: int  # that ended in the window
    # Of single runs, spread over the window; in rounds since the round began, as all of it do.
    latency_s: tuple[float, ...]


class Reading(Record, frozen=True, kw_only=True):
    """What was read of the machine again and again in a window."""

    name: str  # ``cpu0_share``, ``gpu_hz``, ``CPU-therm_temperature_c``
    low: float
    high: float
    mean: float


class MultiRun(Record, frozen=True, kw_only=True):
    """Several networks that ran at once for a while. Its energy is the run's, never a network's."""

    schema: ClassVar[Schema] = Schema("multi-run", 3)

    run_id: str
    trial_id: str
    source: Source
    mapping: str  # what it is called
    engine: str
    engine_version: str
    processor: Processor
    cpus: tuple[int, ...]
    way: Literal["threads", "processes"]
    order: Literal["pipelined", "in turn", "in step"]
    options: dict[str, str]  # that can change a time, of the engines and of the run
    networks: tuple[RunNetwork, ...]
    stages: tuple[StageRun, ...]
    window_s: float | None  # in which runs count, after warming up
    round_s: tuple[float, ...]  # in step: each network once, from the first start to the last end
    energy: EnergyWindow | None  # of the window; repetitions are runs of all networks
    other_cpu_share: float | None  # of the time of ``cpus`` in the window, that others had
    telemetry: tuple[Reading, ...]  # in the window; what cannot be read is not there
    memory_bytes: int | None  # peak resident
    failure: str | None  # why it could not be run
    conditions: Conditions
    disturbances: tuple[str, ...]
    started_utc: str
    duration_s: float


class ContentionPoint(Record, frozen=True, kw_only=True):
    """A demand on memory of one accelerator, beside the demand of another; bytes per second."""

    schema: ClassVar[Schema] = Schema("contention-point", 1)

    run_id: str
    trial_id: str
    source: Source
    processor: Processor
    victim: str  # the accelerator that is watched: "gpu", "cpu:0"
    aggressor: str  # that runs beside it
    victim_share: float  # of its own most, that it asks for
    aggressor_share: float  # likewise; 0: nothing runs beside it
    victim_fma_per_element: int  # by which it asks for that share: docs/understand/measuring.md
    aggressor_fma_per_element: int  # 0: nothing runs
    alone_byte_per_s: tuple[float, ...]  # of the victim alone, between the samples that follow
    achieved_byte_per_s: tuple[float, ...]  # of the victim beside the other, a sample each
    external_byte_per_s: tuple[float, ...]  # of the aggressor in the same samples
    n_rejected: int  # samples that other work interrupted, which are in none of these
    failure: str | None
    conditions: Conditions
    disturbances: tuple[str, ...]
    started_utc: str
    duration_s: float
