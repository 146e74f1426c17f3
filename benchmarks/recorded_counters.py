"""Estimates held against the counters that others recorded, as tables in Markdown.

``python benchmarks/recorded_counters.py [FOLDER] > docs/results/counters.md``: FOLDER is
../shared/data/ncu by default. The networks are built here, of the layers and sizes that the kernels
of each export have: grids, tiles, and bytes say them (docs/results/counters.md lists how).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import onnx
from onnx import TensorProto, helper

from mansard.analytics.counters.check import CheckedNetwork, check_network
from mansard.analytics.counters.importing import CounterOrigin, import_counters
from mansard.core.records import KernelCounters, ModelScore
from mansard.estimator import score

DEFAULT_FOLDER = Path(__file__).resolve().parents[1] / "../shared/data/ncu"
MIB = 1 << 20


@dataclass
class Network:
    """An ONNX graph without weights' values, one node after the other."""

    element: int = TensorProto.FLOAT
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def input(self, name: str, shape: Sequence[int]) -> str:
        """An input of the network."""
        self.inputs.append(helper.make_tensor_value_info(name, self.element, shape))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: object) -> str:
        """A node with one output; its name is the output's."""
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        """A weight of zeros."""
        name = f"w{len(self.weights)}"
        width = 2 if self.element == TensorProto.FLOAT16 else 4
        n_bytes = width
        for side in shape:
            n_bytes *= side
        tensor = helper.make_tensor(name, self.element, shape, bytes(n_bytes), raw=True)
        self.weights.append(tensor)
        return name

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

    def score(self, output: str, precision: str, cache_bytes: int) -> ModelScore:
        """What is estimated of it."""
        end = helper.make_tensor_value_info(output, self.element, None)
        graph = helper.make_graph(self.nodes, "network", self.inputs, [end], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "network.onnx")
            path.write_bytes(model.SerializeToString())
            return score(path, precision=precision, cache_bytes=cache_bytes)


def deeponet() -> tuple[Network, str]:
    """Branch 14700-512-512-512-128 at one function, trunk 6-256-256-256-128 at 281 × 281 points.

    The trunk runs on 32768, 32768 and 13425 points: grids of 512, 512 and 210 tiles of 64 rows.
    """
    net = Network(TensorProto.FLOAT16)
    branch = net.input("function", (1, 14700))
    for n_in, n_out in ((14700, 512), (512, 512), (512, 512)):
        branch = net.node("Gelu", net.linear(branch, n_in, n_out))
    branch = net.node("Transpose", net.linear(branch, 512, 128), perm=[1, 0])
    found = []
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
    found = []
    for _ in range(3):
        tokens = net.input(f"tokens{len(found)}", (20, 2, 256))
        product = net.node("MatMul", net.node("Transpose", tokens, perm=[1, 0, 2]), net.weight(256, 256))
        found.append(net.node("Add", product, net.weight(256)))
    # Heads are views there: only the copies that it makes are nodes here.
    q, v = (net.node("Reshape", each, net.integers(2, 8, 20, 32)) for each in (found[0], found[2]))
    k = net.node("Reshape", found[1], net.integers(2, 8, 32, 20))
    weights = net.node("Softmax", net.node("MatMul", net.node("Mul", q, net.weight(1)), k), axis=-1)
    heads = net.node("Transpose", net.node("MatMul", weights, v), perm=[0, 2, 1, 3])
    out = net.linear(net.node("Reshape", heads, net.integers(40, 256)), 256, 256)
    mean = net.node("Mul", net.node("ReduceSum", weights, net.integers(1), keepdims=0), net.weight(1))
    return net, mean if out else mean


def flash_attention() -> tuple[Network, str]:
    """The same with one packed product before and a fused kernel for all heads."""
    net = Network(TensorProto.FLOAT16)
    tokens = net.input("tokens", (40, 256))
    packed = net.linear(tokens, 256, 768)
    q, k, v = net.split(net.node("Reshape", packed, net.integers(2, 20, 768)), 3)
    heads = net.node("MultiHeadAttention", q, k, v, domain="com.microsoft", num_heads=8)
    return net, net.linear(net.node("Reshape", heads, net.integers(40, 256)), 256, 256)


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0]) if arguments else DEFAULT_FOLDER
    def check(build, name, precision, sm, cache):
        net, out = build()
        s = net.score(out, precision, cache)
        rows = import_counters(folder / name, CounterOrigin(device="b", precision=precision, compute_capability=sm)).rows
        return check_network(s, rows, cache_bytes=cache)
    for build, name, precision, sm, cache in (
        (deeponet, "joshua41057__orin_nano_deeponet_fp16_native_ncu_raw_wide.csv", "fp16", 87, 2 * MIB),
        (attention, "leleucas__A100_bert_attention_torch_fp32_ncu_long.csv", "fp32", 80, 40 * MIB),
        (flash_attention, "leleucas__A100_bert_attention_flashattn_fp16_ncu_long.csv", "fp16", 80, 40 * MIB),
    ):
        found = check(build, name, precision, sm, cache)
        print(name, found.is_fused, found.matched_share, found.work_ratio, found.bytes_ratio, [k[:40] for k in found.left])
        for p in found.parts:
            print(p.name, p.op_types, [k[:30] for k in p.kernels], p.estimated_flop, p.counted_flop, p.least_flop, p.work_ratio and round(p.work_ratio, 3), p.work_classes, p.estimated_bytes, p.counted_bytes, p.bytes_ratio and round(p.bytes_ratio,3), p.bytes_classes)


if __name__ == "__main__":
    main(sys.argv[1:])
