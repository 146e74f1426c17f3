"""Nodes in the forms that older versions of operators have: node, version, inputs, settings.

Then the outputs: element type and shape, by hand from that version's specification.
"""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from tests.estimator.elementwise_cases import S3, C, I, X, axes, floats
from tests.estimator.models import Input

Made = tuple[str, tuple[int, ...]]
VersionCase = tuple[str, int, tuple[Input, ...], dict[str, object], tuple[Made, ...]]

_F = "float32"
_SAME: tuple[Made, ...] = ((_F, (2, 3, 4)),)
_ONES = numpy_helper.from_array(np.ones((2, 3), np.float32), "ones")

# Broadcasting by attributes, before version 7: B lies on A's last axes, or from an axis on.
BROADCASTING: list[VersionCase] = [
    ("Add", 1, (X, "float[4]"), {"broadcast": 1}, _SAME),
    ("Sub", 6, (X, "float[3,4]"), {"broadcast": 1}, _SAME),
    ("Mul", 6, (X, "float[3]"), {"broadcast": 1, "axis": 1}, _SAME),
    ("Div", 1, (X, "float[2]"), {"broadcast": 1, "axis": 0}, _SAME),
    ("Div", 6, (X, "float[2,3]"), {"broadcast": 1, "axis": -3}, _SAME),
    ("Pow", 1, (X, "float"), {"broadcast": 1}, _SAME),
    ("Less", 1, (X, "float[3,1]"), {"broadcast": 1}, (("bool", (2, 3, 4)),)),
    ("And", 1, ("bool[2,3]", "bool[3]"), {"broadcast": 1}, (("bool", (2, 3)),)),
    ("Equal", 1, (I, "int32[3]"), {"broadcast": 1, "axis": 1}, (("bool", (2, 3, 4)),)),
    ("Equal", 7, (I, "int32[3,1]"), {}, (("bool", (2, 3, 4)),)),
    ("PRelu", 1, (X, S3), {}, _SAME),
    ("PRelu", 6, (X, "float[1]"), {}, _SAME),
    ("PRelu", 7, (X, "float[3,1]"), {}, _SAME),
    ("Sum", 1, (X, X), {}, _SAME),
    ("Max", 6, (X, X), {}, _SAME),
    ("Max", 8, (X, "float[4]"), {}, _SAME),
    ("Gemm", 1, ("float[2,3]", "float[3,5]", "float[5]"), {"broadcast": 1}, ((_F, (2, 5)),)),
    ("Gemm", 6, ("float[2,3]", "float[3,5]", "float[2,5]"), {}, ((_F, (2, 5)),)),
    ("Gemm", 11, ("float[2,3]", "float[3,5]"), {}, ((_F, (2, 5)),)),
]

_GATES = ("float[2,1,3]", "float[1,6,3]", "float[1,6,2]")

# Types by name, statistics as outputs, masks that were no booleans.
NAMES_AND_OUTPUTS: list[VersionCase] = [
    ("Cast", 1, (X,), {"to": "FLOAT16"}, (("float16", (2, 3, 4)),)),
    ("Cast", 1, (X,), {"to": "DOUBLE"}, (("float64", (2, 3, 4)),)),
    ("Cast", 6, (X,), {"to": 7}, (("int64", (2, 3, 4)),)),
    ("Constant", 1, (), {"value": _ONES}, ((_F, (2, 3)),)),
    ("Constant", 9, (), {"value": _ONES}, ((_F, (2, 3)),)),
    ("Dropout", 1, (X,), {"is_test": 1}, (*_SAME, *_SAME)),
    ("Dropout", 7, (X,), {}, (*_SAME, *_SAME)),
    ("Dropout", 10, (X,), {}, (*_SAME, ("bool", (2, 3, 4)))),
    (
        "BatchNormalization",
        1,
        (X, S3, S3, S3, S3),
        {"consumed_inputs": [0, 0, 0, 1, 1], "is_test": 1},
        _SAME,
    ),
    # not spatial: a value for each place of each channel
    ("BatchNormalization", 7, (X, *["float[12]"] * 4), {"spatial": 0}, _SAME),
    ("BatchNormalization", 9, (X, *[S3] * 4), {}, (*_SAME, *((_F, (3,)),) * 4)),
    ("BatchNormalization", 14, (X, *[S3] * 4), {"training_mode": 1}, (*_SAME, *((_F, (3,)),) * 2)),
    (
        "GroupNormalization",
        18,
        ("float[2,4,3]", "float[2]", "float[2]"),
        {"num_groups": 2},
        ((_F, (2, 4, 3)),),
    ),
    (
        "GroupNormalization",
        21,
        ("float[2,4,3]", "float[4]", "float[4]"),
        {"num_groups": 2},
        ((_F, (2, 4, 3)),),
    ),
    ("GRU", 1, _GATES, {"hidden_size": 2}, ((_F, (2, 1, 1, 2)), (_F, (1, 1, 2)))),
    ("BitShift", 11, ("uint8[3]", "uint8[3]"), {"direction": "LEFT"}, (("uint8", (3,)),)),
]

