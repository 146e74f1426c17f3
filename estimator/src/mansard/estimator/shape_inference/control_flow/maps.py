"""SequenceMap and FlexAttention: graphs that run once for each element, or once over all scores.

Specifications: https://onnx.ai/onnx/operators/onnx__SequenceMap.html and
https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from mansard.estimator.numbers import FLOAT32, FLOAT64
from mansard.estimator.operators.attention import attention_sizes
from mansard.estimator.operators.shapes import element_type
from mansard.estimator.shape_inference.context import InferenceContext, Outputs, unknown_outputs
from mansard.estimator.shape_inference.control_flow.iteration import from_iterations
from mansard.estimator.shape_inference.control_flow.subgraphs import (
    GraphRun,
    node_outputs,
    open_graph,
)
from mansard.estimator.shape_inference.sequences import sequence
from mansard.estimator.tensors import Node, Origin, Pass, Tensor


def infer_sequence_map(
    node: Node, outer: Mapping[str, Tensor], context: InferenceContext
) -> Outputs:
    """Outputs and body; equal elements share one pass."""
    if node.unknown_input is not None:
        return unknown_outputs(node, node.unknown_input), ()
    items = node.input(0).items
    if items is None:
        raise node.error("input 0 must be a sequence")
    inner = open_graph(node, "body", outer, context)
    ran: dict[Hashable, GraphRun] = {}
    times: dict[Hashable, int] = {}
    keys: list[Hashable] = []
    for i in range(len(items)):
        inputs = from_iterations(_element(node, tensor, i, len(items)) for tensor in node.present)
        key = tuple(map(_key, inputs))
        if key not in ran:
            ran[key] = inner.run(inputs)
        times[key] = times.get(key, 0) + 1
        keys.append(key)
    results = tuple(
        sequence(output.name, output.dtype or FLOAT32, [ran[key].outputs[k] for key in keys])
        for k, output in enumerate(inner.graph.outputs)
    )
    passes = tuple(Pass(found.nodes, times[key]) for key, found in ran.items())
    return node_outputs(node, results, Origin.ITERATIONS), (inner.body(passes),)


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


def infer_flex_attention(
    node: Node, outer: Mapping[str, Tensor], context: InferenceContext
) -> Outputs:
    """Output and the graphs, each of which runs once over all scores."""
    if node.unknown_input is not None:
        return unknown_outputs(node, node.unknown_input), ()
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
    for name in ("score_mod", "prob_mod"):
        if name not in node.attributes:
            continue
        inner = open_graph(node, name, outer, context)
        ran = inner.run((scores,))
        if len(ran.outputs) != 1 or ran.outputs[0].shape != scores.shape:
            raise node.error(f"graph {name!r} does not give scores of {list(scores.shape)}")
        bodies.append(inner.body((Pass(ran.nodes, 1),)))
    shape = (sizes.batch, sizes.heads, sizes.n_queries, sizes.v_width)
    origin = max(tensor.origin for tensor in node.present)
    return (Tensor(node.output_names[0], query.dtype, shape, origin),), tuple(bodies)
