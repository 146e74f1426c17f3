"""Classical models of ai.onnx.ml: linear, support vectors. https://onnx.ai/onnx/operators/

Their coefficients stand in attributes: they are no tensors, so they are neither counted
as parameters nor as bytes that are read.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.estimator.element_types import FLOAT32, INT64, STRING, ElementType
from mansard.estimator.shapes.checks import check_rank
from mansard.estimator.shapes.ml_features import ML
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


def rows_and_columns(node: Node) -> tuple[int, int]:
    """Of the data; a vector is one row."""
    check_rank(node, 0, 1, 2)
    shape = node.input(0).shape
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def floats(node: Node, name: str) -> int:
    """How many numbers a list attribute holds, 0 where it is left out."""
    held = node.attributes.get(name, ())
    if not isinstance(held, tuple):
        raise node.error(f"attribute {name!r} must be a list")
    return len(held)


def labels(node: Node, integers: str) -> tuple[int, ElementType]:
    """(classes, the type of their labels)."""
    if floats(node, "classlabels_strings"):
        return floats(node, "classlabels_strings"), STRING
    return floats(node, integers), INT64


class LinearSizes(msgspec.Struct, frozen=True):
    """A linear model: ``n_products`` scores are computed, ``n_scores`` are given out."""

    n_rows: int
    n_columns: int
    n_products: int
    n_scores: int


def linear_sizes(node: Node) -> LinearSizes:
    """Sizes of either linear model; raises ModelError where they contradict.

    More coefficients than are needed are no error: ONNX Runtime ignores what is left
    over, and the ``logreg_iris.onnx`` in its own wheel is such a file.
    """
    rows, columns = rows_and_columns(node)
    held = floats(node, "coefficients")
    if node.op_type == "LinearRegressor":
        targets = node.integer("targets", 1)
        if targets < 1 or held < targets * columns:
            raise node.error(f"{held} coefficients do not fit {targets} x {columns}")
        return LinearSizes(rows, columns, targets, targets)
    n_products = floats(node, "intercepts") or labels(node, "classlabels_ints")[0]
    if not columns or not n_products or held < n_products * columns:
        raise node.error(f"{held} coefficients do not fit {n_products} x {columns}")
    # One score decides between two classes; both come out, and so they do without labels.
    n_classes = max(labels(node, "classlabels_ints")[0], n_products)
    n_scores = max(n_classes, 2) if n_products == 1 else n_products
    return LinearSizes(rows, columns, n_products, n_scores)


@rule("LinearRegressor", domain=ML)
def _linear_regressor(node: Node) -> Sequence[Spec]:
    sizes = linear_sizes(node)
    return [(FLOAT32, (sizes.n_rows, sizes.n_scores))]


@rule("LinearClassifier", domain=ML)
def _linear_classifier(node: Node) -> Sequence[Spec]:
    """The best class of each row, and the scores of all classes."""
    sizes = linear_sizes(node)
    _, dtype = labels(node, "classlabels_ints")
    return [(dtype, (sizes.n_rows,)), (FLOAT32, (sizes.n_rows, sizes.n_scores))]


class VectorSizes(msgspec.Struct, frozen=True):
    """A model of support vectors. ``n_vectors`` is 0 where it is a linear one."""

    n_rows: int
    n_columns: int
    n_vectors: int
    n_classes: int


def vector_sizes(node: Node) -> VectorSizes:
    """Sizes of either model of support vectors."""
    rows, columns = rows_and_columns(node)
    if node.op_type == "SVMRegressor":
        return VectorSizes(rows, columns, node.integer("n_supports", 0), 1)
    n_vectors = sum(node.integers("vectors_per_class") or ())
    n_classes, _ = labels(node, "classlabels_ints")
    held = floats(node, "support_vectors")
    if n_vectors and held != n_vectors * columns:
        raise node.error(f"{held} numbers are not {n_vectors} vectors of {columns}")
    if not n_vectors:
        n_classes = floats(node, "coefficients") // max(columns, 1)
    return VectorSizes(rows, columns, n_vectors, n_classes)


@rule("SVMRegressor", domain=ML)
def _vector_regressor(node: Node) -> Sequence[Spec]:
    return [(FLOAT32, (vector_sizes(node).n_rows, 1))]


@rule("SVMClassifier", domain=ML)
def _vector_classifier(node: Node) -> Sequence[Spec]:
    """The best class, and a score for each class, or for each pair of them.

    Pairs are what is compared; probabilities are of classes.
    """
    sizes = vector_sizes(node)
    _, dtype = labels(node, "classlabels_ints")
    n = sizes.n_classes
    if sizes.n_vectors and not floats(node, "prob_a") and n > 2:
        n = n * (n - 1) // 2
    return [(dtype, (sizes.n_rows,)), (FLOAT32, (sizes.n_rows, n))]
