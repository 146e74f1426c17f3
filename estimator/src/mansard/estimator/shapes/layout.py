"""Operators that see the same elements in another shape or order.

https://onnx.ai/onnx/operators/onnx__Reshape.html, …__Flatten, …__Squeeze, …__Unsqueeze,
…__Transpose, …__DepthToSpace, …__SpaceToDepth
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.shapes.checks import BAKED_IN, open_shape
from mansard.estimator.shapes.reduction import axes_of
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape


def reshape_target(node: Node) -> Shape:
    """The shape a Reshape asks for, 0 and -1 still in it; ModelError where it is not known."""
    if node.opset < 5:
        return node.integers("shape") or ()
    return node.value_ints(1)


@rule("Reshape")
def _reshape(node: Node) -> Sequence[Spec]:
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


@rule("Flatten")
def _flatten(node: Node) -> Sequence[Spec]:
    data, axis = node.input(0), node.integer("axis", 1)
    if not -data.rank <= axis <= data.rank:
        raise node.error(f"axis {axis} is outside {list(data.shape)}")
    axis = axis + data.rank if axis < 0 else axis
    return [(data.dtype, (math.prod(data.shape[:axis]), math.prod(data.shape[axis:])))]


@rule("Squeeze")
def _squeeze(node: Node) -> Sequence[Spec]:
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


@rule("Unsqueeze")
def _unsqueeze(node: Node) -> Sequence[Spec]:
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


@rule("Transpose")
def _transpose(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    order = node.integers("perm")
    if order is None:
        return [(data.dtype, data.shape[::-1])]
    if sorted(order) != list(range(data.rank)):
        raise node.error(f"perm {list(order)} does not fit {list(data.shape)}")
    return [(data.dtype, tuple([data.shape[axis] for axis in order]))]


@rule("DepthToSpace")
def _depth_to_space(node: Node) -> Sequence[Spec]:
    data, block = node.input(0), node.integer("blocksize", 0)
    if data.rank != 4 or block < 1 or data.shape[1] % (block * block):
        raise node.error(f"blocks of {block} do not fit {list(data.shape)}")
    n, c, h, w = data.shape
    return [(data.dtype, (n, c // (block * block), h * block, w * block))]


@rule("SpaceToDepth")
def _space_to_depth(node: Node) -> Sequence[Spec]:
    data, block = node.input(0), node.integer("blocksize", 0)
    if data.rank != 4 or block < 1 or data.shape[2] % block or data.shape[3] % block:
        raise node.error(f"blocks of {block} do not fit {list(data.shape)}")
    n, c, h, w = data.shape
    return [(data.dtype, (n, c * block * block, h // block, w // block))]
