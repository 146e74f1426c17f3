"""Files that are no models, or broken ones: one clear line each, never a foreign exception."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, parser

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
    n_bytes = len(data) // 2
    line = refused(data[:n_bytes])
    assert f"the file is cut short: it ends at byte {n_bytes}, within a part that goes on" in line
    # Other bytes are no model that goes on.
    assert "this is not an ONNX model, or it is cut" in refused(b"\xff" * n_bytes)


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
    assert "reads tensor 'ghost', which is not an input and no node writes" in text


def test_a_tensor_that_is_written_twice() -> None:
    text = refused(parse("a = Relu(x) a = Neg(x) y = Relu(a)").SerializeToString())
    assert "tensor 'a' is written twice" in text
    assert "written twice" in refused(parse("x = Relu(x) y = Relu(x)").SerializeToString())


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
