"""Operators that move elements or see them otherwise: no arithmetic, but traffic.

https://onnx.ai/onnx/operators/onnx__Reshape.html, …__Flatten, …__Squeeze, …__Unsqueeze,
…__Transpose, …__DepthToSpace, …__SpaceToDepth, …__Concat, …__Split, …__Expand, …__Tile,
…__Pad, …__CenterCropPad. Views do not even move: the output is the input's memory.
"""

from __future__ import annotations

import math

from mansard.core.precision import Precision
from mansard.estimator.operators.costs import move, no_work, view
from mansard.estimator.operators.reduction import axes_of
from mansard.estimator.operators.registry import Specs, shape_of
from mansard.estimator.operators.shapes import (
    BAKED_IN,
    broadcast,
    check_types,
    distinct_axes,
    known_ints,
    open_shape,
    same,
)
from mansard.estimator.tensors import Node, Shape

VIEWS = ("BitCast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")

# Whatever moves elements without arithmetic and is neither a view nor picks.
MOVING = (
    *("Cast", "CastLike", "CenterCropPad", "Concat", "Constant", "ConstantOfShape"),
    *("DepthToSpace", "Expand", "EyeLike", "MaxUnpool", "Pad", "ReverseSequence", "Shape"),
    *("Size", "SpaceToDepth", "Split", "TensorScatter", "Tile", "Transpose", "Trilu"),
)


def reshape_target(node: Node) -> Shape:
    """The shape a Reshape asks for, 0 and -1 still in it; ModelError where it is not known."""
    if node.opset < 5:
        return node.integers("shape") or ()
    return node.value_ints(1)


@shape_of("Reshape", cost=view, is_view=True, not_weights=(1, 2))
def _reshape_shape(node: Node) -> Specs:
    data = node.input(0)
    if node.opset >= 5 and node.input(1).value is None:
        return [(data.dtype, open_shape(node, node.input(1).n_elements))]
    target = reshape_target(node)
    if any(size < -1 for size in target) or target.count(-1) > 1:
        raise node.error(f"cannot reshape to {list(target)}")
    shape = _with_zeros(node, data.shape, target)
    n = data.n_elements
    if -1 in shape:
        rest = -math.prod(shape)
        if rest == 0 or n % rest:
            raise node.error(f"cannot reshape {list(data.shape)} to {list(target)}", BAKED_IN)
        shape[shape.index(-1)] = n // rest
    elif math.prod(shape) != n:
        raise node.error(
            f"cannot reshape {list(data.shape)} to {list(target)}: "
            f"{n} elements do not fill {math.prod(shape)}",
            BAKED_IN,
        )
    return [(data.dtype, tuple(shape))]


def _with_zeros(node: Node, shape: Shape, target: Shape) -> list[int]:
    """``target`` as a list; a 0 in it takes over the input's size, or stays where that is said."""
    if 0 not in target:
        return list(target)
    if node.integer("allowzero", 0):
        if -1 in target:
            raise node.error(f"a shape of {list(target)} leaves open what -1 stands for")
        return list(target)
    last = max(i for i, size in enumerate(target) if size == 0)
    if last >= len(shape):
        raise node.error(f"cannot take dimension {last} of {list(shape)}")
    return [size or shape[i] for i, size in enumerate(target)]


@shape_of("Flatten", cost=view, is_view=True, not_weights=(1, 2))
def _flatten_shape(node: Node) -> Specs:
    data, axis = node.input(0), node.integer("axis", 1)
    if not -data.rank <= axis <= data.rank:
        raise node.error(f"axis {axis} is outside {list(data.shape)}")
    axis = axis + data.rank if axis < 0 else axis
    return [(data.dtype, (math.prod(data.shape[:axis]), math.prod(data.shape[axis:])))]


@shape_of("Squeeze", cost=view, is_view=True, not_weights=(1, 2))
def _squeeze_shape(node: Node) -> Specs:
    data = node.input(0)
    if node.has(1) and node.input(1).value is None:
        return [(data.dtype, open_shape(node, data.rank - node.input(1).n_elements))]
    axes = axes_of(node, 1)
    if not axes:
        return [(data.dtype, tuple([size for size in data.shape if size != 1]))]
    gone = {data.axis(axis) for axis in axes}
    for axis in gone:
        if data.shape[axis] != 1:
            raise node.error(f"cannot squeeze axes {sorted(gone)} of {list(data.shape)}", BAKED_IN)
    return [(data.dtype, tuple([size for i, size in enumerate(data.shape) if i not in gone]))]


@shape_of("Unsqueeze", cost=view, is_view=True, not_weights=(1, 2))
def _unsqueeze_shape(node: Node) -> Specs:
    data = node.input(0)
    if node.has(1) and node.input(1).value is None:
        return [(data.dtype, open_shape(node, data.rank + node.input(1).n_elements))]
    axes = axes_of(node, 1)
    if axes is None:
        raise node.error("the axes are missing")
    rank = data.rank + len(axes)
    if any(not -rank <= axis < rank for axis in axes):
        raise node.error(f"axes {list(axes)} are outside {rank} dimensions")
    new = {axis % rank for axis in axes}
    if len(new) < len(axes):
        raise node.error(f"axes {list(axes)} repeat")
    rest = iter(data.shape)
    return [(data.dtype, tuple([1 if i in new else next(rest) for i in range(rank)]))]


