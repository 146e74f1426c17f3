"""Algorithmic traffic: each operator reads each distinct input once, writes each output once.

Nothing is fused and nothing stays in a cache: that is an upper figure for a runtime
that fuses, and a lower one for a kernel that reads its operands again. Views and
everything that can be computed before data is there move nothing.
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node


def traffic(node: Node, formula: Operator, precision: Precision | None) -> Cost:
    """The bytes that one inference pass of ``node`` moves."""
    if node.is_constant or formula.is_view:
        return NOTHING
    read_bytes = formula.reads(node, precision) if formula.reads else input_bytes(node, precision)
    wrote = formula.writes(node, precision) if formula.writes else write_bytes(node, precision)
    return Cost(read_bytes=read_bytes, write_bytes=wrote)


def input_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes of the distinct inputs, weights among them."""
    return sum(tensor.n_bytes(precision) for tensor in node.distinct)


def write_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes of the outputs that have a name."""
    return sum(output.n_bytes(precision) for output in node.outputs if output.name)
