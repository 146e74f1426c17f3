"""What a branch costs, to tell which of two is the dearer one."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.operators import REGISTRY
from mansard.estimator.tensors import Node


def branch_cost(nodes: Sequence[Node]) -> tuple[int, int]:
    """Work (FLOP) and bytes of ``nodes`` and of what runs inside them.

    Operators without a formula count their bytes only. Bytes are those of all tensors
    that a node reads and writes: enough to compare, and the same for every operator.
    """
    work_flop = n_bytes = 0
    for node in nodes:
        for body in node.bodies:
            for each in body.passes if body.is_taken else ():
                inner = branch_cost(each.nodes)
                work_flop += each.times * inner[0]
                n_bytes += each.times * inner[1]
        if node.is_constant:
            continue
        formula = REGISTRY.find(node.domain, node.op_type)
        if formula is not None:
            work_flop += formula.cost(node).work_flop
        if formula is None or not formula.is_view:
            n_bytes += sum(tensor.n_bytes(None) for tensor in (*node.distinct, *node.outputs))
    return work_flop, n_bytes
