"""Networks that others ran under Nsight Compute, built of the layers and sizes that kernels show.

Grids, tiles and bytes say the sizes; each function says which (docs/results/counters.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import TensorProto, helper

from mansard.core.records import ModelScore
from mansard.estimator import score


@dataclass
class Network:
    """An ONNX graph without weights' values, one node after the other."""

    element: int = TensorProto.FLOAT
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)

    def input(self, name: str, shape: Sequence[int]) -> str:
        """An input of the network."""
        self.inputs.append(helper.make_tensor_value_info(name, self.element, shape))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output; its name is the output's."""
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        """A weight, as a constant of its shape: no values are kept."""
        value = helper.make_tensor("value", self.element, (1,), [0.0])
        return self.node("ConstantOfShape", self.integers(*shape), value=value)

    def integers(self, *values: int) -> str:
        """A constant of integers, such as a shape."""
        tensor = helper.make_tensor("value", TensorProto.INT64, (len(values),), values)
        return self.node("Constant", value=tensor)

    def split(self, x: str, n: int) -> list[str]:
        """``x`` in ``n`` parts of its last axis."""
        names = [f"{x}_{at}" for at in range(n)]
        self.nodes.append(helper.make_node("Split", [x], names, axis=-1, num_outputs=n))
        return names

    def linear(self, x: str, n_in: int, n_out: int) -> str:
        """``x`` times a weight, with a bias."""
        return self.node("Gemm", x, self.weight(n_in, n_out), self.weight(n_out))

    def file(self, output: str) -> bytes:
        """The ONNX file of it."""
        end = helper.make_tensor_value_info(output, self.element, None)
        graph = helper.make_graph(self.nodes, "network", self.inputs, [end])
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        return bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())

    def score(self, output: str, precision: str = "fp32") -> ModelScore:
        """What is estimated of it."""
        return score(self.file(output), precision=precision)


def deeponet() -> tuple[Network, str]:
    """Branch 14700-512-512-512-128 at one function, trunk 6-256-256-256-128 at 281 × 281 points.

    The trunk runs on 32768, 32768 and 13425 points: grids of 512, 512 and 210 tiles of 64 rows.
    """
    net = Network(TensorProto.FLOAT16)
    branch = net.input("function", (1, 14700))
    for n_in, n_out in ((14700, 512), (512, 512), (512, 512)):
        branch = net.node("Gelu", net.linear(branch, n_in, n_out))
    branch = net.node("Reshape", net.linear(branch, 512, 128), net.integers(128, 1))
    found: list[str] = []
    for number, n_points in enumerate((32768, 32768, 13425)):
        trunk = net.input(f"points{number}", (n_points, 6))
        for n_in in (6, 256, 256):
            trunk = net.node("Gelu", net.linear(trunk, n_in, 256))
        found.append(net.node("MatMul", net.linear(trunk, 256, 128), branch))
    return net, net.node("Concat", *found, axis=0)


def attention() -> tuple[Network, str]:
    """Self-attention of 2 sequences of 20 tokens, 256 wide, 8 heads of 32, as PyTorch runs it.

    Copies of 40 kB around each of four products of 40 × 256 by 256 × 256; Softmax of 25.6 kB.
    """
    net = Network()
    found: list[str] = []
    for _ in range(3):
        tokens = net.input(f"tokens{len(found)}", (20, 2, 256))
        product = net.node(
            "MatMul", net.node("Transpose", tokens, perm=[1, 0, 2]), net.weight(256, 256)
        )
        found.append(net.node("Add", product, net.weight(256)))
    # Heads are views there: only the copies that it makes are nodes here.
    q, v = (net.node("Reshape", each, net.integers(2, 8, 20, 32)) for each in (found[0], found[2]))
    k = net.node("Reshape", found[1], net.integers(2, 8, 32, 20))
    weights = net.node("Softmax", net.node("MatMul", net.node("Mul", q, net.weight(1)), k), axis=-1)
    heads = net.node("Transpose", net.node("MatMul", weights, v), perm=[0, 2, 1, 3])
    net.linear(net.node("Reshape", heads, net.integers(40, 256)), 256, 256)
    mean = net.node(
        "Mul", net.node("ReduceSum", weights, net.integers(1), keepdims=0), net.weight(1)
    )
    return net, mean


def flash_attention() -> tuple[Network, str]:
    """The same with one packed product before and a fused kernel for all heads."""
    net = Network(TensorProto.FLOAT16)
    tokens = net.input("tokens", (40, 256))
    packed = net.linear(tokens, 256, 768)
    q, k, v = net.split(net.node("Reshape", packed, net.integers(2, 20, 768)), 3)
    heads = net.node("MultiHeadAttention", q, k, v, domain="com.microsoft", num_heads=8)
    return net, net.linear(net.node("Reshape", heads, net.integers(40, 256)), 256, 256)


def fno() -> tuple[Network, str]:
    """What a Fourier neural operator of width 40 does outside of its transforms.

    281 × 281 points of 3 inputs are lifted to 40 channels and padded to 290 × 290: 84,100 points.
    """
    net = Network()
    points = net.input("points", (281 * 281, 3))
    net.node("MatMul", points, net.weight(3, 40))
    ends = []
    for number in range(4):
        padded = net.input(f"padded{number}", (84100, 40))
        spectral = net.input(f"spectral{number}", (84100, 40))
        mixed = net.node("MatMul", padded, net.weight(40, 40))
        both = net.node("Add", mixed, spectral)
        ends.append(net.node("Gelu", both) if number < 3 else both)
    return net, ends[-1]
