"""Other ways to write a network, for laws about what must not depend on the writing."""

from __future__ import annotations

import random
from collections.abc import Sequence

import onnx
from onnx import AttributeProto, TensorProto, helper

_VALUE = helper.make_tensor_value_info


def copied(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto] | None = None
) -> onnx.ModelProto:
    """A copy, with other nodes in its main graph where they are given."""
    new: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    if nodes is not None:
        del new.graph.node[:]
        new.graph.node.extend(nodes)
    return new


def renamed(model: onnx.ModelProto, suffix: str) -> onnx.ModelProto:
    """Every tensor and node under another name, those in branches and loops too."""
    new = copied(model)
    _rename(new.graph, suffix)
    return new


def _rename(graph: onnx.GraphProto, suffix: str) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name += suffix
    for node in graph.node:
        node.name += suffix
        for names in (node.input, node.output):
            names[:] = [f"{name}{suffix}" if name else "" for name in names]
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _rename(attribute.g, suffix)


def reordered(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The nodes of the main graph in any other order that a file may have."""
    chance = random.Random(seed)
    left = list(model.graph.node)
    made = {name for node in left for name in node.output}
    nodes: list[onnx.NodeProto] = []
    while left:
        ready = [node for node in left if not made.intersection(_all_inputs(node))]
        node = chance.choice(ready)
        left.remove(node)
        made.difference_update(node.output)
        nodes.append(node)
    return copied(model, nodes)


def _all_inputs(node: onnx.NodeProto) -> set[str]:
    names = set(node.input)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                names |= _all_inputs(inner)
    return names


def with_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Stored tensors as Constant nodes."""
    held = [
        helper.make_node("Constant", [], [tensor.name], f"c{tensor.name}", value=tensor)
        for tensor in model.graph.initializer
    ]
    new = copied(model, [*held, *model.graph.node])
    del new.graph.initializer[:]
    return new


def with_identities(model: onnx.ModelProto) -> onnx.ModelProto:
    """An Identity behind the first result of every node."""
    nodes = []
    for node in copied(model).graph.node:
        result = node.output[0]
        node.output[0] = f"{result} before"
        nodes += [node, helper.make_node("Identity", [node.output[0]], [result], f"i{result}")]
    return copied(model, nodes)


def with_function(model: onnx.ModelProto, start: int, stop: int) -> onnx.ModelProto:
    """Nodes ``start`` to ``stop`` of the main graph as a function of the model."""
    inputs, outputs = _ends(model.graph, start, stop)
    nodes = list(model.graph.node)
    call = helper.make_node("Part", inputs, outputs, "call", domain="own")
    new = copied(model, [*nodes[:start], call, *nodes[stop:]])
    imports = list(new.opset_import)
    part = helper.make_function("own", "Part", inputs, outputs, nodes[start:stop], imports)
    new.functions.append(part)
    new.opset_import.append(helper.make_opsetid("own", 1))
    return new


def with_choice(model: onnx.ModelProto, start: int, stop: int, known: bool) -> onnx.ModelProto:
    """Nodes ``start`` to ``stop`` in both branches of an If, whose condition may be known."""
    _, outputs = _ends(model.graph, start, stop)
    nodes = list(model.graph.node)
    branches = {}
    for branch in ("then_branch", "else_branch"):
        values = [helper.make_empty_tensor_value_info(name) for name in outputs]
        branches[branch] = helper.make_graph(nodes[start:stop], branch, [], values)
        if branch == "else_branch":  # names of a graph and those inside it must differ
            _rename_made(branches[branch], " else")
    choice = helper.make_node("If", ["condition"], outputs, "choice", **branches)
    new = copied(model, [*nodes[:start], choice, *nodes[stop:]])
    _rename_made(next(n for n in new.graph.node if n.name == "choice").attribute[0].g, " then")
    if known:
        new.graph.initializer.append(helper.make_tensor("condition", TensorProto.BOOL, [], [True]))
    else:
        new.graph.input.append(_VALUE("condition", TensorProto.BOOL, []))
    return new


def _rename_made(graph: onnx.GraphProto, suffix: str) -> None:
    """Other names for what the nodes of a body make."""
    made = {name for node in graph.node for name in node.output if name}
    for node in graph.node:
        node.name += suffix
        for names in (node.input, node.output):
            names[:] = [f"{name}{suffix}" if name in made else name for name in names]
    for value in graph.output:
        value.name += suffix


def _ends(graph: onnx.GraphProto, start: int, stop: int) -> tuple[list[str], list[str]]:
    """What the nodes from ``start`` to ``stop`` read from outside, and what is read of them."""
    nodes = list(graph.node)
    part, others = nodes[start:stop], [*nodes[:start], *nodes[stop:]]
    made = dict.fromkeys(name for node in part for name in node.output if name)
    read = dict.fromkeys(name for node in part for name in node.input if name)
    wanted = {name for node in others for name in node.input}
    wanted.update(value.name for value in graph.output)
    return [name for name in read if name not in made], [name for name in made if name in wanted]


def in_loop(model: onnx.ModelProto, n_trips: int) -> onnx.ModelProto:
    """The network ``n_trips`` times over the same input, which the loop's body captures."""
    graph = model.graph
    body = helper.make_graph(
        [*graph.node, helper.make_node("Identity", ["go"], ["gone"], "go on")],
        "body",
        [_VALUE("i", TensorProto.INT64, []), _VALUE("go", TensorProto.BOOL, [])],
        [_VALUE("gone", TensorProto.BOOL, []), *graph.output],
    )
    results = [f"{value.name} all" for value in graph.output]
    loop = helper.make_node("Loop", ["trips", "start"], results, "loop", body=body)
    new = copied(model, [loop])
    new.graph.initializer.append(helper.make_tensor("trips", TensorProto.INT64, [], [n_trips]))
    new.graph.initializer.append(helper.make_tensor("start", TensorProto.BOOL, [], [True]))
    del new.graph.output[:]
    new.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in results)
    return new


def beside(left: onnx.ModelProto, right: onnx.ModelProto) -> onnx.ModelProto:
    """Both networks in one graph; their names must differ."""
    new = copied(left)
    for field in ("node", "input", "output", "initializer"):
        getattr(new.graph, field).extend(getattr(right.graph, field))
    return new
