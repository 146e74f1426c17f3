"""The ResNet behind NVIDIA's recorded engines that the zoo does not have.

Keras' ResNet-50 as tf2onnx writes it: channels last at the input, the stride in a block's
first convolution, padding as nodes of its own. Weights have a shape and no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

FLOAT, HALF, INT8 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8


class Sketch:
    """A graph that is being drawn, in floats of type ``kind``.

    With ``is_quantized`` products read quantised tensors, by a scale that belongs to
    the tensor.
    """

    def __init__(self, kind: int = FLOAT, is_quantized: bool = False):
        self.kind, self.is_quantized = kind, is_quantized
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, onnx.TensorProto] = {}
        self.quantized: dict[str, str] = {}

    def node(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name, **attributes))
        return name

    def store(self, name: str, dims: Sequence[int], kind: int | None = None) -> str:
        self.stored[name] = onnx.TensorProto(name=name, dims=dims, data_type=kind or self.kind)
        return name

    def integers(self, name: str, values: Sequence[int]) -> str:
        self.store(name, (len(values),), TensorProto.INT64)
        self.stored[name].int64_data.extend(values)
        return name

    def quantize(self, tensor: str) -> str:
        """Through int8 and back."""
        if not self.is_quantized:
            return tensor
        if tensor in self.quantized:
            return self.quantized[tensor]
        scale = self.store(f"{tensor}.scale", ())
        zero = self.store(f"{tensor}.zero", (), INT8)
        narrow = self.node("QuantizeLinear", [tensor, scale, zero])
        self.quantized[tensor] = self.node("DequantizeLinear", [narrow, scale, zero])
        return self.quantized[tensor]

    def weights(self, dims: Sequence[int]) -> str:
        name = f"weights_{len(self.nodes)}"
        if not self.is_quantized:
            return self.store(name, dims)
        self.store(name, dims, INT8)
        scale = self.store(f"{name}.scale", dims[:1])
        return self.node("DequantizeLinear", [name, scale], axis=0)

    def conv(self, tensor: str, shape: Sequence[int], stride: int, pad: int) -> str:
        bias = self.store(f"bias_{len(self.nodes)}", shape[:1])
        inputs = [self.quantize(tensor), self.weights(shape), bias]
        return self.node("Conv", inputs, strides=[stride] * 2, pads=[pad] * 4)

    def relu(self, *tensors: str) -> str:
        """Of a tensor, or of the sum of two."""
        return self.node("Relu", [self.node("Add", tensors)] if len(tensors) > 1 else tensors)

    def model(self, given: Sequence[int], made: str) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", FLOAT, given)],
            [helper.make_tensor_value_info(made, self.kind, None)],
            list(self.stored.values()),
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
        data: bytes = proto.SerializeToString()
        return data


def keras_resnet50(batch: int, kind: int = FLOAT, is_quantized: bool = False) -> bytes:
    """As in the TensorFlow examples of TensorRT's engine explorer; the input is fp32."""
    sketch = Sketch(kind, is_quantized)
    tensor = "x"
    if is_quantized:
        border = sketch.integers("border", [0, 3, 3, 0, 0, 3, 3, 0])
        tensor = sketch.quantize(sketch.node("Pad", [tensor, border]))
    tensor = sketch.node("Transpose", [tensor], perm=[0, 3, 1, 2])
    if kind != FLOAT:
        tensor = sketch.node("Cast", [tensor], to=kind)
    sketch.quantized[tensor] = tensor  # it is so already
    tensor = sketch.relu(sketch.conv(tensor, (64, 3, 7, 7), 2, 0 if is_quantized else 3))
    pads = sketch.integers("pads", [0, 0, 1, 1, 0, 0, 1, 1])
    tensor = sketch.node("Pad", [sketch.quantize(tensor), pads])
    tensor = sketch.node("MaxPool", [tensor], kernel_shape=[3, 3], strides=[2, 2])
    width = 64
    for stage, n_blocks in enumerate((3, 4, 6, 3)):
        for block in range(n_blocks):
            stride = 2 if stage and not block else 1
            tensor = _bottleneck(sketch, tensor, width, 64 << stage, stride)
            width = 256 << stage
    tensor = sketch.node("ReduceMean", [sketch.quantize(tensor), sketch.integers("axes", [2, 3])])
    tensor = sketch.node("Flatten", [tensor])
    product = sketch.node("MatMul", [sketch.quantize(tensor), sketch.weights((2048, 1000))])
    scores = sketch.node("Add", [product, sketch.store("bias", (1000,))])
    return sketch.model((batch, 224, 224, 3), sketch.node("Softmax", [scores], axis=-1))


def _bottleneck(sketch: Sketch, tensor: str, width: int, inner: int, stride: int) -> str:
    outer, skip = 4 * inner, tensor
    made = sketch.relu(sketch.conv(tensor, (inner, width, 1, 1), stride, 0))
    if width != outer and sketch.is_quantized:
        skip = sketch.conv(tensor, (outer, width, 1, 1), stride, 0)
    made = sketch.relu(sketch.conv(made, (inner, inner, 3, 3), 1, 1))
    made = sketch.conv(made, (outer, inner, 1, 1), 1, 0)
    if width != outer and not sketch.is_quantized:
        skip = sketch.conv(tensor, (outer, width, 1, 1), stride, 0)
    return sketch.relu(made, sketch.quantize(skip))
