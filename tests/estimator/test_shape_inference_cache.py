"""What is worked out once: nodes that are alike, and what follows from the file alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import ModelError
from mansard.estimator import Settings, load, score_loaded
from mansard.estimator.model import Given
from mansard.estimator.reading import read_model
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import InferredNetwork, infer_shapes, prepare
from mansard.estimator.tensors import Node, Origin, Tensor
from mansard.estimator.zoo import read
from tests.estimator.networks import inferred, parsed, stored

TWINS = stored(
    """g (float[2,3] x, float[2,3] z, float[4,3] big) => (float[a,b] y) <float[3,3] w,
        float[3,3] v> {
        m1 = MatMul(x, w)
        m2 = MatMul(z, v)
        m3 = MatMul(big, w)
        twice = Add(x, x)
        once = Add(x, z)
        s0 = Softmax<axis=0>(x)
        s1 = Softmax<axis=1>(x)
        s2 = Softmax<axis=1>(z)
        t = Shape(x)
        u = Shape(z)
        k = Shape(big)
        p = Expand(x, t)
        q = Expand(z, u)
        r = Expand(x, k2)
        one = Constant<value = int64[2] {2, 3}>()
        k2 = Mul(t, ones)
        ones = Constant<value = int64[2] {1, 1}>()
        y = Add(p, q)
    }""",
    w=(3, 3),
    v=(3, 3),
)


def alike() -> dict[str, int]:
    return {node.name: node.alike for node in inferred(parsed(TWINS)).nodes}


def test_nodes_that_differ_in_names_only_are_alike() -> None:
    found = alike()
    assert found["m1"] == found["m2"] >= 0
    assert found["s1"] == found["s2"] >= 0
    assert found["t"] == found["u"] >= 0
    assert found["p"] == found["q"] == found["r"] >= 0  # equal values of equal shapes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("m1", "m3"),  # another shape
        ("twice", "once"),  # one tensor read, or two
        ("s0", "s1"),  # another attribute
        ("t", "k"),  # another value
        ("once", "m1"),
    ],
)
def test_nodes_that_differ_in_more_are_not(one: str, other: str) -> None:
    found = alike()
    assert found[one] != found[other]


def test_what_is_given_for_one_node_is_not_taken_for_another() -> None:
    text = """g (float[4,5] x) => (int64[a,b] y, int64[c,d] z) {
        y = NonZero(x)
        z = NonZero(x)
    }"""
    network = inferred(parsed(text), Given(dims={"y[1]": 3, "z[1]": 8}))
    assert network.tensors["y"].shape == (2, 3)
    assert network.tensors["z"].shape == (2, 8)
    network = inferred(parsed(text), Given(dims={"y[1]": 3}))
    assert "'z[1]'" in str(network.tensors["z"].unknown)


def check_numbers(network: InferredNetwork) -> None:
    """Nodes of one number have equal operators, shapes and origins."""
    first: dict[int, Node] = {}
    for node in network.nodes:
        twin = first.setdefault(node.alike, node) if node.alike >= 0 else node
        assert twin.op_type == node.op_type
        assert [seen(t)[1:5] for t in twin.outputs] == [seen(t)[1:5] for t in node.outputs]


def seen(tensor: Tensor) -> tuple[object, ...]:
    value = None if tensor.value is None else tensor.value.flat
    return tensor.name, tensor.dtype, tensor.shape, tensor.origin, value, tensor.weights


def everything(network: InferredNetwork) -> list[tuple[object, ...]]:
    def of(node: Node) -> tuple[object, ...]:
        return node.name, [*map(seen, node.present)], [*map(seen, node.outputs)]

    return [of(node) for node in network.nodes]


@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenet_v3_large", "bert_base", "gpt2", "vit_b_16"]
)
def test_what_was_prepared_changes_nothing(name: str) -> None:
    model = read_model(read(name))
    prepared = prepare(model)
    for batch in (1, 3):
        dims = {
            size: 16
            for source in model.inputs
            for size in source.dimensions or ()
            if isinstance(size, str) and size not in ("batch", "N")
        }
        binding = bind(model, Given(batch, dims))
        fresh, again = infer_shapes(model, binding), infer_shapes(model, binding, prepared)
        assert everything(fresh) == everything(again)
        check_numbers(again)


def test_a_broken_constant_is_told_of_when_the_network_is_placed() -> None:
    text = """g (float[6] x) => (float[a] y) <int64[2] s = {4, 2}, float[6] c = {1,2,3,4,5,6}> {
        r = Reshape(c, s)
        y = Relu(x)
    }"""
    model = read_model(parsed(text).SerializeToString())
    assert prepare(model).nodes == {}
    with pytest.raises(ModelError, match="cannot reshape"):
        infer_shapes(model, bind(model), prepare(model))


@pytest.mark.parametrize(("kind", "ends"), [("int64", True), ("float", False)])
def test_long_chains_of_constants_end_in_time(kind: str, ends: bool) -> None:
    # every link adds a stored tensor to what the next is made of
    n = 5000
    links = " ".join(f"c{i} = Add(c{i - 1}, w{i})" for i in range(1, n))
    stored = ", ".join(f"{kind}[2] w{i} = {{1, 1}}" for i in range(n))
    text = f"g (float[2] x) => (float[2] y) <{stored}> {{ c0 = Identity(w0) {links} y = Relu(x) }}"
    if ends:
        assert inferred(parsed(text)).tensors[f"c{n - 1}"].origin is Origin.FILE
        return
    with pytest.raises(ModelError, match="is computed from more than 4096 stored tensors"):
        inferred(parsed(text))


PICKED = """g (float[n,3] x) => (float[a,b] y) {
    at = NonZero(x)
    s = Shape(at)
    e = Exp(x)
    t = Transpose(at)
    y = Cast<to = 1>(t)
}"""


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, 2, 5])), max_size=6))
def test_what_one_score_learned_misleads_no_other(asked: list[tuple[int, int | None]]) -> None:
    data = parsed(PICKED).SerializeToString()
    kept = load(data)
    for batch, found in asked:
        dims = {"n": batch} | ({} if found is None else {"at[1]": found})
        settings = Settings(Given(dims=dims), allow_unknown=True)
        assert score_loaded(kept, settings) == score_loaded(load(data), settings)
