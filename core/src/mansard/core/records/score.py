"""What a network needs: counted layer by layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import msgspec

from mansard.core.records.base import Record, Schema, Source

Phase = Literal["inference", "training"]

# How keys and values of earlier tokens get new rows. "in-place": in the same memory, so that a step
# reads what is cached once and writes its own rows. "copied": all of them go into a new tensor.
KvCacheUpdate = Literal["in-place", "copied"]


class LayerScore(Record, frozen=True, kw_only=True, gc=False):
    """Work and traffic of one node of a network; counted, not measured.

    Counts are those of one pass of the network in its phase: a node in the body of a
    loop counts all its ``runs``, and in training forward, backward and update together. Fields
    ending in ``_flop`` count the operations of integers as FLOP.
    """

    index: int
    name: str
    op_type: str
    domain: str
    scope: str  # the graph it stands in: empty, or the nodes and attributes that hold it
    runs: int
    precision: str  # of the multiply-adds; where there are none, of the floating tensors
    unit: Literal["tensor core", "CUDA core", "none"]  # that could run the work on a GPU
    macs: int | None
    multiply_add_flop: int | None
    simple_flop: int | None
    function_flop: int | None
    work_flop: int | None  # the sum of the three classes
    backward_flop: int | None  # this much of the work
    update_flop: int | None  # and this much
    parameters: int | None
    weight_bytes: int | None
    input_bytes: int | None
    output_bytes: int | None
    read_bytes: int | None  # algorithmic traffic
    write_bytes: int | None
    traffic_bytes: int | None
    fused_group: int | None  # index of the node that heads its group
    fused_read_bytes: int | None
    fused_write_bytes: int | None
    fused_traffic_bytes: int | None
    cached_traffic_bytes: int | None
    saved_bytes: int | None  # kept by the forward pass for the backward one


# The fields of a LayerScore that add up over layers.
LAYER_COUNTS = (
    "macs",
    "multiply_add_flop",
    "simple_flop",
    "function_flop",
    "work_flop",
    "backward_flop",
    "update_flop",
    "parameters",
    "weight_bytes",
    "input_bytes",
    "output_bytes",
    "read_bytes",
    "write_bytes",
    "traffic_bytes",
    "fused_read_bytes",
    "fused_write_bytes",
    "fused_traffic_bytes",
    "cached_traffic_bytes",
    "saved_bytes",
)

Optimizer = Literal["none", "sgd", "momentum", "adam"]


UNKNOWN_LAYERS = "layers are unknown, from"  # in a note; options of `mansard score` follow


class ModelScore(Record, frozen=True, kw_only=True):
    """All layers of one network for one batch, precision and phase.

    With ``bounds`` every count is an upper bound: the network needs at most this.
    """

    schema: ClassVar[Schema] = Schema("score", 3)

    model: str
    model_hash: str  # SHA-256 without the weights: files with equal ones have equal scores
    source: Source
    phase: Phase
    batch: int | None
    precision: str
    dimensions: dict[str, int]
    trips: dict[str, int]  # how often each loop ran
    optimizer: Optimizer
    recompute: bool  # whether the backward pass computes the activations again
    cache_bytes: int | None  # the last-level cache that cached traffic is for
    # Peaks are of inputs, outputs and what is between them, without weights and kv_cache_bytes.
    peak_activation_bytes: int | None  # every operator writes a tensor of its own
    in_place_peak_bytes: int | None  # elementwise ones take over what nothing reads any more
    fused_peak_bytes: int | None  # only what fused groups read and write
    kv_cache_bytes: int | None  # keys and values that are there for the next token
    optimizer_state_bytes: int | None
    layers: tuple[LayerScore, ...]
    notes: tuple[str, ...]  # choices that were made where the file leaves one
    alternatives: tuple[LayerScore, ...]  # of branches that are not taken; in no sum
    bounds: dict[str, int] = msgspec.field(default_factory=dict)  # taken as upper bounds
    kv_cache_update: KvCacheUpdate | Literal["none"] = "copied"  # "none": there is no cache

    @property
    def general_notes(self) -> tuple[str, ...]:
        """The notes that every command can print.

        That on unknown layers advises options that ``mansard score`` alone has.
        """
        return tuple(text for text in self.notes if UNKNOWN_LAYERS not in text)


def named_notes(scores: Iterable[ModelScore]) -> tuple[str, ...]:
    """The general notes of all ``scores``, each once, behind the name of its network."""
    texts = (f"{score.model}: {text}" for score in scores for text in score.general_notes)
    return tuple(dict.fromkeys(texts))
