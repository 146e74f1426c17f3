"""Operators of ai.onnx.ml that prepare features. https://onnx.ai/onnx/operators/

A ZipMap makes a sequence of maps, one for each row; it is counted as the matrix of their
values, for the keys stand in the file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.element_types import FLOAT32, INT64, STRING
from mansard.estimator.model import StoredTensor
from mansard.estimator.shapes.checks import check_rank
from mansard.estimator.shapes.contrib_parts import same_as_first
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

ML = "ai.onnx.ml"

rule("Binarizer", "Imputer", domain=ML)(same_as_first)


@rule("ArrayFeatureExtractor", domain=ML)
def _extract(node: Node) -> Sequence[Spec]:
    """Columns by their number; a vector counts as a matrix of one row."""
    data, columns = node.input(0), node.input(1)
    rows = data.shape[:-1] if data.rank > 1 else (1,)
    return [(data.dtype, (*rows, columns.n_elements))]


@rule("Normalizer", "Scaler", domain=ML)
def _float_of_same_shape(node: Node) -> Sequence[Spec]:
    check_rank(node, 0, 1, 2)
    return [(FLOAT32, node.input(0).shape)]


@rule("OneHotEncoder", domain=ML)
def _one_hot(node: Node) -> Sequence[Spec]:
    return [(FLOAT32, (*node.input(0).shape, length(node, "cats_int64s", "cats_strings")))]


def length(node: Node, *names: str) -> int:
    """Elements of whichever of several list attributes is given."""
    for name in names:
        held = node.attributes.get(name)
        if isinstance(held, StoredTensor):
            return math.prod(held.shape)
        if isinstance(held, tuple) and held:
            return len(held)
    raise node.error(f"none of the attributes {', '.join(names)} is given")


@rule("CategoryMapper", domain=ML)
def _map_categories(node: Node) -> Sequence[Spec]:
    """Strings become integers and integers strings."""
    data = node.input(0)
    return [(INT64 if data.dtype == STRING else STRING, data.shape)]


@rule("LabelEncoder", domain=ML)
def _encode_labels(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if node.opset < 2:
        return [(INT64 if data.dtype == STRING else STRING, data.shape)]
    values = {"values_strings": STRING, "values_int64s": INT64, "values_floats": FLOAT32}
    for name, dtype in values.items():
        if name in node.attributes:
            return [(dtype, data.shape)]
    held = node.attributes.get("values_tensor")
    if isinstance(held, StoredTensor):
        return [(held.dtype, data.shape)]
    raise node.error("holds no values")


@rule("FeatureVectorizer", domain=ML)
def _join_features(node: Node) -> Sequence[Spec]:
    """[rows, all columns]; a vector is one row of them."""
    rows, columns = 1, 0
    for tensor in node.present:
        if tensor.rank not in (1, 2):
            raise node.error(f"{tensor.name!r} is {list(tensor.shape)}: no matrix, no vector")
        rows = tensor.shape[0] if tensor.rank == 2 else rows
        columns += tensor.shape[-1]
    given = node.integers("inputdimensions")
    return [(FLOAT32, (rows, columns if given is None else sum(given)))]


@rule("ZipMap", domain=ML)
def _zip_map(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    check_rank(node, 0, 1, 2)
    n = length(node, "classlabels_int64s", "classlabels_strings")
    if data.shape[-1] != n:
        raise node.error(f"{n} keys do not fit {list(data.shape)}")
    return [(data.dtype, data.shape)]


_CASTS = {"TO_FLOAT": FLOAT32, "TO_INT64": INT64, "TO_STRING": STRING}


@rule("CastMap", domain=ML)
def _cast_map(node: Node) -> Sequence[Spec]:
    """As many numbers as the map holds, or as it may hold at most."""
    dtype = _CASTS.get(node.text("cast_to", "TO_FLOAT"))
    if dtype is None:
        raise node.error(f"attribute 'cast_to' = {node.text('cast_to', '')!r} does not exist")
    is_sparse = node.text("map_form", "DENSE") == "SPARSE"
    return [(dtype, (1, node.integer("max_map", 1) if is_sparse else None))]


@rule("DictVectorizer", domain=ML)
def _vectorize(node: Node) -> Sequence[Spec]:
    return [(node.input(0).dtype, (1, length(node, "int64_vocabulary", "string_vocabulary")))]
