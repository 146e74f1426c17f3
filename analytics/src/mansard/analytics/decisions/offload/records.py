"""Requests and answers of hierarchical inference: plain records.

Shares and accuracies are between 0 and 1, times seconds and energies joules of one sample. "Low"
and "high" of shares, accuracies and costs span 95 % of samples drawn again (``thresholds``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import msgspec

from mansard.analytics.data.accuracies import Share
from mansard.core.records import DecisionTime, OffloadRule, Record, Schema, Source

# "given": by the user, who knows where it is from; "this host": measured, but not on the device.
CostSource = Literal["given", "this host"] | Source
Rule = Literal["threshold", "logistic", "published logistic", "never", "always", "random"]
BASELINES = frozenset[Rule]({"never", "always", "random"})
Quantity = Literal["latency", "energy", "accuracy"]
Objective = Literal["accuracy", "latency", "energy", "cost"]
OBJECTIVES: tuple[Objective, ...] = ("accuracy", "latency", "energy", "cost")
Holds = Literal["kept", "unknown", "broken"]
NOT_GIVEN = "no uncertainty was given"


class Amount(Record, frozen=True, kw_only=True):
    """A time (s) or an energy (J) of one sample. ``interval``: a key of model_frames.INTERVALS."""

    value: float
    low: float | None
    high: float | None
    interval: str | None
    source: CostSource


def make_amount(
    value: float,
    low: float | None = None,
    high: float | None = None,
    interval: str | None = None,
    source: CostSource = "given",
) -> Amount:
    """An ``Amount``; without ends and their kind its uncertainty is unknown."""
    kind = None if low is None or high is None else interval or "spread"
    missing = {"low": low, "high": high, "interval": kind}
    unknown = {name: NOT_GIVEN for name, field in missing.items() if field is None}
    return Amount(value=value, low=low, high=high, interval=kind, source=source, unknown=unknown)


class ModeCosts(Record, frozen=True, kw_only=True):
    """What a sample costs in one power mode; of the offload all that is added to the local run."""

    mode: str
    local_s: Amount | None
    decision_s: Amount | None
    offload_s: Amount | None
    local_j: Amount | None
    decision_j: Amount | None
    offload_j: Amount | None


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is wanted. A limit that is None is not set.

    ``offload_cost``: β, what an offloaded sample costs where a wrong one that was kept costs 1.
    ``probability``: how likely each limit has to hold.
    """

    minimise: Objective | None = None  # of the accuracy the most; None: what is not limited
    max_latency_s: float | None = None
    max_energy_j: float | None = None
    min_accuracy: float | None = None
    offload_cost: float | None = None
    probability: float = 0.9


class Logistic(Record, frozen=True, kw_only=True):
    """Offload when 1 / (1 + exp(−(intercept + w1·p1 + w2·p2))) is below the threshold.

    ``name``: "fitted", or whose coefficients they are.
    """

    name: str
    intercept: float
    w1: float
    w2: float


@dataclass(frozen=True, kw_only=True)
class HiSettings:
    """How the answer is made.

    ``held_out``: the share of samples that the choice is judged on; 0: the same as it is made on;
    None: a half. ``rule``: None: the best of all. ``published``: a logistic of others, beside the
    fitted one. ``is_balanced``: see ``fit_logistic``. ``n_bins``: of the calibration error.
    ``n_replayed``: samples of the online replay, drawn at random; 0: none.
    """

    held_out: float | None = None
    seed: int = 0
    rule: Rule | None = None
    published: Logistic | None = None
    is_balanced: bool = False
    n_bins: int = 15
    n_replayed: int = 0


class Limit(Record, frozen=True, kw_only=True):
    """A limit beside what was reached: kept or broken as likely as the goal asks, else unknown."""

    quantity: Quantity
    limit: float
    value: float | None
    holds: Holds


class HiPoint(Record, frozen=True, kw_only=True):
    """One rule at one threshold in one mode, on ``n`` samples.

    Offloads the samples whose confidence is below ``threshold``. ``accuracy`` lies between
    ``accuracy_least`` and ``accuracy_most``, as far as ``n_unanswered`` offloaded samples have no
    recorded answer. ``cost``: the mean of 1{kept and wrong} + β·1{offloaded}.
    """

    rule: Rule
    threshold: float | None
    mode: str
    n: int
    n_unanswered: int
    share: float
    share_low: float
    share_high: float
    accuracy: float | None
    accuracy_least: float
    accuracy_most: float
    accuracy_low: float
    accuracy_high: float
    latency: Amount | None
    energy: Amount | None
    cost: float | None
    cost_low: float | None
    cost_high: float | None
    limits: tuple[Limit, ...] = ()


class Gain(Record, frozen=True, kw_only=True):
    """The accuracy less that of a random offload of the same share; "low" and "high" paired."""

    accuracy: float
    low: float
    high: float


