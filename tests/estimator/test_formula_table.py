"""Every formula that the registry holds, on the smallest tensors, against a literal.

A row's comment or sum is the arithmetic: one for each addition, multiplication, division,
comparison or rounding, one for each function, two for each multiply-add.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mansard.core.errors import ModelError
from mansard.estimator.cost import Cost
from mansard.estimator.element_types import ElementType
from mansard.estimator.formulas import FORMULAS, register
from mansard.estimator.shapes.registry import _RULES, rule
from mansard.estimator.tensors import Node, Shape
from tests.estimator.elementwise_cases import ACTIVATIONS, ELEMENTWISE, REDUCTIONS, Case, floats
from tests.estimator.layer_cases import NORMALISATIONS, PLACING, POOLING, PRODUCTS, QUANTISATION
from tests.estimator.models import Input, single
from tests.estimator.movement_cases import MOVES
from tests.estimator.sampling_cases import CHOOSING, DRAWING, SAMPLING, STEPS, TRANSFORMS

CASES: list[Case] = [
    *((name, inputs, {}, 24 * each) for name, (inputs, each) in ELEMENTWISE.items()),
    *(*ACTIVATIONS, *REDUCTIONS, *POOLING, *NORMALISATIONS),
    *(*PRODUCTS, *QUANTISATION, *PLACING, *MOVES),
    *(*SAMPLING, *TRANSFORMS, *DRAWING, *CHOOSING, *STEPS),
]


def _split(name: str) -> tuple[str, str]:
    domain, _, op_type = name.rpartition(".")
    return domain, op_type


@pytest.mark.parametrize(("name", "inputs", "settings", "flop"), CASES)
def test_work_is_the_literal(
    name: str, inputs: tuple[Input, ...], settings: dict[str, object], flop: int
) -> None:
    domain, op_type = _split(name)
    row = single(op_type, inputs, domain=domain, **settings)  # type: ignore[arg-type]
    assert row.op_type == op_type
    assert row.work_flop == flop


@pytest.mark.parametrize("op_type", DEPENDS_ON_DATA)
def test_a_shape_that_depends_on_data_is_an_error(op_type: str) -> None:
    with pytest.raises(ModelError, match="depends on data"):
        single(op_type, DEPENDS_ON_DATA[op_type])


def test_no_formula_is_without_a_literal() -> None:
    covered = {_split(name) for name, *_ in CASES} | {("", name) for name in DEPENDS_ON_DATA}
    assert covered == set(FORMULAS.operators())


@pytest.fixture
def halving() -> Iterator[str]:
    """An operator of a domain of its own, as the five steps of CONTRIBUTING.md add one."""
    domain, op_type = "test.mansard", "Halve"

    @register(op_type, domain=domain, not_weights=(1,))
    def halve(node: Node) -> Cost:
        """A root and 2 operations for each element of the output."""
        n = node.output.n_elements
        return Cost(simple=2 * n, functions=n)

    @rule(op_type, domain=domain)
    def _halve(node: Node) -> list[tuple[ElementType, Shape]]:
        rows, *rest = node.input(0).shape
        return [(node.input(0).dtype, (rows // 2, *rest))]

    yield op_type
    # The registry is the real one, which has no way to forget; the next test must not see it.
    FORMULAS._formulas.pop((domain, op_type))
    _RULES.pop((domain, op_type))


def test_an_operator_is_added_by_a_formula_and_a_rule(halving: str) -> None:
    assert FORMULAS.find("test.mansard", halving) is not None
    row = single(halving, ("float[6,4]", floats(1, 2)), domain="test.mansard")
    # 6 x 4 becomes 3 x 4: 12 elements of 3
    assert (row.macs, row.work_flop) == (0, 36)
    assert (row.domain, row.op_type, row.output_bytes) == ("test.mansard", "Halve", 48)
    # reads 24 elements and the 2 stored ones, which are no weights; writes 12
    assert (row.traffic_bytes, row.parameters) == (4 * (24 + 2 + 12), 0)


def test_the_added_operator_is_gone_again() -> None:
    with pytest.raises(ModelError, match=r"no formula: test\.mansard::Halve"):
        single("Halve", ("float[6,4]",), domain="test.mansard")


def test_registering_an_operator_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="'Celu' of domain '' registered twice"):
        register("Celu")(lambda _: Cost())
