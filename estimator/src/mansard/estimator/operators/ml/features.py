"""Operators of ai.onnx.ml that prepare features. https://onnx.ai/onnx/operators/

Their tables stand in attributes, which count as weights that were not learned
(``reading.tables``); of a dictionary only the entries that are looked up are read. A ZipMap
makes a sequence of maps, one for each row; it is counted as the matrix of their values, for the
keys stand in the file.
"""

from __future__ import annotations

import math
from functools import partial

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.model import StoredTensor
from mansard.estimator.numbers import FLOAT32, INT64, STRING
from mansard.estimator.operators.costs import no_work, per_element, pick, picked_bytes, rows
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.shapes import check_rank, chosen, same_as_first
from mansard.estimator.tensors import Node

_ML = "ai.onnx.ml"
ml_operator = partial(operator, domain=_ML)
ml_shape = partial(shape_of, domain=_ML)
_arrange = no_work("No work; a map is the vector of its values.")

ml_operator("Binarizer", "Imputer", shape=same_as_first)(
    per_element(1, text="A comparison for each element.")
)


@ml_shape("ArrayFeatureExtractor", cost=pick, not_weights=(1,), reads=picked_bytes)
def _extract_shape(node: Node) -> Specs:
    """Columns by their number; a vector counts as a matrix of one row."""
    data, columns = node.input(0), node.input(1)
    rows = data.shape[:-1] if data.rank > 1 else (1,)
    return [(data.dtype, (*rows, columns.n_elements))]


def _float_of_same_shape_shape(node: Node) -> Specs:
    check_rank(node, 0, 1, 2)
    return [(FLOAT32, node.input(0).shape)]


ml_operator("Scaler", shape=_float_of_same_shape_shape)(
    per_element(2, text="A difference and a product for each element.")
)


@ml_operator("Normalizer", shape=_float_of_same_shape_shape)
def normalize(node: Node) -> Cost:
    """n - 1 comparisons, n magnitudes and additions, or n squares, additions and a root.

    Then n quotients.
    """
    n, width = node.output.n_elements, node.output.shape[-1]
    n_rows, norm = rows(n, width), node.text("norm", "MAX")
    if norm == "MAX":
        return Cost(simple=2 * n - n_rows)
    return Cost(simple=3 * n - n_rows, functions=n_rows if norm == "L2" else 0)


def _entries_bytes(node: Node, precision: Precision | None) -> int:
    """The input, at most one entry for each element."""
    data, *tables = node.distinct
    longest = max((table.n_elements for table in tables), default=0)
    n_read = min(data.n_elements, longest)
    whole = sum(table.n_bytes(precision) for table in tables)
    return data.n_bytes(precision) + (whole * n_read // longest if longest else 0)


def look_up(node: Node) -> Cost:
    """1 operation for each input element: a hash table."""
    return Cost(simple=node.input(0).n_elements)


@ml_shape("OneHotEncoder", cost=look_up, reads=_entries_bytes)
def _one_hot_shape(node: Node) -> Specs:
    return [(FLOAT32, (*node.input(0).shape, _length(node, "cats_int64s", "cats_strings")))]


def _length(node: Node, *names: str) -> int:
    """Elements of whichever of several list attributes is given."""
    for name in names:
        held = node.attributes.get(name)
        if isinstance(held, StoredTensor):
            return math.prod(held.shape)
        if isinstance(held, tuple) and held:
            return len(held)
    raise node.error(f"none of the attributes {', '.join(names)} is given")


@ml_shape("CategoryMapper", cost=look_up, reads=_entries_bytes)
def _map_categories_shape(node: Node) -> Specs:
    """Strings become integers and integers strings."""
    data = node.input(0)
    return [(INT64 if data.dtype == STRING else STRING, data.shape)]


@ml_shape("LabelEncoder", cost=look_up, reads=_entries_bytes)
def _encode_labels_shape(node: Node) -> Specs:
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


@ml_shape("FeatureVectorizer", cost=_arrange)
def _join_features_shape(node: Node) -> Specs:
    """[rows, all columns]; a vector is one row of them."""
    rows, columns = 1, 0
    for tensor in node.present:
        if tensor.rank not in (1, 2):
            raise node.error(f"{tensor.name!r} is {list(tensor.shape)}: no matrix, no vector")
        rows = tensor.shape[0] if tensor.rank == 2 else rows
        columns += tensor.shape[-1]
    given = node.integers("inputdimensions")
    return [(FLOAT32, (rows, columns if given is None else sum(given)))]


@ml_shape("ZipMap", cost=_arrange)
def _zip_map_shape(node: Node) -> Specs:
    data = check_rank(node, 0, 1, 2)
    n = _length(node, "classlabels_int64s", "classlabels_strings")
    if data.shape[-1] != n:
        raise node.error(f"{n} keys do not fit {list(data.shape)}")
    return [(data.dtype, data.shape)]


_CASTS = {"TO_FLOAT": FLOAT32, "TO_INT64": INT64, "TO_STRING": STRING}


@ml_shape("CastMap", cost=_arrange)
def _cast_map_shape(node: Node) -> Specs:
    """As many numbers as the map holds, or as it may hold at most."""
    dtype = _CASTS[chosen(node, "cast_to", "TO_FLOAT", _CASTS)]
    is_sparse = node.text("map_form", "DENSE") == "SPARSE"
    return [(dtype, (1, node.integer("max_map", 1) if is_sparse else None))]


@ml_shape("DictVectorizer", cost=_arrange)
def _vectorize_shape(node: Node) -> Specs:
    return [(node.input(0).dtype, (1, _length(node, "int64_vocabulary", "string_vocabulary")))]
