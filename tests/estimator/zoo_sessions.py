"""Networks of the zoo in ONNX Runtime, for the tests of what they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import ModelProto, helper, shape_inference, utils

from mansard.estimator.zoo.weights import Array, draw, fill, take_out_weights
from tools.zoo.generate import build

if TYPE_CHECKING:
    import onnxruntime

SIBLINGS = {
    *("bert_large", "efficientnet_b1", "efficientnet_b2", "mnasnet0_5", "regnet_x_3_2gf"),
    *("regnet_x_400mf", "regnet_x_800mf", "regnet_y_1_6gf", "regnet_y_800mf", "resnet34"),
    *("resnet101", "resnet152", "shufflenet_v2_x0_5", "squeezenet1_0", "vgg19", "yolov8s"),
    "tinyllama_1_1b",
}
"""Networks that are not run: the same functions draw others, which are (a small Llama)."""


def open_session(model: ModelProto) -> onnxruntime.InferenceSession:
    """The model on one thread of the CPU."""
    import onnxruntime

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


def with_random_weights(model: ModelProto, seed: int) -> ModelProto:
    """A copy of ``model`` whose ``ConstantOfShape`` weights are random initialisers."""
    result = ModelProto()
    result.CopyFrom(model)
    fill(result.graph, take_out_weights(result.graph), seed)
    return result


def separate_weights(model: ModelProto, seed: int) -> tuple[ModelProto, dict[str, Array]]:
    """A copy of ``model`` that takes its weights as inputs, and random ones to feed it."""
    result = ModelProto()
    result.CopyFrom(model)
    missing = take_out_weights(result.graph)
    for name, (shape, _, data_type) in missing.items():
        result.graph.input.append(helper.make_tensor_value_info(name, data_type, shape))
    return result, dict(draw(missing, seed))
