"""Operators, one family a file: what their outputs look like, and what they cost.

Importing this registers those of ONNX's own domain; the others (``contrib``, ``ml``) are
registered when one of them is looked up.
"""

# ruff: noqa: F401 (importing a family registers it)

from __future__ import annotations

from mansard.estimator.operators import (
    attention,
    constants,
    control_flow,
    conv,
    elementwise,
    indexing,
    losses,
    matmul,
    movement,
    normalization,
    optimizers,
    pooling,
    quantization,
    recurrent,
    reduction,
    resampling,
    text,
    transforms,
)
from mansard.estimator.operators.registry import REGISTRY, Operator, Spec, operator, shape_of

__all__ = ["REGISTRY", "Operator", "Spec", "operator", "shape_of"]
