"""If: the executed branch, the dearer one where that depends on data, nested ones."""

from __future__ import annotations

import numpy as np
import pytest

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.model import Given
from mansard.estimator.tensors import Origin
from tests.estimator.networks import check, floats, inferred, parsed, stored, times

# The branch follows from the number of rows: a product for 4 of them, a sum for others.
BY_SHAPE = """g (float[n,3] x) => (float[a,b] y) <float[3,5] w> {
    s = Shape<start=0, end=1>(x)
    four = Constant<value = int64[1] {4}>()
    c = Equal(s, four)
    y = If(c) <
        then_branch = t () => (float[k,l] p) { p = MatMul(x, w) },
        else_branch = e () => (float[k,l] q) { q = Add(x, x) }
    >
}"""
BY_DATA = """g (float[n,3] x, bool c) => (float[a,b] y) <float[3,3] w> {
    y = If(c) <
        then_branch = t () => (float[k,l] p) { p = Relu(x) },
        else_branch = e () => (float[k,l] q) { h = MatMul(x, w) q = Neg(h) }
    >
}"""


@pytest.mark.parametrize(("rows", "taken"), [(4, "p"), (7, "q")])
def test_the_branch_that_shapes_decide_is_the_one_that_runs(rows: int, taken: str) -> None:
    proto = parsed(stored(BY_SHAPE, w=(3, 5)))
    network = check(proto, {"x": floats(rows, 3)}, Given(dims={"n": rows}))
    (node,) = [node for node in network.nodes if node.op_type == "If"]
    bodies = {body.outputs[0]: body for body in node.bodies}
    assert {name: body.is_taken for name, body in bodies.items()} == {
        "p": taken == "p",
        "q": taken == "q",
    }
    assert [each.times for each in bodies["p"].passes] == [1]
    assert network.notes == ()


def test_a_branch_that_is_not_taken_need_not_fit() -> None:
    # 3 x 4 times 3 x 5 does not go, but it is never computed: there are not 9 rows
    text = """g (float[n,4] x) => (float[a,b] y) <float[3,5] w> {
        s = Shape<start=0, end=1>(x)
        nine = Constant<value = int64[1] {9}>()
        c = Equal(s, nine)
        y = If(c) <
            then_branch = t () => (float[k,l] p) { p = MatMul(x, w) },
            else_branch = e () => (float[k,l] q) { q = Add(x, x) }
        > }"""
    proto = parsed(stored(text, w=(3, 5)))
    network = inferred(proto, Given(dims={"n": 3}))
    (node,) = [node for node in network.nodes if node.op_type == "If"]
    assert [(body.name, body.is_taken) for body in node.bodies] == [("else_branch", True)]
    assert network.tensors["y"].shape == (3, 4)
    with pytest.raises(ModelError, match="node 'p' \\(MatMul\\)"):
        inferred(proto, Given(dims={"n": 9}))


def test_where_data_decides_the_dearer_branch_counts() -> None:
    network = inferred(parsed(stored(BY_DATA, w=(3, 3))), Given(dims={"n": 2}))
    (node,) = network.nodes
    # else: 2·3·3 multiply-adds and 6 negations against 6 operations
    assert [(body.name, body.is_taken) for body in node.bodies] == [
        ("then_branch", False),
        ("else_branch", True),
    ]
    assert network.notes == (
        "node 'y' (If): its condition 'c' depends on data; the dearer branch, else_branch, "
        "is counted; pass --value 'c=true' for then_branch, or 'c=false' for else_branch",
    )
    assert network.tensors["y"].origin is Origin.DATA


@pytest.mark.parametrize(
    ("branch", "taken"),
    [
        # 4 operations in then; else has them and one function
        ("i = Exp(z) q = Sub(x, x)", [False, True]),
        # 4 operations in both; then reads z besides: 36 bytes against 32
        ("q = Relu(x)", [True, False]),
    ],
)
def test_equal_work_is_decided_by_bytes(branch: str, taken: list[bool]) -> None:
    text = f"""g (float[4] x, float[1] z, bool c) => (float[a] y) {{
        y = If(c) <
            then_branch = t () => (float[k] p) {{ p = Add(x, z) }},
            else_branch = e () => (float[k] q) {{ {branch} }}
        > }}"""
    (node,) = inferred(parsed(text)).nodes
    assert [body.is_taken for body in node.bodies] == taken


@pytest.mark.parametrize(("value", "taken"), [(True, [True, False]), (0, [False, True])])
def test_a_condition_can_be_stated(value: bool | int, taken: list[bool]) -> None:
    proto = parsed(stored(BY_DATA, w=(3, 3)))
    network = inferred(proto, Given(dims={"n": 2}, values={"c": value}))
    assert [body.is_taken for body in network.nodes[0].bodies] == taken
    assert network.notes == ()


def test_a_condition_inside_the_network_can_be_stated() -> None:
    text = """g (float[2] x) => (float[a] y) {
        zero = Constant<value = float {0}>()
        m = ReduceMax<keepdims=0>(x)
        c = Greater(m, zero)
        y = If(c) <
            then_branch = t () => (float[k] p) { p = Relu(x) },
            else_branch = e () => (float[k] q) { h = Exp(x) q = Neg(h) }
        > }"""
    assert [body.is_taken for body in inferred(parsed(text)).nodes[-1].bodies] == [False, True]
    stated = inferred(parsed(text), Given(values={"c": 1}))
    assert [body.is_taken for body in stated.nodes[-1].bodies] == [True, False]
    with pytest.raises(UsageError, match="the value given for 'm' does not fit float32"):
        inferred(parsed(text), Given(values={"m": (1.0, 2.0)}))


