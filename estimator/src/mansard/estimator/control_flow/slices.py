"""The part of a loop's graph that some of its outputs follow from, over all iterations."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mansard.estimator.control_flow.cycles import Cycle
from mansard.estimator.model import ModelNode
from mansard.estimator.tensors import Origin, Tensor


class Part(msgspec.Struct, frozen=True):
    """``outputs`` are the positions of the outputs that ``nodes`` compute, those asked for
    among them; ``leaves`` are the tensors that come from outside."""

    nodes: tuple[ModelNode, ...]
    outputs: frozenset[int]
    leaves: tuple[Tensor, ...]


def slice_graph(cycle: Cycle, wanted: Iterable[int]) -> Part:
    """What the outputs at ``wanted`` need, and what that needs of the iterations before."""
    graph = cycle.frame.graph
    writers = {name: node for node in graph.nodes for name in node.outputs if name}
    first = 0 if cycle.is_state_first else len(cycle.anything)
    own = graph.inputs[first : first + len(cycle.state)]
    state = {source.name: position for position, source in enumerate(own)}
    outputs: set[int] = set()
    needed: dict[int, ModelNode] = {}
    leaves: dict[str, Tensor] = {}
    seen: set[str] = set()
    waiting = [graph.outputs[position].name for position in wanted]
    outputs.update(wanted)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in writers:
            node = writers[name]
            needed[node.index] = node
            waiting.extend(node.reads)
        elif name in state:
            position = state[name]
            outputs.add(position)
            leaves[name] = cycle.state[position]
            waiting.append(graph.outputs[position].name)
        elif name in cycle.frame.base:
            leaves[name] = cycle.frame.base[name]
    nodes = tuple(node for node in graph.nodes if node.index in needed)
    return Part(nodes, frozenset(outputs), tuple(leaves.values()))


def data_behind(cycle: Cycle, position: int) -> list[str]:
    """The tensors from outside that carry data into the output at ``position``."""
    leaves = slice_graph(cycle, [position]).leaves
    return sorted({tensor.name for tensor in leaves if tensor.origin is Origin.DATA})
