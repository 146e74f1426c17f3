"""Work and traffic as a value, and the registry of formulas that yield it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.tensors import Node

FLOP_PER_MAC = 2  # one multiplication and one addition
FLOP_PER_FUNCTION = 1  # exp, log, tanh, erf, sqrt, … : counted apart, weighed as one operation


class Cost(msgspec.Struct, frozen=True, gc=False):
    """What one node does. Costs add up field by field; ``Cost()`` is nothing at all.

    ``macs``: multiply-adds of convolutions, matrix products, recurrent layers and
    attention; nothing else counts here. ``simple``: single additions,
    multiplications, divisions, comparisons and the like, biases among them.
    ``functions``: evaluations of a function such as exp or sqrt.
    ``read_bytes`` and ``write_bytes``: each distinct tensor once.
    """

    macs: int = 0
    simple: int = 0
    functions: int = 0
    read_bytes: int = 0
    write_bytes: int = 0

    @property
    def multiply_add_flop(self) -> int:
        """Work of the multiply-adds alone."""
        return FLOP_PER_MAC * self.macs

    @property
    def work_flop(self) -> int:
        """All work: 2 FLOP a multiply-add, 1 for everything else."""
        return FLOP_PER_MAC * self.macs + self.simple + FLOP_PER_FUNCTION * self.functions

    @property
    def traffic_bytes(self) -> int:
        return self.read_bytes + self.write_bytes

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.macs + other.macs,
            self.simple + other.simple,
            self.functions + other.functions,
            self.read_bytes + other.read_bytes,
            self.write_bytes + other.write_bytes,
        )

    def __mul__(self, times: int) -> Cost:
        """The same cost ``times`` times over."""
        return Cost(
            self.macs * times,
            self.simple * times,
            self.functions * times,
            self.read_bytes * times,
            self.write_bytes * times,
        )

    __rmul__ = __mul__


NOTHING = Cost()

FormulaFunction = Callable[[Node], Cost]
BytesFunction = Callable[[Node, "Precision | None"], int]
CountFunction = Callable[[Node], int]

_FACTORS = (0, 1)
_NOTHING_PACKED: Mapping[int, CountFunction] = MappingProxyType({})


class Formula(msgspec.Struct, frozen=True):
    """How one operator is counted, and which of its inputs are what.

    ``is_view``: the output is the input's memory seen otherwise; nothing moves.
    ``not_weights``: inputs that never hold weights (an initial state, a size).
    ``statistics``: inputs that are stored with the model but are not learned.
    ``operands``: inputs that are multiplied in the multiply-adds; the widest element
    type among them is the precision of the work.
    ``reads``, ``writes``: bytes of operators that do not touch all of their tensors.
    ``packed``: inputs whose elements hold several numbers each, or parts of them, and a
    function that tells how many numbers there are.
    """

    function: FormulaFunction
    is_view: bool = False
    not_weights: frozenset[int] = frozenset()
    statistics: frozenset[int] = frozenset()
    operands: tuple[int, ...] = _FACTORS
    reads: BytesFunction | None = None
    writes: BytesFunction | None = None
    packed: Mapping[int, CountFunction] = _NOTHING_PACKED


class Registry:
    """Formulas by operator domain and type. Registering one twice is an error.

    ``load_rest`` registers those that are rarely needed; it is called when one is missing.
    """

    def __init__(self, load_rest: Callable[[], None] | None = None) -> None:
        self._formulas: dict[tuple[str, str], Formula] = {}
        self._load_rest = load_rest or (lambda: None)

    def register(
        self,
        *op_types: str,
        domain: str = "",
        is_view: bool = False,
        not_weights: tuple[int, ...] = (),
        statistics: tuple[int, ...] = (),
        operands: tuple[int, ...] = _FACTORS,
        reads: BytesFunction | None = None,
        writes: BytesFunction | None = None,
        packed: Mapping[int, CountFunction] = _NOTHING_PACKED,
    ) -> Callable[[FormulaFunction], FormulaFunction]:
        """A decorator that makes a function the formula of ``op_types``."""

        def decorate(function: FormulaFunction) -> FormulaFunction:
            formula = Formula(
                function,
                is_view,
                frozenset(not_weights),
                frozenset(statistics),
                operands,
                reads,
                writes,
                packed,
            )
            for op_type in op_types:
                key = (normal_domain(domain), op_type)
                if key in self._formulas:
                    raise ValueError(f"operator {op_type!r} of domain {domain!r} registered twice")
                self._formulas[key] = formula
            return function

        return decorate

    def find(self, domain: str, op_type: str) -> Formula | None:
        found = self._formulas.get((domain, op_type))
        if found is None:
            self._load_rest()
            found = self._formulas.get((domain, op_type))
        return found

    def operators(self) -> dict[tuple[str, str], Formula]:
        """All registered operators by (domain, type), sorted."""
        self._load_rest()
        return dict(sorted(self._formulas.items()))


def normal_domain(domain: str) -> str:
    """ONNX's own domain has two spellings; the empty one is used here."""
    return "" if domain == "ai.onnx" else domain
