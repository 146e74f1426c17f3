"""Operators outside ONNX's own domains: ONNX Runtime's, TensorRT's. Importing registers them."""

# ruff: noqa: F401 (importing a family registers it)

from __future__ import annotations

from mansard.estimator.operators.contrib import (
    attention,
    convolution,
    elementwise,
    experts,
    language,
    legacy,
    matmul,
    modelopt,
    movement,
    multihead,
    normalization,
    positions,
    quantization,
    recurrent,
    sparse,
    tensorrt,
)