class Calibration(Record, frozen=True, kw_only=True):
    """Expected calibration error of probabilities, in ``n_bins`` bins of equal width.

    ``error_95``: what calibrated probabilities of as many samples stay below 95 times in 100;
    ``is_rejected``: the error is above it. If it is not, nothing can be told from these samples.
    ``bins``: lower edge, samples, mean probability and share that is right, of bins with samples.
    """

    of: str
    n_bins: int
    error: float
    error_95: float
    is_rejected: bool
    bins: tuple[tuple[float, int, float, float], ...]


class Replay(Record, frozen=True, kw_only=True):
    """An online policy simulated on recorded samples, in ``n_orders`` random orders.

    Its bound is our own: see ``policies``.

    ``regret``: its loss less that of the best fixed threshold on the same samples; mean over the
    orders, low and high their least and most. ``steps`` and ``regrets``: the mean on the way.
    """

    policy: Literal["HI-LCB", "HI-LCB-lite"]
    n: int
    n_orders: int
    offload_cost: float
    loss: float  # per sample
    best_loss: float  # per sample, of the best fixed threshold
    best_threshold: float
    regret: float
    regret_low: float
    regret_high: float
    share: float
    accuracy: float
    steps: tuple[int, ...]
    regrets: tuple[float, ...]


class Hierarchical(Record, frozen=True, kw_only=True):
    """The answer. Rules are chosen on ``n_fit`` samples and judged on ``n_judged``.

    ``is_held_out``: whether these are others. ``chosen``: judged; ``on_fit``: the same rule where
    it was chosen. ``verdict``: feasible where ``chosen`` keeps every limit on the judged samples,
    infeasible where it breaks one, unknown where another mode of ``modes_unknown`` may keep them:
    no threshold can be chosen there, for the reason beside it. ``rules``: each rule at its best
    threshold in the same mode, and the baselines. ``modes``: the best threshold of each mode.
    ``better_baseline``: never or always to offload, in its best mode, where it was better than
    every threshold on the samples to choose by. ``frontier``: the chosen rule over its thresholds.
    """

    schema: ClassVar[Schema] = Schema("hierarchical", 3, oldest=2)

    n_fit: int
    n_judged: int
    is_held_out: bool
    verdict: Literal["feasible", "infeasible", "unknown"]
    chosen: HiPoint | None
    on_fit: HiPoint | None
    local_accuracy: float
    remote_accuracy: float | None
    logistic: Logistic | None
    rules: tuple[HiPoint, ...] = ()
    modes: tuple[HiPoint, ...] = ()
    frontier: tuple[HiPoint, ...] = ()
    gain: Gain | None
    better_baseline: HiPoint | None
    calibration: tuple[Calibration, ...]
    replay: tuple[Replay, ...]
    costs: tuple[ModeCosts, ...]
    sentence: str = ""
    notes: tuple[str, ...] = ()
    modes_unknown: dict[str, str] = msgspec.field(default_factory=dict)
    n_searched: int = 0  # outputs that the timed decision searches; 0: it begins with p1 and p2


class LatencySpread(Record, frozen=True, kw_only=True):
    """How the latencies of ``n`` samples are spread; quantiles are samples' own, never between."""

    n: int
    mean_s: float
    median_s: float
    p90_s: float
    p99_s: float
    most_s: float


class MeasuredOffload(Record, frozen=True, kw_only=True):
    """Hierarchical inference as it ran with one server in one mode.

    ``n_samples`` were measured in all three ways, ``n_missing`` not yet. ``local`` and ``remote``
    are of the ways that keep and offload everything; ``all``, ``kept`` and ``offloaded`` of the
    rule. The means after them are of offloaded samples. ``error``: measured / predicted − 1.
    """

    schema: ClassVar[Schema] = Schema("measured-offload", 1)

    run_id: str
    machine: str
    mode: str
    model: str
    served: str
    address: str
    dataset: str
    rule: OffloadRule
    n_samples: int
    n_missing: int
    share: Share | None
    local_accuracy: Share | None
    remote_accuracy: Share | None
    accuracy: Share | None
    local: LatencySpread | None
    remote: LatencySpread | None
    all: LatencySpread | None
    kept: LatencySpread | None
    offloaded: LatencySpread | None
    round_trip_s: float | None
    server_s: float | None
    inference_s: float | None
    network_s: float | None  # of the round trip what the server does not say that it took
    sent_bytes: float | None
    received_bytes: float | None
    n_reconnects: int
    costs: ModeCosts
    predicted_latency: Amount | None
    latency_error: float | None
    energy: Amount | None  # J of a sample, of the board
    predicted_energy: Amount | None
    energy_error: float | None
    decisions: tuple[DecisionTime, ...]
    disturbances: tuple[str, ...]
