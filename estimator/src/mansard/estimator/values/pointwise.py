"""Values element by element, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np

from mansard.estimator.numbers import Array
from mansard.estimator.tensors import Node, Shape
from mansard.estimator.values.arithmetic import operands
from mansard.estimator.values.registry import Evaluate, alone


def _unary(function: Callable[..., Array]) -> Evaluate:
    return alone(lambda node, _shape: function(node.array(0)))


def _operands(node: Node) -> tuple[Array, Array]:
    first, second = operands(node)
    return first.array, second.array


def _binary(function: Callable[..., Array]) -> Evaluate:
    return alone(lambda node, _shape: function(*_operands(node)))


def _divide(numerator: Array, denominator: Array) -> Array:
    if numerator.dtype.kind == "f":
        return np.asarray(numerator / denominator)
    # ONNX rounds integer quotients towards zero, NumPy downwards.
    quotient = np.abs(numerator) // np.abs(denominator)
    return np.asarray(np.sign(numerator) * np.sign(denominator) * quotient)


def _check_divisor(node: Node) -> None:
    divisor = node.array(1)
    if divisor.dtype.kind != "f" and not divisor.all():
        raise node.error("divides by zero in its shape arithmetic")


def _division(node: Node, _shape: Shape) -> Array:
    _check_divisor(node)
    return _divide(*_operands(node))


def _modulo(node: Node, _shape: Shape) -> Array:
    _check_divisor(node)
    function = np.fmod if node.integer("fmod", 0) else np.mod
    return np.asarray(function(node.array(0), node.array(1)))


def _shift(node: Node, _shape: Shape) -> Array:
    function = np.left_shift if node.text("direction", "") == "LEFT" else np.right_shift
    return np.asarray(function(node.array(0), node.array(1)))


def _clip(node: Node, _shape: Shape) -> Array:
    value = node.array(0)
    if node.opset < 11:
        infinite = float("inf")
        low, high = node.number("min", -infinite), node.number("max", infinite)
        return np.asarray(np.clip(value, low, high))
    if node.has(1):
        value = np.maximum(value, node.array(1))
    return np.asarray(np.minimum(value, node.array(2)) if node.has(2) else value)


def _is_infinite(node: Node, _shape: Shape) -> Array:
    value, found = node.array(0), np.isinf(node.array(0))
    if not node.integer("detect_positive", 1):
        found &= value < 0
    if not node.integer("detect_negative", 1):
        found &= value > 0
    return np.asarray(found)


def _folded(function: Callable[..., Array]) -> Evaluate:
    """Several inputs of one common shape, folded into one."""

    def run(node: Node, _shape: Shape) -> Array:
        values = [held.array for held in node.values]
        return np.asarray(function(np.stack(np.broadcast_arrays(*values)), axis=0))

    return alone(run)


EVALUATORS: MappingProxyType[str, Evaluate] = MappingProxyType(
    {
        "Abs": _unary(np.abs),
        "And": _binary(np.logical_and),
        "BitShift": alone(_shift),
        "BitwiseAnd": _binary(np.bitwise_and),
        "BitwiseNot": _unary(np.bitwise_not),
        "BitwiseOr": _binary(np.bitwise_or),
        "BitwiseXor": _binary(np.bitwise_xor),
        "Cast": _unary(np.asarray),
        "CastLike": _unary(np.asarray),
        "Ceil": _unary(np.ceil),
        "Clip": alone(_clip),
        "Cos": _unary(np.cos),
        "Div": alone(_division),
        "Exp": _unary(np.exp),
        "Floor": _unary(np.floor),
        "Greater": _binary(np.greater),
        "GreaterOrEqual": _binary(np.greater_equal),
        "IsInf": alone(_is_infinite),
        "IsNaN": _unary(np.isnan),
        "Less": _binary(np.less),
        "LessOrEqual": _binary(np.less_equal),
        "Log": _unary(np.log),
        "Max": _folded(np.max),
        "Mean": _folded(np.mean),
        "Min": _folded(np.min),
        "Mod": alone(_modulo),
        "Neg": _unary(np.negative),
        "Not": _unary(np.logical_not),
        "Or": _binary(np.logical_or),
        "Pow": _binary(np.power),
        "Reciprocal": _unary(np.reciprocal),
        "Relu": alone(lambda node, _shape: np.maximum(node.array(0), 0)),
        "Round": _unary(np.round),
        "Sign": _unary(np.sign),
        "Sin": _unary(np.sin),
        "Sqrt": _unary(np.sqrt),
        "Sum": _folded(np.sum),
        "Xor": _binary(np.logical_xor),
    }
)
