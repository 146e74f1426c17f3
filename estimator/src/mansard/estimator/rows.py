"""Counts of a node, written as a record."""

from __future__ import annotations

import msgspec

from mansard.core.precision import Precision
from mansard.core.records import LAYER_COUNTS, LayerScore
from mansard.estimator.cost import FLOP_PER_FUNCTION, Counts, Moved
from mansard.estimator.element_types import ElementType
from mansard.estimator.kernels import Kernels
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import NodeInstance
from mansard.estimator.units import unit_of
from mansard.estimator.weights import LayerWeights
from mansard.estimator.work_precision import work_precision

FUSED = ("fused_group", "fused_read_bytes", "fused_write_bytes", "fused_traffic_bytes")


class Tally(msgspec.Struct, frozen=True, gc=False):
    """A node with everything that was counted of it, over all its ``runs``."""

    placed: NodeInstance
    runs: int
    formula: Operator | None
    weights: LayerWeights
    counts: Counts
    saved_bytes: int


def known_row(
    tally: Tally, behind: dict[str, ElementType], kernels: Kernels, precision: Precision | None
) -> LayerScore:
    """The row of a node whose counts are known."""
    placed, weights, counts = tally.placed, tally.weights, tally.counts
    node, cost = placed.node, counts.total
    moved, cached = kernels.moved.get(node.index), kernels.cached.get(node.index)
    form = work_precision(node, tally.formula, cost.macs, behind, precision)
    return LayerScore(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        scope=placed.scope,
        runs=tally.runs,
        precision=form,
        unit=unit_of(node, cost, form),
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
        cached_traffic_bytes=cached,
        saved_bytes=tally.saved_bytes,
        unknown=_reasons(moved, cached, kernels),
    )


def _reasons(moved: Moved | None, cached: int | None, kernels: Kernels) -> dict[str, str]:
    unknown: dict[str, str] = {}
    if moved is None:
        unknown = dict.fromkeys(FUSED, kernels.fused_reason)
    if cached is None:
        unknown["cached_traffic_bytes"] = kernels.cached_reason
    return unknown


def unknown_row(
    placed: NodeInstance,
    runs: int,
    behind: dict[str, ElementType],
    precision: Precision | None,
    reason: str,
) -> LayerScore:
    """The row of a node that cannot be counted."""
    node = placed.node
    nothing = dict.fromkeys((*LAYER_COUNTS, "fused_group"))
    return LayerScore(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        scope=placed.scope,
        runs=runs,
        precision=work_precision(node, None, 0, behind, precision),
        unit="none",
        unknown=dict.fromkeys(nothing, reason),
        **nothing,
    )
