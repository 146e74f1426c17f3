"""Which nodes of the network each node of ONNX Runtime's optimised graph runs, and its time.

ONNX Runtime optimises the graph before it runs it. What it fuses, it names in many ways: after
one of the nodes (``@7@/MatMulScaleFusion/``), after the tensor that it writes (``conv1_nchwc``),
or after the operator alone (``BiasGelu_token_3``). Tensors tell more: one that both graphs have
holds the same numbers in both. So a node of the optimised graph does all the work between the
tensors that it writes and the nearest ones that other nodes of that graph write. A tensor that
the optimised graph alone has stands for one of the network's: the one that its reader read
in the network, or that is made of it by moving its elements.

Layers and their times come from a profile of ONNX Runtime:
https://onnxruntime.ai/docs/performance/tune-performance/profiling-tools.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from mansard.core.errors import SchemaError
from mansard.core.formats.onnx import (
    GraphNode,
    NodeRun,
    ProfileEvent,
    label_of,
    labels_of,
    node_runs,
)
from mansard.core.records import LayerTime

# The suffix of a node in blocked layout, after the tensor that it writes.
_NCHWC = ("_bn_nchwc", "_nchwc")
# The prefix of a tensor in single precision that the network has in half: a CPU
# runs few operators in half precision.
_IN_SINGLE = "InsertedPrecisionFreeCast_"
# Operators that ONNX Runtime adds of its own, to convert or to move a tensor.
_ADDED = frozenset(
    {
        "Cast",
        "DequantizeLinear",
        "MemcpyFromHost",
        "MemcpyToHost",
        "QuantizeLinear",
        "ReorderInput",
        "ReorderOutput",
        "Reshape",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)


class TracedNode(NamedTuple):
    """A node of ONNX Runtime's graph, and the nodes of the network that it runs."""

    name: str  # may be empty
    op_type: str
    nodes: tuple[int, ...]


def trace(original: Sequence[GraphNode], optimised: Sequence[GraphNode]) -> tuple[TracedNode, ...]:
    """The nodes of the network that each node of ``optimised`` runs.

    Both are in the order of their files, in which a tensor is written before it is read. Every
    node of the network is given to the first that does its work, and to all pieces that
    it was taken apart into. None are given to what ONNX Runtime added of its own.
    """
    network = _LabelledNodes(original)
    names = [node.name for node in optimised]
    optimised = [_renamed(node) for node in optimised]
    anchors = network.anchors(optimised)
    written = {tensor for tensors in anchors for tensor in tensors}
    taken: set[int] = set()
    parts: list[tuple[int, ...]] = []
    for node, tensors in zip(optimised, anchors, strict=True):
        nodes = network.behind([*network.labelled(node), *map(network.writer, tensors)], written)
        parts.append(tuple(sorted(nodes - taken)))
        taken |= nodes
    _give_to_pieces(optimised, parts)
    return tuple(
        TracedNode(name, node.op_type, network.with_folded(nodes))
        for name, node, nodes in zip(names, optimised, parts, strict=True)
    )


def _renamed(node: GraphNode) -> GraphNode:
    """The node, with its tensors renamed as in the network."""
    return node._replace(
        name=node.name.removeprefix(_IN_SINGLE) if node.name.endswith(_NCHWC) else node.name,
        inputs=tuple(name.removeprefix(_IN_SINGLE) for name in node.inputs),
        outputs=tuple(name.removeprefix(_IN_SINGLE) for name in node.outputs),
    )


