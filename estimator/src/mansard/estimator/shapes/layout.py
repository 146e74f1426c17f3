"""Operators that put the same elements into another shape.

https://onnx.ai/onnx/operators/onnx__Reshape.html, …__Squeeze, …__Transpose, …__Concat and kin
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.shapes.elementwise import broadcast
from mansard.estimator.shapes.reduction import axes_of
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape

_BAKED_IN = (
    "if a batch or dimension was set, the file fixes another one here: export the model "
    "with that dimension dynamic, or score it as it is"
)


def reshape_target(node: Node) -> Shape:
    """The shape a Reshape asks for, with its 0 and -1 still in it."""
    if node.opset < 5:
        return node.integers("shape") or ()
    return node.value_ints(1)


@rule("Reshape")
def _reshape(node: Node) -> Sequence[Spec]:
    data, target = node.input(0), reshape_target(node)
    if any(size < -1 for size in target) or target.count(-1) > 1:
        raise node.error(f"cannot reshape to {list(target)}")
    keeps_zero = node.integer("allowzero", 0)
    shape = []
    for i, size in enumerate(target):
        if size == 0 and not keeps_zero:
            if i >= data.rank:
                raise node.error(f"cannot take dimension {i} of {list(data.shape)}")
            size = data.shape[i]  # noqa: PLW2901
        shape.append(size)
    if -1 in shape:
        rest = -math.prod(shape)
        if rest == 0 or data.n_elements % rest:
            raise node.error(f"cannot reshape {list(data.shape)} to {list(target)}", _BAKED_IN)
        shape[shape.index(-1)] = data.n_elements // rest
    if math.prod(shape) != data.n_elements:
        raise node.error(
            f"cannot reshape {list(data.shape)} to {list(target)}: "
            f"{data.n_elements} elements do not fill {math.prod(shape)}",
            _BAKED_IN,
        )
    return [(data.dtype, tuple(shape))]


@rule("Flatten")
def _flatten(node: Node) -> Sequence[Spec]:
    data, axis = node.input(0), node.integer("axis", 1)
    if not -data.rank <= axis <= data.rank:
        raise node.error(f"axis {axis} is outside {list(data.shape)}")
    axis = axis + data.rank if axis < 0 else axis
    return [(data.dtype, (math.prod(data.shape[:axis]), math.prod(data.shape[axis:])))]


@rule("Squeeze")
def _squeeze(node: Node) -> Sequence[Spec]:
    data, axes = node.input(0), axes_of(node, 1)
    if axes is None:
        return [(data.dtype, tuple(size for size in data.shape if size != 1))]
    gone = {data.axis(axis) for axis in axes}
    if any(data.shape[axis] != 1 for axis in gone):
        raise node.error(f"cannot squeeze axes {sorted(gone)} of {list(data.shape)}", _BAKED_IN)
    return [(data.dtype, tuple(size for i, size in enumerate(data.shape) if i not in gone))]


@rule("Unsqueeze")
def _unsqueeze(node: Node) -> Sequence[Spec]:
    data, axes = node.input(0), axes_of(node, 1) or ()
    rank = data.rank + len(axes)
    if any(not -rank <= axis < rank for axis in axes):
        raise node.error(f"axes {list(axes)} are outside {rank} dimensions")
    new = {axis % rank for axis in axes}
    if len(new) < len(axes):
        raise node.error(f"axes {list(axes)} repeat")
    rest = iter(data.shape)
    return [(data.dtype, tuple(1 if i in new else next(rest) for i in range(rank)))]


@rule("Transpose")
def _transpose(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    order = node.integers("perm") or tuple(reversed(range(data.rank)))
    if sorted(order) != list(range(data.rank)):
        raise node.error(f"perm {list(order)} does not fit {list(data.shape)}")
    return [(data.dtype, tuple(data.shape[axis] for axis in order))]


@rule("Concat")
def _concat(node: Node) -> Sequence[Spec]:
    parts = node.present
    # The axis became required in version 4 and was 1 by default before.
    axis = node.input(0).axis(node.integer("axis", 1))
    first = node.input(0).shape
    for part in parts:
        if part.dtype != node.input(0).dtype:
            raise node.error(f"types contradict: {part.name!r} is {part.dtype.name}")
        rest = part.shape[:axis] + part.shape[axis + 1 :]
        if part.rank != len(first) or rest != first[:axis] + first[axis + 1 :]:
            raise node.error(
                f"cannot join {list(first)} and {list(part.shape)} at axis {axis}", _BAKED_IN
            )
    joined = sum(part.shape[axis] for part in parts)
    return [(node.input(0).dtype, (*first[:axis], joined, *first[axis + 1 :]))]


@rule("Split")
def _split(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    axis, n_outputs = data.axis(node.integer("axis", 0)), len(node.output_names)
    sizes = node.value_ints(1) if node.has(1) else node.integers("split")
    total = data.shape[axis]
    if sizes is None:
        n = max(node.integer("num_outputs", n_outputs), 1)
        step = -(-total // n)
        sizes = tuple(max(min(step, total - i * step), 0) for i in range(n))
    if sum(sizes) != total or len(sizes) != n_outputs or min(sizes) < 0:
        raise node.error(f"cannot split {total} elements into {list(sizes)}", _BAKED_IN)
    return [(data.dtype, (*data.shape[:axis], n, *data.shape[axis + 1 :])) for n in sizes]


@rule("Expand")
def _expand(node: Node) -> Sequence[Spec]:
    return [(node.input(0).dtype, broadcast(node, node.input(0).shape, node.value_ints(1)))]


@rule("Tile")
def _tile(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if node.opset < 6:
        axis = data.axis(node.value_ints(2)[0])
        times = tuple(node.value_ints(1)[0] if i == axis else 1 for i in range(data.rank))
    else:
        times = node.value_ints(1)
    if len(times) != data.rank or any(n < 0 for n in times):
        raise node.error(f"repeats {list(times)} do not fit {list(data.shape)}")
    return [(data.dtype, tuple(size * n for size, n in zip(data.shape, times, strict=True)))]


@rule("Pad")
def _pad(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    pads = node.value_ints(1) if node.has(1) else node.integers("pads") or node.integers("paddings")
    axes = node.value_ints(3) if node.has(3) else tuple(range(data.rank))
    if pads is None or len(pads) != 2 * len(axes):
        raise node.error(f"pads {list(pads or ())} do not fit {list(data.shape)}")
    shape = list(data.shape)
    for i, axis in enumerate(axes):
        shape[data.axis(axis)] += pads[i] + pads[i + len(axes)]
    if any(size < 0 for size in shape):
        raise node.error(f"pads {list(pads)} leave less than nothing of {list(data.shape)}")
    return [(data.dtype, tuple(shape))]


@rule("DepthToSpace")
def _depth_to_space(node: Node) -> Sequence[Spec]:
    data, block = node.input(0), node.integer("blocksize", 1)
    if data.rank != 4 or block < 1 or data.shape[1] % (block * block):
        raise node.error(f"blocks of {block} do not fit {list(data.shape)}")
    n, c, h, w = data.shape
    return [(data.dtype, (n, c // (block * block), h * block, w * block))]


@rule("SpaceToDepth")
def _space_to_depth(node: Node) -> Sequence[Spec]:
    data, block = node.input(0), node.integer("blocksize", 1)
    if data.rank != 4 or block < 1 or data.shape[2] % block or data.shape[3] % block:
        raise node.error(f"blocks of {block} do not fit {list(data.shape)}")
    n, c, h, w = data.shape
    return [(data.dtype, (n, c * block * block, h // block, w // block))]
