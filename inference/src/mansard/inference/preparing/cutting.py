"""Cuts a prepared network into parts: which nodes stay together, and each part as a model.

A part contains nodes of the network, the weights that they read, and constants that follow from the
file alone or from shapes. Its other operands are its inputs; what other parts read, its outputs.
The file that an engine loads is cut, so weights, labels and types are those of the whole network.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from mansard.core.errors import ModelError
from mansard.core.formats.onnx import labels_of
from mansard.core.records import LayerScore
from mansard.core.storage.files import open_file, storage_errors
from mansard.estimator import Given, is_functional, load
from mansard.estimator.model import Model
from mansard.estimator.numbers import Numbers
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import infer_shapes
from mansard.estimator.tensors import Origin, Tensor
from mansard.inference.preparing.labelling import reads


class CutPart(NamedTuple):
    """A part of a graph: the places of its nodes, and the tensors at the cut."""

    places: tuple[int, ...]
    labels: tuple[int, ...]  # of the nodes that have some
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class CutGraph:
    """The graph of a prepared network: readers, writers and constants."""

    def __init__(self, model: ModelProto, estimated: Model, tensors: Mapping[str, Tensor]) -> None:
        self.model, self.estimated, self.tensors = model, estimated, tensors
        self.nodes = _in_order(model.graph.node)  # each after those whose results it reads
        self.labels = [labels_of(node.name) for node in self.nodes]  # several where it was fused
        self.reads = [tuple(dict.fromkeys(reads(node))) for node in self.nodes]
        self.writes = [tuple(filter(None, node.output)) for node in self.nodes]
        self.stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self.writer = {name: at for at, names in enumerate(self.writes) for name in names}
        self.readers: dict[str, list[int]] = {}
        for at, names in enumerate(self.reads):
            for name in names:
                self.readers.setdefault(name, []).append(at)
        # Outputs of the network that depend on its inputs.
        outputs = (output for output in model.graph.output if not self.is_constant(output.name))
        self.outputs: dict[str, ValueInfoProto] = {output.name: output for output in outputs}
        # The places of nodes that an output depends on and that write more than constants.
        self.moving = self._moving()

    def _moving(self) -> tuple[int, ...]:
        needed, moving = set(self.outputs), list[int]()
        for at in reversed(range(len(self.nodes))):
            if any(name in needed and not self.is_constant(name) for name in self.writes[at]):
                needed.update(self.reads[at])
                moving.append(at)
        return tuple(reversed(moving))

    def is_constant(self, name: str) -> bool:
        """Whether a tensor follows from the file or from shapes, and so is no input of a part."""
        tensor = self.tensors.get(name)
        return name in self.stored or (tensor is not None and tensor.origin < Origin.ITERATIONS)

    def part(self, places: Collection[int], marked: Collection[str] = ()) -> CutPart:
        """The part of these nodes; ``marked``: inner tensors that become outputs too.

        Raises ModelError where a tensor at the cut has no known shape.
        """
        inside = set(places)
        others = set(self.moving) - inside
        ordered = tuple(sorted(inside))
        written = {name for at in ordered for name in self.writes[at]}
        inputs = dict.fromkeys(
            name
            for at in ordered
            for name in self.reads[at]
            if name not in written and not self.is_constant(name)
        )
        outputs = [
            name
            for at in ordered
            for name in self.writes[at]
            if not self.is_constant(name)
            and (
                name in self.outputs
                or name in marked
                or not others.isdisjoint(self.readers.get(name, ()))
            )
        ]
        for name in (*inputs, *outputs):
            self._declared(name)
        labels = [label for at in ordered for label in self.labels[at]]
        return CutPart(ordered, tuple(labels), tuple(inputs), tuple(outputs))

    def model_of(self, part: CutPart, name: str) -> ModelProto:
        """``part`` as a model called ``name``; weights in other files keep their places there."""
        places, constants = self._with_constants(part.places)
        nodes = [self.nodes[at] for at in sorted(places)]
        graph = helper.make_graph(
            nodes,
            name,
            [self._declared(read) for read in part.inputs],
            [self._declared(written) for written in part.outputs],
            constants,
        )
        return helper.make_model(
            graph,
            opset_imports=self.model.opset_import,
            functions=self.model.functions,
            ir_version=self.model.ir_version,
        )

    def n_bytes(self, part: CutPart) -> int:
        """The approximate size in bytes of the file of ``part``."""
        places, constants = self._with_constants(part.places)
        n_bytes: int = sum(self.nodes[at].ByteSize() for at in places)
        return n_bytes + sum(int(constant.ByteSize()) for constant in constants)

    def op_types(self, part: CutPart) -> set[str]:
        """The operators of the part's nodes, and of nodes that compute its constants."""
        return {self.nodes[at].op_type for at in self._with_constants(part.places)[0]}

    def _with_constants(self, places: Iterable[int]) -> tuple[set[int], list[TensorProto]]:
        """The nodes ``places``, those that compute their constants, and the stored constants."""
        nodes, waiting = set(places), list(places)
        stored: dict[str, TensorProto] = {}
        while waiting:
            for name in self.reads[waiting.pop()]:
                tensor, writer = self.tensors.get(name), self.writer.get(name)
                if name in self.stored:
                    stored[name] = self.stored[name]
                elif writer is None or writer in nodes or not self.is_constant(name):
                    continue
                elif tensor is not None and tensor.value is not None:
                    stored[name] = _stored(name, tensor, tensor.value)
                else:
                    nodes.add(writer)
                    waiting.append(writer)
        return nodes, list(stored.values())

    def has_shape(self, name: str) -> bool:
        """Whether ``name`` is a tensor (not a sequence) of known shape."""
        tensor = self.tensors.get(name)
        return tensor is not None and tensor.items is None and tensor.unknown is None

    def _declared(self, name: str) -> ValueInfoProto:
        tensor = self.tensors.get(name)
        if tensor is None or not self.has_shape(name):
            if name in self.outputs:  # it may depend on data
                return self.outputs[name]
            why = "" if tensor is None or tensor.unknown is None else f": {tensor.unknown}"
            raise ModelError(f"tensor {name!r} is not a tensor of a known shape{why}")
        return helper.make_tensor_value_info(name, tensor.dtype.code, tensor.shape)


