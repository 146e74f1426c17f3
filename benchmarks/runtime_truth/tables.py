"""Bytes of the tables in attributes of ``ai.onnx.ml``, read from the node by its definition."""

from __future__ import annotations

import math

from onnx import AttributeProto, NodeProto, helper, numpy_helper

_WHOLE = {
    **dict.fromkeys(("LinearClassifier", "LinearRegressor"), ("coefficients", "intercepts")),
    **dict.fromkeys(
        ("SVMClassifier", "SVMRegressor"),
        (*("coefficients", "support_vectors", "rho", "prob_a", "prob_b"), "vectors_per_class"),
    ),
    "Imputer": ("imputed_value_floats", "imputed_value_int64s"),
    "Scaler": ("offset", "scale"),
    "TfIdfVectorizer": ("weights", "ngram_indexes", "ngram_counts", "pool_int64s"),
}
_ENTRIES = {
    "CategoryMapper": ("cats_int64s", "cats_strings"),
    "LabelEncoder": (
        *("keys_floats", "keys_int64s", "keys_strings", "keys_tensor", "classes_strings"),
        *("values_floats", "values_int64s", "values_strings", "values_tensor"),
    ),
    "OneHotEncoder": ("cats_int64s", "cats_strings"),
}
_OLDER_NODES = ("nodes_values", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids")
_TREES = {
    "TreeEnsemble": (
        *("nodes_splits", "nodes_modes", *_OLDER_NODES[1:], "nodes_trueleafs", "nodes_falseleafs"),
        *("leaf_weights", "leaf_targetids"),
    ),
    "TreeEnsembleRegressor": (*_OLDER_NODES, "target_weights", "target_ids", "base_values"),
    "TreeEnsembleClassifier": (*_OLDER_NODES, "class_weights", "class_ids", "base_values"),
}


def table_bytes(node: NodeProto, data_shape: tuple[int, ...]) -> int:
    """What a node reads of the tables in its attributes for data of this shape."""
    if node.op_type in _WHOLE:
        return sum(_n_bytes(node, name) for name in _WHOLE[node.op_type])
    if node.op_type in _ENTRIES:
        names = _ENTRIES[node.op_type]
        longest = max(_length(node, name) for name in names)
        whole = sum(_n_bytes(node, name) for name in names)
        return whole * min(math.prod(data_shape), longest) // longest if longest else 0
    if node.op_type not in _TREES:
        return 0
    n_nodes = _length(node, "nodes_truenodeids")
    n_steps = _steps_to_leaves(node) if node.op_type == "TreeEnsemble" else _steps(node)
    n_rows = data_shape[0] if len(data_shape) > 1 else 1
    whole = sum(_n_bytes(node, name) for name in _TREES[node.op_type])
    return whole * min(n_rows * n_steps, n_nodes) // n_nodes


def _steps_to_leaves(node: NodeProto) -> int:
    """The same of a TreeEnsemble, whose leaves are in lists of their own."""
    held = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    sides = [
        list(zip(held[f"nodes_{side}nodeids"], held[f"nodes_{side}leafs"], strict=True))
        for side in ("true", "false")
    ]
    total = 0
    for root in held["tree_roots"]:
        level = [root]
        while level:
            total += 1
            below = (side[own] for own in level for side in sides)
            level = [child for child, is_leaf in below if not is_leaf]
        total += 1
    return total


def _steps(node: NodeProto) -> int:
    """Nodes on the longest way of each tree, its leaf among them, summed."""
    held = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    columns = ("treeids", "nodeids", "truenodeids", "falsenodeids", "modes")
    nodes = list(zip(*(held[f"nodes_{name}"] for name in columns), strict=True))
    below = {
        (tree, own): () if mode == b"LEAF" else (yes, no) for tree, own, yes, no, mode in nodes
    }
    roots: dict[int, int] = {}
    for tree, own, *_ in nodes:
        roots.setdefault(tree, own)
    total = 0
    for tree, root in roots.items():
        level = [root]
        while level:
            total += 1
            level = [child for own in level for child in below[tree, own]]
    return total


def _values(node: NodeProto, name: str) -> AttributeProto | None:
    names = (name, f"{name}_as_tensor")
    return next((each for each in node.attribute if each.name in names), None)


def _length(node: NodeProto, name: str) -> int:
    held = _values(node, name)
    if held is None:
        return 0
    if held.type == AttributeProto.TENSOR:
        return math.prod(held.t.dims)
    return len(held.floats or held.ints or held.strings)


def _n_bytes(node: NodeProto, name: str) -> int:
    held = _values(node, name)
    if held is None or held.strings:
        return 0
    if held.type == AttributeProto.TENSOR:
        array = numpy_helper.to_array(held.t)
        return 0 if array.dtype == object else array.nbytes
    return 4 * len(held.floats) + 8 * len(held.ints)
