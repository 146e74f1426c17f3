"""The zoo's operators of many shapes: valid, spread, and each in one network alone."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
from onnx import checker

from mansard.estimator import zoo
from mansard.estimator.scoring import score
from mansard.estimator.zoo import operators


def test_the_family_has_eight_networks() -> None:
    names = zoo.family("operators")
    assert names == tuple(f"zoo_operators{number}" for number in range(1, 9))
    assert not set(names) & set(zoo.names())


@pytest.mark.parametrize("name", zoo.family("operators"))
def test_each_is_a_valid_model_with_branches_of_every_kind(name: str) -> None:
    model = onnx.load_from_string(zoo.read(name))
    checker.check_model(model, full_check=True)
    counts = Counter(node.op_type for node in model.graph.node)
    # 9 convolutions and 3 depthwise ones; 6 products and 2 × 2 of attention.
    assert (counts["Conv"], counts["MatMul"], counts["Softmax"]) == (12, 10, 2)
    # 27 branches, each behind an elementwise operator.
    assert sum(counts[op] for op in ("Relu", "Add", "Sigmoid", "Mul", "Tanh")) == 27
    assert len(model.graph.input) == len(model.graph.output) == 27
    assert zoo.read(name) == zoo.read(name)


def test_branches_share_nothing() -> None:
    model = onnx.load_from_string(zoo.read("zoo_operators1"))
    readers = Counter(name for node in model.graph.node for name in set(node.input))
    shared = {name for name, count in readers.items() if count > 1}
    # 2 of attention read their input three times, in two nodes.
    assert {name for name in shared if not name.startswith("read")} == {"half"}


def test_sizes_are_spread_over_orders_of_magnitude() -> None:
    every = [branch for number in range(8) for branch in operators.branches(number)]
    assert len(every) == 216
    macs = sorted(branch.macs for branch in every if branch.macs)
    assert macs[0] < 1e6
    assert macs[-1] > 3e8
    # A tenth of the products lies in each third of a logarithmic range at least.
    below, above = 200_000 * 17, 200_000 * 17**2
    assert min(sum(m < below for m in macs), sum(m > above for m in macs)) > len(macs) / 10
    assert len({branch.shape for branch in every}) > 150


def test_a_point_of_halton_s_sequence() -> None:
    # 6 is 110 in base 2: 0.011 is 3/8; 20 in base 3: 0.02 is 2/9.
    assert operators.radical_inverse(6, 2) == 0.375
    assert operators.radical_inverse(6, 3) == pytest.approx(2 / 9)


def test_an_open_batch_multiplies_the_work() -> None:
    one, four = (
        score(zoo.read("zoo_operators1"), name="zoo_operators1", batch=batch) for batch in (1, 4)
    )
    assert sum(row.macs or 0 for row in four.layers) == 4 * sum(row.macs or 0 for row in one.layers)