@lru_cache(maxsize=1)
def read_graph(path: Path) -> CutGraph:
    """The graph of a prepared network; weights that lie beside it are not read.

    The file never changes: its name holds the hash of its content. Raises ModelError and
    StorageError.
    """
    with storage_errors(path), open_file(path) as stream:
        content = stream.read()
    loaded = load(path)
    binding = bind(loaded.model, Given())
    tensors = infer_shapes(loaded.model, binding, loaded.prepared).tensors
    return CutGraph(onnx.load_from_string(content), loaded.model, tensors)


def layer_parts(graph: CutGraph, layers: Iterable[LayerScore]) -> list[tuple[int, ...]]:
    """The places of each layer's nodes, in the order in which the layers run.

    Nodes that the estimator fuses into one kernel stay together (``fused_group``), and so do groups
    that depend on each other. Groups that neither compute nor move anything are left out.
    """
    heads, functional = _groups(graph, layers)
    members: dict[int, list[int]] = {}
    for at in graph.moving:
        members.setdefault(heads[at], []).append(at)
    merged = _without_circles(graph, members, heads)
    return [places for places in merged if not functional.isdisjoint(places)]


def stage_parts(graph: CutGraph, layers: Iterable[LayerScore]) -> list[tuple[int, ...]]:
    """The places between cuts where only one tensor is alive and no fused group is split."""
    heads, functional = _groups(graph, tuple(layers))
    last: dict[int, int] = {}
    for at in graph.moving:
        last[heads[at]] = at
    whole: list[int] = []
    cuts, reach, works = cut_points(graph), -1, False
    for at in graph.moving:
        reach, works = max(reach, last[heads[at]]), works or at in functional
        if at in cuts and reach <= at and works:
            whole.append(at)
            works = False
    stages = parts_between(graph, whole)
    if len(stages) > 1 and functional.isdisjoint(stages[-1]):
        stages[-2:] = [stages[-2] + stages[-1]]
    return stages


def parts_between(graph: CutGraph, cuts: Collection[int]) -> list[tuple[int, ...]]:
    """The places of all nodes that move something, split after each of ``cuts``."""
    parts: list[list[int]] = [[]]
    for at in graph.moving:
        parts[-1].append(at)
        if at in cuts:
            parts.append([])
    return [tuple(part) for part in parts if part]


