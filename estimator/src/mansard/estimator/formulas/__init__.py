"""Formulas, one operator family a file. Importing this registers all of them."""

from __future__ import annotations

from mansard.estimator.formulas import (
    attention,
    control_flow,
    conv,
    drawing,
    elementwise,
    interpolation,
    losses,
    matmul,
    movement,
    normalization,
    optimizers,
    picking,
    placing,
    pooling,
    quantization,
    recurrent,
    reduction,
    text,
    transforms,
)
from mansard.estimator.formulas.registry import FORMULAS, register

__all__ = [
    "FORMULAS",
    "attention",
    "control_flow",
    "conv",
    "drawing",
    "elementwise",
    "interpolation",
    "losses",
    "matmul",
    "movement",
    "normalization",
    "optimizers",
    "picking",
    "placing",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "register",
    "text",
    "transforms",
]
