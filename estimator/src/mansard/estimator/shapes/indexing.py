"""Operators that pick or place elements by index.

https://onnx.ai/onnx/operators/onnx__Gather.html, …__Slice, …__GatherND, …__OneHot and kin
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import INT64
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


@rule("Gather")
def _gather(node: Node) -> Sequence[Spec]:
    data, indices = node.input(0), node.input(1)
    axis = data.axis(node.integer("axis", 0))
    return [(data.dtype, data.shape[:axis] + indices.shape + data.shape[axis + 1 :])]


@rule("GatherElements")
def _gather_elements(node: Node) -> Sequence[Spec]:
    return [(node.input(0).dtype, node.input(1).shape)]


@rule("GatherND")
def _gather_nd(node: Node) -> Sequence[Spec]:
    data, indices = node.input(0), node.input(1)
    batch = node.integer("batch_dims", 0)
    depth = indices.shape[-1]
    if batch < 0 or batch + depth > data.rank:
        raise node.error(f"indices {list(indices.shape)} do not fit {list(data.shape)}")
    return [(data.dtype, indices.shape[:-1] + data.shape[batch + depth :])]


@rule("Slice")
def _slice(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    cuts = slice_of(node)
    shape = tuple(
        len(range(*cut.indices(size))) for cut, size in zip(cuts, data.shape, strict=True)
    )
    return [(data.dtype, shape)]


def slice_of(node: Node) -> tuple[slice, ...]:
    """What a Slice node cuts out of each dimension, as Python's slices.

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
    axes = axes or tuple(range(len(starts)))
    steps = steps or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise node.error("starts, ends, axes and steps do not go together")
    if len({data.axis(axis) for axis in axes}) < len(axes):
        raise node.error(f"axes {list(axes)} repeat")
    cuts = [slice(None)] * data.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        position = data.axis(axis)
        below = step < 0 and end < -data.shape[position]
        cuts[position] = slice(start, None if below else end, step)
    return tuple(cuts)


@rule("NonZero")
def _non_zero(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    return [(INT64, (data.rank, int((node.value(0) != 0).sum())))]


@rule("OneHot")
def _one_hot(node: Node) -> Sequence[Spec]:
    indices, values = node.input(0), node.input(2)
    depth = int(node.value(1).reshape(-1)[0])
    axis = node.integer("axis", -1)
    if depth < 0 or not -indices.rank - 1 <= axis <= indices.rank:
        raise node.error(f"depth {depth} and axis {axis} do not fit {list(indices.shape)}")
    axis %= indices.rank + 1
    return [(values.dtype, (*indices.shape[:axis], depth, *indices.shape[axis:]))]
