"""Operators that pick elements by index.

https://onnx.ai/onnx/operators/onnx__Gather.html, …__GatherElements, …__GatherND, …__Slice,
…__Compress, …__NonZero, …__OneHot, …__Unique
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import INT64
from mansard.estimator.shapes.checks import known_int
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Tensor


@rule("Gather")
def _gather(node: Node) -> Sequence[Spec]:
    data, indices = node.input(0), node.input(1)
    axis = data.axis(node.integer("axis", 0))
    check_indices(node, indices, data.shape[axis])
    return [(data.dtype, data.shape[:axis] + indices.shape + data.shape[axis + 1 :])]


def check_indices(node: Node, indices: Tensor, size: int) -> None:
    """Raise ModelError where an index that is known lies outside ``size`` elements."""
    value = indices.value
    if value is None or not value.data:
        return
    flat = value.flat
    low, high = min(flat), max(flat)
    if low < -size or high >= size:
        raise node.error(f"index {low if low < -size else high} is outside {size} elements")


@rule("GatherElements")
def _gather_elements(node: Node) -> Sequence[Spec]:
    data, indices = node.input(0), node.input(1)
    if data.rank != indices.rank:
        raise node.error(f"indices {list(indices.shape)} do not fit {list(data.shape)}")
    check_indices(node, indices, data.shape[data.axis(node.integer("axis", 0))])
    return [(data.dtype, indices.shape)]


@rule("GatherND")
def _gather_nd(node: Node) -> Sequence[Spec]:
    data, indices = node.input(0), node.input(1)
    batch = node.integer("batch_dims", 0)
    depth = indices.shape[-1]
    if (
        batch < 0
        or batch >= indices.rank
        or batch + depth > data.rank
        or indices.shape[:batch] != data.shape[:batch]
    ):
        raise node.error(f"indices {list(indices.shape)} do not fit {list(data.shape)}")
    return [(data.dtype, indices.shape[:-1] + data.shape[batch + depth :])]


@rule("Slice")
def _slice(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if node.opset >= 10 and any(
        node.has(i) and node.input(i).value is None for i in range(1, len(node.inputs))
    ):
        return [(data.dtype, _open_slice(node, data))]
    cuts = slice_of(node)
    shape = list(data.shape)
    for axis, cut in cuts.items():
        shape[axis] = len(range(*cut.indices(shape[axis])))
    return [(data.dtype, tuple(shape))]


def _open_slice(node: Node, data: Tensor) -> tuple[int | None, ...]:
    """The shape of a Slice whose ends depend on data: the axes that are cut stay open."""
    if node.has(3):
        if node.input(3).value is None:
            return (None,) * data.rank
        cut = {data.axis(axis) for axis in node.value_ints(3)}
    else:
        cut = set(range(min(node.input(1).n_elements, data.rank)))
    return tuple(None if i in cut else size for i, size in enumerate(data.shape))


def slice_of(node: Node) -> dict[int, slice]:
    """What a Slice node cuts out of each axis that it cuts, as Python's slices.

    Both clamp to the dimension and count negative numbers from its end, so ends
    such as INT64_MAX need no care, but a negative step that runs to the front does.
    """
    data = node.input(0)
    if node.opset < 10:
        starts, ends = node.integers("starts") or (), node.integers("ends") or ()
        axes, steps = node.integers("axes"), None
    else:
        starts, ends = node.value_ints(1), node.value_ints(2)
        axes = node.value_ints(3) if node.has(3) else None
        steps = node.value_ints(4) if node.has(4) else None
    if axes is None:
        axes = tuple(range(len(starts)))
    steps = steps or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise node.error("starts, ends, axes and steps do not go together")
    cuts: dict[int, slice] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        position = data.axis(axis)
        if position in cuts:
            raise node.error(f"axes {list(axes)} repeat")
        below = step < 0 and end < -data.shape[position]
        cuts[position] = slice(start, None if below else end, step)
    return cuts


@rule("Compress")
def _compress(node: Node) -> Sequence[Spec]:
    """So many as the condition has ones; elements beyond its end are dropped."""
    data, condition = node.input(0), node.input(1)
    n = None if condition.value is None else sum(map(bool, condition.value.flat))
    axis = node.attributes.get("axis")
    total = data.n_elements if axis is None else data.shape[data.axis(node.integer("axis", 0))]
    if condition.rank != 1 or condition.n_elements > total:
        raise node.error(f"condition {list(condition.shape)} does not fit {list(data.shape)}")
    if axis is None:
        return [(data.dtype, (n,))]
    place = data.axis(node.integer("axis", 0))
    return [(data.dtype, (*data.shape[:place], n, *data.shape[place + 1 :]))]


@rule("NonZero")
def _non_zero(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    n = None if data.value is None else sum(map(bool, data.value.flat))
    return [(INT64, (data.rank, n))]


@rule("Unique")
def _unique(node: Node) -> Sequence[Spec]:
    """What differs, where each first stood, which one each element is, how often each is."""
    import numpy as np

    data = node.input(0)
    axis = node.attributes.get("axis")
    place = None if axis is None else data.axis(node.integer("axis", 0))
    found = None if data.value is None else np.unique(data.value.array, axis=place)
    if place is None:
        n = None if found is None else found.size
        counted: tuple[int | None, ...] = (n,)
        total = data.n_elements
    else:
        n = None if found is None else found.shape[place]
        counted = (*data.shape[:place], n, *data.shape[place + 1 :])
        total = data.shape[place]
    return [(data.dtype, counted), (INT64, (n,)), (INT64, (total,)), (INT64, (n,))]


@rule("OneHot")
def _one_hot(node: Node) -> Sequence[Spec]:
    indices, values = node.input(0), node.input(2)
    node.input(1)
    depth = known_int(node, 1)
    axis = node.integer("axis", -1)
    if (depth is not None and depth < 0) or not -indices.rank - 1 <= axis <= indices.rank:
        raise node.error(f"depth {depth} and axis {axis} do not fit {list(indices.shape)}")
    if values.n_elements != 2:
        raise node.error(f"{values.name!r} must hold the value for off and for on")
    axis %= indices.rank + 1
    return [(values.dtype, (*indices.shape[:axis], depth, *indices.shape[axis:]))]
