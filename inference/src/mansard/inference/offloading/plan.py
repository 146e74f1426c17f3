"""The plan of an offload run: blocks of samples, each in every way, in turn.

A block is measured in one way after the other, so that a machine which warms up or slows down
changes all of them alike, and a run that was cut off goes on after its last whole block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import (
    OFFLOAD_WAYS,
    OffloadRule,
    OffloadWay,
    Schema,
    ServedNetwork,
)
from mansard.inference.plan import NetworkTrial, PreparedSamples
from mansard.measuring.plan import PlannedTrial, RunPlan

BLOCK = 1000  # samples
MOST_BLOCKS = 5000


class OffloadTrial(PlannedTrial, frozen=True, kw_only=True):
    """One block of samples in one way; the fields are of ``OffloadRun``."""

    network: NetworkTrial
    weights_hash: str
    samples: PreparedSamples
    content: str  # a hash of the data set, whose samples are sent
    output: str  # that holds a score for each class
    n_classes: int
    address: str
    served: ServedNetwork
    rule: OffloadRule
    way: OffloadWay
    first: int
    n_samples: int

    @property
    def title(self) -> str:
        """What is shown while it is measured."""
        return f"{self.way}, samples {self.first + 1} to {self.first + self.n_samples}"


class OffloadPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of hierarchical inference with one server."""

    schema: ClassVar[Schema] = Schema("offload-plan", 1)
    kind: ClassVar[str] = "mansard.inference.offloading.trial:OFFLOADS"

    trials: tuple[OffloadTrial, ...]


def plan_blocks(whole: OffloadTrial, block: int) -> Iterator[OffloadTrial]:
    """The trials of all samples of ``whole``, ``block`` at a time; raises UsageError."""
    n = whole.samples.n_samples
    if -(-n // block) > MOST_BLOCKS:
        raise UsageError(
            f"{n:,} samples are more than {MOST_BLOCKS:,} blocks of {block}",
            fix=f"give --block {-(-n // MOST_BLOCKS)} or more",
        )
    for first in range(0, n, block):
        for way in OFFLOAD_WAYS:
            yield msgspec.structs.replace(
                whole, way=way, first=first, n_samples=min(block, n - first)
            )


def make_rule(threshold: float, logistic: tuple[float, float, float] | None) -> OffloadRule:
    """A rule; raises UsageError for a threshold that no confidence meets."""
    if not 0 <= threshold <= 1.5:  # NaN too; above 1 everything is offloaded
        raise UsageError(
            f"--threshold {threshold:g} is not between 0 and 1",
            fix="write --threshold 0.8, or 'mansard offload tune' finds the best",
        )
    unknown = {} if logistic is not None else {"logistic": "the confidence is p1"}
    return OffloadRule(threshold=threshold, logistic=logistic, unknown=unknown)
