"""Loop: how often it runs, what it carries, shapes that grow, iterations that are alike."""

from __future__ import annotations

import numpy as np
import pytest

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.model import Given
from mansard.estimator.numbers import INT64, hold
from mansard.estimator.tensors import Origin
from tests.estimator.loop_texts import WHILE, counted
from tests.estimator.networks import check, floats, inferred, parsed, stored, times


@pytest.mark.parametrize("n", [1, 2, 3, 7, 50])
def test_a_count_in_the_file(n: int) -> None:
    network = check(parsed(counted(n)), {"x": floats(2, 3)})
    assert times(network, "e") == [((2, 3), n)]
    assert network.tensors["z"].shape == (n, 2, 3)
    assert network.tensors["k"].value == hold(INT64, (), (n,))


def test_a_great_many_iterations_are_one_pass() -> None:
    n = 10**12
    network = inferred(parsed(counted(n)), max_inner_nodes=200)
    assert times(network, "e") == [((2, 3), n)]
    assert network.tensors["z"].shape == (n, 2, 3)
    # counting so far would take too long
    assert network.tensors["k"].value is None
    assert network.tensors["k"].origin is Origin.ITERATIONS


def test_a_count_that_follows_from_a_shape() -> None:
    text = stored(
        """g (float[2,3] x, float[rows,1] r) => (float[a,b] y) <float[3,3] w> {
            s = Shape<start=0, end=1>(r)
            n = Squeeze(s)
            y = Loop(n, "", x) <body = b (int64 i, bool c, float[p,q] h)
                => (bool d, float[p2,q2] e) { d = Identity(c) e = MatMul(h, w) }> }""",
        w=(3, 3),
    )
    for rows in (1, 6, 40):
        feeds = {"x": floats(2, 3), "r": floats(rows, 1)}
        network = check(parsed(text), feeds, Given(dims={"rows": rows}))
        assert times(network, "e") == [((2, 3), rows)]


