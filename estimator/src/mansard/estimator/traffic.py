"""Algorithmic traffic: each operator reads each distinct input once, writes each output once.

Nothing is fused and nothing stays in a cache: that is an upper figure for a runtime
that fuses, and a lower one for a kernel that reads its operands again. Views and
everything that can be computed before data is there move nothing.
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost, Formula
from mansard.estimator.formulas.movement import PICKING
from mansard.estimator.tensors import Node


def traffic(node: Node, formula: Formula, precision: Precision | None) -> Cost:
    """The bytes that one inference pass of ``node`` moves."""
    if node.is_constant or formula.is_view:
        return NOTHING
    return Cost(read_bytes=read_bytes(node, precision), write_bytes=write_bytes(node, precision))


def read_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes of the distinct inputs; of a table that is picked from, only what is picked."""
    whole = sum(tensor.n_bytes(precision) for tensor in node.distinct)
    if node.op_type in PICKING and not node.domain:
        table = node.input(0).n_bytes(precision)
        return whole - table + min(table, node.output.n_bytes(precision))
    return whole


def write_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes of the outputs that have a name."""
    return sum(output.n_bytes(precision) for output in node.outputs if output.name)
