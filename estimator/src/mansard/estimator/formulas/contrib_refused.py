"""Operators that cannot be scored, each with its reason; see the shape rules of this name."""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_refused import REFUSED
from mansard.estimator.tensors import Node


def _refused(reason: str) -> None:
    def formula(node: Node) -> Cost:
        raise node.error(reason)

    formula.__doc__ = f"Refused: {reason}."
    for (domain, op_type), own in REFUSED.items():
        if own == reason:
            register(op_type, domain=domain)(formula)


for _reason in dict.fromkeys(REFUSED.values()):
    _refused(_reason)
