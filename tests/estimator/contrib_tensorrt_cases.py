"""TensorRT's plugins and the quantisation written for it, by hand from their READMEs."""

from __future__ import annotations

from tests.estimator.contrib_models import Operator
from tests.estimator.contrib_plain_cases import S, X

BOXES, SCORES = "float[2,8,4]", "float[2,8,3]"  # 8 boxes of 3 classes in 2 images

_VERSION = {"plugin_version": "1"}
_NMS = {
    **_VERSION,
    "max_output_boxes": 5,
    "score_activation": 0,
    "score_threshold": 0.1,
    "iou_threshold": 0.5,
    "background_class": -1,
    "box_coding": 0,
}

PLUGINS = [
    # each class: 8 comparisons, sort 8 (24), 4 areas, 6 overlaps; sort 12 (48)
    Operator(
        "BatchedNMS_TRT",
        ("float[2,8,1,4]", SCORES),
        2 * (3 * (8 + 24 + 12 + 6 * 13) + 48),
        {"topK": 4, "keepTopK": 5, "numClasses": 3},
        outputs=4,
        check="hand",
        shapes=("int32[2,1]", "float[2,5,4]", "float[2,5]", "float[2,5]"),
    ),
    Operator(
        "BatchedNMSDynamic_TRT",
        ("float[2,8,3,4]", SCORES),
        2 * (3 * (8 + 24 + 12 + 6 * 13) + 48),
        {"topK": 4, "keepTopK": 5, "numClasses": 3},
        outputs=4,
        check="hand",
        shapes=("int32[2,1]", "float[2,5,4]", "float[2,5]", "float[2,5]"),
    ),
    # 24 scores compared and sorted (120), 24 areas, 24·5 overlaps, 5 sigmoids
    Operator(
        "EfficientNMS_TRT",
        (BOXES, SCORES),
        2 * (24 + 120 + 72 + 120 * 13 + 5 * 4),
        {**_NMS, "score_activation": 1},
        check="infer",
        outputs=4,
    ),
    # and 24 boxes decoded by 10
    Operator(
        "EfficientNMS_TRT",
        (BOXES, SCORES, "float[1,8,4]"),
        2 * (24 + 120 + 72 + 120 * 13 + 240),
        _NMS,
        check="infer",
        outputs=4,
    ),
    # 6 rows of 4: 7·4 + 3 and a root
    Operator(
        "InstanceNormalization_TRT",
        (X, "float[3]", "float[3]"),
        6 * 32,
        check="hand",
        shapes=("float[2,3,4]",),
    ),
    Operator(
        "PyramidROIAlign_TRT",
        ("float[1,3,4]", *(f"float[1,2,{n},{n}]" for n in (8, 4, 2, 1))),
        24 * 7 + 12 * 10 + 3 * 10,
        {**_VERSION, "pooled_size": 2},
        check="infer",
    ),
    Operator(
        "MultilevelCropAndResize_TRT",
        ("float[1,3,4]", *(f"float[1,2,{n},{n}]" for n in (8, 4, 2, 1))),
        24 * 7 + 12 * 10 + 3 * 10,
        {**_VERSION, "pooled_size": 2, "image_size": [3, 32, 32]},
        check="infer",
    ),
    # no input: made beforehand
    Operator(
        "GridAnchor_TRT",
        (),
        0,
        {"featureMapShapes": [2, 2, 1, 1], "aspectRatios": [1.0, 2.0, 0.5], "numLayers": 2},
        outputs=2,
        check="hand",
        shapes=("float[2,48,1]", "float[2,16,1]"),
    ),
    Operator(
        "GridAnchorRect_TRT",
        (),
        0,
        {"featureMapShapes": [2, 3], "aspectRatios": [1.0, 2.0, 0.5]},
        check="hand",
        shapes=("float[2,96,1]",),
    ),
    # two sums, a factor, 4 for a position
    Operator(
        "DisentangledAttention_TRT",
        ("float[2,3,3]", "float[2,3,8]", "float[2,3,8]"),
        18 * 7,
        {"span": 4, "factor": 0.1},
        check="infer",
    ),
    # 3·2·1·4 points: 14 each, and 4 elements of a sample of 7, weighed and added
    Operator(
        "MultiscaleDeformableAttnPlugin_TRT",
        ("float[1,9,2,4]", "int32[1,2]", "int32[1]", "float[1,3,2,1,4,2]", "float[1,3,2,1,4]"),
        24 * (14 + 36),
        check="hand",
        shapes=("float[1,3,2,4]",),
    ),
    # 12 outputs of 18 multiply-adds; 4 places of 18 samples of 7 and a mask; 36 offsets of 8
    Operator(
        "ModulatedDeformConv2d",
        (
            *("float[1,2,4,4]", "float[1,18,2,2]", "float[1,9,2,2]", "float[3,2,3,3]"),
            "float[3]",
        ),
        12 * 37 + 72 * 8 + 36 * 8,
        check="hand",
        shapes=("float[1,3,2,2]",),
    ),
    Operator(
        "ResizeNearest_TRT",
        ("float[1,2,4,4]",),
        0,
        {"scale": 2.0},
        check="hand",
        shapes=("float[1,2,8,8]",),
    ),
    Operator("LReLU_TRT", (X,), 48, {"negSlope": 0.1}, check="hand", shapes=("float[2,3,4]",)),
    Operator(
        "Clip_TRT",
        (X,),
        48,
        {"clipMin": 0.0, "clipMax": 6.0},
        check="hand",
        shapes=("float[2,3,4]",),
    ),
    Operator("CustomGeluPluginDynamic", (X,), 24 * 5, check="hand", shapes=("float[2,3,4]",)),
    # a sum; 6 rows of 4: 7·4 + 3 and a root
    Operator(
        "CustomSkipLayerNormPluginDynamic",
        (X, X),
        24 + 6 * 32,
        check="hand",
        shapes=("float[2,3,4]",),
    ),
]

QUANTIZERS = [
    # divide, round, clamp twice
    Operator(
        "trt.TRT_FP8QuantizeLinear", (X, S), 24 * 4, check="hand", shapes=("float8e4m3fn[2,3,4]",)
    ),
    Operator(
        "trt.TRT_FP8DequantizeLinear",
        ("uint8[2,3,4]", S),
        24,
        check="hand",
        shapes=("float[2,3,4]",),
    ),
    Operator("trt.QuantizeLinear", (X, S), 24 * 4, check="hand", shapes=("uint8[2,3,4]",)),
    Operator(
        "trt.DequantizeLinear", ("int8[2,3,4]", S), 24, check="hand", shapes=("float[2,3,4]",)
    ),
    # 6 blocks of 4: 2 to their extremes, 4 to quantise; 2 for each scale
    Operator(
        "trt.TRT_FP4DynamicQuantize",
        (X, S),
        24 * 6 + 6 * 2,
        {"block_size": 4, "axis": -1},
        outputs=2,
        check="hand",
        shapes=("float4e2m1[2,3,4]", "float8e4m3fn[2,3,1]"),
    ),
    Operator(
        "trt.TRT_MXFP8DynamicQuantize",
        (X,),
        24 * 6 + 6 * 2,
        {"block_size": 4, "axis": -1},
        outputs=2,
        check="hand",
        shapes=("float8e4m3fn[2,3,4]", "float8e8m0[2,3,1]"),
    ),
    Operator(
        "trt.TRT_MXFP8DequantizeLinear",
        ("float8e4m3fn[2,3,32]", "float8e8m0[2,3,1]"),
        192,
        {"output_dtype": 10},
        check="hand",
        shapes=("float16[2,3,32]",),
    ),
]
