"""How each operator's value is computed, by its type in the standard domain."""

from __future__ import annotations

from types import MappingProxyType

from mansard.estimator.values import indexing, layout, pointwise, reduction
from mansard.estimator.values.registry import Evaluate

EVALUATORS: MappingProxyType[str, Evaluate] = MappingProxyType(
    {
        **indexing.EVALUATORS,
        **layout.EVALUATORS,
        **pointwise.EVALUATORS,
        **reduction.EVALUATORS,
    }
)
