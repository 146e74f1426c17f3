"""Attributes that hold a model: trees, coefficients, dictionaries of ``ai.onnx.ml``.

Its operators have no inputs for what they learned. The lists in their attributes become stored
tensors, and further inputs of the node, so that they count as weights and as bytes that are
read like those of any other operator. https://onnx.ai/onnx/operators/index.html#ai-onnx-ml
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from mansard.estimator.element_types import FLOAT32, INT64, STRING, ElementType
from mansard.estimator.model import ModelNode, StoredTensor

_ENCODER = ("cats_int64s", "cats_strings")
# What a walk through a tree needs of its nodes, then of its leaves.
_NODES = ("nodes_values", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids")
_NODES_5 = ("nodes_splits", "nodes_modes", *_NODES[1:], "nodes_trueleafs", "nodes_falseleafs")
_LINEAR = ("coefficients", "intercepts")
_VECTORS = ("support_vectors", "coefficients", "rho", "prob_a", "prob_b", "vectors_per_class")

# The tables of each operator, in the order of the inputs that they become. A list may come as a
# tensor too, under the same name with ``_as_tensor`` behind it.
TABLES: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType(
    {
        ("ai.onnx.ml", "CategoryMapper"): _ENCODER,
        ("ai.onnx.ml", "DictVectorizer"): ("int64_vocabulary", "string_vocabulary"),
        ("ai.onnx.ml", "Imputer"): ("imputed_value_floats", "imputed_value_int64s"),
        ("ai.onnx.ml", "LabelEncoder"): (
            *("keys_floats", "keys_int64s", "keys_strings", "keys_tensor", "classes_strings"),
            *("values_floats", "values_int64s", "values_strings", "values_tensor"),
        ),
        ("ai.onnx.ml", "LinearClassifier"): _LINEAR,
        ("ai.onnx.ml", "LinearRegressor"): _LINEAR,
        ("ai.onnx.ml", "OneHotEncoder"): _ENCODER,
        ("ai.onnx.ml", "SVMClassifier"): _VECTORS,
        ("ai.onnx.ml", "SVMRegressor"): _VECTORS,
        ("ai.onnx.ml", "Scaler"): ("offset", "scale"),
        ("ai.onnx.ml", "TreeEnsemble"): (*_NODES_5, "leaf_weights", "leaf_targetids"),
        ("ai.onnx.ml", "TreeEnsembleClassifier"): (
            *(*_NODES, "class_weights", "class_ids", "base_values"),
        ),
        ("ai.onnx.ml", "TreeEnsembleRegressor"): (
            *(*_NODES, "target_weights", "target_ids", "base_values"),
        ),
        ("", "TfIdfVectorizer"): (
            *("weights", "ngram_indexes", "ngram_counts", "pool_int64s", "pool_strings"),
        ),
    }
)

# Numbers that were learned; the others say where they stand, or were measured, as a mean is.
LEARNED = frozenset(
    {"base_values", "class_weights", "coefficients", "intercepts", "leaf_weights", "nodes_splits"}
    | {"nodes_values", "prob_a", "prob_b", "rho", "support_vectors", "target_weights"}
)


def table_at(node_type: tuple[str, str], position: int) -> str | None:
    """The attribute whose table is the input at ``position``; None where it is none."""
    tables = TABLES.get(node_type, ())
    return tables[position - 1] if 0 < position <= len(tables) else None


def with_tables(nodes: Iterable[ModelNode], stored: dict[str, StoredTensor]) -> list[ModelNode]:
    """``nodes``, with the tables in their attributes as inputs; these are added to ``stored``."""
    return [
        _with_tables(node, stored) if (node.domain, node.op_type) in TABLES else node
        for node in nodes
    ]


def _with_tables(node: ModelNode, stored: dict[str, StoredTensor]) -> ModelNode:
    if len(node.inputs) != 1:
        return node  # broken: its shape is refused
    names = []
    for attribute in TABLES[node.domain, node.op_type]:
        table = _table(node, attribute)
        name = ""
        if table is not None:
            name = f"{node.name}/{attribute}"
            while name in stored:
                name += "'"
            stored[name] = msgspec.structs.replace(table, name=name)
        names.append(name)
    while names and not names[-1]:
        names.pop()
    return msgspec.structs.replace(node, inputs=(*node.inputs, *names)) if names else node


def _table(node: ModelNode, attribute: str) -> StoredTensor | None:
    """The list in an attribute as a tensor of one dimension, without its values."""
    held = node.attributes.get(attribute) or node.attributes.get(f"{attribute}_as_tensor")
    if isinstance(held, StoredTensor):
        return StoredTensor("", held.dtype, (math.prod(held.shape),), None)
    if not isinstance(held, tuple) or not held:
        return None
    return StoredTensor("", _type_of(held[0]), (len(held),), None)


def _type_of(element: object) -> ElementType:
    if isinstance(element, str):
        return STRING
    return FLOAT32 if isinstance(element, float) else INT64
