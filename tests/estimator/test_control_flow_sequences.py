"""Sequences and optionals: lengths, elements, growth in loops, inputs that are sequences."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from mansard.core.errors import ModelError, UsageError
from mansard.estimator import score
from mansard.estimator.model import Given
from mansard.estimator.numbers import BOOL, INT64, hold
from mansard.estimator.tensors import Origin
from tests.estimator.networks import check, floats, inferred, parsed, times


def network_of(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, onnx.TypeProto],
    outputs: dict[str, onnx.TypeProto],
    opset: int = 18,
    **stored: list[int] | int,
) -> onnx.ModelProto:
    """A network of nodes; ``stored`` integers."""
    held = [
        helper.make_tensor(
            name,
            TensorProto.INT64,
            [len(value)] if isinstance(value, list) else [],
            value if isinstance(value, list) else [value],
        )
        for name, value in stored.items()
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_value_info(name, kind) for name, kind in inputs.items()],
        [helper.make_value_info(name, kind) for name, kind in outputs.items()],
        held,
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])


def tensor(*shape: int | str) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(TensorProto.FLOAT, shape)


ANY = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
INTEGERS = helper.make_tensor_type_proto(TensorProto.INT64, None)
SEQUENCE = helper.make_sequence_type_proto(ANY)


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    axis=st.integers(-2, 1),
    is_new=st.booleans(),
)
def test_tensors_are_cut_and_joined(sizes: list[int], axis: int, is_new: bool) -> None:
    if is_new:
        sizes = [sizes[0]] * len(sizes)
    whole = [3, 3]
    whole[axis] = sum(sizes)
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["s"], axis=axis),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=axis, new_axis=int(is_new)),
        helper.make_node("SequenceLength", ["s"], ["n"]),
    ]
    proto = network_of(
        nodes, {"x": tensor(*whole)}, {"s": SEQUENCE, "y": ANY, "n": INTEGERS}, sizes=sizes
    )
    # an empty tensor has to be meant
    dims = {f"x[{place}]": size for place, size in enumerate(whole)}
    network = check(proto, {"x": floats(*whole)}, Given(dims=dims))
    assert network.tensors["n"].value == hold(INT64, (), (len(sizes),))


@pytest.mark.parametrize("part", [1, 2, 3, 5, 9])
def test_equal_parts_and_a_rest(part: int) -> None:
    nodes = [helper.make_node("SplitToSequence", ["x", "part"], ["s"], axis=0)]
    proto = network_of(nodes, {"x": tensor(7, 2)}, {"s": SEQUENCE}, part=part)
    check(proto, {"x": floats(7, 2)})


@pytest.mark.parametrize("keeps", [0, 1])
def test_single_slices(keeps: int) -> None:
    nodes = [helper.make_node("SplitToSequence", ["x"], ["s"], axis=1, keepdims=keeps)]
    proto = network_of(nodes, {"x": tensor(4, 3)}, {"s": SEQUENCE})
    assert len(check(proto, {"x": floats(4, 3)}).tensors["s"].items or ()) == 3


def shuffled(n: int, inserted: int | None, erased: int | None) -> onnx.ModelProto:
    """Three tensors of different shapes; x is put somewhere, one is taken out, one read."""
    place = ["inserted"] if inserted is not None else []
    other = ["erased"] if erased is not None else []
    nodes = [
        helper.make_node("SequenceConstruct", ["a", "b", "c"], ["s"]),
        helper.make_node("SequenceInsert", ["s", "x", *place], ["longer"]),
        helper.make_node("SequenceErase", ["longer", *other], ["shorter"]),
        helper.make_node("SequenceAt", ["shorter", "n"], ["y"]),
    ]
    shapes = {"a": tensor(1), "b": tensor(2), "c": tensor(3), "x": tensor(9)}
    outputs = {"longer": SEQUENCE, "shorter": SEQUENCE, "y": ANY}
    stored = {"n": n, "inserted": inserted, "erased": erased}
    known = {name: value for name, value in stored.items() if value is not None}
    return network_of(nodes, shapes, outputs, **known)


FEEDS = {"a": floats(1), "b": floats(2), "c": floats(3), "x": floats(9)}


@settings(max_examples=60)
@given(
    inserted=st.none() | st.integers(-3, 3),
    erased=st.none() | st.integers(-4, 3),
    n=st.integers(-3, 2),
)
def test_positions(inserted: int | None, erased: int | None, n: int) -> None:
    check(shuffled(n, inserted, erased), FEEDS)


@pytest.mark.parametrize(
    ("n", "inserted", "erased", "message"),
    [
        (3, 0, 0, r"node 'y' \(SequenceAt\): position 3 of a sequence of 3"),
        (-4, 0, 0, "position -4 of a sequence of 3"),
        (0, 4, 0, "position 4 of a sequence of 3"),
        (0, 0, 4, "position 4 of a sequence of 4"),
    ],
)
def test_positions_that_do_not_exist(n: int, inserted: int, erased: int, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        inferred(shuffled(n, inserted, erased))


def test_a_position_on_data() -> None:
    proto = shuffled(0, 0, 0)
    proto.graph.initializer.remove(next(t for t in proto.graph.initializer if t.name == "n"))
    proto.graph.input.append(helper.make_value_info("n", INTEGERS))
    proto.graph.input[-1].type.tensor_type.shape.SetInParent()
    assert "which of several shapes is read depends on data" in str(
        inferred(proto).tensors["y"].unknown
    )
    assert inferred(proto, Given(values={"n": -1})).tensors["y"].shape == (3,)
    # elements of one shape need no position
    for value in proto.graph.input[:4]:
        value.type.CopyFrom(tensor(5))
    network = inferred(proto)
    assert network.tensors["y"].shape == (5,)
    assert network.tensors["y"].origin is Origin.DATA


GROWING = """g (float[2,3] x) => (float[a,3] y) <int64 n = {%d}> {
    s0 = SequenceEmpty<dtype = 1>()
    s, h = Loop(n, "", s0, x) <body = b (int64 i, bool c, seq(float[k,3]) t, float[p,3] g)
        => (bool d, seq(float[k,3]) u, float[q,3] f) {
        d = Identity(c)
        f = %s
        u = SequenceInsert(t, f)
    }>
    y = ConcatFromSequence<axis = 0>(s)
}"""


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize(("step", "rows"), [("Relu(g)", 0), ("Concat<axis=0>(g, x)", 2)])
def test_a_sequence_that_grows_in_a_loop(n: int, step: str, rows: int) -> None:
    network = check(parsed(GROWING % (n, step), 18), {"x": floats(2, 3)})
    # 2 rows each, or 4, 6, 8, …
    assert [shape[0] for shape, _ in times(network, "f")] == [2 + rows * (i + 1) for i in range(n)]
    assert network.tensors["y"].shape == (sum(2 + rows * (i + 1) for i in range(n)), 3)


def test_a_sequence_cannot_grow_without_end() -> None:
    with pytest.raises(ModelError, match="runs too often to follow"):
        inferred(parsed(GROWING % (10**9, "Relu(g)"), 18), max_inner_nodes=3000)


def test_a_sequence_out_of_a_branch() -> None:
    text = """g (float[2,3] x, bool c) => (float[a,3] y) {
        s = If(c) <
            then_branch = t () => (seq(float[k,3]) p) { p = SequenceConstruct(x, x, x) },
            else_branch = e () => (seq(float[k,3]) q) { q = SequenceConstruct(x) }
        >
        y = ConcatFromSequence<axis = 0>(s)
    }"""
    for value, rows in ((True, 6), (False, 2)):
        feeds = {"x": floats(2, 3), "c": np.asarray(value)}
        network = check(parsed(text, 18), feeds, Given(values={"c": value}))
        assert network.tensors["y"].shape == (rows, 3)


def given_sequence() -> onnx.ModelProto:
    nodes = [
        helper.make_node("ConcatFromSequence", ["s"], ["h"], axis=0),
        helper.make_node("Relu", ["h"], ["y"], "act"),
    ]
    elements = helper.make_sequence_type_proto(tensor("rows", 3))
    return network_of(nodes, {"s": elements}, {"y": ANY})


def test_an_input_that_is_a_sequence() -> None:
    proto = given_sequence()
    with pytest.raises(ModelError, match=r"2 dimension\(s\) must be given: .*'s.length'") as caught:
        inferred(proto)
    assert "pass --dim 'rows=N' --dim 's.length=N'" in str(caught.value)
    network = inferred(proto, Given(dims={"rows": 2, "s.length": 5}))
    assert network.tensors["y"].shape == (10, 3)
    with pytest.raises(UsageError, match=r"s\.length = 100000 is too long"):
        inferred(proto, Given(dims={"rows": 2, "s.length": 100_000}))


def test_what_is_put_together_moves_what_is_referred_to_does_not() -> None:
    rows = score(given_sequence().SerializeToString(), dims={"rows": 2, "s.length": 5}).layers
    # five tensors of 2 x 3 floats are read, one of 10 x 3 is written
    assert (rows[0].read_bytes, rows[0].write_bytes) == (120, 120)
    rows = score(shuffled(0, 0, 0).SerializeToString()).layers
    assert [row.traffic_bytes for row in rows] == [0, 0, 0, 0]


def test_a_tensor_where_a_sequence_belongs() -> None:
    nodes = [helper.make_node("SequenceLength", ["x"], ["n"])]
    with pytest.raises(ModelError, match="input 0 must be a sequence"):
        inferred(network_of(nodes, {"x": tensor(2)}, {"n": INTEGERS}))
    nodes = [helper.make_node("Relu", ["s"], ["y"])]
    with pytest.raises(ModelError, match="takes tensors, not sequences or optionals"):
        inferred(
            network_of(nodes, {"s": SEQUENCE}, {"y": ANY}),
            Given(dims={"s.length": 1}, shapes={"s": (2,)}),
        )


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([3, 3], r"splits 7 into \[3, 3\]"),
        ([9, -2], "splits 7 into"),
        (0, "splits into parts of 0"),
    ],
)
def test_parts_that_do_not_add_up(sizes: list[int] | int, message: str) -> None:
    nodes = [helper.make_node("SplitToSequence", ["x", "sizes"], ["s"], axis=0)]
    with pytest.raises(ModelError, match=message):
        inferred(network_of(nodes, {"x": tensor(7, 2)}, {"s": SEQUENCE}, sizes=sizes))


def test_a_tensor_with_very_many_slices() -> None:
    nodes = [helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)]
    proto = network_of(nodes, {"x": tensor(2**40, 2)}, {"s": SEQUENCE})
    with pytest.raises(ModelError, match="a sequence of up to 1099511627776 tensors is too long"):
        inferred(proto)


def optional(kind: onnx.TypeProto) -> onnx.TypeProto:
    return helper.make_optional_type_proto(kind)


def test_an_optional_input() -> None:
    branches = {
        "then_branch": helper.make_graph(
            [
                helper.make_node("OptionalGetElement", ["o"], ["held"]),
                helper.make_node("Relu", ["held"], ["p"]),
            ],
            "then",
            [],
            [helper.make_value_info("p", ANY)],
        ),
        "else_branch": helper.make_graph(
            [helper.make_node("Neg", ["x"], ["q"])],
            "else",
            [],
            [helper.make_value_info("q", ANY)],
        ),
    }
    nodes = [
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("If", ["has"], ["y"], **branches),
    ]
    proto = network_of(nodes, {"o": optional(tensor(5, "n")), "x": tensor(4)}, {"y": ANY})
    assert inferred(proto, Given(dims={"n": 2})).tensors["y"].shape == (5, 2)
    absent = inferred(proto, Given(dims={"o.present": 0}))
    assert absent.tensors["y"].shape == (4,)
    assert absent.tensors["has"].value == hold(BOOL, (), (False,))


def test_optionals_in_the_network() -> None:
    nodes = [
        helper.make_node("Optional", ["x"], ["o"]),
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("OptionalGetElement", ["o"], ["y"]),
    ]
    outputs = {"has": helper.make_tensor_type_proto(TensorProto.BOOL, []), "y": ANY}
    check(network_of(nodes, {"x": tensor(3, 2)}, outputs), {"x": floats(3, 2)})
    nodes[0] = helper.make_node("Optional", [], ["o"], type=tensor(3, 2))
    with pytest.raises(ModelError, match="reads an optional that holds nothing"):
        inferred(network_of(nodes, {"x": tensor(3, 2)}, outputs))