def test_branches_of_different_shapes_leave_a_note() -> None:
    text = """g (float[6] x, bool c) => (float[a] y) {
        y = If(c) <
            then_branch = t () => (float[k] p) { p = Concat<axis=0>(x, x) },
            else_branch = e () => (float[k] q) { q = Exp(x) }
        > }"""
    network = inferred(parsed(text))
    assert network.tensors["y"].shape == (6,)  # Exp works, Concat only moves
    assert "whose outputs differ in shape from the other's; pass" in network.notes[0]


def test_where_only_one_branch_fits_data_cannot_choose_the_other() -> None:
    text = """g (float[2,3] x, bool c) => (float[a,b] y) {
        y = If(c) <
            then_branch = t () => (float[k,l] p) { p = MatMul(x, x) },
            else_branch = e () => (float[k,l] q) { q = Relu(x) }
        > }"""
    network = inferred(parsed(text))
    assert [(body.name, body.is_taken) for body in network.nodes[0].bodies] == [
        ("else_branch", True)
    ]
    assert "else_branch is counted, the other does not fit these shapes" in network.notes[0]


def test_no_branch_fits() -> None:
    text = """g (float[2,3] x, bool c) => (float[a,b] y) {
        y = If(c) <
            then_branch = t () => (float[k,l] p) { p = MatMul(x, x) },
            else_branch = e () => (float[k,l] q) { q = Gemm(x, x) }
        > }"""
    with pytest.raises(ModelError, match="node 'p' \\(MatMul\\)"):
        inferred(parsed(text))


NESTED = """g (float[n,3] x, bool outer, bool inner) => (float[a,b] y) {
    y = If(outer) <
        then_branch = t () => (float[k,l] p) {
            h = Relu(x)
            p = If(inner) <
                then_branch = tt () => (float[i,j] pp) { pp = Concat<axis=0>(h, h) },
                else_branch = te () => (float[i,j] pq) { pq = Concat<axis=1>(h, x) }
            >
        },
        else_branch = e () => (float[k,l] q) { q = Transpose<perm=[1,0]>(x) }
    > }"""


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_nested_branches_are_those_that_run(outer: bool, inner: bool) -> None:
    feeds = {"x": floats(5, 3), "outer": np.asarray(outer), "inner": np.asarray(inner)}
    given = Given(dims={"n": 5}, values={"outer": outer, "inner": inner})
    network = check(parsed(NESTED), feeds, given)
    assert len(times(network, "h")) == outer
    assert len(times(network, "pp")) == (outer and inner)


def test_node_indexes_are_unique_over_all_graphs() -> None:
    network = inferred(parsed(NESTED), Given(dims={"n": 5}))

    def indexes(nodes: tuple[object, ...]) -> list[int]:
        found = []
        for node in nodes:
            found.append(node.index)  # type: ignore[attr-defined]
            for body in node.bodies:  # type: ignore[attr-defined]
                for each in body.passes:
                    found += indexes(each.nodes)
        return found

    found = indexes(network.nodes)
    assert len(found) == 6
    assert len(set(found)) == len(found)


def test_equal_names_in_two_branches_are_two_weights() -> None:
    text = """g (float[1,2] x, bool c) => (float[a,b] y) {
        y = If(c) <
            then_branch = t () => (float[k,l] p) <float[2,2] w = {1,2,3,4}> { p = MatMul(x, w) },
            else_branch = e () => (float[k,l] q) <float[2,3] w = {1,2,3,4,5,6}> {
                q = MatMul(x, w) }
        > }"""
    (node,) = inferred(parsed(text)).nodes
    weights = [body.passes[0].nodes[0].input(1).weights[0] for body in node.bodies]
    assert [weight.shape for weight in weights] == [(2, 2), (2, 3)]
    assert weights[0].name != weights[1].name


def test_filled_weights_of_equal_names_in_two_branches() -> None:
    text = """g (float[1,2] x, bool c) => (float[a,b] y)
        <int64[2] s = {2, 2}, int64[2] s2 = {2, 3}> {
        y = If(c) <
            then_branch = t () => (float[k,l] p) { w = ConstantOfShape(s) p = MatMul(x, w) },
            else_branch = e () => (float[k,l] q) { w = ConstantOfShape(s2) q = MatMul(x, w) }
        > }"""
    (node,) = inferred(parsed(text)).nodes
    weights = [body.passes[0].nodes[1].input(1).weights[0] for body in node.bodies]
    assert [weight.shape for weight in weights] == [(2, 2), (2, 3)]
    assert weights[0].name != weights[1].name


def test_what_follows_from_the_file_alone_is_constant() -> None:
    text = """g (float[2] x) => (float[a] y) <bool c = {1}, float[2] w = {1, 2}> {
        h = If(c) <
            then_branch = t () => (float[k] p) { p = Exp(w) },
            else_branch = e () => (float[k] q) { q = Identity(w) }
        >
        y = Add(h, x) }"""
    network = inferred(parsed(text))
    assert network.nodes[0].is_constant
    assert network.tensors["h"].origin is Origin.FILE
    assert [weight.name for weight in network.tensors["h"].weights] == ["w"]


def test_a_graph_that_is_missing() -> None:
    proto = parsed(NESTED)
    del proto.graph.node[0].attribute[0]
    with pytest.raises(ModelError, match="attribute 'then_branch' must hold a graph"):
        inferred(proto, Given(dims={"n": 5}))


def test_a_condition_of_two_elements() -> None:
    text = BY_SHAPE.replace("int64[1] {4}", "int64[2] {4, 4}").replace("end=1", "end=2")
    with pytest.raises(ModelError, match="its condition has 2 elements, not 1"):
        inferred(parsed(stored(text, w=(3, 5))), Given(dims={"n": 4}))
