"""Files that are no models, or broken ones: one clear line each, never a foreign exception."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, parser

from mansard.core.errors import ModelError, StorageError
from mansard.estimator import score, totals

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"


def parse(body: str, signature: str = "float[2,3] x") -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({signature}) => (float[] y) {{ {body} }}'
    return parser.parse_model(text)


def refused(data: bytes | Path) -> str:
    with pytest.raises(ModelError) as caught:
        score(data)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello, this is text and no model\n",
        PNG,
        b"PK\x03\x04 a zip archive",
        b"\x00" * 100,
        b"\xff" * 100,
        bytes(range(256)),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
    ],
)
def test_files_that_are_no_models(data: bytes) -> None:
    assert "model" in refused(data)


def test_every_way_to_cut_a_model_short() -> None:
    data = parse("h = Relu(x) y = Neg(h)").SerializeToString()
    whole = totals(score(data))
    for length in range(len(data)):
        try:
            found = totals(score(data[:length]))
        except ModelError:
            continue
        # what is left is a whole model only if nothing but trailing fields is gone
        assert found == whole


def test_a_truncated_real_model() -> None:
    data = (LIGHT / "light_squeezenet.onnx").read_bytes()
    assert "cut short or damaged" in refused(data[: len(data) // 2])


def test_an_empty_graph() -> None:
    model = parse("y = Relu(x)")
    del model.graph.node[:]
    assert "the graph is empty" in refused(model.SerializeToString())


def test_a_cyclic_graph() -> None:
    model = parse("a = Add(x, b) b = Relu(a) y = Neg(b)")
    text = refused(model.SerializeToString())
    assert "the graph is cyclic" in text
    assert "'a' (Add)" in text


def test_a_node_that_reads_itself() -> None:
    assert "the graph is cyclic" in refused(parse("y = Add(x, y)").SerializeToString())


def test_an_unsorted_graph_is_sorted() -> None:
    model = parse("h = Relu(x) y = Neg(h)")
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert totals(score(model.SerializeToString())).work_flop == 12


def test_a_tensor_that_nobody_writes() -> None:
    text = refused(parse("y = Add(x, ghost)").SerializeToString())
    assert "reads tensor 'ghost', which is no input and no node writes" in text


def test_a_tensor_that_is_written_twice() -> None:
    text = refused(parse("a = Relu(x) a = Neg(x) y = Relu(a)").SerializeToString())
    assert "tensor 'a' is written twice" in text
    assert "written twice" in refused(parse("x = Relu(x) y = Relu(x)").SerializeToString())


def test_a_missing_shape() -> None:
    model = parse("y = Relu(x)")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert "input 'x' has no shape in the file" in refused(model.SerializeToString())


def test_an_input_that_is_no_tensor() -> None:
    model = parse("y = Relu(x)")
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    assert "input 'x' is no tensor" in refused(model.SerializeToString())


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (-1, "dimension -1 is negative"),
        (-(2**63), "is negative"),
        (0, "dimension 1 is 0: there is nothing to compute"),
        (2**63 - 1, "is absurd"),
        (2**41, "is absurd"),
    ],
)
def test_sizes_that_cannot_be(size: int, message: str) -> None:
    model = parse("y = Relu(x)")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = size
    assert message in refused(model.SerializeToString())


def test_counts_beyond_63_bits() -> None:
    model = parse(
        "y = MatMul(x, w)", "float[1099511627776,1099511627776] x, float[1099511627776,9] w"
    )
    assert "does not fit 63 bits" in refused(model.SerializeToString())


@pytest.mark.parametrize("dims", [[-4, 3], [2**62, 2**62]])
def test_stored_shapes_that_cannot_be(dims: list[int]) -> None:
    model = parse("y = Add(x, w)")
    model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=dims)
    assert "w" in refused(model.SerializeToString())


def test_a_stored_value_of_the_wrong_length() -> None:
    model = parse("y = Reshape(x, s)")
    model.graph.initializer.add(name="s", data_type=TensorProto.INT64, dims=[2], int64_data=[3])
    assert "1 values are stored for a shape of [2]" in refused(model.SerializeToString())


def test_types_that_contradict() -> None:
    text = refused(parse("y = Add(x, z)", "float[2,3] x, int64[2,3] z").SerializeToString())
    assert "types contradict: 'x' is float32, 'z' is int64" in text
    text = refused(
        parse("y = Conv(x, w)", "float[1,3,8,8] x, double[4,3,3,3] w").SerializeToString()
    )
    assert "types contradict" in text


def test_an_element_type_that_does_not_exist() -> None:
    model = parse("y = Add(x, w)")
    model.graph.initializer.add(name="w", data_type=77, dims=[2, 3])
    assert "element type 77 does not exist" in refused(model.SerializeToString())


def test_all_unknown_operators_are_listed_at_once() -> None:
    model = parse("a = Relu(x) b = Nonsense(a) c = acme.Gadget(b) d = acme.Gadget(c) y = Neg(d)")
    text = refused(model.SerializeToString())
    assert "2 operator(s) have no formula" in text
    assert "ai.onnx::Nonsense (node 'b')" in text
    assert "acme::Gadget (node 'c', 'd')" in text


def test_unknown_operators_can_be_left_out_visibly() -> None:
    model = parse("a = Relu(x) b = acme.Gadget(a) y = Neg(b)")
    found = score(model.SerializeToString(), allow_unknown=True)
    relu, gadget, neg = found.layers
    assert relu.work_flop == 6
    assert gadget.work_flop is None
    assert "Gadget" in gadget.unknown["work_flop"]
    assert neg.traffic_bytes is None
    total = totals(found)
    assert total.n_unknown_layers == 2
    assert total.work_flop is None
    assert total.intensity is None
    assert "'b' and 1 more layer(s)" in total.unknown["work_flop"]


def test_shapes_that_depend_on_data() -> None:
    model = parse("i = NonZero(x) t = Transpose(i) y = GatherND(x, t)")
    text = refused(model.SerializeToString())
    assert "node 'i' (NonZero)" in text


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node.input.pop(),
        lambda node: node.attribute[0].ints.append(-7),
        lambda node: node.attribute[0].CopyFrom(helper.make_attribute("pads", "text")),
        lambda node: node.output.extend(["p", "q", "r"]),
    ],
)
def test_malformed_nodes(change: Callable[[onnx.NodeProto], object]) -> None:
    model = parse("y = Conv<pads=[1,1,1,1]>(x, w)", "float[1,3,8,8] x, float[4,3,3,3] w")
    change(model.graph.node[0])
    assert "Conv" in refused(model.SerializeToString())


def test_functions_that_call_themselves() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g (float[2] x) => (float[2] y) '
        "{ y = local.f(x) } "
        '<domain: "local", opset_import: ["" : 17, "local" : 1]> f (a) => (b) { b = local.f(a) }'
    )
    assert "'f' calls itself" in refused(parser.parse_model(text).SerializeToString())


def test_functions_that_explode() -> None:
    functions = " ".join(
        f'<domain: "local", opset_import: ["" : 17, "local" : 1]> f{i} (a) => (b) '
        f"{{ c = local.f{i - 1}(a) d = local.f{i - 1}(c) b = Relu(d) }}"
        for i in range(1, 40)
    )
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g (float[2] x) => (float[2] y) '
        f"{{ y = local.f39(x) }} {functions} "
        '<domain: "local", opset_import: ["" : 17]> f0 (a) => (b) { b = Relu(a) }'
    )
    assert "nodes" in refused(parser.parse_model(text).SerializeToString())


def test_functions_are_written_out() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g (float[2,3] x) => (float[2,3] y) '
        "{ h = local.f(x) y = local.f(h) } "
        '<domain: "local", opset_import: ["" : 17]> f (a) => (b) { c = Relu(a) b = Neg(c) }'
    )
    assert totals(score(parser.parse_model(text).SerializeToString())).work_flop == 24


def test_hostile_names_come_out_on_one_line() -> None:
    model = parse("y = Add(x, ghost)")
    model.graph.node[0].name = "evil\n\x1b[2J</script>"
    text = refused(model.SerializeToString())
    assert "\x1b" not in text
    assert "\\x1b[2J</script>" in text


def test_folders_missing_files_and_files_nobody_may_read(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="irectory"):
        score(tmp_path)
    with pytest.raises(StorageError, match="No such file"):
        score(tmp_path / "absent.onnx")
    if os.geteuid() != 0:  # root may read everything
        locked = tmp_path / "locked.onnx"
        locked.write_bytes(b"")
        locked.chmod(0)
        with pytest.raises(StorageError, match="ermission"):
            score(locked)


def test_external_weights_are_never_opened(tmp_path: Path) -> None:
    model = parse("y = MatMul(x, w)", "float[2,1000] x")
    weights = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[1000, 50])
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../../etc/shadow")
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    found = score(path)
    assert found.model == "net"
    assert totals(found).parameters == 50_000


def test_two_inputs_of_one_name() -> None:
    model = parse("y = Relu(x)")
    model.graph.input.add().CopyFrom(model.graph.input[0])
    assert "two inputs of the graph have the same name" in refused(model.SerializeToString())


def test_an_output_that_nobody_writes() -> None:
    model = parse("y = Relu(x)")
    model.graph.output[0].name = "z"
    assert "no node writes the graph's output 'z'" in refused(model.SerializeToString())


def test_tensors_that_grow_without_end() -> None:
    names = "abcdefghijklm"
    body = " ".join(
        f"{new} = Tile({old}, n)" for old, new in zip("x" + names, names + "y", strict=True)
    )
    model = parse(body)
    repeats = helper.make_tensor("n", TensorProto.INT64, [2], [2**31, 2**31])
    model.graph.initializer.append(repeats)
    assert "absurd size" in refused(model.SerializeToString())


def test_a_constant_with_two_outputs() -> None:
    model = parse("c = Constant<value = float {1.0}>() y = Add(x, d)")
    model.graph.node[0].output.append("d")
    assert "a constant has one output" in refused(model.SerializeToString())


def test_tensors_of_endless_rank() -> None:
    model = parse("y = Add(x, w)")
    model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2**40] * 100_000)
    assert "is absurd" in refused(model.SerializeToString())
