"""What others published of a device: taken from their tables, not measured here."""

from __future__ import annotations

from typing import ClassVar, Literal

from mansard.core.records.base import Record, Schema
from mansard.core.records.score import Phase
from mansard.core.records.trial import Processor

RateQuantity = Literal["peak", "bandwidth", "launch"]
RateWorkUnit = Literal["tensor core", "CUDA core", ""]


class PublishedMode(Record, frozen=True, kw_only=True):
    """A power mode as a table names it; clocks in hertz, power in watts."""

    name: str
    gpu_hz: float | None
    memory_hz: float | None
    cpu_hz: float | None
    n_sms: int | None
    n_cpus: int | None
    power_limit_w: float | None


class PublishedRate(Record, frozen=True, kw_only=True):
    """One figure of what a device does in a mode: FLOP/s, B/s, or the seconds of a launch.

    ``table_id`` is the same for all rows of one table; ``row`` is where it stood there.
    """

    schema: ClassVar[Schema] = Schema("published-rate", 1)

    table_id: str
    row: int
    device: str
    processor: Processor
    citation: str
    mode: PublishedMode
    quantity: RateQuantity
    subject: str  # a precision, a memory level, or "" of a launch
    unit: RateWorkUnit  # of a peak; else ""
    value: float  # FLOP/s, B/s or s
    method: str | None  # how they came by it: a kernel, a library


class PublishedRun(Record, frozen=True, kw_only=True):
    """One network that others ran in a mode: the latency of a batch, and the power."""

    schema: ClassVar[Schema] = Schema("published-run", 1)

    table_id: str
    row: int
    device: str
    processor: Processor
    citation: str
    mode: PublishedMode
    network: str
    batch: int | None
    precision: str | None
    phase: Phase
    latency_s: float | None  # of one batch
    power_w: float | None  # mean
    method: str | None
    remark: str | None  # why the power of this row is to be doubted
