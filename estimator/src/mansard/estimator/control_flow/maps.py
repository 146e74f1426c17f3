"""SequenceMap: its graph once for each element of a sequence.

Specification: https://onnx.ai/onnx/operators/onnx__SequenceMap.html.
"""

from __future__ import annotations

from collections.abc import Hashable

from mansard.estimator.control_flow.course import Course, Outer
from mansard.estimator.control_flow.cycles import out_of_rounds
from mansard.estimator.control_flow.frames import (
    Ran,
    given_out,
    names_in,
    names_out,
    open_graph,
    run_graph,
)
from mansard.estimator.element_types import FLOAT32
from mansard.estimator.sequences import sequence
from mansard.estimator.tensors import Body, Node, Origin, Pass, Tensor

_BODY = "body"

Inputs = tuple[Tensor, ...]


def place_sequence_map(
    node: Node, outer: Outer, course: Course
) -> tuple[tuple[Tensor, ...], tuple[Body, ...]]:
    """Outputs and body; elements that look alike share one pass."""
    lost = next((tensor.unknown for tensor in node.present if tensor.unknown), None)
    if lost is not None:
        return tuple(Tensor(name, FLOAT32, (), unknown=lost) for name in node.output_names), ()
    items = node.input(0).items
    if items is None:
        raise node.error("input 0 must be a sequence")
    frame = open_graph(node, _BODY, outer, course)
    ran: dict[Hashable, Ran] = {}
    times: dict[Hashable, int] = {}
    keys: list[Hashable] = []
    for i in range(len(items)):
        inputs = out_of_rounds(_element(node, tensor, i, len(items)) for tensor in node.present)
        key = tuple(map(_key, inputs))
        if key not in ran:
            ran[key] = run_graph(frame, inputs)
        times[key] = times.get(key, 0) + 1
        keys.append(key)
    results = tuple(
        sequence(output.name, output.dtype or FLOAT32, [ran[key].outputs[k] for key in keys])
        for k, output in enumerate(frame.graph.outputs)
    )
    passes = tuple(Pass(found.nodes, times[key]) for key, found in ran.items())
    body = Body(_BODY, names_in(frame), names_out(frame), passes)
    return given_out(node, results, Origin.ROUNDS), (body,)


def _element(node: Node, tensor: Tensor, i: int, length: int) -> Tensor:
    """What the graph gets of an input: element ``i`` of a sequence, or the whole tensor."""
    if tensor.items is None:
        return tensor
    if len(tensor.items) != length:
        raise node.error(f"its sequences have {length} and {len(tensor.items)} elements")
    return tensor.items[i]


def _key(tensor: Tensor) -> Hashable:
    """Equal for tensors that lead to the same work."""
    value = None if tensor.value is None else tensor.value.data
    return tensor.dtype.code, tensor.shape, tensor.origin, value, tensor.unknown
