"""Ensembles of decision trees of ai.onnx.ml. https://onnx.ai/onnx/operators/

How deep each tree is follows from the attributes alone; which way a row goes does not, so the
longest way of each tree is an upper bound of what it costs, and of what it reads.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.model import StoredTensor
from mansard.estimator.numbers import FLOAT32, Array
from mansard.estimator.operators.ml.features import ml_operator
from mansard.estimator.operators.ml.models import (
    best,
    count,
    integers,
    labels,
    rows_and_columns,
    transform,
)
from mansard.estimator.operators.registry import Specs
from mansard.estimator.tensors import Node

_LEAF = 7  # in a long list of modes; the others are numbered as those of a TreeEnsemble
_DESCRIBED = "the lists that describe its trees are of different lengths"
_BROKEN = "its trees are none: a child is missing, or has two parents"


class Forest(msgspec.Struct, frozen=True):
    """The trees of a node. ``depth``: comparisons on the longest way, summed over the trees.

    ``n_inner`` nodes compare; ``n_nodes`` are stored, leaves among them where they are nodes.
    """

    n_trees: int
    depth: int
    n_nodes: int
    n_inner: int


class _Lists:
    """A node, to be remembered by its attributes."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __hash__(self) -> int:
        return id(self.node.attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Lists) and other.node.attributes is self.node.attributes


def forest(node: Node) -> Forest:
    """The trees of any ensemble; raises ModelError where they are none."""
    return _forest(_Lists(node))


@lru_cache(maxsize=1)  # its shape, its cost and its bytes ask for the same one
def _forest(lists: _Lists) -> Forest:
    node = lists.node
    return _newer(node) if node.op_type == "TreeEnsemble" else _older(node)


def _older(node: Node) -> Forest:
    """The first two kinds of ensemble: nodes, leaves among them, are called (tree, number)."""
    import numpy as np

    trees, own = integers(node, "nodes_treeids"), integers(node, "nodes_nodeids")
    yes, no = integers(node, "nodes_truenodeids"), integers(node, "nodes_falsenodeids")
    if not len(trees) == len(own) == len(yes) == len(no):
        raise node.error(_DESCRIBED)
    is_leaf = _leaves(node)
    if len(is_leaf) != len(trees):
        raise node.error("its nodes do not all have a mode")
    _, firsts, tree = np.unique(trees, return_index=True, return_inverse=True)
    inner = np.flatnonzero(~is_leaf)
    below = np.concatenate([yes[inner], no[inner]])
    if min(own.min(initial=0), below.min(initial=0)) < 0:
        raise node.error(_BROKEN)
    width = 1 + max(int(own.max(initial=0)), int(below.max(initial=0)))
    if width * len(firsts) >= 2**62:
        raise node.error(_BROKEN)
    keys, wanted = tree * width + own, np.tile(tree[inner], 2) * width + below
    order = np.argsort(keys, kind="stable")
    places = np.minimum(np.searchsorted(keys[order], wanted), max(len(keys) - 1, 0))
    children = order[places] if len(keys) else places
    if np.any(keys[children] != wanted):
        raise node.error(_BROKEN)
    # The first node of a tree is its root.
    depth = _depth(node, np.tile(inner, 2), children, firsts, len(own))
    return Forest(len(firsts), depth, len(own), len(inner))


def _leaves(node: Node) -> Array:
    import numpy as np

    modes = node.attributes.get("nodes_modes", ())
    if isinstance(modes, StoredTensor) and modes.value is not None:
        return np.asarray(modes.value.array == _LEAF)
    if not isinstance(modes, tuple):
        raise node.error("its nodes do not all have a mode")
    return np.array([mode == "LEAF" for mode in modes], bool)


