"""Operators that only move elements: node, inputs and settings; their work is none."""

from __future__ import annotations

from tests.estimator.elementwise_cases import C, Case, I, X, axes

LONE = "float[24]"

# What moves, picks or renames elements does no arithmetic.
MOVES: list[Case] = [
    ("BitCast", (X,), {"opset": 26, "to": 6}, 0),
    ("Cast", (X,), {"to": 10}, 0),
    ("CastLike", (X, I), {}, 0),
    ("CenterCropPad", (X, axes(2, 2, 2)), {}, 0),
    ("Compress", (LONE, "bool[24]"), {"dims": {"y[0]": 7}}, 0),
    ("Concat", (X, X), {"axis": 0}, 0),
    ("Constant", (), {"value_float": 1.0}, 0),
    ("ConstantOfShape", (axes(2, 3),), {}, 0),
    ("DepthToSpace", ("float[1,4,2,2]",), {"blocksize": 2}, 0),
    ("Dropout", (X,), {}, 0),
    ("Expand", (X, axes(5, 2, 3, 4)), {}, 0),
    ("EyeLike", ("float[3,3]",), {}, 0),
    ("Flatten", (X,), {}, 0),
    ("Gather", (X, "int64[2]"), {}, 0),
    ("GatherElements", (X, "int64[1,3,4]"), {}, 0),
    ("GatherND", (X, "int64[2,1]"), {}, 0),
    ("Identity", (X,), {}, 0),
    ("ImageDecoder", ("uint8[99]",), {"dims": {"y[0]": 4, "y[1]": 5}}, 0),
    (
        "MaxUnpool",
        ("float[1,1,2,2]", "int64[1,1,2,2]"),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        0,
    ),
    ("Pad", (X, axes(0, 0, 1, 0, 0, 1)), {}, 0),
    ("RegexFullMatch", ("string[3]",), {"pattern": "a"}, 0),
    ("Reshape", (X, axes(6, 4)), {}, 0),
    ("ReverseSequence", (X, "int64[3]"), {}, 0),
    ("Shape", (X,), {}, 0),
    ("Size", (X,), {}, 0),
    ("Slice", (X, axes(0), axes(1)), {}, 0),
    ("SpaceToDepth", (C,), {"blocksize": 2}, 0),
    ("Split", (X,), {"num_outputs": 2, "outputs": ("y", "z")}, 0),
    ("StringConcat", ("string[3]", "string[3]"), {}, 0),
    ("StringNormalizer", ("string[3]",), {}, 0),
    ("StringSplit", ("string[3]",), {"outputs": ("y", "z"), "dims": {"y[1]": 2}}, 0),
    ("Squeeze", ("float[1,24]", axes(0)), {}, 0),
    (
        "TensorScatter",
        ("float[1,1,8,4]", "float[1,1,2,4]"),
        {"opset": 24},
        0,
    ),
    ("Tile", (LONE, axes(2)), {}, 0),
    ("Transpose", (X,), {}, 0),
    ("Trilu", ("float[3,3]",), {}, 0),
    ("Unsqueeze", (X, axes(0)), {}, 0),
]
