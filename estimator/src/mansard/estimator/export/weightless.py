"""Weights as ``ConstantOfShape``: a graph of a few kilobytes that runs and scores the same.

Why this form and no other: docs/decisions/0003-weights-as-constant-of-shape.md.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

_LEAST_ELEMENTS = 16  # fewer are a scale or an epsilon, which results may hang on
_INT64 = 7  # onnx.TensorProto.INT64
_FLOATING = frozenset({1, 10, 11})  # FLOAT, FLOAT16, DOUBLE: what every version of it can fill


def without_weights(model: onnx.ModelProto) -> int:
    """Replace the floating initialisers of ``model`` in place; returns how many.

    Their values are neither read nor kept, so external data may be absent. A weight of
    several axes is filled with one over the inputs of an output, which keeps signals in
    range; any other with 1.
    """
    graph = model.graph
    weights = [tensor for tensor in graph.initializer if _is_weight(tensor)]
    kept = [tensor for tensor in graph.initializer if not _is_weight(tensor)]
    names = {tensor.name for tensor in weights}
    taken = {tensor.name for tensor in graph.initializer}
    taken.update(name for node in graph.node for name in (*node.input, *node.output))
    shapes: dict[tuple[int, ...], onnx.TensorProto] = {}
    for tensor in weights:
        lengths = tuple(tensor.dims)
        if lengths not in shapes:
            shapes[lengths] = _shape(lengths, taken)
    nodes = [_fill(tensor, shapes[tuple(tensor.dims)]) for tensor in weights]
    nodes += graph.node
    inputs = [one for one in graph.input if one.name not in names]  # IR version 3 lists them there
    del graph.initializer[:], graph.node[:], graph.input[:]
    graph.initializer.extend([*kept, *shapes.values()])
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    return len(weights)


def _is_weight(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type in _FLOATING and prod(tensor.dims) >= _LEAST_ELEMENTS


def _shape(lengths: tuple[int, ...], taken: set[str]) -> onnx.TensorProto:
    """A constant that holds ``lengths``, under a name that is free."""
    from onnx import helper

    name = "shape_" + "x".join(map(str, lengths))
    while name in taken:
        name += "_"
    taken.add(name)
    return helper.make_tensor(name, _INT64, [len(lengths)], lengths)


def _fill(tensor: onnx.TensorProto, shape: onnx.TensorProto) -> onnx.NodeProto:
    from onnx import helper

    value = 1 / prod(tensor.dims[1:]) if len(tensor.dims) > 1 else 1.0
    fill = helper.make_tensor("value", tensor.data_type, [1], [value])
    return helper.make_node(
        "ConstantOfShape", [shape.name], [tensor.name], name=f"{tensor.name}_fill", value=fill
    )
