"""What an evaluator is: a node and what its outputs look like go in, their values come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mansard.estimator.element_types import ElementType
from mansard.estimator.numbers import Array, Numbers
from mansard.estimator.tensors import Node, Shape

Known = tuple[ElementType, Shape]
Evaluate = Callable[[Node, Sequence[Known]], "Sequence[Array | None]"]


# How a value is found without NumPy; None where it cannot be.
Move = Callable[[Node, ElementType, Shape], "Numbers | None"]


def alone(function: Callable[[Node, Shape], Array | None]) -> Evaluate:
    """An evaluator of one output from a function of the node and that output's shape."""
    return lambda node, specs: (function(node, specs[0][1]),)
