"""Formulas, one operator family a file. Importing this registers all of them."""

from __future__ import annotations

from mansard.estimator.formulas import (
    attention,
    conv,
    elementwise,
    matmul,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
)
from mansard.estimator.formulas.registry import FORMULAS, register

__all__ = [
    "FORMULAS",
    "attention",
    "conv",
    "elementwise",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "register",
]
