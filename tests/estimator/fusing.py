"""Fused groups of small models, for the tests of this folder."""

from __future__ import annotations

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.fusion import Fusion, fuse
from mansard.estimator.model import Given
from mansard.estimator.score_context import find_operators
from mansard.estimator.scoring import Loaded, load
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import infer_shapes
from mansard.estimator.tensors import Node, Tensor, walk
from tests.estimator.models import model


class Fused(msgspec.Struct, frozen=True, eq=False):
    """A network with its shapes, and its groups."""

    nodes: tuple[Node, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[str, ...]
    fusion: Fusion

    def kernels(self) -> list[str]:
        """The operators of each group that moves bytes, in the order they run."""
        names = {each.node.index: each.node.op_type for each in walk(self.nodes)}
        return [
            "+".join(names[index] for index in group.indexes)
            for group in self.fusion.groups
            if group.reads or group.writes
        ]

    def moved(self) -> list[tuple[int, int]]:
        """Bytes that each of these groups reads and writes."""
        return [
            (group.read_bytes, group.write_bytes)
            for group in self.fusion.groups
            if group.reads or group.writes
        ]

    def total_bytes(self) -> int:
        return sum(map(sum, self.moved()))


def fuse_model(data: bytes, precision: Precision | None = None, batch: int | None = None) -> Fused:
    """The groups of an ONNX file."""
    return fuse_loaded(load(data, "model"), Given(batch=batch), precision)


def fuse_loaded(
    loaded: Loaded,
    given: Given,
    precision: Precision | None = None,
    attention_buffer_bytes: int | None = None,
) -> Fused:
    """The groups of a model that was read before."""
    binding = bind(loaded.model, given)
    network = infer_shapes(loaded.model, binding, loaded.prepared)
    operators = find_operators(each.node for each in walk(network.nodes))
    outputs = tuple(output.name for output in loaded.model.outputs)
    fusion = fuse(network.nodes, outputs, operators, precision, attention_buffer_bytes)
    return Fused(network.nodes, tuple(binding.tensors.values()), outputs, fusion)


def fuse_text(body: str, signature: str, stored: str = "", opset: int = 17) -> Fused:
    """The groups of a model in ONNX's text form; its output is ``y``."""
    return fuse_model(model(body, signature, stored, opset))
