"""Classical models: trees of any form, and what their files may get wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.core.errors import ModelError
from tests.estimator.contrib_models import Operator, row
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
    with pytest.raises(ModelError, match="input 'x' is no tensor"):
        score(data)
