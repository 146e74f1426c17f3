"""Random small networks, for laws that hold for any network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
OPSET = 17
IMAGE = "image"  # the one input
_VALUE = helper.make_tensor_value_info

Shape = tuple[int, ...]


class Draft:
    """A network in the making; every tensor is [batch, channels, height, width]."""

    def __init__(self, channels: int, size: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []
        self.shapes: dict[str, Shape] = {IMAGE: (channels, size, size)}
        self.declared = _VALUE(IMAGE, FLOAT, ["batch", channels, size, size])

    def store(self, draw: st.DataObject, *dims: int) -> str:
        """A weight of zeros: a new one, or one that others use too."""
        alike = [one.name for one in self.stored if tuple(one.dims) == dims and one.name[0] == "w"]
        is_shared: bool = draw.draw(st.booleans())
        if alike and is_shared:
            return draw.draw(st.sampled_from(alike))
        return self.zeros("w", *dims)

    def zeros(self, kind: str, *dims: int) -> str:
        """A new stored tensor."""
        name, content = f"{kind}{len(self.stored)}", bytes(4 * prod(dims))
        self.stored.append(
            onnx.TensorProto(name=name, data_type=FLOAT, dims=dims, raw_data=content)
        )
        return name

    def integers(self, *values: int) -> str:
        name = f"i{len(self.stored)}"
        self.stored.append(helper.make_tensor(name, INT64, [len(values)], values))
        return name

    def add(self, op_type: str, inputs: Iterable[str], *shapes: Shape, **attributes: Any) -> str:
        names = [f"t{len(self.shapes) + i}" for i in range(len(shapes))]
        place = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), names, place, **attributes))
        self.shapes.update(zip(names, shapes, strict=True))
        return names[0]

    def model(self, batch: int | None = None) -> onnx.ModelProto:
        """The network; what nothing reads is an output. ``batch`` None leaves it open."""
        read = {name for node in self.nodes for name in node.input}
        ends = [name for name in self.shapes if name not in read and name != IMAGE]
        outputs = [_VALUE(name, FLOAT, None) for name in ends]
        declared = onnx.ValueInfoProto.FromString(self.declared.SerializeToString())
        if batch is not None:
            declared.type.tensor_type.shape.dim[0].dim_value = batch
        graph = helper.make_graph(self.nodes, "g", [declared], outputs, self.stored)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
        )


def _conv(net: Draft, x: str, draw: st.DataObject) -> None:
    channels, height, width = net.shapes[x]
    kernel = draw.draw(st.sampled_from([1, 3]))
    stride = draw.draw(st.sampled_from([1, 2]))
    is_depthwise = draw.draw(st.booleans())
    filters = channels if is_depthwise else draw.draw(st.sampled_from([2, 4, 6]))
    group = channels if is_depthwise else 1
    inputs = [x, net.store(draw, filters, channels // group, kernel, kernel)]
    inputs += [net.store(draw, filters)] if draw.draw(st.booleans()) else []
    out = (filters, (height - 1) // stride + 1, (width - 1) // stride + 1)
    pads = [kernel // 2] * 4
    strides = [stride, stride]
    net.add("Conv", inputs, out, group=group, pads=pads, strides=strides)


def _matmul(net: Draft, x: str, draw: st.DataObject) -> None:
    channels, height, width = net.shapes[x]
    out = draw.draw(st.sampled_from([2, 3, 8]))
    net.add("MatMul", [x, net.store(draw, width, out)], (channels, height, out))


def _pointwise(net: Draft, x: str, draw: st.DataObject) -> None:
    kind = draw.draw(st.sampled_from(["Relu", "Sigmoid", "Exp", "Identity", "HardSwish"]))
    net.add(kind, [x], net.shapes[x])


def _binary(net: Draft, x: str, draw: st.DataObject) -> None:
    alike = [name for name, shape in net.shapes.items() if shape == net.shapes[x]]
    other = draw.draw(st.sampled_from([*alike, "weight"]))
    if other == "weight":
        other = net.store(draw, net.shapes[x][0], 1, 1)
    net.add(draw.draw(st.sampled_from(["Add", "Mul", "Sub"])), [x, other], net.shapes[x])


def _concat(net: Draft, x: str, draw: st.DataObject) -> None:
    alike = [name for name, shape in net.shapes.items() if shape[1:] == net.shapes[x][1:]]
    other = draw.draw(st.sampled_from(alike))
    channels = net.shapes[x][0] + net.shapes[other][0]
    net.add("Concat", [x, other], (channels, *net.shapes[x][1:]), axis=1)


def _norm(net: Draft, x: str, draw: st.DataObject) -> None:
    channels, _, width = net.shapes[x]
    is_batch: bool = draw.draw(st.booleans())
    if is_batch or width == 1:  # a weight of one element is none in a Constant node
        # What is a statistic here and learned elsewhere would be what its first user says.
        vectors = [net.store(draw, channels) for _ in range(2)]
        vectors += [net.zeros("s", channels) for _ in range(2)]
        net.add("BatchNormalization", [x, *vectors], net.shapes[x])
    else:
        vectors = [net.store(draw, width) for _ in range(2)]
        net.add("LayerNormalization", [x, *vectors], net.shapes[x])


def _rows(net: Draft, x: str, draw: st.DataObject) -> None:
    net.add("Softmax", [x], net.shapes[x], axis=draw.draw(st.sampled_from([1, 2, 3])))


def _pool(net: Draft, x: str, draw: st.DataObject) -> None:
    channels, height, width = net.shapes[x]
    kind = draw.draw(st.sampled_from(["MaxPool", "AveragePool", "GlobalAveragePool"]))
    if kind == "GlobalAveragePool":
        net.add(kind, [x], (channels, 1, 1))
    else:
        out = (channels, (height - 1) // 2 + 1, (width - 1) // 2 + 1)
        shape = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
        net.add(kind, [x], out, **shape)


def _layout(net: Draft, x: str, draw: st.DataObject) -> None:
    channels, height, width = net.shapes[x]
    kind = draw.draw(st.sampled_from(["Transpose", "Reshape", "Split", "Slice", "Resize"]))
    if kind == "Transpose":
        net.add(kind, [x], (channels, width, height), perm=[0, 1, 3, 2])
    elif kind == "Reshape":
        shape = net.integers(0, channels, width, height)
        net.add(kind, [x, shape], (channels, width, height))
    elif kind == "Split" and channels > 3:
        half = channels // 2
        sizes = net.integers(half, channels - half)
        net.add(kind, [x, sizes], (half, height, width), (channels - half, height, width), axis=1)
    elif kind == "Slice" and height > 1:
        ends = [net.integers(value) for value in (1, height, 2)]
        net.add(kind, [x, *ends], (channels, height - 1, width))
    elif kind == "Resize" and width <= 8:
        if all(tensor.name != "double" for tensor in net.stored):
            net.stored.append(helper.make_tensor("double", FLOAT, [4], [1, 1, 2, 2]))
        net.add(kind, [x, "", "double"], (channels, 2 * height, 2 * width))


_KINDS: tuple[Callable[[Draft, str, st.DataObject], None], ...]
_KINDS = (_conv, _matmul, _pointwise, _binary, _concat, _norm, _rows, _pool, _layout)


def draw_network(draw: st.DataObject, max_nodes: int = 10) -> Draft:
    """A random network whose batch is open."""
    net = Draft(draw.draw(st.sampled_from([2, 4])), draw.draw(st.sampled_from([4, 5, 8])))
    for _ in range(draw.draw(st.integers(1, max_nodes))):
        names = list(net.shapes)
        # Mostly the latest tensor: chains are what fuses.
        x = draw.draw(st.sampled_from([*names, *names[-1:] * len(names)]))
        draw.draw(st.sampled_from(_KINDS))(net, x, draw)
    if not net.nodes:
        net.add("Relu", [IMAGE], net.shapes[IMAGE])
    return net
