"""Graphs: from the message GraphProto to nodes, inputs, outputs and stored tensors.

onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are
8 · field + kind. ``value_info``, the types and shapes that the exporter noted down, is used
where no rule gives them: see ``stated``. Nodes are sorted so that each can be computed after
those before it.

Operators of ``ai.onnx.ml`` have no inputs for what they learned: trees, coefficients,
dictionaries. The lists in their attributes become stored tensors, and further inputs of the node,
so that they count as weights and as bytes that are read like those of any other operator.
https://onnx.ai/onnx/operators/index.html#ai-onnx-ml
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

import msgspec

from mansard.core.errors import ModelError
from mansard.core.formats.protobuf import fields, messages, signed
from mansard.estimator.model import ModelInput, ModelNode, StoredTensor, Subgraph, normal_domain
from mansard.estimator.numbers import FLOAT32, INT64, STRING, ElementType
from mansard.estimator.reading.limits import (
    MAX_GRAPH_DEPTH,
    MAX_NODES,
    ReadingBudget,
    too_deep,
    too_many,
)
from mansard.estimator.reading.nodes import GraphBytes, NodeReader
from mansard.estimator.reading.tensors import (
    StatedTypes,
    read_declared,
    read_stored,
    read_stored_sparse,
)

_NODE, _STORED, _INPUT, _OUTPUT, _STATED, _SPARSE = 10, 42, 90, 98, 106, 122
GRAPH_KEYS = frozenset({_NODE, _STORED, _INPUT, _OUTPUT, _STATED, _SPARSE})

Fields = Iterable[tuple[int, bytes]]  # by their keys


class Parts(NamedTuple):
    """A graph as it is in the file; its nodes in the file's order."""

    nodes: list[ModelNode]
    inputs: list[ModelInput]
    outputs: list[ModelInput]
    stored: dict[str, StoredTensor]


class GraphReader:
    """Reads the graphs of one model, and gives each node an index of its own.

    The nodes of a graph have consecutive indexes; those of graphs inside it follow.
    """

    def __init__(self, budget: ReadingBudget) -> None:
        self.stated = StatedTypes()  # of all graphs but those of functions
        self._budget = budget
        self._reader = NodeReader(budget)
        self._n_nodes = 0

    def graph(self, fields: Fields, opsets: Mapping[str, int], depth: int = 0) -> Parts:
        """The graph with these fields; raises ModelError where it is damaged."""
        nodes, others = self.nodes(fields, _NODE, opsets, depth)
        parts = Parts(nodes, [], [], {})
        n_stored = 0
        for key, content in others:
            if key in (_STORED, _SPARSE):
                n_stored += 1
                read = read_stored if key == _STORED else read_stored_sparse
                tensor = read(content, self._budget)
                parts.stored[tensor.name] = tensor
                continue
            self._budget.read(len(content))
            if key == _STATED:
                # What a function's tensors are called is known when it is written out.
                if not self._reader.in_functions:
                    self.stated.add(content)
            else:
                is_input = key == _INPUT
                declared = read_declared(content, is_input and depth == 0)
                (parts.inputs if is_input else parts.outputs).append(declared)
        if len(parts.stored) < n_stored:
            raise ModelError(
                "two stored tensors of the graph have the same name",
                fix="the file is broken; export the model again",
            )
        return parts._replace(nodes=with_tables(nodes, parts.stored))

    def enter_functions(self) -> None:
        """The nodes that are read from now on are those of functions."""
        self._reader.in_functions = True

    def nodes(
        self, fields: Fields, node_key: int, opsets: Mapping[str, int], depth: int = 0
    ) -> tuple[list[ModelNode], list[tuple[int, bytes]]]:
        """The nodes among the fields, which have ``node_key``; and the other fields."""
        nodes: list[ModelNode] = []
        others: list[tuple[int, bytes]] = []
        reader, first = self._reader, self._n_nodes
        for key, content in fields:
            if key == node_key:
                index = first + len(nodes)
                if index >= MAX_NODES:
                    raise too_many("nodes", MAX_NODES)
                nodes.append(reader.read(index, content, opsets))
            else:
                self._budget.stored(1)
                others.append((key, content))
        self._n_nodes += len(nodes)
        for node in reader.take_holders():
            attributes = cast("dict[str, object]", node.attributes)
            for name, value in attributes.items():
                attributes[name] = self.resolved(value, opsets, depth + 1)
        return nodes, others

    def resolved(self, value: object, opsets: Mapping[str, int], depth: int) -> object:
        """``value`` with its graphs read."""
        if isinstance(value, tuple) and value and isinstance(value[0], GraphBytes):
            return tuple(self.resolved(item, opsets, depth) for item in value)
        if not isinstance(value, GraphBytes):
            return value
        if depth > MAX_GRAPH_DEPTH:
            raise too_deep()
        return subgraph(self.graph(messages(value.data, GRAPH_KEYS), opsets, depth))


