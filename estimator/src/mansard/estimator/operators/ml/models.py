"""Classical models of ai.onnx.ml: linear and support vectors. https://onnx.ai/onnx/operators/

Their coefficients and vectors stand in attributes, which are weights (``reading.tables``).
"""

from __future__ import annotations

import math

import msgspec

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.model import StoredTensor
from mansard.estimator.numbers import FLOAT32, INT64, STRING, Array, ElementType
from mansard.estimator.operators.costs import SIGMOID
from mansard.estimator.operators.ml.features import ml_operator
from mansard.estimator.operators.normalization import softmax_cost
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.shapes import check_rank
from mansard.estimator.tensors import Node


def rows_and_columns(node: Node) -> tuple[int, int]:
    """Of the data; a vector is one row."""
    check_rank(node, 0, 1, 2)
    shape = node.input(0).shape
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def count(node: Node, name: str) -> int:
    """How many numbers a list attribute holds, 0 where it is left out."""
    held = node.attributes.get(name, ())
    if isinstance(held, StoredTensor):
        return math.prod(held.shape)
    if not isinstance(held, tuple):
        raise node.error(f"attribute {name!r} must be a list")
    return len(held)


def integers(node: Node, name: str) -> Array:
    """The integers of a list attribute, however long; none where it is left out."""
    import numpy as np

    held = node.attributes.get(name, ())
    if isinstance(held, StoredTensor) and held.value is not None:
        return held.value.array
    try:
        found = np.asarray(held if isinstance(held, tuple) else None, np.int64)
    except (OverflowError, TypeError, ValueError):
        raise node.error(f"attribute {name!r} must be a list of integers") from None
    return found


def labels(node: Node, integers: str) -> tuple[int, ElementType]:
    """(classes, the type of their labels)."""
    if count(node, "classlabels_strings"):
        return count(node, "classlabels_strings"), STRING
    return count(node, integers), INT64


class _LinearSizes(msgspec.Struct, frozen=True):
    """A linear model: ``n_products`` scores are computed, ``n_scores`` are given out."""

    n_rows: int
    n_columns: int
    n_products: int
    n_scores: int


def _linear_sizes(node: Node) -> _LinearSizes:
    """Sizes of either linear model; raises ModelError where they contradict.

    More coefficients than are needed are no error: ONNX Runtime ignores what is left
    over, and the ``logreg_iris.onnx`` in its own wheel is such a file.
    """
    rows, columns = rows_and_columns(node)
    held = count(node, "coefficients")
    if node.op_type == "LinearRegressor":
        targets = node.integer("targets", 1)
        if targets < 1 or held < targets * columns:
            raise node.error(f"{held} coefficients do not fit {targets} x {columns}")
        return _LinearSizes(rows, columns, targets, targets)
    n_products = count(node, "intercepts") or labels(node, "classlabels_ints")[0]
    if not columns or not n_products or held < n_products * columns:
        raise node.error(f"{held} coefficients do not fit {n_products} x {columns}")
    # One score decides between two classes; both come out, and so they do without labels.
    n_classes = max(labels(node, "classlabels_ints")[0], n_products)
    n_scores = max(n_classes, 2) if n_products == 1 else n_products
    return _LinearSizes(rows, columns, n_products, n_scores)


def _linear_regressor_shape(node: Node) -> Specs:
    sizes = _linear_sizes(node)
    return [(FLOAT32, (sizes.n_rows, sizes.n_scores))]


_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def transform(node: Node, n_rows: int, n_scores: int) -> Cost:
    """What ``post_transform`` does to rows of scores; PROBIT is one function of each."""
    given = node.attributes.get("post_transform", "NONE")
    name = _TRANSFORMS[given] if isinstance(given, int) and given < 5 else given
    if name == "NONE":
        return NOTHING
    if name == "LOGISTIC":
        return SIGMOID * (n_rows * n_scores)
    if name == "PROBIT":
        return Cost(functions=n_rows * n_scores)
    if name in ("SOFTMAX", "SOFTMAX_ZERO"):
        return softmax_cost(n_rows, n_scores)
    raise node.error(f"attribute 'post_transform' = {given!r} does not exist")


def best(n_rows: int, n_scores: int) -> Cost:
    """The class with the highest score of each row."""
    return Cost(simple=n_rows * max(n_scores - 1, 0))


@ml_operator("LinearRegressor", shape=_linear_regressor_shape)
def linear_regressor(node: Node) -> Cost:
    """Columns · targets multiply-adds for each row, intercepts, transform."""
    sizes = _linear_sizes(node)
    n = sizes.n_rows * sizes.n_products
    added = n if count(node, "intercepts") else 0
    return Cost(macs=n * sizes.n_columns, simple=added) + transform(
        node, sizes.n_rows, sizes.n_scores
    )


