"""The registry of shape rules: what an operator's outputs look like, given its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from mansard.estimator.element_types import ElementType
from mansard.estimator.tensors import Node

# An output's type and shape; None stands for a dimension that depends on data.
Spec = tuple[ElementType, tuple["int | None", ...]]
# One spec for each output, trailing ones may be missing; or the reason why none can be known.
Rule = Callable[[Node], "Sequence[Spec] | str"]

_RULES: dict[tuple[str, str], Rule] = {}


def rule(*op_types: str, domain: str = "") -> Callable[[Rule], Rule]:
    """A decorator that makes a function the shape rule of ``op_types``; twice is an error."""

    def decorate(function: Rule) -> Rule:
        for op_type in op_types:
            if (domain, op_type) in _RULES:
                raise ValueError(f"shape rule of {op_type!r}, domain {domain!r}, registered twice")
            _RULES[domain, op_type] = function
        return function

    return decorate


def find_rule(domain: str, op_type: str) -> Rule | None:
    """The rule of an operator, or None where nobody wrote one."""
    found = _RULES.get((domain, op_type))
    if found is None:
        _load_rest()
        found = _RULES.get((domain, op_type))
    return found


def rules() -> dict[tuple[str, str], Rule]:
    """All rules by (domain, operator)."""
    _load_rest()
    return dict(_RULES)


def _load_rest() -> None:
    """Import the rules outside ONNX's own domain: many, and most networks need none of them."""
    import_module("mansard.estimator.shapes.contrib_operators")