def subgraph(parts: Parts) -> Subgraph:
    """A graph inside a node; raises ModelError where its nodes cannot be put in order."""
    nodes, inputs, outputs, stored = parts
    inner = {*stored, *(declared.name for declared in inputs)}
    inner.update(name for node in nodes for name in node.outputs)
    needed = dict.fromkeys(name for node in nodes for name in node.reads)
    needed |= dict.fromkeys(output.name for output in outputs)
    captured = tuple(name for name in needed if name not in inner)
    defined = dict.fromkeys((*stored, *(declared.name for declared in inputs), *captured))
    return Subgraph(sort_nodes(nodes, defined), tuple(inputs), tuple(outputs), stored, captured)


_OPSET_DOMAIN, _OPSET_VERSION = 10, 16  # OperatorSetIdProto of onnx.proto: 8 · field + kind
_ONNX_DOMAINS = ("", "ai.onnx.ml")
_NEWEST = 10_000  # ONNX adds about two a year and is at 26: beyond this it is no version


def read_opsets(messages: Iterable[bytes]) -> list[tuple[str, int]]:
    """Domains and their versions, from messages OperatorSetIdProto, in their order.

    Raises ModelError where a version of ONNX's own domains is none. One that is newer than any
    known is fine: an operator is known by its name.
    """
    opsets: list[tuple[str, int]] = []
    for message in messages:
        domain, version = b"", 0
        for key, content in fields(message):
            if key == _OPSET_DOMAIN:
                domain = content
            elif key == _OPSET_VERSION:
                version = signed(content)
        opsets.append((normal_domain(domain.decode()), version))
        if opsets[-1][0] in _ONNX_DOMAINS and not 1 <= version <= _NEWEST:
            raise ModelError(
                f"its operator set is of version {version}, which there is not",
                fix="the file is damaged; export it again",
            )
    return opsets


def sort_nodes(nodes: list[ModelNode], defined: Mapping[str, object]) -> tuple[ModelNode, ...]:
    """``nodes`` so that each follows those it reads from, else as in the file.

    ONNX requires sorted files; runtimes accept unsorted ones, and so does this.
    Raises ModelError for a tensor written twice, one that no node writes, or a cycle.
    """
    is_sorted, is_unique = _check_order(nodes, defined)
    if is_sorted and is_unique:
        return tuple(nodes)
    writers = _writers(nodes, defined)
    if is_sorted:
        return tuple(nodes)
    _check_defined(nodes, defined, writers)
    return _sorted(nodes, writers)


def _check_order(nodes: list[ModelNode], defined: Mapping[str, object]) -> tuple[bool, bool]:
    """Whether the nodes are in order, and whether surely no tensor is written twice."""
    seen = {"", *defined}
    n_seen = len(seen)
    for node in nodes:
        if not seen.issuperset(node.inputs):
            return False, False
        if node.attributes and not all(map(seen.issuperset, (g.captured for g in node.subgraphs))):
            return False, False
        n_seen += len(node.outputs)
        seen.update(node.outputs)
    return True, len(seen) == n_seen


def _writers(nodes: list[ModelNode], defined: Mapping[str, object]) -> dict[str, ModelNode]:
    writers: dict[str, ModelNode] = {}
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in writers or name in defined:
                raise ModelError(
                    f"tensor {name!r} is written twice",
                    where=node.label,
                    fix="every tensor of an ONNX graph has one source; export the model again",
                )
            writers[name] = node
    return writers


def _check_defined(
    nodes: list[ModelNode], defined: Mapping[str, object], writers: Mapping[str, ModelNode]
) -> None:
    for node in nodes:
        for name in node.reads:
            if name not in defined and name not in writers:
                raise ModelError(
                    f"reads tensor {name!r}, which is not an input and no node writes",
                    where=node.label,
                    fix="the graph is broken; export the model again",
                )


def _sorted(nodes: list[ModelNode], writers: Mapping[str, ModelNode]) -> tuple[ModelNode, ...]:
    """Kahn's algorithm; nodes that are ready keep the file's order."""
    waiting = [0] * len(nodes)
    readers: dict[int, list[int]] = {}
    positions = {node.index: position for position, node in enumerate(nodes)}
    for position, node in enumerate(nodes):
        sources = {positions[writers[name].index] for name in node.reads if name in writers}
        waiting[position] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(position)
    ready = [position for position, count in enumerate(waiting) if count == 0]
    order: list[ModelNode] = []
    for position in ready:
        order.append(nodes[position])
        for reader in readers.get(position, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) < len(nodes):
        stuck = next(node for node, count in zip(nodes, waiting, strict=True) if count)
        raise ModelError(
            "the graph is cyclic: this node waits for its own output",
            where=stuck.label,
            fix="ONNX graphs have no cycles; export the model again",
        )
    return tuple(order)


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

# Tables of learned numbers; the others are positions, or were measured, such as a mean.
LEARNED = frozenset(
    {"base_values", "class_weights", "coefficients", "intercepts", "leaf_weights", "nodes_splits"}
    | {"nodes_values", "prob_a", "prob_b", "rho", "support_vectors", "target_weights"}
)


def table_at(node_type: tuple[str, str], position: int) -> str | None:
    """The attribute whose table becomes the input at ``position``, or None."""
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
