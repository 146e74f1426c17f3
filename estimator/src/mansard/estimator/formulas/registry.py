"""The one registry of formulas; the files beside this one fill it."""

from __future__ import annotations

from mansard.estimator.cost import Registry

FORMULAS = Registry()
register = FORMULAS.register