class _LabelledNodes:
    """The nodes of the network by label, and the writer of each tensor."""

    def __init__(self, nodes: Sequence[GraphNode]) -> None:
        labelled = [(label_of(node.name), node) for node in nodes]
        self._nodes = {label: node for label, node in labelled if label is not None}
        # A node that another was folded into has the labels of both in its name.
        self._folded = {label: labels_of(node.name) for label, node in self._nodes.items()}
        times = Counter(tensor for node in nodes for tensor in node.outputs if tensor)
        self._converted = {
            node.outputs[0]: node.inputs[0]
            for node in nodes
            if label_of(node.name) is None and node.inputs and times[node.outputs[0]] == 1
        }
        # Two bodies may use the same name for a tensor: then it is ambiguous.
        self._writer = {
            tensor: label
            for label, node in self._nodes.items()
            for tensor in node.outputs
            if times[tensor] == 1
        }

    def with_folded(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """``nodes`` with the ones that were folded into them before the network was written."""
        return tuple(sorted({folded for label in nodes for folded in self._folded[label]}))

    def writer(self, tensor: str) -> int:
        """The node that writes ``tensor``, a tensor of the network."""
        return self._writer[tensor]

    def anchors(self, optimised: Sequence[GraphNode]) -> list[tuple[str, ...]]:
        """For each node of ``optimised``, the network's tensors that it is the first to hold."""
        named = [self._named(node) for node in optimised]
        unchanged = {tensor for tensors in named for tensor in tensors}
        stands_for: dict[str, str] = {}
        for node, tensors in zip(reversed(optimised), reversed(named), strict=True):
            tensors += [stands_for[name] for name in node.outputs if name in stands_for]
            if node.inputs and node.inputs[0] not in self._writer:
                read = self._first_input(node, tensors, unchanged)
                if read in self._writer:
                    stands_for.setdefault(node.inputs[0], read)
        claimed: set[str] = set()
        anchors = []
        for tensors in named:
            anchors.append(tuple(dict.fromkeys(name for name in tensors if name not in claimed)))
            claimed.update(tensors)
        return anchors

    def labelled(self, node: GraphNode) -> list[int]:
        """The labels in the name of ``node``."""
        return [label for label in labels_of(node.name) if label in self._nodes]

    def behind(self, labels: Iterable[int], written: set[str]) -> set[int]:
        """The nodes ``labels`` and their predecessors, up to the tensors in ``written``."""
        ahead, reached = list(labels), set[int]()
        while ahead:
            label = ahead.pop()
            if label in reached:
                continue
            reached.add(label)
            for tensor in map(self._unconverted, self._nodes[label].inputs):
                if tensor in self._writer and tensor not in written:
                    ahead.append(self._writer[tensor])
        return reached

    def _unconverted(self, tensor: str) -> str:
        """The tensor that ``tensor`` was converted from by nodes that preparing inserted."""
        while tensor in self._converted:
            tensor = self._converted[tensor]
        return tensor

    def _named(self, node: GraphNode) -> list[str]:
        names = [node.name.removesuffix(ending) for ending in _NCHWC if node.name.endswith(ending)]
        return [name for name in (*names, *node.outputs) if name in self._writer]

    def _first_input(self, node: GraphNode, holds: list[str], unchanged: set[str]) -> str:
        """The network's tensor that corresponds to the first input of ``node``; empty: unknown."""
        heads = self.labelled(node) + [self._writer[tensor] for tensor in holds]
        if node.op_type not in _ADDED:
            heads += [label for head in heads for label in self._before(head, unchanged)]
        for head in heads:
            if self._nodes[head].op_type == node.op_type and self._nodes[head].inputs:
                return self._nodes[head].inputs[0]
        if node.op_type in _ADDED:
            return holds[0] if holds else ""
        if node.name.endswith(_NCHWC) and holds:  # another operator, in the form of this one
            return (*self._nodes[self._writer[holds[0]]].inputs, "")[0]
        return ""

    def _before(self, label: int, unchanged: set[str]) -> list[int]:
        """The chain of first inputs before ``label``, up to the tensors ``unchanged``."""
        before: list[int] = []
        while True:
            read = (*self._nodes[label].inputs, "")[0]
            if read in unchanged or read not in self._writer:
                return before
            label = self._writer[read]
            before.append(label)


def _give_to_pieces(optimised: Sequence[GraphNode], parts: list[tuple[int, ...]]) -> None:
    """Give each untraced node the nodes of its first reader: both are pieces of one layer."""
    reader = _first_readers(optimised)
    served = list(parts)
    for position in reversed(range(len(optimised))):
        node = optimised[position]
        readers = [reader[tensor] for tensor in node.outputs if tensor in reader]
        if not parts[position] and readers and min(readers) > position:
            served[position] = served[min(readers)]
            if node.op_type not in _ADDED:
                parts[position] = served[position]


def _first_readers(optimised: Sequence[GraphNode]) -> Mapping[str, int]:
    readers: dict[str, int] = {}
    for position, node in enumerate(optimised):
        for tensor in node.inputs:
            readers.setdefault(tensor, position)
    return readers


_CALL = "model_run"
_UNTRACED = "the engine does not say which they are"
_Key: TypeAlias = tuple[str, str]  # name and number of a node of the engine's


def read_profile(
    text: bytes, counted: Sequence[bool], traced: Sequence[TracedNode]
) -> tuple[tuple[LayerTime, ...], str]:
    """The layers in the calls that are ``counted``, or none and the reason.

    ``counted``: for each call in the profile, whether its times count. ``traced``: the engine's
    nodes in the order in which it runs them; where it does not say, layers are traced by their
    names alone. Raises SchemaError where the text is not a profile of ONNX Runtime.
    """
    try:
        events = msgspec.json.decode(text, type=list[ProfileEvent])
    except msgspec.DecodeError as error:
        raise SchemaError(f"cannot read the profile of ONNX Runtime: {error}") from error
    calls = sorted((e.ts, e.ts + e.dur) for e in events if e.name == _CALL)
    if len(calls) != len(counted):
        held = f"the profile holds {len(calls)} of {len(counted)} calls"
        return (), f"{held}: ONNX Runtime cuts it at a million events"
    nodes = node_runs(events)
    on_gpu = [node for node in nodes if node.is_on_gpu]
    if on_gpu and not any(node.kernels_us for node in on_gpu):
        return (), "this build of ONNX Runtime does not time the kernels of a GPU"
    nodes.sort(key=lambda node: (node.event.ts, -node.event.dur))
    wanted = [call for call, is_kept in zip(calls, counted, strict=True) if is_kept]
    return _layers(nodes, wanted, traced), ""


def _layers(
    nodes: Sequence[NodeRun], calls: Sequence[tuple[float, float]], traced: Sequence[TracedNode]
) -> tuple[LayerTime, ...]:
    seconds: dict[_Key, list[float]] = {}
    first: dict[_Key, NodeRun] = {}
    runs: Counter[_Key] = Counter()
    own_us = _own_times([node.event for node in nodes])
    call = 0
    for node, of_cpu_us in zip(nodes, own_us, strict=True):
        event = node.event
        while call < len(calls) and event.ts >= calls[call][1]:
            call += 1
        if call == len(calls) or event.ts < calls[call][0]:
            continue
        key = (node.name, node.number)
        first.setdefault(key, node)
        us = sum(node.kernels_us) if node.is_on_gpu else of_cpu_us
        seconds.setdefault(key, [0.0] * len(calls))[call] += us * 1e-6
        runs[key] += 1
    nodes_of = _match(first, traced)
    return tuple(
        LayerTime(
            index=index,
            name=key[0],
            op_type=node.op_type,
            provider=node.provider,
            nodes=nodes_of[key],
            runs=max(1, round(runs[key] / len(calls))),
            seconds_s=tuple(seconds[key]),
            unknown={} if nodes_of[key] is not None else {"nodes": _UNTRACED},
        )
        for index, (key, node) in enumerate(first.items())
    )


def _match(
    first: Mapping[_Key, NodeRun], traced: Sequence[TracedNode]
) -> dict[_Key, tuple[int, ...] | None]:
    """The network's nodes of each layer; ``first`` is in the order of running.

    Names that several nodes have, and those without a name, which the profile calls by their
    operator and a number of its own, are matched by their order.
    """
    if not traced:
        return {key: tuple(sorted(labels_of(key[0]))) or None for key in first}
    nodes: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for one in traced:
        nodes.setdefault((one.name, one.op_type), []).append(one.nodes)
    layers: dict[tuple[str, str], list[_Key]] = {}
    for key, node in first.items():
        unnamed = f"{node.op_type}_{node.number}"
        is_unnamed = node.name == unnamed and (node.name, node.op_type) not in nodes
        layers.setdefault(("" if is_unnamed else node.name, node.op_type), []).append(key)
    matched: dict[_Key, tuple[int, ...] | None] = dict.fromkeys(first)
    for group, keys in layers.items():
        if len(nodes.get(group, ())) == len(keys):
            matched.update(zip(keys, nodes[group], strict=True))
    return matched


def _own_times(nodes: Sequence[ProfileEvent]) -> list[float]:
    """Microseconds of each event without those of events inside it: a loop's body is in the loop.

    ``nodes`` are in the order of their starts, the longer of two first.
    """
    durations = [event.dur for event in nodes]
    open_events: list[int] = []
    for position, event in enumerate(nodes):
        while open_events:
            outer = nodes[open_events[-1]]
            if event.ts + event.dur <= outer.ts + outer.dur:
                durations[open_events[-1]] -= event.dur
                break
            open_events.pop()
        open_events.append(position)
    return durations
