"""The ResNets behind NVIDIA's recorded engines that the zoo does not have.

PyTorch's ResNet-18 with quantisers, and Keras' ResNet-50 as tf2onnx writes it: channels
last at the input, the stride in a block's first convolution, padding as nodes of its own.
Weights have a shape and no values.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper

FLOAT, INT8 = TensorProto.FLOAT, TensorProto.INT8


class Sketch:
    """A graph that is being drawn; with ``is_quantized`` products read quantised tensors."""

    def __init__(self, is_quantized: bool) -> None:
        self.is_quantized = is_quantized
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []

    def node(self, op_type: str, inputs: Sequence[str], **attributes: object) -> str:
        name = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name, **attributes))
        return name

    def store(self, name: str, dims: Sequence[int], kind: int = FLOAT) -> str:
        self.stored.append(onnx.TensorProto(name=name, dims=dims, data_type=kind))
        return name

    def quantize(self, tensor: str) -> str:
        """Through int8 and back, by a scale that belongs to ``tensor``."""
        if not self.is_quantized:
            return tensor
        scale, zero = f"{tensor}.scale", f"{tensor}.zero"
        if not any(held.name == scale for held in self.stored):
            self.store(scale, ())
            self.store(zero, (), INT8)
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [tensor, scale, zero]), scale, zero])

    def weights(self, dims: Sequence[int]) -> str:
        name = f"weights_{len(self.nodes)}"
        if not self.is_quantized:
            return self.store(name, dims)
        self.store(name, dims, INT8)
        self.store(f"{name}.scale", dims[:1])
        return self.node("DequantizeLinear", [name, f"{name}.scale"], axis=0)

    def conv(self, tensor: str, shape: Sequence[int], stride: int, pad: int, bias: bool) -> str:
        inputs = [self.quantize(tensor), self.weights(shape)]
        if bias:
            inputs.append(self.store(f"bias_{len(self.nodes)}", shape[:1]))
        return self.node("Conv", inputs, strides=[stride] * 2, pads=[pad] * 4)

    def model(self, given: Sequence[int], made: str, opset: int = 17) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", FLOAT, given)],
            [helper.make_tensor_value_info(made, FLOAT, None)],
            self.stored,
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        data: bytes = proto.SerializeToString()
        return data


def quantized_resnet18(batch: int) -> bytes:
    """As NVIDIA's quantisation toolkit exports it: the residuals stay floats."""
    sketch = Sketch(is_quantized=True)
    tensor = sketch.node("Relu", [sketch.conv("x", (64, 3, 7, 7), 2, 3, True)])
    tensor = sketch.node("MaxPool", [tensor], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    width = 64
    for stage, n_channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            inner = sketch.conv(tensor, (n_channels, width, 3, 3), stride, 1, True)
            inner = sketch.node("Relu", [inner])
            inner = sketch.conv(inner, (n_channels, n_channels, 3, 3), 1, 1, True)
            skip = tensor
            if stride == 2:
                skip = sketch.conv(tensor, (n_channels, width, 1, 1), 2, 0, True)
            tensor = sketch.node("Relu", [sketch.node("Add", [inner, skip])])
            width = n_channels
    flat = sketch.node("Flatten", [sketch.node("GlobalAveragePool", [tensor])])
    inputs = [sketch.quantize(flat), sketch.weights((1000, 512)), sketch.store("bias", (1000,))]
    return sketch.model((batch, 3, 224, 224), sketch.node("Gemm", inputs, transB=1))


def keras_resnet50(batch: int, is_quantized: bool) -> bytes:
    """As TensorFlow's examples of TensorRT's engine explorer have it."""
    sketch = Sketch(is_quantized)
    tensor = "x"
    pads = sketch.store("pads", (8,), TensorProto.INT64)
    sketch.stored[-1].int64_data.extend([0, 0, 1, 1, 0, 0, 1, 1])
    if is_quantized:
        border = sketch.store("border", (8,), TensorProto.INT64)
        sketch.stored[-1].int64_data.extend([0, 3, 3, 0, 0, 3, 3, 0])
        tensor = sketch.quantize(sketch.node("Pad", [tensor, border]))
    tensor = sketch.node("Transpose", [tensor], perm=[0, 3, 1, 2])
    tensor = _stem(sketch, tensor, 0 if is_quantized else 3)
    tensor = sketch.node("Pad", [_again(sketch, tensor), pads])
    tensor = sketch.node("MaxPool", [tensor], kernel_shape=[3, 3], strides=[2, 2])
    width = 64
    for stage, n_blocks in enumerate((3, 4, 6, 3)):
        for block in range(n_blocks):
            stride = 2 if stage and not block else 1
            tensor = _bottleneck(sketch, tensor, width, 64 << stage, stride, block == 0)
            width = 256 << stage
    tensor = sketch.node("ReduceMean", [_again(sketch, tensor)], axes=[2, 3], keepdims=0)
    product = sketch.node("MatMul", [sketch.quantize(tensor), sketch.weights((2048, 1000))])
    scores = sketch.node("Add", [product, sketch.store("bias", (1000,))])
    return sketch.model((batch, 224, 224, 3), sketch.node("Softmax", [scores], axis=-1))


def _stem(sketch: Sketch, tensor: str, pad: int) -> str:
    inputs = [tensor, sketch.weights((64, 3, 7, 7)), sketch.store("stem_bias", (64,))]
    conv = sketch.node("Conv", inputs, strides=[2, 2], pads=[pad] * 4)
    return sketch.node("Relu", [conv])


def _again(sketch: Sketch, tensor: str) -> str:
    """Everything between two products is quantised too."""
    return sketch.quantize(tensor)


def _bottleneck(
    sketch: Sketch, tensor: str, width: int, inner: int, stride: int, is_first: bool
) -> str:
    outer = 4 * inner
    first = sketch.conv(tensor, (inner, width, 1, 1), stride, 0, True)
    first = sketch.node("Relu", [first])
    skip = tensor
    if is_first and sketch.is_quantized:
        skip = sketch.conv(tensor, (outer, width, 1, 1), stride, 0, True)
    second = sketch.node("Relu", [sketch.conv(first, (inner, inner, 3, 3), 1, 1, True)])
    third = sketch.conv(second, (outer, inner, 1, 1), 1, 0, True)
    if is_first and not sketch.is_quantized:
        skip = sketch.conv(tensor, (outer, width, 1, 1), stride, 0, True)
    return sketch.node("Relu", [sketch.node("Add", [third, _again(sketch, skip)])])
