"""Operators of ai.onnx.ml, and the work they must have."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from tests.estimator.contrib_models import Operator

ML = "ai.onnx.ml."
M = "float[5,3]"  # 5 rows of 3

FEATURES = [
    Operator(ML + "ArrayFeatureExtractor", (M, np.array([[0, 2]])), 0),
    Operator(ML + "ArrayFeatureExtractor", ("float[4]", np.array([1])), 0),
    Operator(ML + "Binarizer", (M,), 15, {"threshold": 0.5}),
    Operator(
        ML + "CategoryMapper",
        ("int64[5]",),
        5,
        {"cats_int64s": [0, 1], "cats_strings": ["a", "b"]},
    ),
    Operator(
        ML + "CategoryMapper",
        ("string[5,1]",),
        5,
        {"cats_int64s": [0, 1], "cats_strings": ["a", "b"]},
    ),
    Operator(ML + "FeatureVectorizer", (M, "float[5,2]"), 0, {"inputdimensions": [3, 2]}),
    Operator(
        ML + "Imputer", (M,), 15, {"imputed_value_floats": [1.0], "replaced_value_float": 0.0}
    ),
    Operator(
        ML + "LabelEncoder",
        ("int64[5,3]",),
        15,
        {"keys_int64s": [0, 1], "values_floats": [0.5, 1.5]},
    ),
    Operator(
        ML + "LabelEncoder",
        ("string[5]",),
        5,
        {"keys_strings": ["a", "b"], "values_int64s": [0, 1]},
        version=2,
    ),
    Operator(ML + "LabelEncoder", ("string[5]",), 5, {"classes_strings": ["a", "b"]}, version=1),
    Operator(
        ML + "LabelEncoder",
        ("int64[5]",),
        5,
        {
            "keys_tensor": numpy_helper.from_array(np.array([1, 2])),
            "values_tensor": numpy_helper.from_array(np.array([3, 4])),
            "default_tensor": numpy_helper.from_array(np.array([0])),
        },
        version=4,
    ),
    # 3 comparisons less one a row, 3 quotients
    Operator(ML + "Normalizer", (M,), 5 * 5, {"norm": "MAX"}),
    # 3 magnitudes, 2 sums, 3 quotients; squares and a root
    Operator(ML + "Normalizer", (M,), 5 * 8, {"norm": "L1"}),
    Operator(ML + "Normalizer", (M,), 5 * 9, {"norm": "L2"}),
    Operator(ML + "OneHotEncoder", ("int64[5,2]",), 10, {"cats_int64s": [0, 1, 2]}),
    Operator(ML + "Scaler", (M,), 30, {"offset": [0.0] * 3, "scale": [1.0] * 3}),
    # a sequence of 5 maps of 3: their values
    Operator(
        ML + "ZipMap",
        (M,),
        0,
        {"classlabels_int64s": [0, 1, 2]},
        check="hand",  # a list of dictionaries is no tensor to compare with
        shapes=("float[5,3]",),
    ),
    Operator(
        ML + "CastMap",
        (M,),
        0,
        {"map_form": "SPARSE", "max_map": 4},
        check="hand",
        shapes=("float[1,4]",),
    ),
    Operator(
        ML + "DictVectorizer",
        ("float[5]",),
        0,
        {"string_vocabulary": ["a", "b", "c"]},
        check="hand",
        shapes=("float[1,3]",),
    ),
]

_THREE = {"classlabels_ints": [0, 1, 2]}

MODELS = [
    # 2 targets of 3 multiply-adds and an intercept
    Operator(
        ML + "LinearRegressor",
        (M,),
        10 * 7,
        {"coefficients": [1.0] * 6, "intercepts": [0.0] * 2, "targets": 2},
    ),
    # 3 classes; softmax of 3: 10 and 3 exp; 2 comparisons
    Operator(
        ML + "LinearClassifier",
        (M,),
        15 * 7 + 5 * 13 + 5 * 2,
        {
            **_THREE,
            "coefficients": [1.0] * 9,
            "intercepts": [0.0] * 3,
            "post_transform": "SOFTMAX",
        },
        outputs=2,
    ),
    # one score decides between two: a sigmoid for each of them, a comparison
    Operator(
        ML + "LinearClassifier",
        (M,),
        5 * 7 + 10 * 4 + 5,
        {
            "classlabels_strings": ["no", "yes"],
            "coefficients": [1.0] * 3,
            "intercepts": [0.0],
            "post_transform": "LOGISTIC",
        },
        outputs=2,
    ),
    # 2 vectors: a difference, square, sum of 3 (8), ·gamma, exp, a multiply-add; rho
    Operator(
        ML + "SVMRegressor",
        (M,),
        5 * (2 * (10 + 2) + 1),
        {
            "coefficients": [1.0, -1.0],
            "n_supports": 2,
            "rho": [0.5],
            "support_vectors": [1.0] * 6,
            "kernel_type": "RBF",
            "kernel_params": [0.1, 0.0, 3.0],
        },
    ),
    # without vectors a linear model
    Operator(
        ML + "SVMRegressor",
        (M,),
        5 * 7,
        {"coefficients": [1.0] * 3, "rho": [0.5], "kernel_params": [0.1, 0.0, 3.0]},
    ),
    # 2 classes of 2 and 1 vectors: 3 multiply-adds and one for the sum; rho and a vote for
    # the pair; a comparison
    Operator(
        ML + "SVMClassifier",
        (M,),
        5 * (3 * 8 + 2) + 5,
        {
            "classlabels_ints": [0, 1],
            "coefficients": [1.0] * 3,
            "rho": [0.1],
            "support_vectors": [1.0] * 9,
            "vectors_per_class": [2, 1],
            "kernel_type": "LINEAR",
            "kernel_params": [0.1, 0.0, 3.0],
        },
        outputs=2,
    ),
    # 3 classes of one vector without probabilities: a score for each of 3 pairs
    Operator(
        ML + "SVMClassifier",
        (M,),
        5 * (3 * (9 + 1 + 4) + 3 * 2) + 5 * 2,
        {
            **_THREE,
            "coefficients": [1.0] * 6,
            "rho": [0.1] * 3,
            "support_vectors": [1.0] * 9,
            "vectors_per_class": [1, 1, 1],
            "kernel_type": "RBF",
            "kernel_params": [0.1, 0.0, 3.0],
        },
        outputs=2,
    ),
    # 3 classes of one vector, 2 sums each; 3 pairs of 2, and probabilities of 6; 2 comparisons
    Operator(
        ML + "SVMClassifier",
        (M,),
        5 * (3 * (6 + 2 + 1 + 4) + 3 * 2 + 3 * 6) + 5 * 2,
        {
            **_THREE,
            "coefficients": [1.0] * 6,
            "rho": [0.1] * 3,
            "prob_a": [0.5] * 3,
            "prob_b": [0.5] * 3,
            "support_vectors": [1.0] * 9,
            "vectors_per_class": [1, 1, 1],
            "kernel_type": "SIGMOID",
            "kernel_params": [0.1, 0.0, 3.0],
        },
        outputs=2,
    ),
]

# Two trees: one asks twice on its longest way, the other once.
_NODES = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0],
    "nodes_values": [0.5, 0.5, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0],
    "nodes_modes": [
        *("BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"),
        *("BRANCH_LEQ", "LEAF", "LEAF"),
    ],
    "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0],
}
_LEAVES = ([0, 0, 0, 1, 1], [2, 3, 4, 1, 2])

TREES = [
    # 3 comparisons, 2 sums, a base value
    Operator(
        ML + "TreeEnsembleRegressor",
        (M,),
        5 * (3 + 2 + 1),
        {
            **_NODES,
            "n_targets": 1,
            "base_values": [0.5],
            "target_treeids": _LEAVES[0],
            "target_nodeids": _LEAVES[1],
            "target_ids": [0] * 5,
            "target_weights": [1.0, 2.0, 3.0, 4.0, 5.0],
        },
    ),
    # 2 classes: sigmoids of 4, a comparison
    Operator(
        ML + "TreeEnsembleClassifier",
        (M,),
        5 * (3 + 2 + 2 * 4 + 1),
        {
            **_NODES,
            "classlabels_int64s": [0, 1],
            "class_treeids": _LEAVES[0],
            "class_nodeids": _LEAVES[1],
            "class_ids": [0, 1, 0, 1, 0],
            "class_weights": [1.0, 2.0, 3.0, 4.0, 5.0],
            "post_transform": "LOGISTIC",
        },
        outputs=2,
    ),
    # the first tree's two inner nodes, the second's one
    Operator(
        ML + "TreeEnsemble",
        (M,),
        5 * (3 + 2),
        {
            "n_targets": 1,
            "tree_roots": [0, 2],
            "nodes_featureids": [0, 1, 2],
            "nodes_modes": numpy_helper.from_array(np.zeros(3, np.uint8)),
            "nodes_splits": numpy_helper.from_array(np.full(3, 0.5, np.float32)),
            "nodes_truenodeids": [1, 0, 3],
            "nodes_trueleafs": [0, 1, 1],
            "nodes_falsenodeids": [2, 1, 4],
            "nodes_falseleafs": [1, 1, 1],
            "leaf_targetids": [0] * 5,
            "leaf_weights": numpy_helper.from_array(np.ones(5, np.float32)),
        },
        version=5,
    ),
]
