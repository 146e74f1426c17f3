"""Classical models of ai.onnx.ml. https://onnx.ai/onnx/operators/

Their coefficients, vectors and trees stand in attributes: they are no tensors, and count
neither as parameters nor as bytes that are read.
"""

from __future__ import annotations

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.contrib_parts import SIGMOID
from mansard.estimator.formulas.normalization import softmax_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.ml_features import ML
from mansard.estimator.shapes.ml_models import floats, linear_sizes, vector_sizes
from mansard.estimator.shapes.ml_trees import tree_sizes
from mansard.estimator.tensors import Node

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _transform(node: Node, n_rows: int, n_scores: int) -> Cost:
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


def _best(n_rows: int, n_scores: int) -> Cost:
    """The class with the highest score of each row."""
    return Cost(simple=n_rows * max(n_scores - 1, 0))


@register("LinearRegressor", domain=ML)
def linear_regressor(node: Node) -> Cost:
    """Columns · targets multiply-adds for each row, the intercepts, the transform."""
    sizes = linear_sizes(node)
    n = sizes.n_rows * sizes.n_products
    added = n if floats(node, "intercepts") else 0
    return Cost(macs=n * sizes.n_columns, simple=added) + _transform(
        node, sizes.n_rows, sizes.n_scores
    )


@register("LinearClassifier", domain=ML)
def linear_classifier(node: Node) -> Cost:
    """As LinearRegressor with a target for each class; then the best class."""
    sizes = linear_sizes(node)
    return linear_regressor(node) + _best(sizes.n_rows, sizes.n_scores)


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


@register("SVMRegressor", domain=ML)
def vector_regressor(node: Node) -> Cost:
    """A kernel and a multiply-add for each support vector and row, an offset, the transform.

    Kernels: linear n multiply-adds of n columns, polynomial and sigmoid 2 operations and
    a function more, radial 3·n operations and a function. Without vectors a linear model.
    """
    sizes = vector_sizes(node)
    each = (_kernel(node, sizes.n_columns) + Cost(macs=1)) * sizes.n_vectors
    if not sizes.n_vectors:
        each = Cost(macs=sizes.n_columns)
    each += Cost(simple=1)
    return each * sizes.n_rows + _transform(node, sizes.n_rows, 1)


@register("SVMClassifier", domain=ML)
def vector_classifier(node: Node) -> Cost:
    """A kernel for each support vector and row; each vector in the sums of its class's pairs.

    An offset and a vote for each pair of classes, or probabilities of 2 operations and a
    sigmoid each; then the best class. Without vectors a linear model.
    """
    sizes = vector_sizes(node)
    classes = max(sizes.n_classes, 1)
    pairs = classes * (classes - 1) // 2
    if sizes.n_vectors:
        each = _kernel(node, sizes.n_columns) * sizes.n_vectors
        each += Cost(macs=sizes.n_vectors * (classes - 1), simple=2 * pairs)
        if floats(node, "prob_a"):
            each += (SIGMOID + Cost(simple=2)) * pairs
    else:
        each = Cost(macs=classes * sizes.n_columns, simple=classes)
    n_scores = node.outputs[1].shape[-1] if len(node.outputs) > 1 else classes
    ends = _best(sizes.n_rows, classes) + _transform(node, sizes.n_rows, n_scores)
    return each * sizes.n_rows + ends


@register("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", domain=ML)
def trees(node: Node) -> Cost:
    """For each row and tree the comparisons to its deepest leaf (an upper bound).

    An addition for the leaf of each tree, base values, the transform; a classifier also
    compares its scores.
    """
    sizes = tree_sizes(node)
    each = sizes.depth + sizes.n_trees
    if floats(node, "base_values") or "base_values_as_tensor" in node.attributes:
        each += sizes.n_outputs
    work = Cost(simple=sizes.n_rows * each) + _transform(node, sizes.n_rows, sizes.n_outputs)
    if node.op_type == "TreeEnsembleClassifier":
        work += _best(sizes.n_rows, sizes.n_outputs)
    return work
