"""The one registry of formulas; the files beside this one fill it."""

from __future__ import annotations

from importlib import import_module

from mansard.estimator.cost import Registry


def _load_rest() -> None:
    """Import the formulas outside ONNX's own domain: many, and most networks need none of them."""
    import_module("mansard.estimator.formulas.contrib_operators")


FORMULAS = Registry(_load_rest)
register = FORMULAS.register
