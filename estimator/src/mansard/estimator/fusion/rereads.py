"""How often an attention kernel reads its keys and values.

Flash attention works on blocks of Br rows of the queries and passes all keys and values
for each. With d elements a head and w bytes an element (LLM-Viewer, arXiv:2402.16363):

    Br = min(⌈buffer / (w · d)⌉, d),  n = ⌈s_q / Br⌉
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.fusion.drafts import Draft, Drafts, Kind
from mansard.estimator.tensors import Node, Tensor

Operands = tuple[Tensor, Tensor, Tensor]  # queries, keys, values


def rereads(
    draft: Draft, drafts: Drafts, buffer_bytes: int, precision: Precision | None
) -> tuple[int, int]:
    """Bytes of keys and values that are read after the first time, and their bytes at all."""
    nodes = drafts.wiring.nodes
    head = nodes[draft.places[0]]
    if draft.kind is Kind.ATTENTION:
        scores, weighted = (nodes[place] for place in sorted(draft.products))
        operands = scores.input(0), scores.input(1), weighted.input(1)
        if operands[0].rank < 2:
            return 0, 0
        n_rows, width = operands[0].shape[-2:]
    elif (head.domain, head.op_type) == ("", "Attention"):
        operands = head.input(0), head.input(1), head.input(2)
        n_rows, width = _rows(head, operands[0])
    else:
        return 0, 0
    keys, values = operands[1:]
    element_bytes = max(keys.dtype.width_bits(precision) // 8, 1)
    block = max(min(-(-buffer_bytes // (element_bytes * max(width, 1))), width), 1)
    span_bytes = keys.n_bytes(precision) + values.n_bytes(precision)
    return (-(-n_rows // block) - 1) * span_bytes if n_rows else 0, span_bytes


def _rows(node: Node, queries: Tensor) -> tuple[int, int]:
    """Rows of the queries and elements of a head."""
    if queries.rank == 4:
        return queries.shape[2], queries.shape[3]
    return queries.shape[1], queries.shape[2] // max(node.integer("q_num_heads", 1), 1)
