"""How often a Loop runs, where data decides or the file contradicts what is said."""

from __future__ import annotations

import numpy as np
import pytest

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.model import Given
from mansard.estimator.tensors import Origin
from tests.estimator.loop_texts import WHILE, counted
from tests.estimator.networks import check, floats, inferred, parsed, times

BY_DATA = """g (float[2] x%s) => (float[a] y) <float end = {9}, int64 n = {7}> {
    yes = Constant<value = bool {1}>()
    y = Loop(%s, yes, x) <body = b (int64 i, bool c, float[p] h) => (bool d, float[p2] e) {
        e = Mul(h, h)
        m = ReduceMax<keepdims=0>(e)
        d = Less(m, end)
    }> }"""


def test_a_condition_on_data_asks_for_the_number() -> None:
    proto = parsed(BY_DATA % ("", '""'))
    tensor = inferred(proto).tensors["y"]
    assert tensor.unknown == (
        "node 'y' (Loop): how often it runs is unknown, its condition depends on data ('x'): "
        "pass --trip 'y=N'"
    )
    network = inferred(proto, Given(trips={"y": 1000}))
    assert times(network, "e") == [((2,), 1000)]
    assert network.tensors["y"].origin is Origin.DATA


def test_a_bound_of_the_file_is_told_and_kept() -> None:
    proto = parsed(BY_DATA % ("", "n"))
    assert str(inferred(proto).tensors["y"].unknown).endswith(
        "pass --trip 'y=N', at most 7, or --upper-bounds for that bound"
    )
    assert times(inferred(proto, Given(trips={"y": 7})), "e") == [((2,), 7)]
    with pytest.raises(UsageError, match="loop 'y' runs 7 times at most, not 8"):
        inferred(proto, Given(trips={"y": 8}))


def test_a_number_that_is_data_asks_for_it() -> None:
    text = """g (float[2] x, int64 n) => (float[a] y, float[b,c] z) {
        y, z = Loop(n, "", x) <body = b (int64 i, bool c, float[p] h)
            => (bool d, float[p2] e, float[p3] f) {
            d = Identity(c) e = Mul(h, h) f = Exp(e)
        }> }"""
    assert str(inferred(parsed(text)).tensors["z"].unknown) == (
        "node 'y' (Loop): how often it runs is unknown, its number of iterations, 'n', depends "
        "on data: pass --trip 'y=N'"
    )
    for given in (Given(trips={"y": 6}), Given(trips={"z": 6}), Given(values={"n": 6})):
        network = check(parsed(text), {"x": floats(2), "n": np.asarray(6)}, given)
        assert times(network, "e") == [((2,), 6)]
        assert network.tensors["z"].shape == (6, 2)


def test_a_number_that_contradicts_the_file() -> None:
    with pytest.raises(UsageError, match="loop 'y' runs 5 times, as its file says, not 4"):
        inferred(parsed(counted(5)), Given(trips={"y": 4}))
    with pytest.raises(UsageError, match="loop 'y' runs 3 times, as its file says, not 2"):
        inferred(parsed(WHILE % 6), Given(trips={"y": 2}))


def test_names_of_loops_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match="no loop named 'x'; it has y"):
        inferred(parsed(counted(5)), Given(trips={"x": 6}))
    with pytest.raises(UsageError, match="no loop named 'x'; it has no Loop at all"):
        inferred(parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }"), Given(trips={"x": 6}))
    with pytest.raises(UsageError, match="y = -1 is not a number of trips"):
        inferred(parsed(counted(5)), Given(trips={"y": -1}))


def test_a_loop_that_never_ends() -> None:
    text = (WHILE % 5).replace("d = Less(j2, end)", "d = Identity(c)")
    with pytest.raises(ModelError, match=r"node 'y' \(Loop\): never ends"):
        inferred(parsed(text))


def test_a_loop_that_is_too_long_to_follow() -> None:
    grows = (WHILE % 10**9).replace("e = Mul(h, x)", "e = Concat<axis=0>(h, x)")
    for text in (WHILE % 10**9, grows):
        with pytest.raises(ModelError, match=r"node 'y' \(Loop\): runs too often to follow"):
            inferred(parsed(text), max_inner_nodes=3000)
