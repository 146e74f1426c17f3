"""Classical models: trees of any form, and what their files may get wrong."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.core.errors import ModelError
from mansard.core.formats.protobuf import encode
from mansard.estimator import score
from tests.estimator.contrib_models import Operator, build, row
from tests.estimator.ml_cases import ML, TREES

_REGRESSOR = TREES[0]

# A tree is a leaf, or two trees.
_TREE = st.recursive(st.just(()), lambda inner: st.tuples(inner, inner), max_leaves=20)


def _depth(tree: Any) -> int:
    return 1 + max(map(_depth, tree)) if tree else 0


def _nodes(trees: list[Any]) -> dict[str, Any]:
    """The attributes that describe ``trees``, their nodes numbered depth first."""
    lists: dict[str, list[Any]] = {
        name: []
        for name in (
            *("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values"),
            *("nodes_modes", "nodes_truenodeids", "nodes_falsenodeids"),
            *("target_treeids", "target_nodeids", "target_ids", "target_weights"),
        )
    }
    for number, tree in enumerate(trees):
        _add(lists, number, tree, [0])
    return lists


def _add(lists: dict[str, list[Any]], number: int, tree: Any, counter: list[int]) -> int:
    own = counter[0]
    counter[0] += 1
    place = len(lists["nodes_treeids"])
    values: dict[str, Any] = {"nodes_treeids": number, "nodes_nodeids": own, "nodes_featureids": 0}
    values |= {"nodes_values": 0.5, "nodes_modes": "BRANCH_LEQ" if tree else "LEAF"}
    values |= {"nodes_truenodeids": 0, "nodes_falsenodeids": 0}
    for name, value in values.items():
        lists[name].append(value)
    if tree:
        lists["nodes_truenodeids"][place] = _add(lists, number, tree[0], counter)
        lists["nodes_falsenodeids"][place] = _add(lists, number, tree[1], counter)
    else:
        leaf: dict[str, Any] = {"treeids": number, "nodeids": own, "ids": 0, "weights": 1.0}
        for name, value in leaf.items():
            lists[f"target_{name}"].append(value)
    return own


@settings(max_examples=60)
@given(st.lists(_TREE, min_size=1, max_size=5), st.integers(1, 9))
def test_a_row_asks_on_the_longest_way_of_each_tree(trees: list[Any], n_rows: int) -> None:
    case = Operator(
        ML + "TreeEnsembleRegressor",
        (f"float[{n_rows},3]",),
        0,
        {**_nodes(trees), "n_targets": 1},
    )
    # and adds a leaf of each
    assert row(case).work_flop == n_rows * (sum(map(_depth, trees)) + len(trees))


def _with(**changes: Any) -> Operator:
    return _REGRESSOR._replace(settings={**_REGRESSOR.settings, **changes})


@pytest.mark.parametrize(
    ("case", "what"),
    [
        # node 1 leads back to the root
        (_with(nodes_truenodeids=[1, 0, 0, 0, 0, 1, 0, 0]), "has two parents"),
        (_with(nodes_falsenodeids=[9, 3, 0, 0, 0, 2, 0, 0]), "a child is missing"),
        (_with(nodes_truenodeids=[1, 2]), "different lengths"),
        (_with(nodes_modes=["LEAF"]), "do not all have a mode"),
    ],
)
def test_what_is_no_tree_is_an_error(case: Operator, what: str) -> None:
    with pytest.raises(ModelError, match=what):
        row(case)


def test_trees_without_end_are_walked_without_recursion() -> None:
    # 20,000 questions in a row
    n = 20_000
    inner = list(range(0, 2 * n, 2))
    yes = [0] * (2 * n + 1)
    no = [0] * (2 * n + 1)
    modes = ["LEAF"] * (2 * n + 1)
    for number in inner:
        yes[number], no[number], modes[number] = number + 1, number + 2, "BRANCH_LT"
    case = _with(
        nodes_treeids=[0] * (2 * n + 1),
        nodes_nodeids=list(range(2 * n + 1)),
        nodes_featureids=[0] * (2 * n + 1),
        nodes_values=[0.5] * (2 * n + 1),
        nodes_modes=modes,
        nodes_truenodeids=yes,
        nodes_falsenodeids=no,
    )
    # 5 rows: the questions, a leaf, a base value
    assert row(case).work_flop == 5 * (n + 1 + 1)


def test_a_map_that_the_network_is_given_is_no_tensor() -> None:
    from onnx import TensorProto, helper

    from mansard.estimator import score

    node = helper.make_node(
        "DictVectorizer", ["x"], ["y"], "node", domain="ai.onnx.ml", int64_vocabulary=[1, 2]
    )
    values = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    kind = helper.make_map_type_proto(TensorProto.INT64, values)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_value_info("x", kind)],
        [helper.make_empty_tensor_value_info("y")],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 1)]
    data = helper.make_model(graph, opset_imports=imports).SerializeToString()
    with pytest.raises(ModelError, match="input 'x' is not a tensor"):
        score(data)


# What each classical model holds: parameters, bytes of its tables, bytes that 5 rows of it read.
_ROWS_BYTES = 5 * 3 * 4
HELD: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    # 2 x 3 coefficients, 2 intercepts
    "LinearClassifier": (
        {"coefficients": [1.0] * 6, "intercepts": [0.0] * 2, "classlabels_ints": [0, 1]},
        (8, 8 * 4, 8 * 4),
    ),
    "LinearRegressor": (
        {"coefficients": [1.0] * 6, "intercepts": [0.0] * 2, "targets": 2},
        (8, 8 * 4, 8 * 4),
    ),
    # 4 vectors of 3, their coefficients, an offset; two counts of 8 bytes were not learned
    "SVMClassifier": (
        {
            "support_vectors": [1.0] * 12,
            "coefficients": [1.0] * 4,
            "rho": [0.5],
            "vectors_per_class": [2, 2],
            "classlabels_ints": [0, 1],
            "kernel_type": "RBF",
            "kernel_params": [0.1, 0.0, 0.0],
        },
        (17, 17 * 4 + 2 * 8, 17 * 4 + 2 * 8),
    ),
    "SVMRegressor": (
        {
            "support_vectors": [1.0] * 12,
            "coefficients": [1.0] * 4,
            "rho": [0.5],
            "n_supports": 4,
            "kernel_type": "LINEAR",
        },
        (17, 17 * 4, 17 * 4),
    ),
    # means and deviations are stored, and not learned, as those of a batch normalisation
    "Scaler": ({"offset": [0.0] * 3, "scale": [1.0] * 3}, (0, 6 * 4, 6 * 4)),
    "Imputer": ({"imputed_value_floats": [0.5] * 3}, (0, 3 * 4, 3 * 4)),
    "Normalizer": ({"norm": "L1"}, (0, 0, 0)),
    "Binarizer": ({"threshold": 0.5}, (0, 0, 0)),
}


@pytest.mark.parametrize("op_type", HELD)
def test_models_in_attributes_have_parameters_and_bytes(op_type: str) -> None:
    attributes, (parameters, weight_bytes, read_bytes) = HELD[op_type]
    n_outputs = 2 if op_type.endswith("Classifier") else 1
    found = row(Operator(ML + op_type, ("float[5,3]",), 0, attributes, outputs=n_outputs))
    assert found.parameters == parameters
    assert found.weight_bytes == weight_bytes
    assert found.input_bytes == _ROWS_BYTES
    assert found.read_bytes == _ROWS_BYTES + read_bytes
    # one number stands in a register of the fused kernel, and so do counts of the file alone
    assert found.read_bytes - 20 <= (found.fused_read_bytes or 0) <= found.read_bytes


def test_a_forest_has_a_threshold_at_each_inner_node_and_a_weight_at_each_leaf() -> None:
    # two trees: one of 3 leaves and 2 inner nodes, one that is a leaf
    trees = [(((), ()), ()), ()]
    found = row(Operator(_REGRESSOR.name, ("float[1,3]",), 0, {**_nodes(trees), "n_targets": 1}))
    assert found.parameters == 2 + 4
    # 6 nodes: a feature and two children of 8 bytes; 2 thresholds that leaves share a list with
    # are 6 numbers; 4 leaves: a target of 8 bytes and a weight
    assert found.weight_bytes == 6 * (4 + 3 * 8) + 4 * (8 + 4)
    # one row visits at most 3 nodes of the first tree and 1 of the second: 4 of 6
    assert found.read_bytes == 3 * 4 + found.weight_bytes * 4 // 6


def test_rows_read_the_forest_once_at_most() -> None:
    trees = [(((), ()), ()), ()]
    operator = Operator(_REGRESSOR.name, ("float[9,3]",), 0, {**_nodes(trees), "n_targets": 1})
    found = row(operator)
    assert found.read_bytes == 9 * 3 * 4 + (found.weight_bytes or 0)


def test_dictionaries_are_held_and_looked_up() -> None:
    attributes = {"keys_int64s": [*range(10)], "values_floats": [0.5] * 10}
    found = row(Operator(ML + "LabelEncoder", ("int64[4]",), 0, attributes))
    assert (found.parameters, found.weight_bytes) == (0, 10 * (8 + 4))
    assert found.read_bytes == 4 * 8 + 4 * (8 + 4)
    encoder = row(Operator(ML + "OneHotEncoder", ("int64[2]",), 0, {"cats_int64s": [3, 5, 7]}))
    assert (encoder.weight_bytes, encoder.read_bytes) == (3 * 8, 2 * 8 + 2 * 8)


def test_a_text_vectorizer_holds_its_pool() -> None:
    attributes = {
        "mode": "TFIDF",
        "min_gram_length": 1,
        "max_gram_length": 1,
        "max_skip_count": 0,
        "ngram_counts": [0],
        "ngram_indexes": [0, 1, 2],
        "pool_int64s": [7, 8, 9],
        "weights": [1.0, 2.0, 3.0],
    }
    found = row(Operator("TfIdfVectorizer", ("int64[1,4]",), 0, attributes))
    assert found.parameters == 0
    assert found.weight_bytes == 8 + 3 * 8 + 3 * 8 + 3 * 4


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_forest_of_millions_of_numbers_is_read_as_a_small_one_is(is_packed: bool) -> None:
    # 4,000 equal trees of 15 nodes: lists of more than 64 KiB
    depth_3 = ((((), ()), ((), ())), (((), ()), ((), ())))
    lists: dict[str, Any] = {**_nodes([depth_3] * 4000), "n_targets": 1}
    operator = Operator(_REGRESSOR.name, ("float[1,3]",), 0, lists)
    data = build(operator)
    attributes = onnx.ModelProto.FromString(data).graph.node[0].attribute
    assert any(attribute.ByteSize() > 1 << 16 for attribute in attributes)
    if is_packed:
        data = packed(onnx.ModelProto.FromString(data))
    (found,) = score(data).layers
    assert found.work_flop == 4000 * (3 + 1)
    assert found.parameters == 4000 * (7 + 8)
    # all nodes: 28 bytes; leaves 12 more
    assert found.weight_bytes == 4000 * (15 * 28 + 8 * 12)


def packed(proto: onnx.ModelProto) -> bytes:
    """The model with the integers of each attribute in one field, as other writers do it."""
    node = proto.graph.node[0]
    attributes = []
    for attribute in node.attribute:
        numbers = b"".join(encode(number) for number in attribute.ints)
        del attribute.ints[:]
        attributes.append(attribute.SerializeToString() + field(8, numbers))
    del node.attribute[:]
    written = node.SerializeToString() + b"".join(field(5, each) for each in attributes)
    del proto.graph.node[:]
    graph = field(1, written) + proto.graph.SerializeToString()
    proto.ClearField("graph")
    rest: bytes = proto.SerializeToString()
    return rest + field(7, graph)


def field(number: int, content: bytes) -> bytes:
    return encode(8 * number + 2) + encode(len(content)) + content


def test_what_stands_in_long_lists_may_be_broken() -> None:
    trees = {**_nodes([((), ())] * 5000), "n_targets": 1}
    trees["nodes_truenodeids"][-3] = 99
    with pytest.raises(ModelError, match="its trees are none: a child is missing"):
        row(Operator(_REGRESSOR.name, ("float[1,3]",), 0, trees))


@pytest.mark.parametrize("n_trees", [1, 3000])
def test_trees_that_run_in_circles(n_trees: int) -> None:
    trees = {**_nodes([(((), ()), ())] * n_trees), "n_targets": 1}
    trees["nodes_truenodeids"][1] = 0  # the second node's child is the root
    with pytest.raises(ModelError, match="its trees are none"):
        row(Operator(_REGRESSOR.name, ("float[1,3]",), 0, trees))
