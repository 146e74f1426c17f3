"""Mansard from Python: ``import mansard``, then the functions of ``mansard.api``.

    import mansard as m

    m.score("resnet50").to_frame()
    m.recommend("resnet50", runs="runs")

The only file of the package ``mansard`` outside the rooms. In a checkout each room has its own
folder, and ``extend_path`` joins them. Containers and boards get the on-device rooms without this
file; there ``mansard`` is an implicit namespace package.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import extend_path
from typing import Any

# In place: what finds modules without importing them reads the same list of the specification.
__path__[:] = extend_path(__path__, __name__)


def __getattr__(name: str) -> Any:
    """A name of the façade, imported on first use."""
    if name == "__version__":
        return import_module("mansard.core.version").VERSION
    # Not "from mansard import api": that asks this function for "api".
    api = import_module("mansard.api")
    if name not in dir(api):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), "__version__", *dir(import_module("mansard.api"))})
