"""One error for everything that keeps a network from being scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mansard.core.errors import ModelError
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node

_SHOWN = 3  # nodes named for each unknown operator


def check_complete(
    nodes: Sequence[Node], formulas: Mapping[tuple[str, str], Operator | None]
) -> None:
    """Raise ModelError that lists every operator without a formula, or every lost shape."""
    missing = {key for key, formula in formulas.items() if formula is None}
    if missing:
        _check_operators(nodes, missing)
    reasons: dict[str, None] = {}
    for node in nodes:
        for tensor in (*node.inputs, *node.outputs):
            if tensor is not None and tensor.unknown:
                reasons[tensor.unknown] = None
    if reasons:
        raise ModelError(
            f"shapes cannot be known: {'; '.join(reasons)}",
            fix="score with --allow-unknown to leave the layers behind them out visibly",
        )


def _check_operators(nodes: Sequence[Node], missing: set[tuple[str, str]]) -> None:
    users: dict[str, list[str]] = {}
    for node in nodes:
        if (node.domain, node.op_type) in missing:
            operator = f"{node.domain or 'ai.onnx'}::{node.op_type}"
            users.setdefault(operator, []).append(node.name)
    if users:
        raise ModelError(
            f"{len(users)} operator(s) have no formula: "
            + ", ".join(f"{operator} ({_named(names)})" for operator, names in users.items()),
            fix="add formulas for them, or score with --allow-unknown to leave them out visibly",
        )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"node {', '.join(repr(name) for name in names[:_SHOWN])}{more}"
