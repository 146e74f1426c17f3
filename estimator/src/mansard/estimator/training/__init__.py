"""What a training step adds to an inference pass: gradients, what is kept for them, updates."""

from __future__ import annotations

from mansard.estimator.training.backward import differentiable_tensors
from mansard.estimator.training.saved import (
    checkpoint_bytes,
    recomputed_nodes,
    saved_bytes,
    segment_of,
    training_peak_bytes,
)
from mansard.estimator.training.step import (
    NO_STEP,
    OPTIMIZERS,
    TrainingStep,
    state_bytes,
    training_step,
)

__all__ = [
    "NO_STEP",
    "OPTIMIZERS",
    "TrainingStep",
    "checkpoint_bytes",
    "differentiable_tensors",
    "recomputed_nodes",
    "saved_bytes",
    "segment_of",
    "state_bytes",
    "training_peak_bytes",
    "training_step",
]