def cut_points(graph: CutGraph) -> dict[int, str]:
    """The places after which exactly one non-constant tensor is alive, and that tensor.

    Not after the last node, and not where the shape is unknown. A tensor is alive from the node
    that writes it, or from the start, to its last reader; outputs of the network stay alive to the
    end.
    """
    moving = graph.moving
    end = len(graph.nodes)
    until: dict[str, int] = {}
    for at in moving:
        for name in graph.reads[at]:
            if not graph.is_constant(name):
                until[name] = at
    until.update(dict.fromkeys(graph.outputs, end))
    living = {name for name in until if name not in graph.writer}
    points = {}
    for at in moving[:-1]:
        living |= {name for name in graph.writes[at] if until.get(name, -1) > at}
        living = {name for name in living if until[name] > at}
        if len(living) == 1 and graph.has_shape(*living):
            (points[at],) = living
    return points


def _groups(graph: CutGraph, layers: Iterable[LayerScore]) -> tuple[dict[int, int], set[int]]:
    """The group of each place, and the places of nodes that work or move something.

    A node without a label, such as a cast that a conversion put in, goes with what reads it first,
    else with what it reads.
    """
    rows = {row.index: row for row in layers if not row.scope}
    heads: dict[int, int] = {}
    functional: set[int] = set()
    for at, labels in enumerate(graph.labels):
        for row in (rows[label] for label in labels if label in rows):
            heads.setdefault(at, row.index if row.fused_group is None else row.fused_group)
            if is_functional(row):
                functional.add(at)
    unlabelled = [at for at in range(len(graph.nodes)) if at not in heads]
    for at in reversed(unlabelled):
        readers = [to for name in graph.writes[at] for to in graph.readers.get(name, ())]
        if first := [heads[to] for to in readers if to in heads][:1]:
            heads[at] = first[0]
    for at in unlabelled:
        writers = (graph.writer[name] for name in graph.reads[at] if name in graph.writer)
        if at not in heads:
            heads[at] = next((heads[to] for to in writers if to in heads), -1 - at)
    return heads, functional


def _without_circles(
    graph: CutGraph, members: Mapping[int, Sequence[int]], heads: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """The groups in an order in which they can run; groups in a circle are merged."""
    of = {head: head for head in members}  # the group that each is part of now
    order: list[int] | None = None
    while order is None:
        before: dict[int, set[int]] = {head: set() for head in of.values()}
        last = dict.fromkeys(before, -1)
        for head, places in members.items():
            read = {graph.writer.get(name, -1) for at in places for name in graph.reads[at]}
            earlier = {of[heads[at]] for at in read if at >= 0 and heads[at] in of}
            before[of[head]] |= earlier - {of[head]}
            last[of[head]] = max(last[of[head]], *places)
        try:
            order = _sorted(before, last)
        except CycleError as error:
            circle = error.args[1]
            of = {head: circle[0] if group in circle else group for head, group in of.items()}
    merged: dict[int, list[int]] = {group: [] for group in order}
    for head, places in members.items():
        merged[of[head]] += places
    return [tuple(sorted(places)) for places in merged.values()]


def _sorted(before: Mapping[int, Collection[int]], place: Mapping[int, int]) -> list[int]:
    """The keys in topological order by ``before``; ties by ``place``.

    Raises CycleError.
    """
    sorter = TopologicalSorter(before)
    sorter.prepare()
    ready: list[tuple[int, int]] = []
    order: list[int] = []
    while sorter.is_active():
        for key in sorter.get_ready():
            heappush(ready, (place[key], key))
        order.append(heappop(ready)[1])
        sorter.done(order[-1])
    return order


def _in_order(nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """The nodes in a valid order, near the file's: a conversion appends nodes at its end."""
    writer = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    before = {
        at: {writer[name] for name in reads(node) if name in writer}
        for at, node in enumerate(nodes)
    }
    return [nodes[at] for at in _sorted(before, {at: at for at in before})]


def _stored(name: str, tensor: Tensor, value: Numbers) -> TensorProto:
    """A constant whose numbers the estimator computed."""
    element = helper.tensor_dtype_to_np_dtype(tensor.dtype.code)
    return onnx.numpy_helper.from_array(value.array.astype(element).reshape(tensor.shape), name)
