"""If, Loop and Scan, sequences and optionals: handing tensors around costs nothing.

The nodes inside count for themselves, as often as they run; what a loop collects is
written in place by the nodes that make it. A sequence or optional refers to its
tensors. Only taking a tensor apart, or putting one together, moves data.
"""

from __future__ import annotations

from mansard.estimator.operators.costs import no_work
from mansard.estimator.operators.registry import operator

# What is handed into a loop belongs to the nodes inside that use it. No node has more inputs.
_ANY_INPUT = tuple(range(1024))

operator("If", "Loop", "Scan", "SequenceMap", is_view=True, not_weights=_ANY_INPUT)(
    no_work("No work; the nodes of its graphs have rows of their own.")
)

operator(
    *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "Optional", "OptionalGetElement", "OptionalHasElement"),
    is_view=True,
)(no_work("No work and no traffic: the tensors stay where they are."))

operator("ConcatFromSequence", "SplitToSequence", not_weights=(1,))(no_work())
