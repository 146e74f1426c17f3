"""What the reader makes of graphs: nodes, attributes, inputs, subgraphs, stored tensors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, TypeProto, helper, numpy_helper, parser

import mansard.estimator
from mansard.core.errors import ModelError
from mansard.estimator.model import Model, ModelInput, StoredTensor, Subgraph
from mansard.estimator.numbers import FLOAT32, INT64
from mansard.estimator.reading import read_model

ZOO = Path(mansard.estimator.__file__).parent / "zoo/models"


def parsed(body: str, signature: str = "float[2,3] x", version: int = 8) -> onnx.ModelProto:
    head = f'<ir_version: {version}, opset_import: ["" : 17]> g ({signature}) => (float[] y)'
    return parser.parse_model(f"{head} {{ {body} }}")


def read(model: onnx.ModelProto) -> Model:
    return read_model(model.SerializeToString())


def test_reading_imports_neither_onnx_nor_protobuf() -> None:
    script = (
        "import sys; from pathlib import Path; from mansard.estimator.reading import *\n"
        "read_model(read_source(Path(sys.argv[1]))[0])\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('onnx', 'google')])"
    )
    command = [sys.executable, "-c", script, str(ZOO / "lstm.onnx")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_attributes_of_every_kind() -> None:
    held = numpy_helper.from_array(np.array([1, 2], np.int64), "t")
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", TensorProto.FLOAT, [2], [1.0, 2.0]),
        helper.make_tensor("i", TensorProto.INT64, [2], [1, 5]),
        [3, 4],
    )
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, [2]))
    model = parsed("y = Relu(x)")
    values = {
        "i": -3,
        "f": 0.5,
        "s": "text",
        "ints": [1, -1, 2**40],
        "floats": [0.5, -0.25],
        "strings": ["a", "b"],
        "t": held,
        "tensors": [held, held],
        "sparse": sparse,
        "sparses": [sparse],
        "kind": kind,
        "kinds": [kind, kind],
    }
    model.graph.node[0].attribute.extend(helper.make_attribute(k, v) for k, v in values.items())
    found = dict(read(model).nodes[0].attributes)
    assert {name: found[name] for name in ("i", "f", "s", "ints", "floats", "strings")} == {
        "i": -3,
        "f": 0.5,
        "s": "text",
        "ints": (1, -1, 2**40),
        "floats": (0.5, -0.25),
        "strings": ("a", "b"),
    }
    tensor = found["t"]
    assert isinstance(tensor, StoredTensor)
    assert (tensor.name, tensor.dtype, tensor.shape) == ("t", INT64, (2,))
    assert tensor.value is not None
    assert tensor.value.flat == (1, 2)
    dense = found["sparse"]
    assert isinstance(dense, StoredTensor)
    assert (dense.dtype, dense.shape, dense.value) == (FLOAT32, (3, 4), None)
    assert found["kind"] == ModelInput("", INT64, (2,), "sequence")
    assert [len(v) for v in found.values() if isinstance(v, tuple)] == [3, 2, 2, 2, 1, 2]


def test_attributes_without_a_type_are_known_by_what_they_hold() -> None:
    # files of IR version 1 have no types
    model = parsed("y = LeakyRelu<alpha=0.5, axes=[1,2]>(x)")
    for attribute in model.graph.node[0].attribute:
        attribute.ClearField("type")
    assert dict(read(model).nodes[0].attributes) == {"alpha": 0.5, "axes": (1, 2)}


def test_lists_that_are_packed() -> None:
    model = parsed("y = Relu(x)")
    # name = "p"; ints (8) packed: 2, 300, -1; then 7 unpacked; type = INTS
    ints = b"\x02" + b"\xac\x02" + b"\xff" * 9 + b"\x01"
    packed = b"\x0a\x01p" + b"\x42" + bytes([len(ints)]) + ints + b"\x40\x07" + b"\xa0\x01\x07"
    # name = "q"; floats (7) packed: 1.0, 0.5; type = FLOATS
    floats = b"\x0a\x01q" + b"\x3a\x08\0\0\x80\x3f\0\0\0\x3f" + b"\xa0\x01\x06"
    node = model.graph.node[0].SerializeToString()
    node += b"".join(b"\x2a" + bytes([len(item)]) + item for item in (packed, floats))
    graph = model.graph.SerializeToString().replace(
        b"\x0a" + bytes([model.graph.node[0].ByteSize()]) + model.graph.node[0].SerializeToString(),
        b"\x0a" + bytes([len(node)]) + node,
    )
    found = read_model(b"\x08\x08\x3a" + bytes([len(graph)]) + graph)
    assert dict(found.nodes[0].attributes) == {"p": (2, 300, -1, 7), "q": (1.0, 0.5)}


def test_names_of_nodes() -> None:
    model = parsed("a, b = Split(x) y = Add(a, b)")
    model.graph.node[0].output[0] = ""
    model.graph.node[1].name = "sum"
    model.graph.node[1].input[0] = "b"
    assert [node.name for node in read(model).nodes] == ["b", "sum"]


def test_names_that_are_not_english() -> None:
    model = parsed("y = Relu(x)")
    model.graph.node[0].name = "слой/层/🙂"
    assert read(model).nodes[0].name == "слой/层/🙂"


def test_names_that_are_no_text() -> None:
    data = parsed("y = Relu(x)").SerializeToString()
    with pytest.raises(ModelError, match="a name in it is not text"):
        read_model(data.replace(b"Relu", b"R\xffel"))


def test_unknown_fields_are_skipped() -> None:
    data = parsed("y = Relu(x)").SerializeToString()
    # field 99 of the model, and field 98 of the node: after the name Relu
    node = b"\x22\x04Relu"
    more = b"\x92\x06\x02??"
    place = data.index(node)
    graph = bytearray(data[: place + len(node)] + more + data[place + len(node) :])
    graph[3] += len(more)  # the graph's length
    graph[5] += len(more)  # the node's
    assert read_model(bytes(graph) + b"\x9a\x06\x01!").nodes[0].op_type == "Relu"


def test_a_graph_in_two_pieces_is_one() -> None:
    data = parsed("y = Relu(x)").SerializeToString()
    more = parsed("z = Neg(y)").graph
    for field in ("input", "output", "name"):
        more.ClearField(field)
    piece = more.SerializeToString()
    found = read_model(data + b"\x3a" + bytes([len(piece)]) + piece)
    assert [node.op_type for node in found.nodes] == ["Relu", "Neg"]


def test_versions() -> None:
    model = parsed("y = Relu(x) z = local.Own(x) k = ai.onnx.Neg(x)")
    model.opset_import.add(domain="local", version=3)
    found = read(model)
    assert found.opsets == {"": 17, "local": 3}
    assert [(node.domain, node.opset) for node in found.nodes] == [("", 17), ("local", 3), ("", 17)]
    del model.opset_import[:]
    assert [node.opset for node in read(model).nodes] == [1, 1, 1]
    model.opset_import.add(domain="ai.onnx", version=9999)  # newer than any that is known
    assert read(model).nodes[0].opset == 9999


@pytest.mark.parametrize("version", [0, -5, 2**62, -(2**63)])
def test_versions_that_cannot_be(version: int) -> None:
    model = parsed("y = Relu(x)")
    model.opset_import[0].version = version
    with pytest.raises(ModelError, match=f"of version {version}, which there is not"):
        read(model)


def test_inputs_of_every_kind() -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "n", None])
    kinds: dict[str, TypeProto] = {
        "tensor": tensor,
        "sequence": helper.make_sequence_type_proto(tensor),
        "optional": helper.make_optional_type_proto(tensor),
        "optional sequence": helper.make_optional_type_proto(
            helper.make_sequence_type_proto(tensor)
        ),
        "map": helper.make_map_type_proto(TensorProto.INT64, tensor),
    }
    model = parsed("y = Relu(x)")
    model.graph.input.extend(helper.make_value_info(name, held) for name, held in kinds.items())
    for given in read(model).inputs[1:]:
        assert given.kind == given.name
        assert (given.dtype, given.dimensions) == (FLOAT32, (2, "n", None))


def test_stored_tensors_among_the_inputs() -> None:
    # IR version 3 lists them all; from version 4 on one that is listed is a default
    for version in (3, 8):
        model = parsed("y = Add(x, w)", "float[2,3] x, float[2,3] w", version)
        model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
        found = read(model)
        assert [given.name for given in found.inputs] == ["x"]
        assert list(found.stored) == ["w"]


def test_small_values_of_every_type() -> None:
    model = parsed("y = Relu(x)")
    names = ("float32", "float64", "int64", "int32", "int16", "int8", "uint8", "uint16", "bool")
    for name in (*names, "uint32", "uint64"):
        array = np.array([0, 1], name)
        raw = numpy_helper.from_array(array, f"{name} raw")
        code = raw.data_type
        typed = helper.make_tensor(f"{name} typed", code, [2], array.tolist())
        model.graph.initializer.extend([raw, typed])
    stored = read(model).stored
    assert len(stored) == 22
    for tensor in stored.values():
        assert tensor.value is not None
        assert tensor.value.dtype == tensor.dtype
        assert tensor.value.flat == (0, 1)


def nested() -> onnx.ModelProto:
    inner = parser.parse_graph("i () => (float[2,3] o) <float k = {1.0}> { o = Mul(outer, k) }")
    branch = parser.parse_graph("t () => (float[2,3] r) { s = Neg(x) r = If(c) }")
    branch.node[1].attribute.extend(
        helper.make_attribute(name, inner) for name in ("then_branch", "else_branch")
    )
    model = parsed("outer = Relu(x) y = If(c) z = Neg(y)", "float[2,3] x, bool c")
    straight = parser.parse_graph("e () => (float[2,3] outer) { unused = Neg(x) }")
    model.graph.node[1].attribute.append(helper.make_attribute("then_branch", branch))
    model.graph.node[1].attribute.append(helper.make_attribute("else_branch", straight))
    return model


def test_subgraphs() -> None:
    found = read(nested())
    then, other = (found.nodes[1].attributes[name] for name in ("then_branch", "else_branch"))
    assert isinstance(then, Subgraph)
    assert isinstance(other, Subgraph)
    inner = then.nodes[1].attributes["then_branch"]
    twin = then.nodes[1].attributes["else_branch"]
    assert isinstance(inner, Subgraph)
    assert isinstance(twin, Subgraph)
    # main 0, 1, 2; then the first branch 3, 4 and what is in it 5, 6; then the other branch 7
    assert [node.index for node in found.nodes] == [0, 1, 2]
    assert [node.index for node in then.nodes] == [3, 4]
    assert (inner.nodes[0].index, twin.nodes[0].index, other.nodes[0].index) == (5, 6, 7)
    assert list(inner.stored) == ["k"]
    # what graphs inside read from outside, and what is an output from outside, counts too
    assert inner.captured == ("outer",)
    assert then.captured == ("x", "c", "outer")
    assert other.captured == ("x", "outer")
    assert [output.name for output in other.outputs] == ["outer"]


def test_nodes_of_subgraphs_are_sorted() -> None:
    model = nested()
    branch = model.graph.node[1].attribute[0].g
    nodes = list(branch.node)[::-1]
    del branch.node[:]
    branch.node.extend(nodes)
    branch.node[0].input[0] = "s"
    then = read(model).nodes[1].attributes["then_branch"]
    assert isinstance(then, Subgraph)
    assert [node.op_type for node in then.nodes] == ["Neg", "If"]


def test_a_subgraph_that_reads_what_is_not_there() -> None:
    model = nested()
    model.graph.node[1].attribute[0].g.node[0].input[0] = "ghost"
    with pytest.raises(ModelError, match=r"'y' \(If\): reads tensor 'ghost'"):
        read(model)


def test_a_cycle_through_a_subgraph() -> None:
    model = nested()
    model.graph.node[0].input[0] = "y"
    with pytest.raises(ModelError, match="the graph is cyclic"):
        read(model)


def test_references_outside_of_functions() -> None:
    model = parsed("y = Softmax(x)")
    model.graph.node[0].attribute.add(name="axis", ref_attr_name="a", type=AttributeProto.INT)
    with pytest.raises(ModelError, match="attribute 'axis' refers to one of a function"):
        read(model)
