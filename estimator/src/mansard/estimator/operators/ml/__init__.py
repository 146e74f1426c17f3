"""Classical models: ai.onnx.ml. Importing registers the operators."""

# ruff: noqa: F401 (importing a family registers it)

from __future__ import annotations

from mansard.estimator.operators.ml import features, models, trees
