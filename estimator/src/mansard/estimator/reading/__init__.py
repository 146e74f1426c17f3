"""Reading ONNX files, from bytes to a Model, without the ``onnx`` package."""

from __future__ import annotations

from mansard.estimator.reading.files import read_model, read_source

__all__ = ["read_model", "read_source"]
