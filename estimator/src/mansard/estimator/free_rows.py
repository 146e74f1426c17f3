"""Rows of nodes that cost nothing: constants and shape arithmetic.

In an exported transformer they are nine of ten. They stay the same whatever the
dimensions, so a model that is scored again finds them made.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from mansard.core.precision import Precision
from mansard.core.records import LAYER_COUNTS, LayerScore
from mansard.estimator.kernels import Kernels
from mansard.estimator.rows import FUSED
from mansard.estimator.tensors import NodeInstance
from mansard.estimator.work_precision import work_precision

_ZEROS = MappingProxyType(dict.fromkeys(LAYER_COUNTS, 0))


class FreeRows:
    """The rows made so far for one model, by the node's index."""

    def __init__(self) -> None:
        self._made: dict[int, LayerScore] = {}
        self._circumstances: object = None

    def begin(self, kernels: Kernels, precision: Precision | None) -> None:
        """Forget the rows of a score in other circumstances."""
        form = precision.name if precision is not None else None
        # Reasons are part of a row; they differ only where a count is missing.
        circumstances = form, kernels.fused_reason, kernels.cached_reason
        if circumstances != self._circumstances:
            self._circumstances = circumstances
            self._made.clear()

    def row(
        self, placed: NodeInstance, runs: int, kernels: Kernels, precision: Precision | None
    ) -> LayerScore:
        """The row of a node that costs nothing; ``begin`` comes first."""
        index = placed.node.index
        moved = kernels.moved.get(index)
        group = None if moved is None else moved.group
        found = self._made.get(index)
        if (
            found is not None
            and found.fused_group == group
            and found.runs == runs
            and found.scope == placed.scope
            and (index in kernels.cached) == (found.cached_traffic_bytes is not None)
        ):
            return found
        made = self._made[index] = _make(placed, runs, group, kernels, precision)
        return made


def _make(
    placed: NodeInstance,
    runs: int,
    group: int | None,
    kernels: Kernels,
    precision: Precision | None,
) -> LayerScore:
    node, counts, unknown = placed.node, dict[str, Any](_ZEROS), {}
    counts["fused_group"] = group
    if group is None:
        unknown = dict.fromkeys(FUSED, kernels.fused_reason)
        counts.update(dict.fromkeys(FUSED))
    if node.index not in kernels.cached:
        unknown["cached_traffic_bytes"] = kernels.cached_reason
        counts["cached_traffic_bytes"] = None
    return LayerScore(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        scope=placed.scope,
        runs=runs,
        precision=work_precision(node, None, 0, {}, precision),
        unit="none",
        unknown=unknown,
        **counts,
    )