# What became an input later was an attribute before.
ATTRIBUTES: list[VersionCase] = [
    ("Reshape", 1, (X,), {"shape": [0, -1]}, ((_F, (2, 12)),)),
    ("Slice", 1, (X,), {"starts": [1, -3], "ends": [9, -1], "axes": [0, 2]}, ((_F, (1, 3, 2)),)),
    ("Squeeze", 1, ("float[1,3,1]",), {"axes": [0]}, ((_F, (3, 1)),)),
    ("Squeeze", 11, ("float[1,3,1]",), {}, ((_F, (3,)),)),
    ("Unsqueeze", 1, (X,), {"axes": [0, 4]}, ((_F, (1, 2, 3, 4, 1)),)),
    ("Unsqueeze", 11, (X,), {"axes": [-1]}, ((_F, (2, 3, 4, 1)),)),
    ("Tile", 1, (X, np.array(3), np.array(1)), {}, ((_F, (2, 9, 4)),)),
    ("TopK", 1, (X,), {"k": 2, "axis": 1}, ((_F, (2, 2, 4)), ("int64", (2, 2, 4)))),
    ("Pad", 1, (X,), {"paddings": [0, 1, 0, 0, 2, 0]}, ((_F, (2, 6, 4)),)),
    ("Pad", 2, (X,), {"pads": [0, 0, -1, 1, 0, 0]}, ((_F, (3, 3, 3)),)),
    ("Concat", 1, (X, X), {}, ((_F, (2, 6, 4)),)),
    ("Split", 1, (X,), {"axis": 1, "split": [1, 2]}, ((_F, (2, 1, 4)), (_F, (2, 2, 4)))),
    ("Split", 2, (X,), {"axis": 2}, ((_F, (2, 3, 2)), (_F, (2, 3, 2)))),
    ("Split", 11, (X,), {"axis": -2, "split": [2, 1]}, ((_F, (2, 2, 4)), (_F, (2, 1, 4)))),
    ("Split", 13, (X, axes(1, 3)), {"axis": 2}, ((_F, (2, 3, 1)), (_F, (2, 3, 3)))),
    ("Split", 18, (X,), {"axis": 1, "num_outputs": 2}, ((_F, (2, 2, 4)), (_F, (2, 1, 4)))),
    ("Upsample", 1, (C,), {"height_scale": 1.5, "width_scale": 2.0}, ((_F, (1, 2, 6, 8)),)),
    ("Upsample", 7, (C,), {"scales": [1.0, 1.0, 2.0, 2.0]}, ((_F, (1, 2, 8, 8)),)),
    ("Upsample", 9, (C, floats(1, 1, 1.5, 3)), {}, ((_F, (1, 2, 6, 12)),)),
    ("Upsample", 10, (C, floats(1, 1, 2, 2)), {}, ((_F, (1, 2, 8, 8)),)),
    ("Resize", 10, (C, floats(1, 1, 0.5, 3)), {}, ((_F, (1, 2, 2, 12)),)),
    ("Resize", 11, (C, floats(), floats(1, 1, 0.5, 3)), {}, ((_F, (1, 2, 2, 12)),)),
    ("Resize", 11, (C, floats(), floats(), axes(1, 2, 5, 7)), {}, ((_F, (1, 2, 5, 7)),)),
    # half of the width is kept, then doubled
    (
        "Resize",
        11,
        (C, floats(0, 0, 0, 0.25, 1, 1, 1, 0.75), floats(1, 1, 1, 2)),
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        ((_F, (1, 2, 4, 4)),),
    ),
    # 0.7 of 10 is 7 in fp32, 6.9999999 in fp64
    ("Resize", 19, ("float[1,2,10]", "", floats(0.7)), {"axes": [2]}, ((_F, (1, 2, 7)),)),
    ("Scatter", 11, (X, "int64[1,3,4]", "float[1,3,4]"), {}, _SAME),
    ("ScatterND", 11, (X, "int64[1,1]", "float[1,3,4]"), {}, _SAME),
    ("ScatterND", 13, (X, "int64[1,1]", "float[1,3,4]"), {}, _SAME),
    ("DFT", 17, ("float[2,8,1]",), {}, ((_F, (2, 8, 2)),)),
    ("DFT", 20, ("float[2,8,1]", "", np.array(0)), {}, ((_F, (2, 8, 2)),)),
    ("ReduceSum", 13, (X, axes(1)), {"keepdims": 0}, ((_F, (2, 4)),)),
    ("ReduceMax", 18, (X, axes()), {"noop_with_empty_axes": 1}, _SAME),
]

# Axes were an attribute before version 18, of ReduceSum before 13.
_KINDS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
_OLD = [(f"Reduce{kind}", version) for kind in _KINDS for version in (1, 11, 12, 13)]
REDUCTIONS: list[VersionCase] = [
    (op_type, version, (X,), {"axes": [-2], "keepdims": keeps}, ((_F, shape),))
    for op_type, version in (*_OLD, ("ReduceSum", 1), ("ReduceSum", 11))
    for keeps, shape in ((0, (2, 4)), (1, (2, 1, 4)))
]

VERSION_CASES = [*BROADCASTING, *NAMES_AND_OUTPUTS, *ATTRIBUTES, *REDUCTIONS]
