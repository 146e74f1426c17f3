"""Shape rules, one operator family a file. Importing this registers all of them."""

from __future__ import annotations

from mansard.estimator.shapes import (
    constants,
    contraction,
    elementwise,
    indexing,
    layout,
    recurrent,
    reduction,
    resampling,
    windows,
)
from mansard.estimator.shapes.registry import find_rule, rule, rules

__all__ = [
    "constants",
    "contraction",
    "elementwise",
    "find_rule",
    "indexing",
    "layout",
    "recurrent",
    "reduction",
    "resampling",
    "rule",
    "rules",
    "windows",
]