def _linear_classifier_shape(node: Node) -> Specs:
    """The best class of each row, and the scores of all classes."""
    sizes = _linear_sizes(node)
    _, dtype = labels(node, "classlabels_ints")
    return [(dtype, (sizes.n_rows,)), (FLOAT32, (sizes.n_rows, sizes.n_scores))]


@ml_operator("LinearClassifier", shape=_linear_classifier_shape)
def linear_classifier(node: Node) -> Cost:
    """As LinearRegressor with a target for each class; the best class."""
    sizes = _linear_sizes(node)
    return linear_regressor(node) + best(sizes.n_rows, sizes.n_scores)


class _VectorSizes(msgspec.Struct, frozen=True):
    """A model of support vectors. ``n_vectors`` is 0 where it is a linear one."""

    n_rows: int
    n_columns: int
    n_vectors: int
    n_classes: int


def _vector_sizes(node: Node) -> _VectorSizes:
    """Sizes of either model of support vectors."""
    rows, columns = rows_and_columns(node)
    if node.op_type == "SVMRegressor":
        return _VectorSizes(rows, columns, node.integer("n_supports", 0), 1)
    n_vectors = int(integers(node, "vectors_per_class").sum())
    n_classes, _ = labels(node, "classlabels_ints")
    held = count(node, "support_vectors")
    if n_vectors and held != n_vectors * columns:
        raise node.error(f"{held} numbers are not {n_vectors} vectors of {columns}")
    if not n_vectors:
        n_classes = count(node, "coefficients") // max(columns, 1)
    return _VectorSizes(rows, columns, n_vectors, n_classes)


def _vector_regressor_shape(node: Node) -> Specs:
    return [(FLOAT32, (_vector_sizes(node).n_rows, 1))]


def _kernel(node: Node, n_columns: int) -> Cost:
    """One vector against one row.

    A product of n, then a factor, a summand and a power or tanh; or the squared distance
    (3·n - 1), a factor and an exp.
    """
    name = node.text("kernel_type", "LINEAR")
    if name == "LINEAR":
        return Cost(macs=n_columns)
    if name == "RBF":
        return Cost(simple=3 * n_columns, functions=1)
    if name in ("POLY", "SIGMOID"):
        return Cost(macs=n_columns, simple=2, functions=1)
    raise node.error(f"attribute 'kernel_type' = {name!r} does not exist")


@ml_operator("SVMRegressor", shape=_vector_regressor_shape)
def vector_regressor(node: Node) -> Cost:
    """A kernel and a multiply-add for each support vector and row, an offset, the transform.

    Kernels of n columns: n multiply-adds; polynomial, sigmoid 2 and a function more; radial
    3·n and a function.
    """
    sizes = _vector_sizes(node)
    each = (_kernel(node, sizes.n_columns) + Cost(macs=1)) * sizes.n_vectors
    if not sizes.n_vectors:
        each = Cost(macs=sizes.n_columns)
    each += Cost(simple=1)
    return each * sizes.n_rows + transform(node, sizes.n_rows, 1)


def _vector_classifier_shape(node: Node) -> Specs:
    """The best class, and a score for each class, or for each pair of them.

    Pairs are what is compared; probabilities are of classes.
    """
    sizes = _vector_sizes(node)
    _, dtype = labels(node, "classlabels_ints")
    n = sizes.n_classes
    if sizes.n_vectors and not count(node, "prob_a") and n > 2:
        n = n * (n - 1) // 2
    return [(dtype, (sizes.n_rows,)), (FLOAT32, (sizes.n_rows, n))]


@ml_operator("SVMClassifier", shape=_vector_classifier_shape)
def vector_classifier(node: Node) -> Cost:
    """As SVMRegressor; each vector counts once for each pair of its class.

    For each pair an offset and a vote, or 2 operations and a sigmoid; the best class.
    """
    sizes = _vector_sizes(node)
    classes = max(sizes.n_classes, 1)
    pairs = classes * (classes - 1) // 2
    if sizes.n_vectors:
        each = _kernel(node, sizes.n_columns) * sizes.n_vectors
        each += Cost(macs=sizes.n_vectors * (classes - 1), simple=2 * pairs)
        if count(node, "prob_a"):
            each += (SIGMOID + Cost(simple=2)) * pairs
    else:
        each = Cost(macs=classes * sizes.n_columns, simple=classes)
    n_scores = node.outputs[1].shape[-1] if len(node.outputs) > 1 else classes
    ends = best(sizes.n_rows, classes) + transform(node, sizes.n_rows, n_scores)
    return each * sizes.n_rows + ends
