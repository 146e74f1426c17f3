"""All formulas outside ONNX's own domain: importing this registers them."""

from __future__ import annotations

from mansard.estimator.formulas import (
    contrib_attention,
    contrib_convolution,
    contrib_elementwise,
    contrib_experts,
    contrib_legacy,
    contrib_matmul,
    contrib_movement,
    contrib_multihead,
    contrib_normalization,
    contrib_packed,
    contrib_paged,
    contrib_positions,
    contrib_quantization,
    contrib_recurrent,
    contrib_refused,
    contrib_states,
    contrib_tensorrt,
    contrib_trt_quantization,
    ml_features,
    ml_models,
)

__all__ = [
    "contrib_attention",
    "contrib_convolution",
    "contrib_elementwise",
    "contrib_experts",
    "contrib_legacy",
    "contrib_matmul",
    "contrib_movement",
    "contrib_multihead",
    "contrib_normalization",
    "contrib_packed",
    "contrib_paged",
    "contrib_positions",
    "contrib_quantization",
    "contrib_recurrent",
    "contrib_refused",
    "contrib_states",
    "contrib_tensorrt",
    "contrib_trt_quantization",
    "ml_features",
    "ml_models",
]
