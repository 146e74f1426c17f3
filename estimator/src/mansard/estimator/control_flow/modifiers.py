"""FlexAttention: graphs that change its scores and its probabilities.

Specification: https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html.
"""

from __future__ import annotations

from mansard.estimator.control_flow.course import Course, Outer
from mansard.estimator.control_flow.frames import names_in, names_out, open_graph, run_graph
from mansard.estimator.element_types import FLOAT32, FLOAT64
from mansard.estimator.operators.attention import attention_sizes
from mansard.estimator.operators.shapes import element_type
from mansard.estimator.tensors import Body, Node, Pass, Tensor

_GRAPHS = ("score_mod", "prob_mod")


def place_flex_attention(
    node: Node, outer: Outer, course: Course
) -> tuple[tuple[Tensor, ...], tuple[Body, ...]]:
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
        frame = open_graph(node, name, outer, course)
        ran = run_graph(frame, (scores,))
        if len(ran.outputs) != 1 or ran.outputs[0].shape != scores.shape:
            raise node.error(f"graph {name!r} does not give scores of {list(scores.shape)}")
        bodies.append(Body(name, names_in(frame), names_out(frame), (Pass(ran.nodes, 1),)))
    shape = (sizes.batch, sizes.heads, sizes.n_queries, sizes.v_width)
    origin = max(tensor.origin for tensor in node.present)
    return (Tensor(node.output_names[0], query.dtype, shape, origin),), tuple(bodies)
