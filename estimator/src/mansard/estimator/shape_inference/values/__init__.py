"""Small known values: the integers that exported networks compute shapes from.

This is constant folding of shape arithmetic, not execution: only tensors of a few
elements that do not depend on data ever get here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.element_types import ElementType
from mansard.estimator.numbers import (
    MAX_FLOATS,
    MAX_INTEGERS,
    Numbers,
    has_numbers,
    hold_array,
    may_keep,
)
from mansard.estimator.shape_inference.values.plain import ARITHMETIC, MOVES, Known
from mansard.estimator.tensors import Node, Shape

__all__ = ["MAX_FLOATS", "MAX_INTEGERS", "evaluate_all", "may_keep"]

_MOVES = {**MOVES, **ARITHMETIC}
# These look at the shape of their input alone.
_OF_SHAPES = frozenset({"EyeLike", "Shape", "Size"})


def evaluate_all(node: Node, specs: Sequence[Known]) -> tuple[Numbers | None, ...]:
    """The value of each output, None where it is not worth knowing.

    ``specs`` are types and shapes of the outputs, known beforehand, so that no value is
    computed that would be too large. Raises ModelError where the values make no sense.
    """
    nothing = (None,) * len(specs)
    if node.domain:
        return nothing
    is_worth = [_is_worth(dtype, shape) for dtype, shape in specs]
    if not any(is_worth):
        return nothing
    if node.op_type not in _OF_SHAPES:
        # Of what CastLike reads second only the type is of interest.
        for tensor in node.inputs[:1] if node.op_type == "CastLike" else node.inputs:
            if tensor is not None and tensor.value is None:
                return nothing
    move = _MOVES.get(node.op_type)
    return _computed(node, specs, is_worth) if move is None else (move(node, *specs[0]),)


def _computed(
    node: Node, specs: Sequence[Known], is_worth: Sequence[bool]
) -> tuple[Numbers | None, ...]:
    # Here, as it takes NumPy along, which most networks need not wait for.
    import numpy as np

    from mansard.estimator.shape_inference.values.with_numpy import EVALUATORS

    nothing = (None,) * len(specs)
    function = EVALUATORS.get(node.op_type)
    if function is None:
        return nothing
    with np.errstate(all="ignore"):
        found = function(node, specs)
        return (
            tuple(
                hold_array(dtype, np.reshape(value, shape)) if worth and value is not None else None
                for value, worth, (dtype, shape) in zip(found, is_worth, specs, strict=False)
            )
            + nothing[len(found) :]
        )


def _is_worth(dtype: ElementType, shape: Shape) -> bool:
    return has_numbers(dtype) and may_keep(dtype, math.prod(shape))
