"""Networks of the zoo in ONNX Runtime, for the tests of what they compute."""

from __future__ import annotations

import onnxruntime
from onnx import ModelProto, shape_inference, utils

from mansard.estimator.zoo.weights import with_random_weights
from tools.zoo.generate import build


def open_session(model: ModelProto) -> onnxruntime.InferenceSession:
    """The model on one thread of the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def cut(name: str, *ends: str) -> onnxruntime.InferenceSession:
    """A network up to these tensors, with random weights."""
    model = shape_inference.infer_shapes(build(name))
    inputs = [value.name for value in model.graph.input]
    part = utils.Extractor(model).extract_model(inputs, list(ends))
    return open_session(with_random_weights(part, seed=3))
