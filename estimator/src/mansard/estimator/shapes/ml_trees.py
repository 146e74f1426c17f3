"""Ensembles of decision trees of ai.onnx.ml. https://onnx.ai/onnx/operators/

How deep each tree is follows from the attributes alone; which way a row goes does not,
so the longest way of each tree is an upper bound of what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.estimator.element_types import FLOAT32
from mansard.estimator.shapes.ml_features import ML
from mansard.estimator.shapes.ml_models import floats, labels, rows_and_columns
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

Children = dict[tuple[int, int], tuple[tuple[int, int], ...]]


class TreeSizes(msgspec.Struct, frozen=True):
    """An ensemble. ``depth``: comparisons on the longest way, summed over the trees."""

    n_rows: int
    n_trees: int
    n_outputs: int
    depth: int


def tree_sizes(node: Node) -> TreeSizes:
    """Sizes of any ensemble; raises ModelError where its trees are none."""
    rows, _ = rows_and_columns(node)
    if node.op_type == "TreeEnsemble":
        roots, children = _newer(node)
        n_outputs = node.integer("n_targets", 1)
    else:
        roots, children = _older(node)
        n_outputs = node.integer("n_targets", 1)
        if node.op_type == "TreeEnsembleClassifier":
            n_outputs = labels(node, "classlabels_int64s")[0]
    return TreeSizes(rows, len(roots), n_outputs, _depth(node, roots, children))


def _older(node: Node) -> tuple[list[tuple[int, int]], Children]:
    """Roots and children by (tree, node) of the first two kinds of ensemble."""
    trees, own = node.integers("nodes_treeids") or (), node.integers("nodes_nodeids") or ()
    yes = node.integers("nodes_truenodeids") or ()
    no = node.integers("nodes_falsenodeids") or ()
    modes = node.attributes.get("nodes_modes", ())
    if not isinstance(modes, tuple) or not len(trees) == len(own) == len(yes) == len(no):
        raise node.error("the lists that describe its trees are of different lengths")
    if len(modes) != len(trees):
        raise node.error("its nodes do not all have a mode")
    children: Children = {}
    roots: dict[int, tuple[int, int]] = {}
    for tree, number, first, second, mode in zip(trees, own, yes, no, modes, strict=True):
        roots.setdefault(tree, (tree, number))  # the first node of a tree is its root
        is_leaf = mode == "LEAF"
        children[tree, number] = () if is_leaf else ((tree, first), (tree, second))
    return list(roots.values()), children


def _newer(node: Node) -> tuple[list[tuple[int, int]], Children]:
    """The same of a TreeEnsemble, whose leaves are numbered apart."""
    yes, no = node.integers("nodes_truenodeids") or (), node.integers("nodes_falsenodeids") or ()
    ends = node.integers("nodes_trueleafs") or (), node.integers("nodes_falseleafs") or ()
    roots = node.integers("tree_roots") or ()
    if not len(yes) == len(no) == len(ends[0]) == len(ends[1]):
        raise node.error("the lists that describe its trees are of different lengths")
    children: Children = {}
    for number, (first, second) in enumerate(zip(yes, no, strict=True)):
        pair = ((first, ends[0][number]), (second, ends[1][number]))
        children[0, number] = tuple((0, child) for child, is_leaf in pair if not is_leaf)
    return [(0, root) for root in roots], children


def _depth(node: Node, roots: list[tuple[int, int]], children: Children) -> int:
    """Comparisons to the deepest leaf of each tree, summed; walks without recursion."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for root in roots:
        deepest = 0
        waiting = [(root, 0)]
        while waiting:
            place, depth = waiting.pop()
            below = children.get(place)
            if below is None or place in seen:
                raise node.error("its trees are none: a child is missing, or has two parents")
            seen.add(place)
            # An inner node compares, a leaf does not.
            is_inner = bool(below) or node.op_type == "TreeEnsemble"
            deepest = max(deepest, depth + is_inner)
            waiting += [(child, depth + 1) for child in below]
        total += deepest
    return total


@rule("TreeEnsemble", "TreeEnsembleRegressor", domain=ML)
def _tree_regressor(node: Node) -> Sequence[Spec]:
    sizes = tree_sizes(node)
    dtype = node.input(0).dtype if node.op_type == "TreeEnsemble" else FLOAT32
    return [(dtype, (sizes.n_rows, sizes.n_outputs))]


@rule("TreeEnsembleClassifier", domain=ML)
def _tree_classifier(node: Node) -> Sequence[Spec]:
    """The best class of each row, and the scores of all classes."""
    sizes = tree_sizes(node)
    if not floats(node, "class_ids"):
        raise node.error("its leaves vote for no class")
    _, dtype = labels(node, "classlabels_int64s")
    return [(dtype, (sizes.n_rows,)), (FLOAT32, (sizes.n_rows, sizes.n_outputs))]
