"""Model-local functions are written out before anything else looks at the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mansard.core.errors import ModelError

if TYPE_CHECKING:
    import onnx

_MAX_NODES = 1_000_000  # of the graph with all functions written out
_MAX_DEPTH = 100  # of functions that call functions

_Key = tuple[str, str, str]


def inline_functions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """``proto`` without functions; raises ModelError if they call themselves or explode."""
    from onnx import checker, inliner

    bodies = {_function_key(function): function.node for function in proto.functions}
    sizes = _sizes(bodies)
    total = sum(sizes.get(_call_key(node), 1) for node in proto.graph.node)
    if total > _MAX_NODES:
        raise ModelError(
            f"its functions stand for {total} nodes",
            fix=f"a graph may have {_MAX_NODES}; export it without nested functions",
        )
    try:
        inlined: onnx.ModelProto = inliner.inline_local_functions(proto)
    except (checker.ValidationError, RuntimeError, ValueError) as error:
        raise ModelError(f"its functions cannot be written out: {error}") from error
    return inlined


def _function_key(function: onnx.FunctionProto) -> _Key:
    return function.domain, function.name, function.overload


def _call_key(node: onnx.NodeProto) -> _Key:
    return node.domain, node.op_type, node.overload


def _sizes(bodies: dict[_Key, Iterable[onnx.NodeProto]]) -> dict[_Key, int]:
    """How many nodes each function stands for, callees written out."""
    calls = {
        key: [called for node in body if (called := _call_key(node)) in bodies]
        for key, body in bodies.items()
    }
    sizes: dict[_Key, int] = {}
    for _ in range(_MAX_DEPTH):
        ready = [
            key
            for key, called in calls.items()
            if key not in sizes and all(other in sizes for other in called)
        ]
        if not ready:
            break
        for key in ready:
            sizes[key] = sum(sizes.get(_call_key(node), 1) for node in bodies[key])
    stuck = next((key for key in bodies if key not in sizes), None)
    if stuck is not None:
        raise ModelError(
            f"function {stuck[1]!r} calls itself, or functions nest deeper than {_MAX_DEPTH}",
            fix="ONNX allows no recursion; export the model again",
        )
    return sizes
