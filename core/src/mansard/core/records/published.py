"""What others published of a device: taken from their tables, not measured here."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

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

    Operations of integers count as FLOP.

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


class PublishedRun(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One network that others ran in a mode: the latency of a batch, and the power.

    ``figures``: what else the file says, by names that end in SI units: ``samples`` that the
    latency is the median of, their ``deviation_s``, ``tokens_per_s``. What is not said is absent.
    Those of language models are ``prompt_tokens``, ``generated_tokens``, ``depth_tokens`` (cached
    before the test), ``concurrency``, ``first_token_s``, ``token_s`` (of each token after the
    first), ``prefill_tokens_per_s``, ``decode_tokens_per_s``, ``model_size_bytes``,
    ``model_parameters``, ``energy_per_token_j``; and ``first_token_p99_s`` and the like.

    ``weights``: how they are stored, a name that ``core.weight_formats`` knows; "" where nothing
    says it. ``precision`` is then what their products run in.
    """

    schema: ClassVar[Schema] = Schema("published-run", 3, oldest=2)

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
    figures: dict[str, float] = msgspec.field(default_factory=dict)
    weights: str = ""


# "layer": the nodes in ``parts``, and no others. "region": all nodes between the first and the last
# part, or nodes that the file does not name. "engine": added by the engine, as a reformat copy is.
LayerKind = Literal["layer", "region", "engine"]


class PublishedLayer(Record, frozen=True, kw_only=True):
    """One layer of a network as the engine of others ran it, or as that engine lists it."""

    schema: ClassVar[Schema] = Schema("published-layer", 1)

    table_id: str
    row: int
    device: str
    processor: Processor
    citation: str
    mode: PublishedMode
    network: str
    batch: int | None
    precision: str | None  # of the network
    index: int  # in the order of the file
    name: str  # as the engine calls it
    parts: tuple[str, ...]  # the network's nodes in it, by their names
    kind: LayerKind
    op_type: str | None  # as the engine calls it
    layer_precision: str | None  # of what it writes
    tactic: str | None  # the kernel that the engine chose
    mean_s: float | None  # of one call of the network
    median_s: float | None
    share: float | None  # of the time of all layers
    runs: int | None  # calls that were timed
    method: str | None