def _newer(node: Node) -> Forest:
    """A TreeEnsemble: leaves are numbered apart, and each of its nodes compares."""
    import numpy as np

    yes, no = integers(node, "nodes_truenodeids"), integers(node, "nodes_falsenodeids")
    ends = integers(node, "nodes_trueleafs"), integers(node, "nodes_falseleafs")
    roots = integers(node, "tree_roots")
    if not len(yes) == len(no) == len(ends[0]) == len(ends[1]):
        raise node.error(_DESCRIBED)
    n_nodes = len(yes)
    below = np.concatenate([yes, no])
    parents = np.tile(np.arange(n_nodes), 2)
    inner = np.concatenate(ends) == 0
    known = np.concatenate([below[inner], roots])
    if np.any((known < 0) | (known >= n_nodes)):
        raise node.error(_BROKEN)
    depth = _depth(node, parents[inner], below[inner], roots, n_nodes)
    return Forest(len(roots), depth + len(roots), n_nodes, n_nodes)


def _depth(node: Node, parents: Array, children: Array, roots: Array, n_nodes: int) -> int:
    """Edges to the deepest node of each tree, summed; each round doubles the way up."""
    import numpy as np

    parent = np.arange(n_nodes)
    parent[children] = parents
    level = np.zeros(n_nodes, np.int64)
    level[children] = 1
    n_parents = np.bincount(children, minlength=1)
    if n_parents.max() > 1 or np.any(level[roots]):
        raise node.error(_BROKEN)
    for _ in range(n_nodes.bit_length() + 1):
        level += level[parent]
        above = parent[parent]
        if np.array_equal(above, parent):
            break
        parent = above
    else:
        raise node.error(_BROKEN)
    deepest = np.zeros(n_nodes, np.int64)
    np.maximum.at(deepest, parent, level)
    return int(deepest[roots].sum())


def _n_outputs(node: Node) -> int:
    if node.op_type == "TreeEnsembleClassifier":
        return labels(node, "classlabels_int64s")[0]
    return node.integer("n_targets", 1)


def trees(node: Node) -> Cost:
    """Comparisons to the deepest leaf of each tree and row: an upper bound.

    1 addition a tree, base values, transform; a classifier compares its scores.
    """
    (n_rows, _), sizes, n_outputs = rows_and_columns(node), forest(node), _n_outputs(node)
    each = sizes.depth + sizes.n_trees
    if count(node, "base_values") or "base_values_as_tensor" in node.attributes:
        each += n_outputs
    work = Cost(simple=n_rows * each) + transform(node, n_rows, n_outputs)
    if node.op_type == "TreeEnsembleClassifier":
        work += best(n_rows, n_outputs)
    return work


def _read_bytes(node: Node, precision: Precision | None) -> int:
    """The rows, and the nodes on their longest paths."""
    data, *tables = node.distinct
    (n_rows, _), sizes = rows_and_columns(node), forest(node)
    visited = min(n_rows * (sizes.depth + sizes.n_trees), sizes.n_nodes)
    whole = sum(table.n_bytes(precision) for table in tables)
    return data.n_bytes(precision) + whole * visited // max(sizes.n_nodes, 1)


def _thresholds(node: Node) -> int:
    """Leaves have a place in the list of thresholds, but none is learned there."""
    return forest(node).n_inner


_OLDER = {1: _thresholds}


def _tree_regressor_shape(node: Node) -> Specs:
    n_rows, _ = rows_and_columns(node)
    forest(node)
    dtype = node.input(0).dtype if node.op_type == "TreeEnsemble" else FLOAT32
    return [(dtype, (n_rows, _n_outputs(node)))]


def _tree_classifier_shape(node: Node) -> Specs:
    """The best class of each row, and the scores of all classes."""
    n_rows, _ = rows_and_columns(node)
    forest(node)
    if not count(node, "class_ids"):
        raise node.error("its leaves vote for no class")
    n_classes, dtype = labels(node, "classlabels_int64s")
    return [(dtype, (n_rows,)), (FLOAT32, (n_rows, n_classes))]


ml_operator("TreeEnsemble", shape=_tree_regressor_shape, reads=_read_bytes)(trees)
ml_operator("TreeEnsembleRegressor", shape=_tree_regressor_shape, reads=_read_bytes, packed=_OLDER)(
    trees
)
ml_operator(
    "TreeEnsembleClassifier", shape=_tree_classifier_shape, reads=_read_bytes, packed=_OLDER
)(trees)
