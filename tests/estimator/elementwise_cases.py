"""Elementwise operators and reductions: node, inputs, settings and the work they must have."""

from __future__ import annotations

import numpy as np

from tests.estimator.models import Input

X = "float[2,3,4]"  # 24 elements
I = "int32[2,3,4]"  # noqa: E741
B = "bool[2,3,4]"
U = "uint8[2,3,4]"
S3 = "float[3]"
C = "float[1,2,4,4]"  # an image: 32 elements, 2 channels of 16

# FLOP for each of 24 elements, with the definition wherever it is not one of either.
ELEMENTWISE: dict[str, tuple[tuple[Input, ...], int]] = {
    "Abs": ((X,), 1),
    "Acos": ((X,), 1),
    "Acosh": ((X,), 1),
    "Add": ((X, X), 1),
    "And": ((B, B), 1),
    "Asin": ((X,), 1),
    "Asinh": ((X,), 1),
    "Atan": ((X,), 1),
    "Atanh": ((X,), 1),
    "BitShift": (("uint32[2,3,4]", "uint32[2,3,4]"), 1),
    "BitwiseAnd": ((I, I), 1),
    "BitwiseNot": ((I,), 1),
    "BitwiseOr": ((I, I), 1),
    "BitwiseXor": ((I, I), 1),
    "Ceil": ((X,), 1),
    "Celu": ((X,), 7),  # x/a, exp, -1, ·a, min with 0, max with 0, +
    "Cos": ((X,), 1),
    "Cosh": ((X,), 1),
    "Div": ((X, X), 1),
    "Elu": ((X,), 4),  # x < 0, exp, -1, ·a
    "Equal": ((X, X), 1),
    "Erf": ((X,), 1),
    "Exp": ((X,), 1),
    "Floor": ((X,), 1),
    "Greater": ((X, X), 1),
    "GreaterOrEqual": ((X, X), 1),
    "HardSigmoid": ((X,), 4),  # ·a, +b, min with 1, max with 0
    "HardSwish": ((X,), 5),  # a hard sigmoid, ·x
    "IsInf": ((X,), 1),
    "IsNaN": ((X,), 1),
    "LeakyRelu": ((X,), 2),  # x < 0, ·a
    "Less": ((X, X), 1),
    "LessOrEqual": ((X, X), 1),
    "Log": ((X,), 1),
    "Mish": ((X,), 5),  # exp, +1, log, tanh, ·x
    "Mod": ((I, I), 1),
    "Mul": ((X, X), 1),
    "Neg": ((X,), 1),
    "Not": ((B,), 1),
    "Or": ((B, B), 1),
    "PRelu": ((X, "float[4]"), 2),  # x < 0, ·slope
    "Reciprocal": ((X,), 1),
    "Relu": ((X,), 1),
    "Round": ((X,), 1),
    "Selu": ((X,), 5),  # x > 0, exp, ·a, -a, ·g
    "Shrink": ((X,), 3),  # x < -l, x > l, ± bias
    "Sigmoid": ((X,), 4),  # -x, exp, +1, 1/
    "Sign": ((X,), 1),
    "Sin": ((X,), 1),
    "Sinh": ((X,), 1),
    "Softplus": ((X,), 3),  # exp, +1, log
    "Softsign": ((X,), 3),  # |x|, +1, x/
    "Sqrt": ((X,), 1),
    "Sub": ((X, X), 1),
    "Tan": ((X,), 1),
    "Tanh": ((X,), 1),
    "ThresholdedRelu": ((X,), 1),  # x > a
    "Where": ((B, X, X), 1),
    "Xor": ((B, B), 1),
    "com.microsoft.QuickGelu": ((X,), 6),  # ·a, a sigmoid of 4, ·x
}


def axes(*axes: int) -> Input:
    return np.array(axes, np.int64)


def floats(*values: float) -> Input:
    return np.array(values, np.float32)


Case = tuple[str, tuple[Input, ...], dict[str, object], int]

ACTIVATIONS: list[Case] = [
    ("Swish", (X,), {"opset": 24}, 24 * 5),  # a sigmoid of 4, ·x
    ("Swish", (X,), {"opset": 24, "alpha": 0.5}, 24 * 6),  # ·a
    ("SwiGLU", (X, X), {"opset": 28}, 24 * 6),  # a swish of 5, ·b
    ("SwiGLU", (X, X), {"opset": 28, "alpha": 0.5}, 24 * 7),
    ("Range", ("float", "float", "float"), {"dims": {"y[0]": 5}}, 5 * 2),  # start + i·delta
    ("Gelu", (X,), {}, 24 * 5),  # /√2, erf, +1, ·x, ·0.5
    # x·x·x 2, ·c, +x, ·√(2/π), tanh, +1, ·x, ·0.5
    ("Gelu", (X,), {"approximate": "tanh"}, 24 * 9),
    ("com.microsoft.Gelu", (X,), {}, 24 * 5),
    ("com.microsoft.BiasGelu", (X, "float[4]"), {}, 24 * 6),
    ("com.microsoft.FastGelu", (X,), {}, 24 * 9),
    ("com.microsoft.FastGelu", (X, "float[4]"), {}, 24 * 10),
    ("Clip", (X,), {}, 0),
    ("Clip", (X, floats(0), floats(6)), {}, 24 * 2),
    ("Clip", (X,), {"opset": 6, "min": 0.0, "max": 6.0}, 24 * 2),
    ("Max", (X, X, X), {}, 24 * 2),
    ("Min", (X, X), {}, 24),
    ("Sum", (X, X, X), {}, 24 * 2),
    ("Mean", (X, X, X), {}, 24 * 3),  # two additions, a division
    ("Pow", (X, floats(1)), {}, 0),
    ("Pow", (X, floats(2)), {}, 24),
    ("Pow", (X, floats(3)), {}, 24 * 2),
    ("Pow", (X, X), {}, 24),  # a function
]

REDUCTIONS: list[Case] = [
    # 24 elements become 6: 18 operations
    *((f"Reduce{name}", (X, axes(2)), {}, 18) for name in ("Max", "Min", "Prod", "Sum")),
    ("ReduceMean", (X, axes(2)), {}, 18 + 6),  # 6 divisions
    ("ReduceMean", (X, axes()), {"noop_with_empty_axes": 1}, 0),
    ("ReduceL1", (X, axes(2)), {}, 24 + 18),  # |x|
    ("ReduceSumSquare", (X, axes(2)), {}, 24 + 18),
    ("ReduceL2", (X, axes(2)), {}, 24 + 18 + 6),  # 6 roots
    ("ReduceLogSum", (X, axes(2)), {}, 18 + 6),  # 6 logarithms
    # maximum 18, difference 24, exp 24, sum 18, 6 logarithms, 6 times the maximum again
    ("ReduceLogSumExp", (X, axes(2)), {}, 18 + 24 + 24 + 18 + 6 + 6),
    ("ArgMax", (X,), {"axis": 2}, 18),
    ("ArgMin", (X,), {"axis": 0}, 12),
    ("CumSum", (X, np.array(1)), {}, 8 * 2),  # 8 rows of 3
    ("CumSum", (X, np.array(1)), {"exclusive": 1}, 8),  # 0, a, a + b
    ("CumSum", (X, "int64"), {}, 6 * 3),  # an axis that is not known is taken to be the last
    ("CumProd", (X, np.array(0)), {"opset": 26}, 12),
    ("TopK", (X, axes(3)), {"outputs": ("y", "i")}, 24 * 2),  # floor(log2 3) + 1 = 2
    ("TopK", (X, axes(1)), {"outputs": ("y", "i")}, 24),
]
