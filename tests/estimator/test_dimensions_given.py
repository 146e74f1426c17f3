"""What a person states: values of inputs, whole shapes, dimensions that depend on data."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mansard.core.errors import ModelError, UsageError
from mansard.estimator import Settings, load, score, score_loaded, totals
from mansard.estimator.model import Given, Value
from mansard.estimator.tensors import Origin
from tests.estimator.models import model
from tests.estimator.networks import check, floats, inferred, parsed


def shapeless(name: str) -> onnx.ModelProto:
    """One convolution whose input has no shape in the file."""
    node = helper.make_node("Relu", [name], ["y"], "act")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def test_an_input_without_a_shape_gets_one() -> None:
    data = shapeless("x").SerializeToString()
    with pytest.raises(ModelError, match="'x' has no shape in the file: pass --shape 'x=AxBxC'"):
        score(data)
    assert totals(score(data, shapes={"x": (1, 3, 5)})).work_flop == 15
    assert totals(score(data, shapes={"x": ()})).work_flop == 1
    # its first dimension is the batch then
    assert totals(score(data, shapes={"x": (1, 3, 5)}, batch=1)).work_flop == 15


def test_a_shape_for_an_input_that_has_one() -> None:
    data = model("y = Add(x, z)", "float[n,3] x, float[n,m] z")
    assert totals(score(data, shapes={"x": (4, 3), "z": (4, 3)})).work_flop == 12
    # one shape names the dimension that both have
    assert totals(score(data, shapes={"z": (4, 3)})).work_flop == 12
    with pytest.raises(UsageError, match=r"'x\[0\]' is given as 5 and as 4"):
        score(data, shapes={"x": (4, 3)}, dims={"x[0]": 5})
    with pytest.raises(UsageError, match="'x' has 1 dimensions; in the file it has 2"):
        score(data, shapes={"x": (4,)})
    with pytest.raises(UsageError, match="the model has no tensor named 'w'; its inputs are x, z"):
        score(data, shapes={"w": (4,)})


def test_places_of_one_name_can_be_told_apart() -> None:
    # exporters give one name to what only was equal in their example
    data = model("h = Relu(x) y = Concat<axis=0>(h, z)", "float[n,3] x, float[n,3] z")
    assert score(data, dims={"n": 4}).dimensions == {"n": 4}
    found = score(data, dims={"n": 4, "z[0]": 6})
    assert found.dimensions == {"n": 4, "z[0]": 6}
    assert [row.output_bytes for row in found.layers] == [48, 120]
    assert score(data, dims={"x[0]": 5}).dimensions == {"n": 5}


def test_question_marks_are_no_name() -> None:
    data = model("y = Relu(x)", 'float[batch,"?","?"] x')
    with pytest.raises(ModelError, match=r"--dim 'x\[1\]=N' --dim 'x\[2\]=N'"):
        score(data, batch=1)
    assert totals(score(data, batch=1, dims={"x[1]": 3, "x[2]": 5})).work_flop == 15


def test_an_empty_input_has_to_be_meant() -> None:
    data = model("y = Relu(x)", "float[2,0] x")
    with pytest.raises(ModelError, match="with N = 0 if that is meant"):
        score(data)
    assert totals(score(data, dims={"x[1]": 0})).work_flop == 0
    assert totals(score(data, shapes={"x": (2, 0)})).work_flop == 0
    assert totals(score(data, dims={"x[1]": 7})).work_flop == 14


def test_a_negative_size_in_the_file_is_a_size_to_be_given() -> None:
    proto = parsed("g (float[2,3] x) => (float[a,b] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1
    data = proto.SerializeToString()
    with pytest.raises(ModelError, match=r"--dim 'x\[1\]=N'"):
        score(data)
    assert totals(score(data, dims={"x[1]": 5})).work_flop == 10


RESHAPED = "g (float[2,6] x, int64[n] target) => (float[a,b,c] y) { y = Reshape(x, target) }"


def test_a_value_steers_a_shape_and_has_a_length() -> None:
    proto = parsed(RESHAPED)
    feeds = {"x": floats(2, 6), "target": np.asarray([4, 1, -1])}
    network = check(proto, feeds, Given(values={"target": (4, 1, -1)}))
    assert network.tensors["y"].shape == (4, 1, 3)
    assert network.tensors["target"].origin is Origin.SHAPES
    # a single number is a list of one
    assert inferred(proto, Given(values={"target": -1})).tensors["y"].shape == (12,)
    assert inferred(proto, Given(values={"target": 12}, dims={"n": 1})).tensors["y"].shape == (12,)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1.5, 8.0), "the value given for 'target' is not of type int64; give whole numbers"),
        (2**70, "does not fit"),
    ],
)
def test_values_that_are_none(value: Value, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        inferred(parsed(RESHAPED), Given(values={"target": value}))


def test_values_of_the_wrong_length() -> None:
    given = Given(values={"target": (4, 3)}, dims={"n": 3})
    with pytest.raises(UsageError, match=r"the value given for 'target' does not fit int64\[3\]"):
        inferred(parsed(RESHAPED), given)


def test_a_number_fills_a_whole_tensor() -> None:
    text = """g (float[2] x, int64[3] r) => (float[a] y) <int64[1] zero = {0}> {
        n = ReduceSum<keepdims=0>(r, zero)
        axis = Constant<value = int64[1] {0}>()
        m = Unsqueeze(n, axis)
        y = Expand(z, m)
        z = Constant<value = float[1] {0}>()
    }"""
    assert inferred(parsed(text), Given(values={"r": 4})).tensors["y"].shape == (12,)


def test_large_tensors_have_no_value_to_give() -> None:
    text = "g (float[100,100] x) => (float[a,b] y) { y = Relu(x) }"
    with pytest.raises(UsageError, match=r"'x' is float32\[100, 100\]: no value can be given"):
        inferred(parsed(text), Given(values={"x": 1.0}))
    with pytest.raises(UsageError, match="the model has no tensor named 'z'"):
        inferred(parsed(text), Given(values={"z": 1.0}))


def test_a_stored_default_can_be_replaced() -> None:
    # up to now a default input counts as stored
    text = "g (float[2,6] x) => (float[a,b] y) <int64[2] t = {3, 4}> { y = Reshape(x, t) }"
    assert inferred(parsed(text)).tensors["y"].shape == (3, 4)
    assert inferred(parsed(text), Given(values={"t": (6, 2)})).tensors["y"].shape == (6, 2)


def test_a_stated_value_does_not_stay_for_the_next_score() -> None:
    text = """g (float[2,6] x) => (float[a,b] y) <int64[2] t = {3, 4}> {
        u = Identity(t) y = Reshape(x, u) }"""
    loaded = load(parsed(text).SerializeToString())
    stated = Settings(Given(values={"t": (6, 2)}))
    rows = [score_loaded(loaded, each).layers[-1] for each in (Settings(), stated, Settings())]
    assert [row.output_bytes for row in rows] == [48, 48, 48]
    shapes = [inferred(parsed(text), each).tensors["y"].shape for each in (None, stated.given)]
    assert shapes == [(3, 4), (6, 2)]


NONZERO = """g (float[4,5] x) => (float[a,b] y) {
    n = NonZero(x)
    t = Transpose<perm=[1,0]>(n)
    y = Cast<to=1>(t)
}"""


def test_a_dimension_that_depends_on_data_is_asked_for_and_given() -> None:
    proto = parsed(NONZERO)
    assert inferred(proto).tensors["y"].unknown == (
        "node 'n' (NonZero): dimension 'n[1]' of what it writes depends on data: "
        "pass --dim 'n[1]=N', or --upper-bounds to count at most 20"
    )
    network = inferred(proto, Given(dims={"n[1]": 7}))
    assert network.tensors["y"].shape == (7, 2)
    assert network.tensors["y"].origin is Origin.DATA
    assert inferred(proto, Given(shapes={"n": (2, 9)})).tensors["y"].shape == (9, 2)
    assert inferred(proto, Given(dims={"n[1]": 0})).tensors["y"].shape == (0, 2)
    with pytest.raises(ModelError, match=r"--dim 'n\[1\]=N'"):
        score(proto.SerializeToString())


def test_names_and_sizes_that_the_file_declares_for_its_outputs() -> None:
    proto = parsed(NONZERO.replace("(float[a,b] y)", "(int64[2,found] n, float[a,b] y)"))
    assert inferred(proto, Given(dims={"found": 3})).tensors["y"].shape == (3, 2)
    fixed = parsed(NONZERO.replace("(float[a,b] y)", "(int64[2,11] n, float[a,b] y)"))
    network = inferred(fixed)
    assert network.tensors["y"].shape == (11, 2)
    assert network.notes == ("n[1] depends on data; the file says 11",)
    # what is given wins
    assert inferred(fixed, Given(dims={"n[1]": 5})).tensors["y"].shape == (5, 2)


def test_a_dimension_that_is_computed_cannot_be_given() -> None:
    proto = parsed(NONZERO)
    with pytest.raises(UsageError, match=r"dimension 'y\[1\]' is computed, it cannot be given"):
        inferred(proto, Given(dims={"n[1]": 7, "y[1]": 2}))
    with pytest.raises(UsageError, match="the shape of 't' is computed, it cannot be given"):
        inferred(proto, Given(dims={"n[1]": 7}, shapes={"t": (7, 2)}))
    with pytest.raises(UsageError, match=r"no dimension named 'm\[1\]'; all its dimensions"):
        inferred(proto, Given(dims={"m[1]": 7}))
    with pytest.raises(UsageError, match="'n' has 2 dimensions, not 1"):
        inferred(proto, Given(shapes={"n": (7,)}))


def test_a_shape_that_follows_from_data_can_be_given_as_a_whole() -> None:
    proto = parsed("""g (float[4,5] x, int64[2] t) => (float[a,b] y) {
        h = Reshape(x, t) y = Relu(h) }""")
    reason = str(inferred(proto).tensors["y"].unknown)
    assert reason.startswith("node 'h' (Reshape): ")
    given = Given(shapes={"h": (2, 10)})
    assert inferred(proto, given).tensors["y"].shape == (2, 10)
    assert totals(score(proto.SerializeToString(), shapes={"h": (2, 10)})).work_flop == 20


def test_unknown_shapes_are_left_out_visibly_where_that_is_allowed() -> None:
    rows = score(parsed(NONZERO).SerializeToString(), allow_unknown=True).layers
    assert [row.work_flop for row in rows] == [None, None, None]
    assert "--dim 'n[1]=N'" in rows[0].unknown["work_flop"]


def test_the_output_of_an_operator_that_nobody_knows_can_be_given() -> None:
    node = helper.make_node("Secret", ["x"], ["h"], "secret", domain="of.mine")
    after = helper.make_node("Relu", ["h"], ["y"], "act")
    graph = helper.make_graph(
        [node, after],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("of.mine", 1)]
    data = helper.make_model(graph, ir_version=8, opset_imports=imports).SerializeToString()
    rows = score(data, shapes={"h": (4, 5)}, allow_unknown=True).layers
    assert [row.work_flop for row in rows] == [None, 20]
    assert rows[1].output_bytes == 2 * 20
    with pytest.raises(UsageError, match=r"h\[0\] = -4 is not a size"):
        score(data, shapes={"h": (-4, 5)}, allow_unknown=True)
