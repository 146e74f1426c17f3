"""PyTorch networks as ONNX files: a source goes in, a checked file comes out.

The only part of Mansard that uses torch, torchvision, transformers and ONNX Runtime;
it imports them inside functions, so that everything else works without them (the
extra ``export`` installs them). docs/use/exporting.md says what the command does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mansard.estimator.export.checking import ExportCheck
    from mansard.estimator.export.request import ExportRequest
    from mansard.estimator.export.run import Exported, export

__all__ = ["ExportCheck", "ExportRequest", "Exported", "export"]

_HOMES = {"ExportCheck": "checking", "Exported": "run", "ExportRequest": "request", "export": "run"}


def __getattr__(name: str) -> Any:
    """Import on first use: the command line must start without numpy."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
