"""The nodes of a network as layers of an engine are joined to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from mansard.core.precision import Precision
from mansard.core.records import LayerScore, ModelScore
from mansard.estimator.tensors import Node, Origin, walk

# Products have weights or multiply two tensors; the others are told apart by what they shrink.
OpClass = Literal["product", "pool", "softmax", "quantiser", "other"]


@dataclass(frozen=True)
class NetworkNode:
    """One node; counts are of elements, None where they are not known.

    ``is_free``: it neither works nor moves anything, as constants and views do.
    """

    index: int
    name: str
    op_type: str
    op_class: OpClass
    reads: tuple[str, ...]  # tensors, without those that are stored in the file
    writes: tuple[str, ...]
    n_read: int  # of the first tensor that it reads
    n_written: int
    n_weights: int
    is_free: bool


@dataclass(frozen=True)
class NetworkGraph:
    """``nodes`` in an order in which they can run. ``n_bytes``: of each tensor, stored ones too.

    ``stored``: the tensors of each node that come from the file, weights and constants.
    """

    nodes: tuple[NetworkNode, ...]
    layers: Mapping[int, LayerScore]
    n_bytes: Mapping[str, int]
    stored: Mapping[int, tuple[str, ...]]
    outputs: frozenset[str]

    @cached_property
    def by_index(self) -> Mapping[int, NetworkNode]:
        """The nodes by ``LayerScore.index``."""
        return {node.index: node for node in self.nodes}

    @cached_property
    def place(self) -> Mapping[int, int]:
        """The position of each node in ``nodes``."""
        return {node.index: at for at, node in enumerate(self.nodes)}

    @cached_property
    def writer(self) -> Mapping[str, int]:
        """The node that writes each tensor."""
        return {tensor: node.index for node in self.nodes for tensor in node.writes}

    @cached_property
    def readers(self) -> Mapping[str, tuple[int, ...]]:
        """The nodes that read each tensor."""
        readers: dict[str, list[int]] = {}
        for node in self.nodes:
            for tensor in node.reads:
                readers.setdefault(tensor, []).append(node.index)
        return {tensor: tuple(indices) for tensor, indices in readers.items()}

    @cached_property
    def depth(self) -> Mapping[int, int]:
        """The most products on a way from an input to each node, itself left out."""
        depth: dict[int, int] = {}
        for node in self.nodes:
            before = [self.writer[tensor] for tensor in node.reads if tensor in self.writer]
            depth[node.index] = max(
                (depth[i] + (self.by_index[i].op_class == "product") for i in before if i in depth),
                default=0,
            )
        return depth

    def traffic_bytes(self, nodes: Iterable[int]) -> int:
        """What one kernel moves that runs ``nodes``: what enters them, and what leaves them.

        Q = Σ distinct tensors from outside + weights + tensors that others read or that the
        network returns.
        """
        inside = set(nodes)
        written = {tensor for i in inside for tensor in self.by_index[i].writes}
        entering = {
            tensor
            for i in inside
            for tensor in (*self.by_index[i].reads, *self.stored.get(i, ()))
            if tensor not in written
        }
        leaving = {
            tensor
            for tensor in written
            if tensor in self.outputs or any(i not in inside for i in self.readers.get(tensor, ()))
        }
        return sum(self.n_bytes.get(tensor, 0) for tensor in (*entering, *leaving))

    def between(self, first: Iterable[int], last: Iterable[int]) -> set[int]:
        """The nodes on any way from one of ``first`` to one of ``last``, with both."""
        reached = set(first)
        for node in self.nodes:
            if any(self.writer.get(tensor) in reached for tensor in node.reads):
                reached.add(node.index)
        needed = set(last)
        for node in reversed(self.nodes):
            if any(i in needed for tensor in node.writes for i in self.readers.get(tensor, ())):
                needed.add(node.index)
        return reached & needed


def network_graph(
    nodes: Sequence[Node], score: ModelScore, outputs: Iterable[str], precision: Precision | None
) -> NetworkGraph:
    """The graph of ``nodes``, those in bodies among them, as ``score`` counts them."""
    layers = {layer.index: layer for layer in score.layers}
    instances: dict[int, Node] = {}
    for instance in walk(tuple(nodes)):
        if instance.is_taken:
            instances.setdefault(instance.node.index, instance.node)
    made, stored, n_bytes = [], {}, {}
    for node in instances.values():
        layer = layers.get(node.index)
        if layer is None:
            continue
        from_file = tuple(t for t in node.distinct if t.origin is Origin.FILE)
        data = tuple(t for t in node.distinct if t.origin is not Origin.FILE)
        stored[node.index] = tuple(t.name for t in from_file)
        for tensor in (*node.distinct, *node.outputs):
            n_bytes[tensor.name] = 0 if tensor.unknown else tensor.n_bytes(precision)
        made.append(
            NetworkNode(
                index=node.index,
                name=node.name,
                op_type=node.op_type,
                op_class=_class_of(node.op_type, layer),
                reads=tuple(t.name for t in data),
                writes=tuple(name for name in node.output_names if name),
                n_read=data[0].n_elements if data else 0,
                n_written=node.outputs[0].n_elements if node.outputs else 0,
                n_weights=max((t.n_elements for t in from_file), default=0),
                is_free=not layer.work_flop and not layer.traffic_bytes,
            )
        )
    return NetworkGraph(tuple(made), layers, n_bytes, stored, frozenset(outputs))


def _class_of(op_type: str, layer: LayerScore) -> OpClass:
    if "Pool" in op_type or op_type in {"ReduceMean", "ReduceMax"}:
        return "pool"
    if layer.macs:
        return "product"
    if "Softmax" in op_type:
        return "softmax"
    return "quantiser" if op_type == "QuantizeLinear" else "other"


def graph_of_score(score: ModelScore) -> NetworkGraph:
    """The nodes of a score without the tensors between them: for layers whose nodes are known.

    What a node moves is what its fused group does, which counts at the group's heaviest node.
    """
    nodes, stored, n_bytes = [], {}, {}
    for layer in score.layers:
        tensor_name = f"@{layer.index}@"
        moved = layer.fused_traffic_bytes
        n_bytes[tensor_name] = (layer.traffic_bytes if moved is None else moved) or 0
        stored[layer.index] = (tensor_name,)
        nodes.append(
            NetworkNode(
                index=layer.index,
                name=layer.name,
                op_type=layer.op_type,
                op_class=_class_of(layer.op_type, layer),
                reads=(),
                writes=(),
                n_read=0,
                n_written=0,
                n_weights=0,
                is_free=not layer.work_flop and not layer.traffic_bytes,
            )
        )
    layers = {layer.index: layer for layer in score.layers}
    return NetworkGraph(tuple(nodes), layers, n_bytes, stored, frozenset())
