"""If, Loop and Scan, sequences and optionals: handing tensors around costs nothing.

The nodes inside count for themselves, as often as they run; what a loop collects is
written in place by the nodes that make it. A sequence or optional refers to its
tensors. Only taking a tensor apart, or putting one together, moves data.
"""

from __future__ import annotations

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node

# What is handed into a loop belongs to the nodes inside that use it. No node has more inputs.
_ANY_INPUT = tuple(range(1024))


@register("If", "Loop", "Scan", "SequenceMap", is_view=True, not_weights=_ANY_INPUT)
def control_flow(node: Node) -> Cost:  # noqa: ARG001
    """Nothing itself: the nodes of its graphs have rows of their own."""
    return NOTHING


@register(
    *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "Optional", "OptionalGetElement", "OptionalHasElement"),
    is_view=True,
)
def refer(node: Node) -> Cost:  # noqa: ARG001
    """No work and no traffic: the tensors stay where they are."""
    return NOTHING


@register("ConcatFromSequence", "SplitToSequence", not_weights=(1,))
def rebuild(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads and writes every tensor."""
    return NOTHING