@shape_of("Transpose", cost=move)
def _transpose_shape(node: Node) -> Specs:
    data = node.input(0)
    order = node.integers("perm")
    if order is None:
        return [(data.dtype, data.shape[::-1])]
    if sorted(order) != list(range(data.rank)):
        raise node.error(f"perm {list(order)} does not fit {list(data.shape)}")
    return [(data.dtype, tuple([data.shape[axis] for axis in order]))]


@shape_of("DepthToSpace", cost=move)
def _depth_to_space_shape(node: Node) -> Specs:
    data, block = node.input(0), node.integer("blocksize", 0)
    if data.rank != 4 or block < 1 or data.shape[1] % (block * block):
        raise node.error(f"blocks of {block} do not fit {list(data.shape)}")
    n, c, h, w = data.shape
    return [(data.dtype, (n, c // (block * block), h * block, w * block))]


@shape_of("SpaceToDepth", cost=move)
def _space_to_depth_shape(node: Node) -> Specs:
    data, block = node.input(0), node.integer("blocksize", 0)
    if data.rank != 4 or block < 1 or data.shape[2] % block or data.shape[3] % block:
        raise node.error(f"blocks of {block} do not fit {list(data.shape)}")
    n, c, h, w = data.shape
    return [(data.dtype, (n, c * block * block, h // block, w // block))]


@shape_of("Concat", cost=move)
def _concat_shape(node: Node) -> Specs:
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


@shape_of("Split", cost=move)
def _split_shape(node: Node) -> Specs:
    data, n_outputs = node.input(0), len(node.output_names)
    axis = data.axis(node.integer("axis", 0))
    total = data.shape[axis]
    before, behind = data.shape[:axis], data.shape[axis + 1 :]
    if node.has(1) and node.input(1).value is None:
        return [(data.dtype, (*before, None, *behind))] * n_outputs
    sizes = _split_sizes(node, total)
    if sum(sizes) != total or len(sizes) != n_outputs or min(sizes) < 0:
        raise node.error(f"cannot split {total} elements into {list(sizes)}", BAKED_IN)
    return [(data.dtype, (*before, size, *behind)) for size in sizes]


def _split_sizes(node: Node, total: int) -> Shape:
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


@shape_of("Expand", cost=move)
def _expand_shape(node: Node) -> Specs:
    data, target = node.input(0), known_ints(node, 1)
    if target is None:
        return [(data.dtype, open_shape(node, max(data.rank, node.input(1).n_elements)))]
    if any(size < 0 for size in target):
        raise node.error(f"cannot expand to {list(target)}")
    return [(data.dtype, broadcast(node, data.shape, target))]


@shape_of("Tile", cost=move)
def _tile_shape(node: Node) -> Specs:
    data, times = node.input(0), known_ints(node, 1)
    if node.opset < 6:
        axis = known_ints(node, 2)
        if times is not None and axis is not None:
            position, (repeats,) = data.axis(axis[0]), times
            times = tuple(repeats if i == position else 1 for i in range(data.rank))
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


@shape_of("Pad", cost=move)
def _pad_shape(node: Node) -> Specs:
    data, widths = node.input(0), pad_widths(node)
    if widths is None:
        return [(data.dtype, (None,) * data.rank)]
    pairs = zip(data.shape, widths, strict=True)
    shape = tuple(size + before + behind for size, (before, behind) in pairs)
    if any(size < 0 for size in shape):
        raise node.error(f"pads {widths} leave less than nothing of {list(data.shape)}")
    return [(data.dtype, shape)]


def _overlap_bytes(node: Node, precision: Precision | None) -> int:
    """What is in both the input and the output."""
    data, result = node.input(0), node.output
    kept = math.prod(map(min, data.shape, result.shape))
    return data.dtype.size_bytes(kept, precision) + node.input(1).n_bytes(precision)


@shape_of(
    "CenterCropPad",
    cost=no_work("No work; reads only what stays."),
    not_weights=(1,),
    reads=_overlap_bytes,
)
def _center_crop_pad_shape(node: Node) -> Specs:
    data, sizes = node.input(0), known_ints(node, 1)
    given = node.integers("axes")
    axes = distinct_axes(node, data, range(data.rank) if given is None else given)
    if sizes is None:
        found = tuple(None if i in axes else size for i, size in enumerate(data.shape))
        return [(data.dtype, found)]
    if len(sizes) != len(axes) or any(size < 0 for size in sizes):
        raise node.error(f"shape {list(sizes)} does not fit axes {axes} of {list(data.shape)}")
    shape = list(data.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    return [(data.dtype, tuple(shape))]


@shape_of("Trilu", cost=move)
def _triangle_shape(node: Node) -> Specs:
    data = node.input(0)
    if data.rank < 2:
        raise node.error(f"needs matrices, the input is {list(data.shape)}")
    return [same(data)]


@shape_of("ReverseSequence", cost=move)
def _reverse_sequence_shape(node: Node) -> Specs:
    data, lengths = node.input(0), node.input(1)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if data.rank < 2 or {batch, time} != {0, 1} or lengths.shape != data.shape[batch : batch + 1]:
        raise node.error(
            f"lengths {list(lengths.shape)} do not fit axes {batch} and {time} of "
            f"{list(data.shape)}"
        )
    return [same(data)]
