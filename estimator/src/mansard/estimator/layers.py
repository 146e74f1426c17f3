"""The rows of a score: the cost of each node, or why it is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from mansard.core.errors import ModelError
from mansard.core.precision import Precision
from mansard.core.records import LAYER_COUNTS, LayerScore
from mansard.estimator.caches import NO_CACHES, Caches
from mansard.estimator.cost import FLOP_PER_FUNCTION, NOTHING, Counts, Forward
from mansard.estimator.memory import Memory
from mansard.estimator.operators.costs import RefusedError
from mansard.estimator.operators.registry import Operator
from mansard.estimator.score_context import (
    FusedKernels,
    ScoreContext,
    Settings,
    check_complete,
    find_operators,
    fuse_kernels,
    make_context,
)
from mansard.estimator.tensors import Node, NodeInstance, Tensor, raising_model_error, walk
from mansard.estimator.traffic import input_bytes, traffic, write_bytes
from mansard.estimator.training import state_bytes, training_peak_bytes, training_step
from mansard.estimator.weights import NO_WEIGHTS, LayerWeights, weight_inputs
from mansard.estimator.work_precision import unit_of, work_precision

_LARGEST = 2**63 - 1  # the largest integer in a file
_NO_COUNTS = Counts()
_FUSED = ("fused_group", "fused_read_bytes", "fused_write_bytes", "fused_traffic_bytes")
_counts_of = attrgetter(*LAYER_COUNTS)


class ConstantRows:
    """Rows of nodes that cost nothing, constants and shape arithmetic, by the node's index.

    In an exported transformer nine of ten nodes are such. Their rows do not depend on dimensions,
    so they are reused when the model is scored again.
    """

    def __init__(self) -> None:
        self._rows: dict[int, LayerScore] = {}
        self._circumstances: object = None

    def begin(self, fused: FusedKernels, precision: Precision | None) -> None:
        """Drop the stored rows unless this score has the same precision and reasons as the last."""
        # Reasons are part of a row; they differ only where a count is missing.
        precision_name = precision.name if precision is not None else None
        circumstances = precision_name, fused.fused_reason, fused.cached_reason
        if circumstances != self._circumstances:
            self._circumstances = circumstances
            self._rows.clear()

    def row(self, instance: NodeInstance, runs: int, context: ScoreContext) -> LayerScore:
        """The row of a node that costs nothing; call ``begin`` first."""
        index, fused = instance.node.index, context.fused
        moved, stored = fused.moved.get(index), self._rows.get(index)
        if (
            stored is None
            or stored.fused_group != (None if moved is None else moved.group)
            or stored.runs != runs
            or stored.scope != instance.scope
            or (index in fused.cached) != (stored.cached_traffic_bytes is not None)
        ):
            stored = _known_row(instance, runs, None, _NO_COUNTS, context)
            self._rows[index] = stored
        return stored


class Scored(msgspec.Struct, frozen=True):
    """The rows of the nodes, the rows of branches not taken, and the network's memory.

    For training ``memory`` has only the peak of a step.
    """

    layers: tuple[LayerScore, ...]
    alternatives: tuple[LayerScore, ...]
    state_bytes: int
    memory: Memory


def score_layers(
    nodes: tuple[Node, ...],
    inputs: tuple[Tensor, ...],
    outputs: frozenset[str],
    settings: Settings,
    constant_rows: ConstantRows,
    caches: Caches = NO_CACHES,
) -> Scored:
    """One row for each node, in the file's order.

    ``inputs`` and ``outputs``: the network's input tensors, and the names of its outputs.
    ``constant_rows``: rows that cost nothing, reused from one score of the model to the next.

    Raises ModelError that lists every operator without a formula and every shape
    that is unknown, unless ``allow_unknown``.
    """
    instances = list(walk(nodes))
    operators = find_operators(instance.node for instance in instances)
    taken = [instance for instance in instances if instance.is_taken]
    if not settings.allow_unknown:
        check_complete([instance.node for instance in taken], operators)
    fused = fuse_kernels(nodes, inputs, outputs, operators, settings, caches)
    context = make_context(taken, operators, fused, settings, caches)
    rows = _rows(taken, context, constant_rows)
    _check_sums(rows)
    others = [instance for instance in instances if not instance.is_taken]
    alternatives: tuple[LayerScore, ...] = ()
    if others:
        other_context = make_context(others, operators, fused, settings, caches)
        alternatives = _rows(others, other_context, constant_rows)
    memory, optimizer_bytes = fused.memory, 0
    if settings.phase == "training":
        if not any(row.work_flop is None for row in rows):
            training = context.training
            peak_bytes = training_peak_bytes(
                taken,
                training.saved_bytes,
                training.differentiable,
                training.again_bytes,
                settings.precision,
            )
            memory = replace(memory, peak_activation_bytes=peak_bytes)
        optimizer_bytes = sum(
            state_bytes(weights, settings.optimizer, settings.precision)
            for weights in context.weights.values()
        )
    return Scored(rows, alternatives, optimizer_bytes, memory)


def _check_sums(rows: Sequence[LayerScore]) -> None:
    """Raise ModelError where a sum over all rows does not fit a record."""
    # Constants and views, most rows of an exported network, add nothing.
    counted = [
        _counts_of(row)
        for row in rows
        if row.traffic_bytes or row.input_bytes or row.output_bytes or row.parameters
    ]
    for name, column in zip(LAYER_COUNTS, zip(*counted, strict=True), strict=False):
        if sum(filter(None, column)) > _LARGEST:
            raise ModelError(
                f"the sum of {name} does not fit 63 bits",
                fix="check the dimensions that were given",
            )


def main_precision(layers: Sequence[LayerScore], of_weights: bool = False) -> str:
    """The precision of most multiply-adds, or of most layers where there are none.

    ``of_weights``: of those of weights, as of a language model, whatever its context adds.
    """
    macs: Counter[str] = Counter()
    if of_weights:
        layers = [layer for layer in layers if layer.macs and layer.parameters] or layers
    for layer in layers:
        # Each layer adds a little, for networks without multiply-adds.
        macs[layer.precision] += (layer.macs or 0) * 1_000_000 + 1
    return macs.most_common(1)[0][0]


def _rows(
    instances: list[NodeInstance], context: ScoreContext, constant_rows: ConstantRows
) -> tuple[LayerScore, ...]:
    constant_rows.begin(context.fused, context.settings.precision)
    by_node: dict[int, list[NodeInstance]] = {}
    for instance in instances:
        by_node.setdefault(instance.node.index, []).append(instance)
    return tuple([_row(by_node[index], context, constant_rows) for index in sorted(by_node)])


def _row(
    instances: list[NodeInstance], context: ScoreContext, constant_rows: ConstantRows
) -> LayerScore:
    """The row of a node, summed over its ``instances``; unknown if one of them is."""
    first, is_one = instances[0], len(instances) == 1
    node = first.node
    runs = first.runs if is_one else sum(instance.runs for instance in instances)
    weights = context.weights.get(node.index, NO_WEIGHTS)
    if (
        weights is NO_WEIGHTS
        and node.is_constant
        and (is_one or all(instance.node.is_constant for instance in instances))
    ):
        return constant_rows.row(first, runs, context)
    operator = context.operators[node.domain, node.op_type]
    reason = next(filter(None, (_unknown_reason(instance.node) for instance in instances)), None)
    if reason is None and operator is None:
        reason = "the operator has no formula"
    if reason is not None:
        return _unknown_row(first, runs, reason, context)
    total = _NO_COUNTS
    for instance in instances:
        try:
            counts = raising_model_error(_counts, instance.node, operator, weights, context)
        except RefusedError as error:
            if not context.settings.allow_unknown:
                raise
            return _unknown_row(first, runs, error.what, context)
        if runs == 1 and is_one:
            total = counts
        else:
            # A weight is updated once, however often it is used.
            total = replace(total, update=NOTHING) + counts.times(instance.runs)
    return _known_row(first, runs, operator, total, context, weights)


def _unknown_reason(node: Node) -> str | None:
    if node.alike >= 0:  # such a node has known shapes: only those are compared
        return None
    for tensor in (*node.inputs, *node.outputs):
        if tensor is not None and tensor.unknown:
            return tensor.unknown
    return None


def _counts(
    node: Node, operator: Operator | None, weights: LayerWeights, context: ScoreContext
) -> Counts:
    if operator is None or node.is_constant:
        return _NO_COUNTS
    precision, training = context.settings.precision, context.training
    in_place = context.in_place.get(node.index)
    # A node whose output grows in place moves less than equal nodes.
    stored = None if in_place is not None else context.forward.get(node.alike)
    plain = stored or _forward(node, operator, context, in_place)
    forward, backward, update = plain.cost, NOTHING, NOTHING
    if context.settings.phase == "training":
        optimizer = context.settings.optimizer
        step = training_step(node, operator, weights, training.differentiable, optimizer, precision)
        forward, backward, update = forward + step.forward, step.backward, step.update
        if node.index in training.recomputed:
            backward += forward
    inputs = plain.input_bytes
    weight_names = weight_inputs(node, operator)
    if weight_names:
        inputs -= sum(t.n_bytes(precision) for t in node.distinct if t.name in weight_names)
    return Counts(forward, backward, update, inputs, plain.output_bytes)


def _forward(
    node: Node, operator: Operator, context: ScoreContext, in_place: frozenset[str] | None
) -> Forward:
    precision = context.settings.precision
    cost = operator.cost(node) + traffic(node, operator, precision, in_place)
    for position in operator.operands if cost.macs else ():
        tensor = node.optional(position)
        if tensor is not None and tensor.dtype.name in ("string", "bool"):
            raise node.error(
                f"multiplies {tensor.name!r}, which is {tensor.dtype.name}",
                "the file is broken; export it again",
            )
    forward = Forward(cost, input_bytes(node, precision), write_bytes(node, precision))
    if node.alike >= 0 and in_place is None:
        context.forward[node.alike] = forward
    return forward


def _known_row(
    first: NodeInstance,
    runs: int,
    operator: Operator | None,
    counts: Counts,
    context: ScoreContext,
    weights: LayerWeights = NO_WEIGHTS,
) -> LayerScore:
    """The row of a node whose ``counts`` over all its ``runs`` are known."""
    node, cost, fused = first.node, counts.total, context.fused
    moved, cached_bytes = fused.moved.get(node.index), fused.cached.get(node.index)
    precision = context.settings.precision
    precision_name = work_precision(node, operator, cost.macs, context.quantized_types, precision)
    unknown = {} if moved is not None else dict.fromkeys(_FUSED, fused.fused_reason)
    if cached_bytes is None:
        unknown["cached_traffic_bytes"] = fused.cached_reason
    return LayerScore(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        scope=first.scope,
        runs=runs,
        precision=precision_name,
        unit=unit_of(node, cost, precision_name),
        macs=cost.macs,
        multiply_add_flop=cost.multiply_add_flop,
        simple_flop=cost.simple,
        function_flop=FLOP_PER_FUNCTION * cost.functions,
        work_flop=cost.work_flop,
        backward_flop=counts.backward.work_flop,
        update_flop=counts.update.work_flop,
        parameters=weights.parameters,
        weight_bytes=weights.size_bytes(precision),
        input_bytes=counts.input_bytes,
        output_bytes=counts.output_bytes,
        read_bytes=cost.read_bytes,
        write_bytes=cost.write_bytes,
        traffic_bytes=cost.traffic_bytes,
        fused_group=moved.group if moved else None,
        fused_read_bytes=moved.read_bytes if moved else None,
        fused_write_bytes=moved.write_bytes if moved else None,
        fused_traffic_bytes=moved.read_bytes + moved.write_bytes if moved else None,
        cached_traffic_bytes=cached_bytes,
        saved_bytes=context.training.saved_bytes.get(node.index, 0),
        unknown=unknown,
    )


def _unknown_row(first: NodeInstance, runs: int, reason: str, context: ScoreContext) -> LayerScore:
    """The row of a node whose cost is unknown."""
    node = first.node
    nothing = dict.fromkeys((*LAYER_COUNTS, "fused_group"))
    return LayerScore(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        scope=first.scope,
        runs=runs,
        precision=work_precision(
            node, None, 0, context.quantized_types, context.settings.precision
        ),
        unit="none",
        unknown=dict.fromkeys(nothing, reason),
        **nothing,
    )
