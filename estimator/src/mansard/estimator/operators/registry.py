"""The registry of operators: what one operator's outputs look like, and what it costs.

An operator is one record, made by one of two decorators: ``operator`` above its cost
function, ``shape_of`` above its shape rule where the cost is one that others have too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.model import normal_domain
from mansard.estimator.numbers import ElementType
from mansard.estimator.tensors import Node

# An output's type and shape; None stands for a dimension that depends on data.
Spec = tuple[ElementType, tuple["int | None", ...]]
# One spec for each output; trailing ones may be missing.
Specs = Sequence[Spec]
# A text is the reason why no spec can be known.
ShapeRule = Callable[[Node], "Specs | str"]
CostFunction = Callable[[Node], Cost]
BytesFunction = Callable[[Node, "Precision | None"], int]
CountFunction = Callable[[Node], int]

_FACTORS = (0, 1)
_NOTHING_PACKED: Mapping[int, CountFunction] = MappingProxyType({})


class Operator(msgspec.Struct, frozen=True):
    """The shape rule and the cost of one operator, and which of its inputs are what.

    ``cost``: work; its docstring is the operator's row in ``docs/reference/operators.md``.
    ``shape``: None where control flow or the sequences make the outputs.
    ``is_view``: the output is the input's memory seen otherwise; nothing moves.
    ``not_weights``: inputs that never hold weights (an initial state, a size).
    ``statistics``: inputs that are stored with the model but are not learned.
    ``operands``: inputs that are multiplied in the multiply-adds; the widest element
    type among them is the precision of the work.
    ``reads``, ``writes``: bytes of operators that do not touch all of their tensors.
    ``packed``: inputs whose elements hold several numbers each, or parts of them, and a
    function that tells how many numbers there are.
    """

    cost: CostFunction
    shape: ShapeRule | None = None
    is_view: bool = False
    not_weights: frozenset[int] = frozenset()
    statistics: frozenset[int] = frozenset()
    operands: tuple[int, ...] = _FACTORS
    reads: BytesFunction | None = None
    writes: BytesFunction | None = None
    packed: Mapping[int, CountFunction] = _NOTHING_PACKED


# The operators of a network by (domain, type); None stands for an unknown one.
Operators = Mapping[tuple[str, str], Operator | None]


class Registry:
    """Operators by domain and type. Registering one twice is an error.

    ``rest``: modules of rarely needed operators, imported when one is missing.
    """

    def __init__(self, rest: Sequence[str] = ()) -> None:
        self._operators: dict[tuple[str, str], Operator] = {}
        self._rest = rest

    def operator(  # noqa: PLR0913 - one keyword for each field of an Operator
        self,
        *op_types: str,
        shape: ShapeRule | None = None,
        domain: str | tuple[str, ...] = "",
        is_view: bool = False,
        not_weights: Sequence[int] = (),
        statistics: Sequence[int] = (),
        operands: tuple[int, ...] = _FACTORS,
        reads: BytesFunction | None = None,
        writes: BytesFunction | None = None,
        packed: Mapping[int, CountFunction] = _NOTHING_PACKED,
    ) -> Callable[[CostFunction], CostFunction]:
        """A decorator that registers ``op_types`` with a cost function; see ``Operator``."""

        def decorate(cost: CostFunction) -> CostFunction:
            made = Operator(
                cost,
                shape,
                is_view,
                frozenset(not_weights),
                frozenset(statistics),
                operands,
                reads,
                writes,
                packed,
            )
            for each in (domain,) if isinstance(domain, str) else domain:
                for op_type in op_types:
                    key = (normal_domain(each), op_type)
                    if key in self._operators:
                        raise ValueError(
                            f"operator {op_type!r} of domain {each!r} registered twice"
                        )
                    self._operators[key] = made
            return cost

        return decorate

    def shape_of(
        self,
        *op_types: str,
        cost: CostFunction,
        domain: str | tuple[str, ...] = "",
        is_view: bool = False,
        not_weights: Sequence[int] = (),
        reads: BytesFunction | None = None,
    ) -> Callable[[ShapeRule], ShapeRule]:
        """A decorator that registers ``op_types`` with a shape rule and a common ``cost``."""

        def decorate(shape: ShapeRule) -> ShapeRule:
            self.operator(
                *op_types,
                shape=shape,
                domain=domain,
                is_view=is_view,
                not_weights=not_weights,
                reads=reads,
            )(cost)
            return shape

        return decorate

    def find(self, domain: str, op_type: str) -> Operator | None:
        """The operator, or None where there is none of this name."""
        found = self._operators.get((domain, op_type))
        if found is None:
            self._import_rest()
            found = self._operators.get((domain, op_type))
        return found

    def shape_rule(self, domain: str, op_type: str) -> ShapeRule | None:
        """The operator's shape rule; None where there is no operator, or it has none."""
        found = self.find(domain, op_type)
        return None if found is None else found.shape

    def operators(self) -> dict[tuple[str, str], Operator]:
        """All registered operators by (domain, type), sorted."""
        self._import_rest()
        return dict(sorted(self._operators.items()))

    def _import_rest(self) -> None:
        for module in self._rest:
            import_module(module)


# Operators outside ONNX's own domain are many, and most networks need none of them.
REGISTRY = Registry(rest=(f"{__package__}.contrib", f"{__package__}.ml"))
operator = REGISTRY.operator
shape_of = REGISTRY.shape_of
