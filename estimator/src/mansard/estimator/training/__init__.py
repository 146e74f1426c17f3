"""What a training step adds to an inference pass: gradients, what is kept for them, updates."""

from __future__ import annotations

from mansard.estimator.training.gradients import differentiable_tensors
from mansard.estimator.training.memory import training_peak_bytes
from mansard.estimator.training.optimizers import OPTIMIZERS, state_bytes
from mansard.estimator.training.saved import saved_bytes
from mansard.estimator.training.segments import checkpoint_bytes, recomputed_nodes, segment_of
from mansard.estimator.training.step import NO_STEP, Step, training_step

__all__ = [
    "NO_STEP",
    "OPTIMIZERS",
    "Step",
    "checkpoint_bytes",
    "differentiable_tensors",
    "recomputed_nodes",
    "saved_bytes",
    "segment_of",
    "state_bytes",
    "training_peak_bytes",
    "training_step",
]
