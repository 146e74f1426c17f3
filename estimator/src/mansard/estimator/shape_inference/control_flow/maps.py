"""SequenceMap and FlexAttention: graphs that run once for each element, or once over all scores.

Specifications: https://onnx.ai/onnx/operators/onnx__SequenceMap.html and
https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from mansard.estimator.element_types import FLOAT32, FLOAT64
from mansard.estimator.operators.attention import attention_sizes
from mansard.estimator.operators.shapes import element_type
from mansard.estimator.shape_inference.context import InferenceContext, Outputs
from mansard.estimator.shape_inference.control_flow.iteration import out_of_rounds
from mansard.estimator.shape_inference.control_flow.subgraphs import (
    Ran,
    given_out,
    names_in,
    names_out,
    open_graph,
    run_graph,
)
from mansard.estimator.shape_inference.sequences import sequence
from mansard.estimator.tensors import Body, Node, Origin, Pass, Tensor

_BODY = "body"

Inputs = tuple[Tensor, ...]


def infer_sequence_map(
    node: Node, outer: Mapping[str, Tensor], context: InferenceContext
) -> Outputs:
    """Outputs and body; elements that look alike share one pass."""
    lost = next((tensor.unknown for tensor in node.present if tensor.unknown), None)
    if lost is not None:
        return tuple(Tensor(name, FLOAT32, (), unknown=lost) for name in node.output_names), ()
    items = node.input(0).items
    if items is None:
        raise node.error("input 0 must be a sequence")
    frame = open_graph(node, _BODY, outer, context)
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


_GRAPHS = ("score_mod", "prob_mod")


def infer_flex_attention(
    node: Node, outer: Mapping[str, Tensor], context: InferenceContext
) -> Outputs:
    """Output and the graphs, each of which runs once over all scores."""
    lost = next((tensor.unknown for tensor in node.present if tensor.unknown), None)
    if lost is not None:
        return tuple(Tensor(name, FLOAT32, (), unknown=lost) for name in node.output_names), ()
    sizes, query = attention_sizes(node), node.input(0)
    if query.rank != 4 or len(node.output_names) != 1:
        raise node.error(f"query {list(query.shape)} or its outputs do not fit")
    default = FLOAT64 if query.dtype == FLOAT64 else FLOAT32
    scores = Tensor(
        f"{node.output_names[0]}/scores",
        element_type(node, "softmax_precision", default),
        (sizes.batch, sizes.heads, sizes.n_queries, sizes.n_keys),
    )
    bodies = []
    for name in _GRAPHS:
        if name not in node.attributes:
            continue
        frame = open_graph(node, name, outer, context)
        ran = run_graph(frame, (scores,))
        if len(ran.outputs) != 1 or ran.outputs[0].shape != scores.shape:
            raise node.error(f"graph {name!r} does not give scores of {list(scores.shape)}")
        bodies.append(Body(name, names_in(frame), names_out(frame), (Pass(ran.nodes, 1),)))
    shape = (sizes.batch, sizes.heads, sizes.n_queries, sizes.v_width)
    origin = max(tensor.origin for tensor in node.present)
    return (Tensor(node.output_names[0], query.dtype, shape, origin),), tuple(bodies)
