"""Small known values: the integers that exported networks compute shapes from.

This is constant folding of shape arithmetic, not execution: only tensors of a few
elements that do not depend on data are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.numbers import (
    Numbers,
    has_numbers,
    hold_array,
    may_keep,
)
from mansard.estimator.shape_inference.values.plain import PLAIN_EVALUATORS, Known
from mansard.estimator.tensors import Node

# These need only the shape of their input.
_OF_SHAPES = frozenset({"EyeLike", "Shape", "Size"})


def evaluate_all(node: Node, specs: Sequence[Known]) -> tuple[Numbers | None, ...]:
    """The value of each output, None where it is unknown or too large to be kept.

    ``specs`` are types and shapes of the outputs, known beforehand, so that no value is
    computed that would be too large. Raises ModelError where the values make no sense.
    """
    nothing = (None,) * len(specs)
    if node.domain:
        return nothing
    are_kept = [has_numbers(dtype) and may_keep(dtype, math.prod(shape)) for dtype, shape in specs]
    if not any(are_kept):
        return nothing
    if node.op_type not in _OF_SHAPES:
        # CastLike uses only the type of its second input.
        for tensor in node.inputs[:1] if node.op_type == "CastLike" else node.inputs:
            if tensor is not None and tensor.value is None:
                return nothing
    plain = PLAIN_EVALUATORS.get(node.op_type)
    known = plain(node, *specs[0]) if plain is not None else None
    if known is not None:
        return (known,)
    # NumPy is imported here: few networks need it, and importing takes longer than scoring.
    import numpy as np

    from mansard.estimator.shape_inference.values.with_numpy import EVALUATORS

    evaluate = EVALUATORS.get(node.op_type)
    if evaluate is None:
        return nothing
    with np.errstate(all="ignore"):
        found = evaluate(node, specs)
        values = [
            hold_array(dtype, np.reshape(value, shape)) if is_kept and value is not None else None
            for value, is_kept, (dtype, shape) in zip(found, are_kept, specs, strict=False)
        ]
    return (*values, *nothing[len(values) :])
