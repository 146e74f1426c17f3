"""Types of what the functions of ``mansard.api`` return, imported on first use."""

from __future__ import annotations

from mansard.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
