"""The rows of a score: what each node costs, or why that is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from mansard.core.errors import MansardError, ModelError
from mansard.core.precision import Precision
from mansard.core.records import LayerScore, Phase
from mansard.estimator.cost import NOTHING, Formula
from mansard.estimator.formulas import FORMULAS
from mansard.estimator.propagation import MALFORMED, Network
from mansard.estimator.summary import COUNTS
from mansard.estimator.tensors import Node, Origin, Tensor
from mansard.estimator.traffic import traffic, write_bytes
from mansard.estimator.training import differentiable_tensors, training_cost
from mansard.estimator.weights import NO_WEIGHTS, LayerWeights, assign_weights, is_weight

_LARGEST = 2**63 - 1  # what an integer in a file holds
_SHOWN = 3  # nodes named for each unknown operator


class _Context(msgspec.Struct, frozen=True):
    precision: Precision | None
    phase: Phase
    formulas: Mapping[int, Formula | None]
    weights: Mapping[int, LayerWeights]
    differentiable: set[str]


def score_layers(
    network: Network, precision: Precision | None, phase: Phase, allow_unknown: bool
) -> tuple[LayerScore, ...]:
    """One row for each node, in the order of the file.

    Raises ModelError that lists every operator without a formula and every shape
    that cannot be known, unless ``allow_unknown``.
    """
    nodes = network.nodes
    formulas = {node.index: FORMULAS.find(node.domain, node.op_type) for node in nodes}
    if not allow_unknown:
        _check_complete(nodes, formulas)
    weights = assign_weights(nodes, formulas)
    differentiable: set[str] = set()
    if phase == "training":
        differentiable = differentiable_tensors(nodes, lambda node: formulas[node.index])
    context = _Context(precision, phase, formulas, weights, differentiable)
    rows = tuple(_row(node, context) for node in sorted(nodes, key=lambda node: node.index))
    for name in COUNTS:
        # Sums are records too, so it is them that must fit.
        if sum(getattr(row, name) or 0 for row in rows) > _LARGEST:
            raise ModelError(
                f"the sum of {name} does not fit 63 bits",
                fix="check the dimensions that were given",
            )
    return rows


def main_precision(layers: Iterable[LayerScore]) -> str:
    """The precision in which most multiply-adds are done; without any, most layers."""
    macs: Counter[str] = Counter()
    for layer in layers:
        # A layer counts a little too, for networks without multiply-adds.
        macs[layer.precision] += (layer.macs or 0) * 1_000_000 + 1
    return macs.most_common(1)[0][0]


def _check_complete(nodes: Iterable[Node], formulas: Mapping[int, Formula | None]) -> None:
    users: dict[str, list[str]] = {}
    for node in nodes:
        if formulas[node.index] is None:
            operator = f"{node.domain or 'ai.onnx'}::{node.op_type}"
            users.setdefault(operator, []).append(node.name)
    if users:
        raise ModelError(
            f"{len(users)} operator(s) have no formula: "
            + ", ".join(f"{operator} ({_named(names)})" for operator, names in users.items()),
            fix="add formulas for them, or score with --allow-unknown to leave them out visibly",
        )
    reasons = dict.fromkeys(
        tensor.unknown for node in nodes for tensor in node.present if tensor.unknown
    ) | dict.fromkeys(tensor.unknown for node in nodes for tensor in node.outputs if tensor.unknown)
    if reasons:
        raise ModelError(
            f"shapes cannot be known: {'; '.join(str(reason) for reason in reasons)}",
            fix="score with --allow-unknown to leave the layers behind them out visibly",
        )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"node {', '.join(repr(name) for name in names[:_SHOWN])}{more}"


def _row(node: Node, context: _Context) -> LayerScore:
    formula = context.formulas[node.index]
    lost = next((t.unknown for t in (*node.present, *node.outputs) if t.unknown), None)
    if lost is not None:
        return _unknown_row(node, context, lost)
    if formula is None and not node.is_constant:
        return _unknown_row(node, context, "the operator has no formula")
    try:
        return _known_row(node, formula, context)
    except MansardError:
        raise
    except MALFORMED as error:
        raise node.error(
            f"does not fit its operator's definition ({type(error).__name__}: {error})",
            "the file is broken or was edited; export it again",
        ) from error


def _known_row(node: Node, formula: Formula | None, context: _Context) -> LayerScore:
    precision = context.precision
    weights = context.weights.get(node.index, NO_WEIGHTS)
    cost, is_constant = NOTHING, node.is_constant
    if formula is not None and not is_constant:
        cost = formula.function(node) + traffic(node, formula, precision)
        if context.phase == "training":
            cost += training_cost(node, formula, weights, context.differentiable, precision)
    return LayerScore(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        precision=_precision(node, precision),
        macs=cost.macs,
        work_flop=cost.work_flop,
        parameters=weights.parameters,
        weight_bytes=weights.size_bytes(precision),
        input_bytes=0 if is_constant else _input_bytes(node, precision),
        output_bytes=0 if is_constant else write_bytes(node, precision),
        traffic_bytes=cost.traffic_bytes,
    )


def _unknown_row(node: Node, context: _Context, reason: str) -> LayerScore:
    return LayerScore(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        precision=_precision(node, context.precision),
        macs=None,
        work_flop=None,
        parameters=None,
        weight_bytes=None,
        input_bytes=None,
        output_bytes=None,
        traffic_bytes=None,
        unknown=dict.fromkeys(COUNTS, reason),
    )


def _input_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes of the distinct inputs that are not weights."""
    return sum(t.n_bytes(precision) for t in node.distinct if not _holds_weights(t))


def _holds_weights(tensor: Tensor) -> bool:
    return tensor.origin is not Origin.DATA and any(map(is_weight, tensor.weights))


def _precision(node: Node, precision: Precision | None) -> str:
    """The precision of the node's floating tensors; of its first output if there are none."""
    for tensor in (*node.outputs, *node.present):
        if tensor.dtype.is_float:
            return precision.name if precision is not None else tensor.dtype.precision
    return node.outputs[0].dtype.precision if node.outputs else "none"
