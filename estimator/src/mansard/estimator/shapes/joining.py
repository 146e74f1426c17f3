"""Operators that join, cut, repeat and pad.

https://onnx.ai/onnx/operators/onnx__Concat.html, …__Split, …__Expand, …__Tile, …__Pad,
…__CenterCropPad
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.shapes.checks import (
    BAKED_IN,
    check_types,
    distinct_axes,
    known_ints,
    open_shape,
)
from mansard.estimator.shapes.elementwise import broadcast, same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape


@rule("Concat")
def _concat(node: Node) -> Sequence[Spec]:
    first, axis = node.input(0), node.integer("axis", 1)
    if node.opset >= 4 and "axis" not in node.attributes:
        raise node.error("the axis is missing")
    axis = first.axis(axis)
    parts = node.present
    check_types(node, first, parts)
    before, behind = first.shape[:axis], first.shape[axis + 1 :]
    joined = 0
    for part in parts:
        shape = part.shape
        if len(shape) != len(first.shape) or shape[:axis] != before or shape[axis + 1 :] != behind:
            raise node.error(
                f"cannot join {list(first.shape)} and {list(shape)} at axis {axis}", BAKED_IN
            )
        joined += shape[axis]
    return [(first.dtype, (*before, joined, *behind))]


@rule("Split")
def _split(node: Node) -> Sequence[Spec]:
    data, n_outputs = node.input(0), len(node.output_names)
    axis = data.axis(node.integer("axis", 0))
    total = data.shape[axis]
    before, behind = data.shape[:axis], data.shape[axis + 1 :]
    if node.has(1) and node.input(1).value is None:
        return [(data.dtype, (*before, None, *behind))] * n_outputs
    sizes = split_sizes(node, total)
    if sum(sizes) != total or len(sizes) != n_outputs or min(sizes) < 0:
        raise node.error(f"cannot split {total} elements into {list(sizes)}", BAKED_IN)
    return [(data.dtype, (*before, size, *behind)) for size in sizes]


def split_sizes(node: Node, total: int) -> Shape:
    """How many of ``total`` elements each output of a Split gets."""
    if node.has(1):
        # In version 1 the sizes are of the data's own type.
        return tuple(int(size) for size in node.value(1).flat)
    sizes = node.integers("split")
    if sizes is not None:
        return sizes
    n = len(node.output_names)
    if node.opset < 18:
        if total % n:
            raise node.error(f"cannot split {total} elements into {n} equal parts", BAKED_IN)
        return (total // n,) * n
    if "num_outputs" not in node.attributes:
        raise node.error("neither sizes nor num_outputs are given")
    if node.integer("num_outputs", 0) != n:
        raise node.error(f"num_outputs is {node.integer('num_outputs', 0)}, it has {n} outputs")
    step = -(-total // n)
    return tuple(max(min(step, total - i * step), 0) for i in range(n))


@rule("Expand")
def _expand(node: Node) -> Sequence[Spec]:
    data, target = node.input(0), known_ints(node, 1)
    if target is None:
        return [(data.dtype, open_shape(node, max(data.rank, node.input(1).n_elements)))]
    if any(size < 0 for size in target):
        raise node.error(f"cannot expand to {list(target)}")
    return [(data.dtype, broadcast(node, data.shape, target))]


@rule("Tile")
def _tile(node: Node) -> Sequence[Spec]:
    data, times = node.input(0), known_ints(node, 1)
    if node.opset < 6:
        axis = known_ints(node, 2)
        if times is not None and axis is not None:
            place, (repeats,) = data.axis(axis[0]), times
            times = tuple(repeats if i == place else 1 for i in range(data.rank))
    if times is None:
        return [(data.dtype, (None,) * data.rank)]
    if len(times) != data.rank or any(n < 0 for n in times):
        raise node.error(f"repeats {list(times)} do not fit {list(data.shape)}")
    return [(data.dtype, tuple(size * n for size, n in zip(data.shape, times, strict=True)))]


def pad_widths(node: Node) -> list[tuple[int, int]] | None:
    """What a Pad puts before and behind each axis; None where that depends on data."""
    data = node.input(0)
    if node.opset < 11:
        pads = node.integers("pads" if node.opset > 1 else "paddings") or ()
    else:
        known = known_ints(node, 1)
        if known is None:
            return None
        pads = known
    axes = list(range(data.rank))
    if node.has(3):
        if node.input(3).value is None:
            return None
        axes = distinct_axes(node, data, node.value_ints(3))
    n = len(axes)
    if len(pads) != 2 * n:
        raise node.error(f"pads {list(pads)} do not fit {list(data.shape)}")
    widths = [(0, 0)] * data.rank
    for i, axis in enumerate(axes):
        widths[axis] = pads[i], pads[i + n]
    return widths


@rule("Pad")
def _pad(node: Node) -> Sequence[Spec]:
    data, widths = node.input(0), pad_widths(node)
    if widths is None:
        return [(data.dtype, (None,) * data.rank)]
    pairs = zip(data.shape, widths, strict=True)
    shape = tuple(size + before + behind for size, (before, behind) in pairs)
    if any(size < 0 for size in shape):
        raise node.error(f"pads {widths} leave less than nothing of {list(data.shape)}")
    return [(data.dtype, shape)]


@rule("CenterCropPad")
def _center_crop_pad(node: Node) -> Sequence[Spec]:
    data, sizes = node.input(0), known_ints(node, 1)
    axes = node.integers("axes")
    places = distinct_axes(node, data, range(data.rank) if axes is None else axes)
    if sizes is None:
        found = tuple(None if i in places else size for i, size in enumerate(data.shape))
        return [(data.dtype, found)]
    if len(sizes) != len(places) or any(size < 0 for size in sizes):
        raise node.error(f"shape {list(sizes)} does not fit axes {places} of {list(data.shape)}")
    shape = list(data.shape)
    for place, size in zip(places, sizes, strict=True):
        shape[place] = size
    return [(data.dtype, tuple(shape))]


@rule("Trilu")
def _triangle(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if data.rank < 2:
        raise node.error(f"needs matrices, the input is {list(data.shape)}")
    return [same(data)]


@rule("ReverseSequence")
def _reverse_sequence(node: Node) -> Sequence[Spec]:
    data, lengths = node.input(0), node.input(1)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if data.rank < 2 or {batch, time} != {0, 1} or lengths.shape != data.shape[batch : batch + 1]:
        raise node.error(
            f"lengths {list(lengths.shape)} do not fit axes {batch} and {time} of "
            f"{list(data.shape)}"
        )
    return [same(data)]
