"""Operators of ai.onnx.ml that prepare features. https://onnx.ai/onnx/operators/

Their tables stand in attributes, which are neither parameters nor bytes that are read.
"""

from __future__ import annotations

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.contrib_parts import rows
from mansard.estimator.formulas.picking import picked_bytes
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.ml_features import ML
from mansard.estimator.tensors import Node


@register("ArrayFeatureExtractor", domain=ML, not_weights=(1,), reads=picked_bytes)
def pick(node: Node) -> Cost:  # noqa: ARG001
    """No work; of the first input it reads only what it picks."""
    return NOTHING


@register("CastMap", "DictVectorizer", "FeatureVectorizer", "ZipMap", domain=ML)
def arrange(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads its inputs and writes its output, a map as the vector of its values."""
    return NOTHING


@register("Binarizer", domain=ML)
def binarize(node: Node) -> Cost:
    """A comparison for each element."""
    return Cost(simple=node.output.n_elements)


@register("Imputer", domain=ML)
def impute(node: Node) -> Cost:
    """A comparison for each element."""
    return Cost(simple=node.output.n_elements)


@register("CategoryMapper", "LabelEncoder", "OneHotEncoder", domain=ML)
def look_up(node: Node) -> Cost:
    """One operation for each element of the input: it is looked up in a hash table."""
    return Cost(simple=node.input(0).n_elements)


@register("Scaler", domain=ML)
def scale(node: Node) -> Cost:
    """A difference and a product for each element."""
    return Cost(simple=2 * node.output.n_elements)


@register("Normalizer", domain=ML)
def normalize(node: Node) -> Cost:
    """A row of n: n - 1 comparisons or n magnitudes or squares and n - 1 additions, n quotients.

    With "L2" a root of the sum.
    """
    n, width = node.output.n_elements, node.output.shape[-1]
    n_rows, norm = rows(n, width), node.text("norm", "MAX")
    if norm == "MAX":
        return Cost(simple=2 * n - n_rows)
    return Cost(simple=3 * n - n_rows, functions=n_rows if norm == "L2" else 0)
