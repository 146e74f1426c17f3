"""The rows of a score: what each node costs, or why that is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from mansard.core.errors import MansardError, ModelError
from mansard.core.precision import Precision
from mansard.core.records import LayerScore, Phase
from mansard.estimator.completeness import check_complete
from mansard.estimator.cost import NOTHING, Formula
from mansard.estimator.counts import Counts
from mansard.estimator.element_types import ElementType
from mansard.estimator.formulas import FORMULAS
from mansard.estimator.propagation import MALFORMED
from mansard.estimator.rows import Tally, known_row, unknown_row
from mansard.estimator.summary import COUNTS
from mansard.estimator.tensors import Node, Origin, Tensor
from mansard.estimator.traffic import traffic, write_bytes
from mansard.estimator.training import differentiable_tensors, training_step
from mansard.estimator.walk import Placed, walk
from mansard.estimator.weights import NO_WEIGHTS, LayerWeights, assign_weights, is_weight
from mansard.estimator.work_precision import quantized_tensors

_LARGEST = 2**63 - 1  # what an integer in a file holds
NO_COUNTS = Counts()

Formulas = Mapping[tuple[str, str], "Formula | None"]


class Context(msgspec.Struct, frozen=True):
    """What the rows of one score have in common."""

    precision: Precision | None
    phase: Phase
    formulas: Formulas
    weights: Mapping[int, LayerWeights]
    behind: dict[str, ElementType]
    differentiable: set[str]

    def formula(self, node: Node) -> Formula | None:
        return self.formulas[node.domain, node.op_type]


def find_formulas(nodes: Iterable[Node]) -> Formulas:
    """The formula of every operator of ``nodes``; None where there is none."""
    return {key: FORMULAS.find(*key) for key in {(node.domain, node.op_type) for node in nodes}}


def score_layers(
    nodes: tuple[Node, ...], precision: Precision | None, phase: Phase, allow_unknown: bool
) -> tuple[tuple[LayerScore, ...], tuple[LayerScore, ...]]:
    """One row for each node, and those of branches that are not taken, in the file's order.

    Raises ModelError that lists every operator without a formula and every shape
    that cannot be known, unless ``allow_unknown``.
    """
    placed = list(walk(nodes))
    formulas = find_formulas(each.node for each in placed)
    taken = [each for each in placed if each.is_taken]
    if not allow_unknown:
        check_complete([each.node for each in taken], formulas)
    rows = _rows(taken, formulas, precision, phase)
    for name in COUNTS:
        # Sums are records too, so it is them that must fit.
        if sum(getattr(row, name) or 0 for row in rows) > _LARGEST:
            raise ModelError(
                f"the sum of {name} does not fit 63 bits",
                fix="check the dimensions that were given",
            )
    others = [each for each in placed if not each.is_taken]
    return rows, _rows(others, formulas, precision, phase) if others else ()


def main_precision(layers: Iterable[LayerScore]) -> str:
    """The precision in which most multiply-adds are done; without any, most layers."""
    macs: Counter[str] = Counter()
    for layer in layers:
        # A layer counts a little too, for networks without multiply-adds.
        macs[layer.precision] += (layer.macs or 0) * 1_000_000 + 1
    return macs.most_common(1)[0][0]


def _rows(
    placed: list[Placed], formulas: Formulas, precision: Precision | None, phase: Phase
) -> tuple[LayerScore, ...]:
    nodes = [each.node for each in placed]
    differentiable: set[str] = set()
    if phase == "training":
        differentiable = differentiable_tensors(
            nodes, lambda node: formulas[node.domain, node.op_type]
        )
    context = Context(
        precision,
        phase,
        formulas,
        assign_weights(nodes, formulas),
        quantized_tensors(nodes),
        differentiable,
    )
    passes: dict[int, list[Placed]] = {}
    for each in placed:
        passes.setdefault(each.node.index, []).append(each)
    return tuple(_row(passes[index], context) for index in sorted(passes))


def _row(passes: list[Placed], context: Context) -> LayerScore:
    """The row of a node, its passes added up; one that is unknown makes it unknown."""
    first = passes[0]
    node, formula = first.node, context.formula(first.node)
    runs = sum(each.runs for each in passes)
    lost = next((reason for each in passes if (reason := _lost(each.node))), None)
    if lost is None and formula is None and not all(each.node.is_constant for each in passes):
        lost = "the operator has no formula"
    if lost is not None:
        return unknown_row(first, runs, context.behind, context.precision, lost)
    weights = context.weights.get(node.index, NO_WEIGHTS)
    total = NO_COUNTS
    for each in passes:
        counts = _guarded_counts(each.node, formula, weights, context)
        total = counts if runs == 1 else total + counts.times(each.runs)
    tally = Tally(first, runs, formula, weights, total)
    return known_row(tally, context.behind, context.precision)


def _lost(node: Node) -> str | None:
    for tensor in node.inputs:
        if tensor is not None and tensor.unknown:
            return tensor.unknown
    for tensor in node.outputs:
        if tensor.unknown:
            return tensor.unknown
    return None


def _guarded_counts(
    node: Node, formula: Formula | None, weights: LayerWeights, context: Context
) -> Counts:
    try:
        return _counts(node, formula, weights, context)
    except MansardError:
        raise
    except MALFORMED as error:
        raise node.error(
            f"does not fit its operator's definition ({type(error).__name__}: {error})",
            "the file is broken or was edited; export it again",
        ) from error


def _counts(node: Node, formula: Formula | None, weights: LayerWeights, context: Context) -> Counts:
    if formula is None or node.is_constant:
        return NO_COUNTS
    precision = context.precision
    forward = formula.function(node) + traffic(node, formula, precision)
    backward = update = NOTHING
    if context.phase == "training":
        step = training_step(node, formula, weights, context.differentiable, precision)
        forward, backward, update = forward + step.forward, step.backward, step.update
    inputs, outputs = _input_bytes(node, precision), write_bytes(node, precision)
    return Counts(forward, backward, update, inputs, outputs)


def _input_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes of the distinct inputs that are not weights."""
    return sum(t.n_bytes(precision) for t in node.distinct if not _holds_weights(t))


def _holds_weights(tensor: Tensor) -> bool:
    return tensor.origin is not Origin.DATA and any(map(is_weight, tensor.weights))
