"""The rows of a score: what each node costs, or why that is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from mansard.core.errors import ModelError
from mansard.core.records import LAYER_COUNTS, LayerScore
from mansard.estimator.completeness import check_complete
from mansard.estimator.context import Context, Options, find_formulas, make_context
from mansard.estimator.cost import NOTHING, Counts, Forward
from mansard.estimator.free_rows import FreeRows
from mansard.estimator.kernels import Ends, Kernels, find_kernels
from mansard.estimator.memory import Memory
from mansard.estimator.operators.registry import Operator
from mansard.estimator.rows import Tally, known_row, unknown_row
from mansard.estimator.tensors import Node, NodeInstance, raising_model_error, walk
from mansard.estimator.traffic import input_bytes, traffic, write_bytes
from mansard.estimator.training import state_bytes, training_peak_bytes, training_step
from mansard.estimator.weights import NO_WEIGHTS, LayerWeights, weight_inputs

_LARGEST = 2**63 - 1  # what an integer in a file holds
NO_COUNTS = Counts()
_counts_of = attrgetter(*LAYER_COUNTS)


class Scored(msgspec.Struct, frozen=True):
    """The rows of the nodes, of branches that are not taken, and what the whole takes.

    In training ``memory`` knows the peak of a step only.
    """

    layers: tuple[LayerScore, ...]
    alternatives: tuple[LayerScore, ...]
    state_bytes: int
    memory: Memory


def score_layers(nodes: tuple[Node, ...], ends: Ends, options: Options, free: FreeRows) -> Scored:
    """One row for each node, in the file's order.

    ``free`` keeps rows that cost nothing from one score of the model to the next.

    Raises ModelError that lists every operator without a formula and every shape
    that cannot be known, unless ``allow_unknown``.
    """
    placed = list(walk(nodes))
    formulas = find_formulas(each.node for each in placed)
    taken = [each for each in placed if each.is_taken]
    if not options.allow_unknown:
        check_complete([each.node for each in taken], formulas)
    context = make_context(taken, formulas, options)
    kernels = find_kernels(nodes, ends, formulas, options)
    rows = _rows(taken, context, kernels, free)
    _check_sums(rows)
    others = [each for each in placed if not each.is_taken]
    alternatives: tuple[LayerScore, ...] = ()
    if others:
        alternatives = _rows(others, make_context(others, formulas, options), kernels, free)
    memory = kernels.memory
    if options.phase == "training" and not any(row.work_flop is None for row in rows):
        memory = replace(memory, peak_activation_bytes=_training_peak_bytes(taken, context))
    return Scored(rows, alternatives, _state_bytes(context), memory)


def _check_sums(rows: Sequence[LayerScore]) -> None:
    """Sums are records too, so it is them that must fit."""
    counted = [_counts_of(row) for row in rows if _counts_something(row)]
    # Without anything that counts there are no columns.
    for name, column in zip(LAYER_COUNTS, zip(*counted, strict=True), strict=False):
        if sum(filter(None, column)) > _LARGEST:
            raise ModelError(
                f"the sum of {name} does not fit 63 bits",
                fix="check the dimensions that were given",
            )


def _counts_something(row: LayerScore) -> bool:
    """False for constants and views, which are most rows of an exported network."""
    return bool(row.traffic_bytes or row.input_bytes or row.output_bytes or row.parameters)


def _state_bytes(context: Context) -> int:
    options = context.options
    return sum(
        state_bytes(weights, options.optimizer, options.precision)
        for weights in context.weights.values()
    )


def _training_peak_bytes(placed: list[NodeInstance], context: Context) -> int:
    options, training = context.options, context.training
    return training_peak_bytes(
        placed,
        training.saved_bytes,
        training.differentiable,
        training.again_bytes,
        options.precision,
    )


def main_precision(layers: Iterable[LayerScore]) -> str:
    """The precision in which most multiply-adds are done; without any, most layers."""
    macs: Counter[str] = Counter()
    for layer in layers:
        # A layer counts a little too, for networks without multiply-adds.
        macs[layer.precision] += (layer.macs or 0) * 1_000_000 + 1
    return macs.most_common(1)[0][0]


def _rows(
    placed: list[NodeInstance], context: Context, kernels: Kernels, free: FreeRows
) -> tuple[LayerScore, ...]:
    free.begin(kernels, context.options.precision)
    passes: dict[int, list[NodeInstance]] = {}
    for each in placed:
        passes.setdefault(each.node.index, []).append(each)
    return tuple([_row(passes[index], context, kernels, free) for index in sorted(passes)])


def _row(
    passes: list[NodeInstance], context: Context, kernels: Kernels, free: FreeRows
) -> LayerScore:
    """The row of a node, its passes added up; one that is unknown makes it unknown."""
    first = passes[0]
    node, options = first.node, context.options
    is_one = len(passes) == 1
    runs = first.runs if is_one else sum(each.runs for each in passes)
    weights = context.weights.get(node.index, NO_WEIGHTS)
    if (
        weights is NO_WEIGHTS
        and node.is_constant
        and (is_one or all(each.node.is_constant for each in passes))
    ):
        return free.row(first, runs, kernels, options.precision)
    formula = context.formula(node)
    lost = _lost(node)
    if not is_one and lost is None:
        lost = next((reason for each in passes if (reason := _lost(each.node))), None)
    if lost is None and formula is None:
        lost = "the operator has no formula"
    if lost is not None:
        return unknown_row(first, runs, context.behind, options.precision, lost)
    total = NO_COUNTS
    for each in passes:
        counts = raising_model_error(_counts, each.node, formula, weights, context)
        if runs == 1 and is_one:
            total = counts
        else:
            # A weight is updated once, however often it is used.
            total = replace(total, update=NOTHING) + counts.times(each.runs)
    saved = context.training.saved_bytes.get(node.index, 0)
    tally = Tally(first, runs, formula, weights, total, saved)
    return known_row(tally, context.behind, kernels, options.precision)


def _lost(node: Node) -> str | None:
    if node.alike >= 0:  # only what is known is compared
        return None
    for tensor in node.inputs:
        if tensor is not None and tensor.unknown:
            return tensor.unknown
    for tensor in node.outputs:
        if tensor.unknown:
            return tensor.unknown
    return None


def _counts(
    node: Node, formula: Operator | None, weights: LayerWeights, context: Context
) -> Counts:
    if formula is None or node.is_constant:
        return NO_COUNTS
    precision = context.options.precision
    plain = context.forward.get(node.alike) or _forward(node, formula, context)
    forward, backward, update = plain.cost, NOTHING, NOTHING
    if context.options.phase == "training":
        optimizer = context.options.optimizer
        step = training_step(
            node, formula, weights, context.training.differentiable, optimizer, precision
        )
        forward, backward, update = forward + step.forward, step.backward, step.update
        if node.index in context.training.recomputed:
            backward += forward
    inputs = plain.input_bytes
    held = weight_inputs(node, formula)
    if held:
        inputs -= sum(t.n_bytes(precision) for t in node.distinct if t.name in held)
    return Counts(forward, backward, update, inputs, plain.output_bytes)


def _check_factors(node: Node, formula: Operator) -> None:
    for position in formula.operands:
        tensor = node.optional(position)
        if tensor is not None and tensor.dtype.name in ("string", "bool"):
            raise node.error(
                f"multiplies {tensor.name!r}, which is {tensor.dtype.name}",
                "the file is broken; export it again",
            )


def _forward(node: Node, formula: Operator, context: Context) -> Forward:
    precision = context.options.precision
    cost = formula.cost(node) + traffic(node, formula, precision)
    if cost.macs:
        _check_factors(node, formula)
    found = Forward(cost, input_bytes(node, precision), write_bytes(node, precision))
    if node.alike >= 0:
        context.forward[node.alike] = found
    return found
