"""Shape rules, one operator family a file. Importing this registers all of them."""

from __future__ import annotations

from mansard.estimator.shapes import (
    attention,
    constants,
    contraction,
    convolution,
    elementwise,
    indexing,
    joining,
    layout,
    losses,
    normalization,
    optimizers,
    placing,
    pooling,
    quantization,
    recurrent,
    reduction,
    resampling,
    text,
    transforms,
)
from mansard.estimator.shapes.registry import find_rule, rule, rules

__all__ = [
    "attention",
    "constants",
    "contraction",
    "convolution",
    "elementwise",
    "find_rule",
    "indexing",
    "joining",
    "layout",
    "losses",
    "normalization",
    "optimizers",
    "placing",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "resampling",
    "rule",
    "rules",
    "text",
    "transforms",
]
