"""What hierarchical inference did end to end: a small network here, a larger one on a server."""

from __future__ import annotations

from typing import ClassVar, Literal

from mansard.core.records.base import Record, Schema, Source
from mansard.core.records.trial import Conditions, EnergyWindow, Processor

# "local": every sample by the small network; "remote": every one by the server; "hierarchical":
# each by the small network, and those below the threshold by the server as well.
OffloadWay = Literal["local", "remote", "hierarchical"]
OFFLOAD_WAYS: tuple[OffloadWay, ...] = ("local", "remote", "hierarchical")
ScoreKind = Literal["probabilities", "logits"]


class OffloadRule(Record, frozen=True, kw_only=True):
    """Offload a sample whose confidence is below ``threshold``.

    The confidence is p1, or with ``logistic`` (β, w1, w2) 1 / (1 + exp(−(β + w1·p1 + w2·p2))).
    """

    threshold: float
    logistic: tuple[float, float, float] | None


class ServedNetwork(Record, frozen=True, kw_only=True):
    """The network of an offload server, as the server describes it."""

    schema: ClassVar[Schema] = Schema("served-network", 1)

    model: str
    model_hash: str
    weights_hash: str
    engine: str
    engine_version: str
    provider: str
    precision: str
    n_classes: int
    preprocessing: str  # of images, in words
    takes_images: bool  # else tensors alone
    input_name: str
    input_type: str  # as NumPy calls it
    input_shape: tuple[int, ...]  # of one sample


class DecisionTime(Record, frozen=True, kw_only=True):
    """How long one decision takes: the two largest of ``n_classes`` outputs, and the rule."""

    n_classes: int
    seconds_s: tuple[float, ...]  # of one decision, the mean of each block


class OffloadRun(Record, frozen=True, kw_only=True):
    """A block of samples in one way in one power mode, sample by sample. Raw times, no medians.

    ``local``, ``p1``, ``p2``, ``local_s`` and ``decision_s`` have one number for each sample, and
    none where ``way`` is "remote". ``offloaded`` has the places of the offloaded samples within
    the block; the fields after it have one number for each of them.
    """

    schema: ClassVar[Schema] = Schema("offload-run", 1)

    run_id: str
    trial_id: str
    source: Source
    model: str
    model_hash: str
    weights_hash: str
    engine: str
    engine_version: str
    processor: Processor
    provider: str
    precision: str
    address: str  # of the server
    served: ServedNetwork
    dataset: str
    dataset_hash: str  # of the samples as the small network is fed, and their labels
    preprocessing: str  # of the small network, in words
    way: OffloadWay
    rule: OffloadRule
    scores: ScoreKind  # that the small network gives
    n_classes: int
    first: int  # of the samples, the first of the block
    n_samples: int
    labels: tuple[int, ...] | None
    predicted: tuple[int, ...]  # the answer in the end
    latency_s: tuple[float, ...]  # from the stored pixels or numbers to the answer
    local: tuple[int, ...]  # the small network's class
    p1: tuple[float, ...]
    p2: tuple[float, ...]
    local_s: tuple[float, ...]  # pixels normalised, and the small network run
    decision_s: tuple[float, ...]
    offloaded: tuple[int, ...]
    round_trip_s: tuple[float, ...]  # from the request to the answer
    server_s: tuple[float, ...]  # of these, from the whole request to the answer, by the server
    inference_s: tuple[float, ...]  # of these, the larger network, by the server
    sent_bytes: tuple[int, ...]  # body of the request, without HTTP's headers
    received_bytes: tuple[int, ...]  # likewise of the answer
    n_reconnects: int  # the server had closed an idle connection
    decisions: tuple[DecisionTime, ...]  # of several numbers of classes; in the first block alone
    energy: EnergyWindow | None  # of the board while the block ran; repetitions are samples
    conditions: Conditions
    disturbances: tuple[str, ...]
    started_utc: str
    duration_s: float
