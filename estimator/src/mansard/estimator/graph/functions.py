"""Model-local functions: from the message FunctionProto to a value.

onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are
8 · field + kind. The nodes that call them are replaced in ``inlining``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.graph.attributes import read_attribute
from mansard.estimator.graph.graphs import GraphReader
from mansard.estimator.graph.limits import MAX_FUNCTIONS, Budget, too_many
from mansard.estimator.graph.nodes import Call
from mansard.estimator.graph.opsets import read_opsets
from mansard.estimator.graph.protobuf import messages
from mansard.estimator.model import ModelNode, normal_domain

_NAME, _DOMAIN, _OVERLOAD, _INPUT, _OUTPUT = 10, 82, 106, 34, 42
_NODE, _OPSET, _DEFAULT = 58, 74, 90
_KEYS = frozenset({_NAME, _DOMAIN, _OVERLOAD, _INPUT, _OUTPUT, _NODE, _DEFAULT})

Key = tuple[str, str, str]  # domain, name, overload


class Function(msgspec.Struct, frozen=True, eq=False):
    """Nodes that stand for one; ``inputs`` and ``outputs`` are names inside it."""

    key: Key
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: Mapping[str, object]  # of attributes that a node need not give
    nodes: tuple[ModelNode, ...]


def key_of(node: ModelNode) -> Key:
    """The key of the function that ``node`` calls, if there is one."""
    return node.domain, node.op_type, node.overload if isinstance(node, Call) else ""


def read_functions(
    contents: Iterable[bytes], opsets: Mapping[str, int], reader: GraphReader, budget: Budget
) -> dict[Key, Function]:
    """The functions of a model whose own ``opsets`` hold where a function names none."""
    functions: dict[Key, Function] = {}
    reader.enter_functions()
    for content in contents:
        if len(functions) == MAX_FUNCTIONS:
            raise too_many("functions", MAX_FUNCTIONS)
        function = _function(content, opsets, reader, budget)
        if function.key in functions:
            raise ModelError(
                f"two functions are called {function.key[1]!r}",
                fix="the file is broken; export the model again",
            )
        functions[function.key] = function
    return functions


def _function(
    data: bytes, opsets: Mapping[str, int], reader: GraphReader, budget: Budget
) -> Function:
    own = read_opsets(content for _, content in messages(data, (_OPSET,)))
    nodes, others = reader.nodes(messages(data, _KEYS), _NODE, {**opsets, **own})
    texts: dict[int, list[str]] = {
        key: [""] if key in (_NAME, _DOMAIN, _OVERLOAD) else []
        for key in (_NAME, _DOMAIN, _OVERLOAD, _INPUT, _OUTPUT)
    }
    defaults: dict[str, object] = {}
    for key, content in others:
        budget.read(len(content))
        if key == _DEFAULT:
            name, value = read_attribute(content, budget, "of a function")
            defaults[name] = reader.resolved(value, own, 1)
        else:
            texts[key].append(content.decode())
    return Function(
        (normal_domain(texts[_DOMAIN][-1]), texts[_NAME][-1], texts[_OVERLOAD][-1]),
        tuple(texts[_INPUT]),
        tuple(texts[_OUTPUT]),
        defaults,
        tuple(nodes),
    )
