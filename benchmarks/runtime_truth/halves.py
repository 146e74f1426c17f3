"""Tensors of half precision, which ONNX Runtime's CPU kernels widen to floats.

Where it has no kernel for a type it puts Cast nodes in and runs the kernel for floats, so
the profiler shows another type than the file has. Widths are the file's here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, shape_inference

from mansard.inference.preparing.labelling import bodies, numbered_nodes

from .profiling import Kernel, RealTensor

_NAMES = {TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}


def half_tensors(model: ModelProto) -> dict[str, str]:
    """The type of every tensor of half precision, by its name."""
    stored = (one.data_type for graph in _graphs(model.graph) for one in graph.initializer)
    casts = (
        attribute.i
        for node in numbered_nodes(model.graph)
        for attribute in node.attribute
        if node.op_type == "Cast" and attribute.name == "to"
    )
    fed = (one.type.tensor_type.elem_type for one in model.graph.input)
    if not any(code in _NAMES for codes in (stored, casts, fed) for code in codes):
        return {}
    inferred = shape_inference.infer_shapes(model)
    found: dict[str, str] = {}
    for graph in _graphs(inferred.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            code = value.type.tensor_type.elem_type
            if code in _NAMES:
                found[value.name] = _NAMES[code]
        found |= {
            one.name: _NAMES[one.data_type] for one in graph.initializer if one.data_type in _NAMES
        }
    return found


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for body in bodies(node):
            yield from _graphs(body)


def as_written(node: NodeProto, kernel: Kernel, halves: Mapping[str, str]) -> Kernel:
    """``kernel`` with the types that the file has."""
    if not halves:
        return kernel
    return replace(
        kernel,
        inputs=_narrowed(node.input, kernel.inputs, halves),
        outputs=_narrowed(node.output, kernel.outputs, halves),
    )


def _narrowed(
    names: Sequence[str], tensors: tuple[RealTensor, ...], halves: Mapping[str, str]
) -> tuple[RealTensor, ...]:
    given = [name for name in names if name]
    if len(given) != len(tensors):
        return tensors
    return tuple(
        replace(tensor, type_name=halves[name])
        if tensor.type_name == "float" and name in halves
        else tensor
        for name, tensor in zip(given, tensors, strict=True)
    )