@pytest.mark.parametrize("end", [1, 2, 3, 9, 1000])
def test_a_condition_on_a_counter(end: int) -> None:
    network = check(parsed(WHILE % end), {"x": floats(1, 3)})
    # counts 2, 4, … and stops at the first that is not below the end
    n = max(1, -(-end // 2))
    assert times(network, "e") == [((1, 3), n)]
    assert network.tensors["k"].value == hold(INT64, (), (2 * n,))


def test_a_condition_that_is_false_at_once() -> None:
    text = (WHILE % 5).replace("bool yes = {1}", "bool yes = {0}")
    network = check(parsed(text), {"x": floats(1, 3)})
    assert times(network, "e") == []
    assert network.tensors["k"].value == hold(INT64, (), (0,))


def test_a_condition_of_the_body_counts_where_the_loop_has_none() -> None:
    # ONNX Runtime stops at the body's condition although the Loop's input is left out
    text = """g (float[1,3] x) => (float[a,b] y) <int64 n = {9}, int64 four = {4}> {
        y = Loop(n, "", x) <body = b (int64 i, bool c, float[p,q] h) => (bool d, float[p2,q2] e) {
            e = Relu(h)
            d = Less(i, four)
        }> }"""
    # it stops after the iteration with i = 4, its fifth
    assert times(check(parsed(text), {"x": floats(1, 3)}), "e") == [((1, 3), 5)]


@pytest.mark.parametrize("n", [1, 2, 9, 30])
def test_a_cache_that_grows_is_summed_exactly(n: int) -> None:
    text = f"""g (float[1,4] x, float[m,4] past) => (float[a,4] y, float[s,1,c] z)
        <int64 n = {{{n}}}> {{
        y, z = Loop(n, "", past) <body = b (int64 i, bool c, float[p,4] h)
            => (bool d, float[p2,4] e, float[1,4] f) {{
            d = Identity(c)
            e = Concat<axis=0>(h, x)
            t = Transpose<perm=[1,0]>(e)
            s = MatMul(x, t)
            f = MatMul(s, e)
        }}> }}"""
    feeds = {"x": floats(1, 4), "past": floats(2, 4)}
    network = check(parsed(text), feeds, Given(dims={"m": 2}))
    # iteration i multiplies by the 3 + i rows there are by then
    assert times(network, "s") == [((1, 3 + i), 1) for i in range(n)]
    assert network.tensors["y"].shape == (2 + n, 4)


def test_shapes_that_settle_become_one_pass() -> None:
    # a window of the last five rows: 2, 3, 4, 5, 5, 5, …
    text = """g (float[1,4] x) => (float[a,4] y) <int64 n = {400}> {
        y = Loop(n, "", x) <body = b (int64 i, bool c, float[p,4] h)
            => (bool d, float[p2,4] e) {
            start = Constant<value = int64[1] {-5}>()
            end = Constant<value = int64[1] {1000}>()
            d = Identity(c)
            g = Concat<axis=0>(h, x)
            e = Slice(g, start, end)
        }> }"""
    network = inferred(parsed(text), max_inner_nodes=200)
    assert times(network, "e") == [*(((rows, 4), 1) for rows in (2, 3, 4, 5)), ((5, 4), 396)]
    assert times(network, "g") == [*(((rows, 4), 1) for rows in (2, 3, 4, 5)), ((6, 4), 396)]
    assert check(parsed(text), {"x": floats(1, 4)}).tensors["y"].shape == (5, 4)


def test_a_shape_that_the_iteration_number_steers() -> None:
    text = """g (float[9,4] x) => (float[a,4] y) <int64 n = {9}> {
        y = Loop(n, "", x) <body = b (int64 i, bool c, float[p,4] h)
            => (bool d, float[p2,4] e) {
            zero = Constant<value = int64[1] {0}>()
            axis = Constant<value = int64[1] {0}>()
            end = Unsqueeze(i, axis)
            d = Identity(c)
            g = Slice(x, zero, end)
            e = Relu(h)
        }> }"""
    network = check(parsed(text), {"x": floats(9, 4)})
    assert times(network, "g") == [((i, 4), 1) for i in range(9)]


def test_a_branch_that_the_iteration_number_steers() -> None:
    text = stored(
        """g (float[2,3] x) => (float[a,3] y) <float[3,3] w, int64 n = {40}, int64 late = {30}> {
        y = Loop(n, "", x) <body = b (int64 i, bool c, float[p,3] h)
            => (bool d, float[p2,3] e) {
            d = Identity(c)
            first = Less(i, late)
            e = If(first) <
                then_branch = t () => (float[k,l] p) { p = MatMul(h, w) },
                else_branch = f () => (float[k,l] q) { q = Relu(h) }
            >
        }> }""",
        w=(3, 3),
    )
    network = check(parsed(text), {"x": floats(2, 3)})
    assert times(network, "p") == [((2, 3), 30)]
    assert times(network, "q") == [((2, 3), 10)]


def test_a_branch_that_stays_the_same_does_not_hinder() -> None:
    text = """g (float[2] x) => (float[a] y) <int64 n = {5000}, bool yes = {1}> {
        y = Loop(n, "", x) <body = b (int64 i, bool c, float[p] h) => (bool d, float[q] e) {
            d = Identity(c)
            e = If(yes) <
                then_branch = t () => (float[k] p2) { p2 = Exp(h) },
                else_branch = f () => (float[k] q2) { q2 = Relu(h) }
            >
        }> }"""
    assert times(inferred(parsed(text), max_inner_nodes=100), "p2") == [((2,), 5000)]


def test_an_inner_loop_that_an_outer_counter_ends_is_counted_out() -> None:
    # the inner loop runs until it has counted as far as the outer one: 1, 2, … 40 times
    text = """g (float[2] x) => (float[a] y) <int64 n = {40}, bool yes = {1}> {
        y = Loop(n, "", x) <body = b (int64 i, bool c, float[p] h) => (bool d, float[q] e) {
            d = Identity(c)
            e = Loop("", yes, h) <body = b2 (int64 j, bool c2, float[r] g)
                => (bool d2, float[s] f) {
                d2 = Less(j, i)
                f = Exp(g)
            }>
        }> }"""
    network = check(parsed(text), {"x": floats(2)})
    assert sum(runs for _, runs in times(network, "f")) == sum(range(1, 41))
    with pytest.raises(UsageError, match="loop 'e' runs 2 times, as its file says, not 1"):
        inferred(parsed(text), Given(trips={"e": 1}))


def test_tensors_that_swap_places_never_settle() -> None:
    text = """g (float[2,3] x, float[4,3] z) => (float[a,3] y, float[b,3] v) <int64 n = {5}> {
        y, v = Loop(n, "", x, z) <body = b (int64 i, bool c, float[p,3] h, float[q,3] g)
            => (bool d, float[p2,3] e, float[q2,3] f) {
            d = Identity(c)
            e = Relu(g)
            f = Identity(h)
        }> }"""
    network = check(parsed(text), {"x": floats(2, 3), "z": floats(4, 3)})
    assert times(network, "e") == [((rows, 3), 1) for rows in (4, 2, 4, 2, 4)]


NESTED = """g (float[2] x, int64 many) => (float[a] y) <int64 n = {5}, int64 one = {1}> {
    y = Loop(n, "", x) <body = b (int64 i, bool c, float[p] h) => (bool d, float[p2] e) {
        d = Identity(c)
        m = Add(i, one)
        e = Loop(%s, "", h) <body = b2 (int64 j, bool c2, float[r] g) => (bool d2, float[r2] f) {
            d2 = Identity(c2)
            f = Exp(g)
        }>
    }> }"""


def test_inner_loops_whose_length_the_outer_one_sets() -> None:
    feeds = {"x": floats(2), "many": np.asarray(3)}
    network = check(parsed(NESTED % "m"), feeds)
    # 1, 2, 3, 4 and 5 times
    assert times(network, "f") == [((2,), runs) for runs in (1, 2, 3, 4, 5)]


def test_inner_loops_of_one_length() -> None:
    feeds = {"x": floats(2), "many": np.asarray(3)}
    assert times(check(parsed(NESTED % "n"), feeds), "f") == [((2,), 25)]


def test_an_inner_loop_is_told_its_number_by_name() -> None:
    proto = parsed(NESTED % "many")
    assert "pass --trip 'e=N'" in str(inferred(proto).tensors["y"].unknown)
    assert times(inferred(proto, Given(trips={"e": 3})), "f") == [((2,), 15)]


def test_what_is_collected_must_keep_its_shape() -> None:
    text = counted(3, "v = Concat<axis=0>(h, h)").replace("e = MatMul(h, w)", "e = Identity(v)")
    with pytest.raises(
        ModelError, match=r"collects tensors of different shapes .* \[4, 3\] and \[8, 3\]"
    ):
        inferred(parsed(text))


def test_zero_iterations_tell_the_shape_they_would_have_collected() -> None:
    network = inferred(parsed(counted(0)))
    assert times(network, "e") == []
    # ONNX Runtime says [0, 0, 3], for it does not look into the loop
    assert network.tensors["z"].shape == (0, 2, 3)
    assert network.tensors["y"].shape == (2, 3)
    assert network.tensors["k"].value == hold(INT64, (), (0,))
    text = counted(0).replace("e = MatMul(h, w)", "e = MatMul(h, h)")  # fits no tensor
    assert "does not run" in str(inferred(parsed(text)).tensors["z"].unknown)
    declared = text.replace("float[p3,q3] f)", "float[4,5] f)")
    assert inferred(parsed(declared)).tensors["z"].shape == (0, 4, 5)


def test_values_collected_in_a_loop_are_known() -> None:
    text = """g (float[24] x) => (float[a,b,c] y) <int64 n = {3}, int64 two = {2}> {
        sizes = Loop(n, "") <body = b (int64 i, bool c) => (bool d, int64 e) {
            d = Identity(c)
            e = Add(i, two)
        }>
        y = Reshape(x, sizes) }"""
    # 2, 3, 4
    network = check(parsed(text), {"x": floats(24)})
    assert network.tensors["y"].shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('Loop(n, "", x, zero)', 'Loop(n, "", x)', "its graph takes 4 inputs, not 3"),
        ('Loop(n, "", x, zero)', 'Loop(n, "", x, "")', "an initial value is missing"),
        ('Loop(n, "", x, zero)', 'Loop(x, "", x, zero)', "unknown, its number of iterations"),
        ('Loop(n, "", x, zero)', 'Loop(s, "", x, zero)', "has 2 elements, not 1"),
        ("y, k, z =", "y, k, z, z2 =", "writes 4 outputs, not 3"),
    ],
)
def test_loops_that_contradict_themselves(old: str, new: str, message: str) -> None:
    text = counted(2).replace("int64 one = {1}", "int64 one = {1}, int64[2] s = {1, 1}")
    try:
        network = inferred(parsed(text.replace(old, new)))
        found = str(network.tensors["y"].unknown)
    except ModelError as error:
        found = str(error)
    assert message in found
