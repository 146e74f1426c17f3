"""The steps of CONTRIBUTING.md, taken for an operator that does not exist.

1. The family: elementwise work on half of the rows.
2. Its shape rule, ``_halved``, its cost, ``_halve``, and one decorator for both.
3. Its test, with the literal: ``test_the_operator_is_scored``.
4. Its row in the table: ``test_the_operator_has_a_row_in_the_table``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mansard.core.errors import ModelError
from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.operators import REGISTRY, operator
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.table import operators_table
from mansard.estimator.tensors import Node
from tests.estimator.elementwise_cases import floats
from tests.estimator.models import single

DOMAIN = "test.mansard"


def _first_half(node: Node, precision: Precision | None) -> int:
    """The first half of the rows, and both numbers."""
    return node.output.n_bytes(precision) + node.input(1).n_bytes(precision)


def _halved(node: Node) -> Specs:
    """The first half of the rows."""
    rows, *rest = node.input(0).shape
    return [(node.input(0).dtype, (rows // 2, *rest))]


@pytest.fixture
def halving() -> Iterator[str]:
    """``Halve``: the root of the first half of the rows, scaled and shifted by two numbers."""

    @operator("Halve", shape=_halved, domain=DOMAIN, not_weights=(1,), reads=_first_half)
    def _halve(node: Node) -> Cost:
        """A root and 2 operations for each element of the output; reads half of the rows."""
        n = node.output.n_elements
        return Cost(simple=2 * n, functions=n)

    yield "Halve"
    # The registry is the real one and cannot forget; the next test must not see the operator.
    REGISTRY._operators.pop((DOMAIN, "Halve"))


def test_the_operator_is_scored(halving: str) -> None:
    row = single(halving, ("float[6,4]", floats(1, 2)), domain=DOMAIN)
    # 6 x 4 becomes 3 x 4: 12 elements of 3
    assert (row.macs, row.simple_flop, row.function_flop) == (0, 24, 12)
    assert (row.domain, row.op_type, row.output_bytes) == (DOMAIN, "Halve", 48)
    # reads 12 elements and the 2 stored ones, which are no weights; writes 12
    assert (row.read_bytes, row.write_bytes, row.parameters) == (4 * (12 + 2), 4 * 12, 0)


def test_the_operator_has_a_row_in_the_table(halving: str) -> None:
    table = operators_table((), "1.23.2")
    rows = [line for line in table.splitlines() if f"{DOMAIN}.Halve" in line]
    assert len(rows) == 1
    assert "A root and 2 operations for each element of the output" in rows[0]
    assert rows[0].endswith("| reads: the first half of the rows, and both numbers |")


def test_without_the_steps_the_operator_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"no formula: test\.mansard::Halve \(node 'node'\)"):
        single("Halve", ("float[6,4]",), domain=DOMAIN)
