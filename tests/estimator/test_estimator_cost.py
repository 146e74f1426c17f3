"""Cost is a value that adds up; the registry refuses doubles and learns new operators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.numbers import FLOAT32
from mansard.estimator.operators import REGISTRY
from mansard.estimator.operators.registry import Registry
from mansard.estimator.tensors import Node, Tensor

counts = st.integers(min_value=0, max_value=2**60)
costs = st.builds(Cost, counts, counts, counts, counts, counts)


@given(costs, costs, costs)
def test_addition_is_commutative_and_associative(a: Cost, b: Cost, c: Cost) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + NOTHING == a


@given(costs, costs, st.integers(min_value=0, max_value=50))
def test_multiplication_is_repeated_addition(a: Cost, b: Cost, times: int) -> None:
    assert times * a == sum([a] * times, NOTHING)
    assert times * (a + b) == times * a + times * b


@given(costs, costs)
def test_derived_counts_add_up_too(a: Cost, b: Cost) -> None:
    assert (a + b).work_flop == a.work_flop + b.work_flop
    assert (a + b).traffic_bytes == a.traffic_bytes + b.traffic_bytes


def test_work_and_traffic_of_a_cost() -> None:
    # 2·10 + 3 + 4 = 27 FLOP; 100 + 20 = 120 bytes
    cost = Cost(macs=10, simple=3, functions=4, read_bytes=100, write_bytes=20)
    assert cost.work_flop == 27
    assert cost.traffic_bytes == 120


def test_an_operator_is_registered_once() -> None:
    registry = Registry()
    registry.operator("Twist", domain="test.acme")(lambda node: NOTHING)
    with pytest.raises(ValueError, match=r"'Twist'.*registered twice"):
        registry.operator("Turn", "Twist", domain="test.acme")(lambda node: NOTHING)


def test_a_made_up_operator_is_found_by_its_domain() -> None:
    registry = Registry()

    @registry.operator("Twist", domain="test.acme", is_view=True, not_weights=(1,))
    def twist(node: Node) -> Cost:
        return Cost(simple=7 * node.output.n_elements)

    operator = registry.find("test.acme", "Twist")
    assert operator is not None
    assert operator.is_view
    assert operator.not_weights == {1}
    node = Node(0, "t", "Twist", "test.acme", outputs=(Tensor("y", FLOAT32, (2, 3)),))
    assert operator.cost(node) == Cost(simple=42)
    assert registry.find("", "Twist") is None


def test_both_spellings_of_the_standard_domain_are_one() -> None:
    registry = Registry()
    registry.operator("Twist", domain="ai.onnx")(lambda node: NOTHING)
    assert registry.find("", "Twist") is not None


def test_every_formula_says_how_it_counts() -> None:
    for (domain, op_type), operator in REGISTRY.operators().items():
        assert operator.cost.__doc__, f"{domain}::{op_type}"
