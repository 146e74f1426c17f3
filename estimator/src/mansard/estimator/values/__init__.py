"""Small known values: the integers that exported networks compute shapes from.

This is constant folding of shape arithmetic, not execution: only tensors of a few
elements that do not depend on data ever get here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from mansard.estimator.element_types import ElementType
from mansard.estimator.tensors import Array, Node, Shape
from mansard.estimator.values import indexing, layout, making, pointwise, reduction
from mansard.estimator.values.limits import MAX_FLOATS, MAX_INTEGERS, may_keep
from mansard.estimator.values.registry import Evaluate, Known

__all__ = [
    "EVALUATORS",
    "MAX_FLOATS",
    "MAX_INTEGERS",
    "evaluate",
    "evaluate_all",
    "may_keep",
]

EVALUATORS: MappingProxyType[str, Evaluate] = MappingProxyType(
    {
        **indexing.EVALUATORS,
        **layout.EVALUATORS,
        **making.EVALUATORS,
        **pointwise.EVALUATORS,
        **reduction.EVALUATORS,
    }
)

# Operators that look at the shape of their input alone.
_OF_SHAPES = frozenset({"Shape", "Size", "EyeLike"})

_NUMPY_TYPES = frozenset(
    {"bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64"}
    | {"uint8", "uint16", "uint32", "uint64"}
)


def evaluate_all(node: Node, specs: Sequence[Known]) -> tuple[Array | None, ...]:
    """The value of each output, None where it is not worth knowing.

    ``specs`` are types and shapes of the outputs, known beforehand, so that no value is
    computed that would be too large. Raises ModelError where the values make no sense.
    """
    nothing = (None,) * len(specs)
    function = EVALUATORS.get(node.op_type)
    if function is None or node.domain:
        return nothing
    is_worth = [_is_worth(dtype, shape) for dtype, shape in specs]
    if not any(is_worth):
        return nothing
    if node.op_type not in _OF_SHAPES:
        for tensor in node.inputs:
            if tensor is not None and tensor.value is None:
                return nothing
    with np.errstate(all="ignore"):
        found = function(node, specs)
        return (
            tuple(
                np.asarray(value).astype(dtype.name).reshape(shape)
                if worth and value is not None
                else None
                for value, worth, (dtype, shape) in zip(found, is_worth, specs, strict=False)
            )
            + nothing[len(found) :]
        )


def evaluate(node: Node, dtype: ElementType, shape: Shape) -> Array | None:
    """The value of the node's only output; see ``evaluate_all``."""
    return evaluate_all(node, [(dtype, shape)])[0]


def _is_worth(dtype: ElementType, shape: Shape) -> bool:
    return dtype.name in _NUMPY_TYPES and may_keep(dtype, math.prod(shape))
