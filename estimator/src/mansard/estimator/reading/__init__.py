"""Reading ONNX files. Nothing else in the estimator, but the zoo, imports onnx."""

from __future__ import annotations

from mansard.estimator.reading.files import read_model, read_source

__all__ = ["read_model", "read_source"]
