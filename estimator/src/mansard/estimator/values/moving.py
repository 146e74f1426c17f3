"""Values that take no arithmetic: shapes, counts, and numbers that are only moved.

They are most of what exported networks compute shapes from, and need no NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType

from mansard.estimator.element_types import INT64, ElementType
from mansard.estimator.model import StoredTensor
from mansard.estimator.numbers import Numbers, hold
from mansard.estimator.shapes.constants import shape_slice
from mansard.estimator.tensors import Node, Shape


def moved_value(node: Node, dtype: ElementType, shape: Shape) -> Numbers | None:
    """The value of the node's output; None where it has to be computed.

    All inputs whose numbers matter must be known.
    """
    function = _FUNCTIONS.get(node.op_type)
    return None if function is None else function(node, dtype, shape)


def _same(node: Node, dtype: ElementType, shape: Shape) -> Numbers:
    return Numbers(dtype, shape, node.value(0).data)


def _shape_of(node: Node, _dtype: ElementType, shape: Shape) -> Numbers:
    return hold(INT64, shape, shape_slice(node))


def _size_of(node: Node, _dtype: ElementType, _shape: Shape) -> Numbers:
    return hold(INT64, (), (node.input(0).n_elements,))


def _filled(node: Node, dtype: ElementType, shape: Shape) -> Numbers:
    stored, width = node.attributes.get("value"), dtype.n_bits // 8
    fill = stored.value if isinstance(stored, StoredTensor) else None
    one = bytes(width) if fill is None else fill.data[:width]
    return Numbers(dtype, shape, one * math.prod(shape))


def _eye(node: Node, dtype: ElementType, shape: Shape) -> Numbers:
    rows, columns = shape
    k, kind = node.integer("k", 0), float if dtype.is_float else int
    return hold(dtype, shape, [kind(j - i == k) for i in range(rows) for j in range(columns)])


def _range(node: Node, dtype: ElementType, shape: Shape) -> Numbers:
    # The length comes from the shape: rounding may leave another one room.
    start, step = node.value(0).first, node.value(2).first
    return hold(dtype, shape, [start + i * step for i in range(*shape)])


def _gathered(node: Node, dtype: ElementType, shape: Shape) -> Numbers | None:
    whole = node.value(0)
    if whole.shape[:1] == (0,) or node.input(0).axis(node.integer("axis", 0)) != 0:
        return None
    row = len(whole.data) // whole.shape[0]
    places = [i % whole.shape[0] * row for i in node.value_ints(1)]
    return Numbers(dtype, shape, b"".join([whole.data[at : at + row] for at in places]))


def _joined(node: Node, dtype: ElementType, shape: Shape) -> Numbers | None:
    # Before version 4 the axis was 1 where none is given.
    if node.input(0).axis(node.integer("axis", 1)) != 0:
        return None
    return Numbers(dtype, shape, b"".join([held.data for held in node.values]))


_FUNCTIONS: MappingProxyType[str, Callable[[Node, ElementType, Shape], Numbers | None]] = (
    MappingProxyType(
        {
            "Concat": _joined,
            "ConstantOfShape": _filled,
            "EyeLike": _eye,
            "Flatten": _same,
            "Gather": _gathered,
            "Identity": _same,
            "Range": _range,
            "Reshape": _same,
            "Shape": _shape_of,
            "Size": _size_of,
            "Squeeze": _same,
            "Unsqueeze": _same,
        }
    )
)
