"""Small known values: the integers that exported networks compute shapes from.

This is constant folding of shape arithmetic, not execution: only tensors of a few
elements that do not depend on data ever get here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType

import numpy as np

from mansard.estimator.element_types import ElementType
from mansard.estimator.tensors import Array, Node, Shape

MAX_INTEGERS = 4096  # window indices of a vision transformer fit, an embedding table does not
MAX_FLOATS = 16  # scales of a Resize, and the arithmetic on them


def may_keep(dtype: ElementType, n_elements: int) -> bool:
    """Whether a tensor is small enough for its value to be kept."""
    if dtype.name == "string":
        return False
    return n_elements <= (MAX_FLOATS if dtype.is_float else MAX_INTEGERS)


Evaluate = Callable[[Node, Shape], "Array | None"]


def evaluate(node: Node, dtype: ElementType, shape: Shape) -> Array | None:
    """The value of the node's first output, or None where it is not worth knowing.

    ``shape`` and ``dtype`` are those of the output, known beforehand, so that no
    value is computed that would be too large.
    """
    function = EVALUATORS.get(node.op_type)
    if function is None or node.domain or not may_keep(dtype, math.prod(shape)):
        return None
    if dtype.name not in _NUMPY_TYPES or any(tensor.value is None for tensor in node.present):
        return None
    with np.errstate(all="ignore"):
        value = function(node, shape)
        return None if value is None else np.asarray(value).astype(dtype.name).reshape(shape)


_NUMPY_TYPES = frozenset(
    {"float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "uint32", "uint64"}
)


def _pointwise(function: Callable[..., Array]) -> Evaluate:
    return lambda node, _shape: function(*(node.value(i) for i in range(len(node.inputs))))


def _divide(node: Node, _shape: Shape) -> Array | None:
    numerator, denominator = node.value(0), node.value(1)
    if numerator.dtype.kind == "f":
        return np.asarray(numerator / denominator)
    if not denominator.all():
        raise node.error("divides by zero in its shape arithmetic")
    # ONNX rounds integer quotients towards zero, NumPy downwards.
    quotient = np.abs(numerator) // np.abs(denominator)
    return np.asarray(np.sign(numerator) * np.sign(denominator) * quotient)


def _modulo(node: Node, _shape: Shape) -> Array:
    numerator, denominator = node.value(0), node.value(1)
    if denominator.dtype.kind != "f" and not denominator.all():
        raise node.error("divides by zero in its shape arithmetic")
    function = np.fmod if node.integer("fmod", 0) else np.mod
    return np.asarray(function(numerator, denominator))


def _constant_of_shape(node: Node, shape: Shape) -> Array:
    from mansard.estimator.model import StoredTensor

    fill = node.attributes.get("value")
    if isinstance(fill, StoredTensor):
        if fill.value is None:
            return np.zeros(shape)
        return np.full(shape, fill.value.reshape(-1)[0])
    return np.zeros(shape)


def _axes(node: Node, position: int) -> tuple[int, ...] | None:
    if node.has(position):
        return node.value_ints(position)
    return node.integers("axes")


def _slice(node: Node, _shape: Shape) -> Array:
    from mansard.estimator.shapes.indexing import slice_of

    return np.asarray(node.value(0)[slice_of(node)])


def _reduce(function: Callable[..., Array]) -> Evaluate:
    def run(node: Node, _shape: Shape) -> Array:
        axes = _axes(node, 1)
        return np.asarray(function(node.value(0), axis=axes if axes else None))

    return run


def _concat(node: Node, _shape: Shape) -> Array:
    return np.concatenate([tensor.value for tensor in node.present], node.integer("axis", 0))


def _gather(node: Node, _shape: Shape) -> Array:
    return np.take(node.value(0), node.value(1), axis=node.integer("axis", 0))


def _clip(node: Node, _shape: Shape) -> Array:
    low = node.value(1) if node.has(1) else None
    high = node.value(2) if node.has(2) else None
    if low is None and high is None:
        return node.value(0)
    return np.clip(node.value(0), low, high)


def _same(node: Node, _shape: Shape) -> Array:
    return node.value(0)


def _tile(node: Node, _shape: Shape) -> Array:
    return np.tile(node.value(0), node.value_ints(1))


def _transpose(node: Node, _shape: Shape) -> Array:
    return np.transpose(node.value(0), node.integers("perm"))


def _range(node: Node, shape: Shape) -> Array:
    # The length comes from the shape: NumPy's arange rounds it in the narrower type.
    return np.asarray(node.value(0).reshape(()) + np.arange(*shape) * node.value(2).reshape(()))


def _nonzero(node: Node, _shape: Shape) -> Array:
    return np.asarray(np.nonzero(node.value(0)))


def _broadcast(node: Node) -> list[Array]:
    return list(np.broadcast_arrays(*(np.asarray(tensor.value) for tensor in node.present)))


def _minimum(node: Node, _shape: Shape) -> Array:
    return np.asarray(np.stack(_broadcast(node)).min(axis=0))


def _maximum(node: Node, _shape: Shape) -> Array:
    return np.asarray(np.stack(_broadcast(node)).max(axis=0))


def _expand(node: Node, shape: Shape) -> Array:
    return np.broadcast_to(node.value(0), shape)


EVALUATORS: MappingProxyType[str, Evaluate] = MappingProxyType(
    {
        "Abs": _pointwise(np.abs),
        "Add": _pointwise(np.add),
        "And": _pointwise(np.logical_and),
        "Cast": _same,
        "Ceil": _pointwise(np.ceil),
        "Clip": _clip,
        "Concat": _concat,
        "ConstantOfShape": _constant_of_shape,
        "Cos": _pointwise(np.cos),
        "Div": _divide,
        "Equal": _pointwise(np.equal),
        "Exp": _pointwise(np.exp),
        "Expand": _expand,
        "Flatten": _same,
        "Floor": _pointwise(np.floor),
        "Gather": _gather,
        "Greater": _pointwise(np.greater),
        "GreaterOrEqual": _pointwise(np.greater_equal),
        "Identity": _same,
        "Less": _pointwise(np.less),
        "LessOrEqual": _pointwise(np.less_equal),
        "Log": _pointwise(np.log),
        "Max": _maximum,
        "Min": _minimum,
        "Mod": _modulo,
        "Mul": _pointwise(np.multiply),
        "Neg": _pointwise(np.negative),
        "NonZero": _nonzero,
        "Not": _pointwise(np.logical_not),
        "Or": _pointwise(np.logical_or),
        "Pow": _pointwise(np.power),
        "Range": _range,
        "ReduceMax": _reduce(np.max),
        "ReduceMin": _reduce(np.min),
        "ReduceProd": _reduce(np.prod),
        "ReduceSum": _reduce(np.sum),
        "Reshape": _same,
        "Round": _pointwise(np.round),
        "Sign": _pointwise(np.sign),
        "Slice": _slice,
        "Sqrt": _pointwise(np.sqrt),
        "Squeeze": _same,
        "Sub": _pointwise(np.subtract),
        "Tile": _tile,
        "Transpose": _transpose,
        "Unsqueeze": _same,
        "Where": _pointwise(np.where),
        "Xor": _pointwise(np.logical_xor),
    }
)
