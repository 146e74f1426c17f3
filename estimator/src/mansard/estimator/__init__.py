"""What a network does: an ONNX graph goes in, work and traffic per layer come out.

No GPU, no execution, no weights. ``score`` gives one row for each node, ``totals``
their sums. docs/understand/scoring.md says what each count means.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mansard.estimator.model import Given
    from mansard.estimator.score_context import Settings
    from mansard.estimator.scoring import Loaded, Skeleton, load, read_skeleton, score, score_loaded
    from mansard.estimator.summary import Totals, is_functional, totals

__all__ = [
    "Given",
    "Loaded",
    "Settings",
    "Skeleton",
    "Totals",
    "is_functional",
    "load",
    "read_skeleton",
    "score",
    "score_loaded",
    "totals",
]

_MODULES = {
    "Given": "model",
    "Loaded": "scoring",
    "Settings": "score_context",
    "Skeleton": "scoring",
    "Totals": "summary",
    "is_functional": "summary",
    "load": "scoring",
    "read_skeleton": "scoring",
    "score": "scoring",
    "score_loaded": "scoring",
    "totals": "summary",
}


def __getattr__(name: str) -> Any:
    """Import on first use: a command line that scores nothing must start without numpy."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
