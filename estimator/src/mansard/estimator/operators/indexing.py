"""Operators that pick elements by index, or put them somewhere by index.

https://onnx.ai/onnx/operators/onnx__Gather.html, …__GatherElements, …__GatherND, …__Slice,
…__Compress, …__NonZero, …__OneHot, …__Unique, …__ScatterElements, …__ScatterND,
…__TensorScatter. Of the table they pick from they read only what they pick.
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.numbers import INT64
from mansard.estimator.operators.costs import (
    no_work,
    per_element,
    pick,
    picked_bytes,
    sort_comparisons,
)
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.shapes import check_length, check_types, chosen, known_int, same
from mansard.estimator.tensors import Node, Tensor

PICKING = ("Compress", "Gather", "GatherElements", "GatherND", "Slice")
_REDUCTIONS = ("none", "add", "mul", "min", "max")


@shape_of("Gather", cost=pick, not_weights=(1,), reads=picked_bytes)
def _gather_shape(node: Node) -> Specs:
    data, indices = node.input(0), node.input(1)
    axis = data.axis(node.integer("axis", 0))
    _check_indices(node, indices, data.shape[axis])
    return [(data.dtype, data.shape[:axis] + indices.shape + data.shape[axis + 1 :])]


def _check_indices(node: Node, indices: Tensor, size: int) -> None:
    """Raise ModelError where an index that is known lies outside ``size`` elements."""
    value = indices.value
    if value is None or not value.data:
        return
    flat = value.flat
    low, high = min(flat), max(flat)
    if low < -size or high >= size:
        raise node.error(f"index {low if low < -size else high} is outside {size} elements")


@shape_of("GatherElements", cost=pick, not_weights=(1,), reads=picked_bytes)
def _gather_elements_shape(node: Node) -> Specs:
    data, indices = node.input(0), node.input(1)
    if data.rank != indices.rank:
        raise node.error(f"indices {list(indices.shape)} do not fit {list(data.shape)}")
    _check_indices(node, indices, data.shape[data.axis(node.integer("axis", 0))])
    return [(data.dtype, indices.shape)]


@shape_of("GatherND", cost=pick, not_weights=(1,), reads=picked_bytes)
def _gather_nd_shape(node: Node) -> Specs:
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


@shape_of("Slice", cost=pick, not_weights=(1,), reads=picked_bytes)
def _slice_shape(node: Node) -> Specs:
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


@shape_of("Compress", cost=pick, not_weights=(1,), reads=picked_bytes)
def _compress_shape(node: Node) -> Specs:
    """So many as the condition has ones; elements beyond its end are dropped."""
    data, condition = node.input(0), node.input(1)
    n = None if condition.value is None else sum(map(bool, condition.value.flat))
    axis = node.attributes.get("axis")
    total = data.n_elements if axis is None else data.shape[data.axis(node.integer("axis", 0))]
    if condition.rank != 1 or condition.n_elements > total:
        raise node.error(f"condition {list(condition.shape)} does not fit {list(data.shape)}")
    if axis is None:
        return [(data.dtype, (n,))]
    position = data.axis(node.integer("axis", 0))
    return [(data.dtype, (*data.shape[:position], n, *data.shape[position + 1 :]))]


def _non_zero_shape(node: Node) -> Specs:
    data = node.input(0)
    n = None if data.value is None else sum(map(bool, data.value.flat))
    return [(INT64, (data.rank, n))]


@operator("NonZero", shape=_non_zero_shape)
def non_zero(node: Node) -> Cost:
    """A comparison for each element of the input."""
    return Cost(simple=node.input(0).n_elements)


def _unique_shape(node: Node) -> Specs:
    """What differs, where each first stood, which one each element is, how often each is."""
    import numpy as np

    data = node.input(0)
    axis = node.attributes.get("axis")
    position = None if axis is None else data.axis(node.integer("axis", 0))
    found = None if data.value is None else np.unique(data.value.array, axis=position)
    if position is None:
        n = None if found is None else found.size
        counted: tuple[int | None, ...] = (n,)
        total = data.n_elements
    else:
        n = None if found is None else found.shape[position]
        counted = (*data.shape[:position], n, *data.shape[position + 1 :])
        total = data.shape[position]
    return [(data.dtype, counted), (INT64, (n,)), (INT64, (total,)), (INT64, (n,))]


def _sorted(n: int) -> int:
    return sort_comparisons(n) + max(n - 1, 0)


@operator("Unique", shape=_unique_shape)
def unique(node: Node) -> Cost:
    """n·⌈log2 n⌉ + n - 1 comparisons; along an axis of whole slices."""
    data = node.input(0)
    if "axis" not in node.attributes:
        return Cost(simple=_sorted(data.n_elements))
    n = data.shape[data.axis(node.integer("axis", 0))]
    return Cost(simple=_sorted(n) * (data.n_elements // max(n, 1)))


@shape_of(
    "OneHot",
    cost=per_element(1, text="A comparison for each element of the output: is this the index?"),
    not_weights=(0, 1, 2),
)
def _one_hot_shape(node: Node) -> Specs:
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


def scatter(node: Node) -> Cost:
    """1 operation for each update with a reduction, else none."""
    is_plain = node.text("reduction", "none") == "none"
    return NOTHING if is_plain else Cost(simple=node.input(2).n_elements)


@shape_of("Scatter", "ScatterElements", cost=scatter, not_weights=(1,))
def _scatter_elements_shape(node: Node) -> Specs:
    data, indices, updates = node.input(0), node.input(1), node.input(2)
    check_types(node, data, (updates,))
    chosen(node, "reduction", "none", _REDUCTIONS)
    if indices.rank != data.rank or updates.shape != indices.shape:
        raise node.error(
            f"indices {list(indices.shape)} and updates {list(updates.shape)} do not fit "
            f"{list(data.shape)}"
        )
    _check_indices(node, indices, data.shape[data.axis(node.integer("axis", 0))])
    return [same(data)]


@shape_of("ScatterND", cost=scatter, not_weights=(1,))
def _scatter_nd_shape(node: Node) -> Specs:
    data, indices, updates = node.input(0), node.input(1), node.input(2)
    check_types(node, data, (updates,))
    chosen(node, "reduction", "none", _REDUCTIONS)
    depth = indices.shape[-1]
    if depth > data.rank or updates.shape != indices.shape[:-1] + data.shape[depth:]:
        raise node.error(
            f"indices {list(indices.shape)} and updates {list(updates.shape)} do not fit "
            f"{list(data.shape)}"
        )
    return [same(data)]


def _tensor_scatter_shape(node: Node) -> Specs:
    cache, update = node.input(0), node.input(1)
    check_types(node, cache, (update,))
    axis = cache.axis(node.integer("axis", -2))
    rest = cache.shape[:axis] + cache.shape[axis + 1 :]
    fits = update.rank == cache.rank and update.shape[axis] <= cache.shape[axis]
    if not axis or not fits or update.shape[:axis] + update.shape[axis + 1 :] != rest:
        raise node.error(
            f"update {list(update.shape)} does not fit into {list(cache.shape)} at axis {axis}"
        )
    check_length(node, 2, cache.shape[0], "samples")
    return [same(cache)]


def _update_reads(node: Node, precision: Precision | None) -> int:
    """All inputs but the cache."""
    return sum(tensor.n_bytes(precision) for tensor in node.present[1:])


def _update_writes(node: Node, precision: Precision | None) -> int:
    """As many bytes as the update has."""
    return node.input(1).n_bytes(precision)


operator(
    "TensorScatter",
    shape=_tensor_scatter_shape,
    not_weights=(2,),
    reads=_update_reads,
    writes=_update_writes,
)(no_work("No work; the cache is updated in place."))
