"""Weights in the file, beside it, or nowhere; and files that were made to harm."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mansard.core.errors import MansardError, ModelError, StorageError
from mansard.inference.preparing import prepare, write, writing
from tests.inference.preparing_models import SEED, parsed, prepared, run, stored_at

# The first dimension of both the input and the output is 2, and neither has a name.
BATCH = (
    "the batch is taken to be 2: the first dimension of 'x', which the outputs share, has no name"
)

SIGNATURE = "(float[2,300] x) => (float[2,300] y)"
WEIGHT = np.linspace(-1, 1, 90_000, dtype=np.float32).reshape(300, 300)


def _model(path: Path, location: str = "", **place: int) -> Path:
    """One MatMul; its weight lies in the file, or where ``location`` says."""
    model = parsed(SIGNATURE, "y = MatMul (x, w)")
    tensor = numpy_helper.from_array(WEIGHT, "w")
    if location:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **place}.items():
            tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)
    path.write_bytes(model.SerializeToString())
    return path


def test_real_weights_stay_as_they_are(tmp_path: Path) -> None:
    network = prepared(_model(tmp_path / "m.onnx"), tmp_path)
    (tensor,) = onnx.load(tmp_path / network.file).graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), WEIGHT)
    assert network.notes == (BATCH,)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_many_drawn_weights_lie_beside_the_file(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(prepared("lstm", tmp_path / "a", precision=precision), tmp_path / "a")
    monkeypatch.setattr(writing, "BESIDE_BYTES", 1 << 10)
    network = prepared("lstm", tmp_path / "b", precision=precision)
    assert set(network.files.made) == {network.file, network.files.weights}
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "b").iterdir()}
    assert sizes.keys() == network.files.made.keys()
    assert sizes[network.file] < 0.1 * sizes[network.files.weights]
    np.testing.assert_array_equal(run(network, tmp_path / "b"), expected)


@pytest.mark.parametrize(("rows", "batch"), [("8", 8), ("N", 1)])
def test_a_file_is_run_at_its_own_batch(rows: str, batch: int, tmp_path: Path) -> None:
    signature = f"(float[{rows},4] x) => (float[{rows},4] y)"
    path = stored_at(tmp_path / "m.onnx", signature, "y = Relu (x)")
    assert prepare(path, seed=SEED).batch == batch
    assert prepare(path, seed=SEED, batch=3).batch == 3


def test_nothing_is_written_before_it_is_asked_for(tmp_path: Path) -> None:
    path = _model(tmp_path / "m.onnx")
    network = prepare(path, seed=SEED)
    assert list(tmp_path.iterdir()) == [path]
    # The numbers, 90,000 of 4 bytes, and a graph of some hundred.
    assert WEIGHT.nbytes < network.files.made[network.file] < WEIGHT.nbytes + 1000
    assert write(network, tmp_path / "out") == (network.file,)
    first = (tmp_path / "out" / network.file).stat()
    write(network, tmp_path / "out")
    assert (tmp_path / "out" / network.file).stat() == first  # it was there
    path.write_bytes(path.read_bytes()[:-1] + b"z")  # the output's name ends the file
    with pytest.raises(MansardError, match="was changed since it was looked at"):
        write(network, tmp_path / "out")


def test_files_that_the_disk_has_no_space_for_are_refused_before_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 2 GB are free. bert_large has 335 million weights of 4 bytes: 1.34 GB; vgg16 has 138 million,
    # 0.55 GB. Either fits, with 0.27 GB to spare; both do not.
    usage = type(shutil.disk_usage(tmp_path))(10**11, 98 * 10**9, 2 * 10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    networks = [prepare(name, seed=SEED).files for name in ("bert_large", "vgg16")]
    for each in networks:
        writing.check_space([each], tmp_path)
    said = r"need about 1,8\d\d MB, and 268 MB must stay free; 2,000 MB are free; .*TMPDIR"
    with pytest.raises(StorageError, match=said) as caught:
        writing.check_space(networks, tmp_path)
    assert "\n" not in str(caught.value)


def test_batches_share_their_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BESIDE_BYTES", 1 << 10)
    one, two = (prepared("mobilenet_v3_small", tmp_path, batch=batch) for batch in (1, 2))
    assert one.files.weights == two.files.weights
    assert one.file != two.file
    assert len(list(tmp_path.iterdir())) == 3
    assert np.isfinite(run(two, tmp_path)[0]).all()


def test_weights_in_another_file_come_along(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(bytes(64) + WEIGHT.tobytes())
    path = _model(tmp_path / "m.onnx", "sub/w.bin", offset=64, length=WEIGHT.nbytes)
    folder = tmp_path / "out"
    network = prepared(path, folder)
    (data,) = network.files.linked
    assert (folder / data).samefile(tmp_path / "sub" / "w.bin")  # linked
    assert sorted(each.name for each in folder.iterdir()) == sorted([network.file, data])
    plain = prepared(_model(tmp_path / "p.onnx"), tmp_path / "plain")
    np.testing.assert_array_equal(run(network, folder), run(plain, tmp_path / "plain"))


def test_weights_that_are_missing_are_drawn(tmp_path: Path) -> None:
    network = prepared(_model(tmp_path / "m.onnx", "gone.bin"), tmp_path)
    assert network.notes == ("1 weights are random: the file has none", BATCH)
    (y,) = run(network, tmp_path)
    assert np.isfinite(y).all()
    # N(0, 2 / 300) over 300 inputs of 0 to 1: the mean square is 2 E[x²] = 2 / 3.
    assert 0.3 < (y**2).mean() < 1.3


def test_zeros_that_are_no_weights_stay_zeros(tmp_path: Path) -> None:
    body = "z = ConstantOfShape (s) a = Add (x, z) y = MatMul (a, w)"
    model = parsed(SIGNATURE, body, "int64[2] s = {2, 300}")
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    network = prepared(tmp_path / "m.onnx", tmp_path)
    assert [node.op_type for node in onnx.load(tmp_path / network.file).graph.node] == [
        *("ConstantOfShape", "Add", "MatMul")
    ]


@pytest.mark.parametrize(
    ("location", "place", "message"),
    [
        ("../w.bin", {}, "not below its folder"),
        ("/etc/passwd", {}, "not below its folder"),
        ("a\\..\\..\\w.bin", {}, "not below its folder"),
        ("w.bin", {"offset": 8}, "not at the place"),
        ("w.bin", {"offset": -1}, "not at the place"),
        ("w.bin", {"length": 4}, "not at the place"),
        ("loop", {}, "symbolic links"),
        ("pipe", {}, "not a regular file"),
        ("folder", {}, "folder"),
        ("x" * 5000, {}, "too long"),
    ],
)
def test_places_that_weights_cannot_be_in(
    location: str, place: dict[str, int], message: str, tmp_path: Path
) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "loop").symlink_to("loop2")
    (tmp_path / "loop2").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    path = _model(tmp_path / "m.onnx", location, **place)
    with pytest.raises(MansardError, match=message) as caught:
        prepared(path, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("sizes", ["1000000000000,4", "1099511627777,1", "-5,4"])
def test_weights_of_impossible_sizes(sizes: str, tmp_path: Path) -> None:
    signature, body = "(float[2,4] x) => (float[A,4] y)", "w = ConstantOfShape (s) y = Add (x, w)"
    path = stored_at(tmp_path / "m.onnx", signature, body, f"int64[2] s = {{{sizes}}}")
    with pytest.raises(MansardError) as caught:
        prepared(path, tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_names_with_line_ends(tmp_path: Path) -> None:
    model = parsed("(int64[2] x) => (int64[2] y)", "y = Expand (x, x)")
    model.graph.input[0].name = model.graph.node[0].input[0] = "a\nb"
    model.graph.node[0].input[1] = "a\nb"
    (tmp_path / "m\n.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(MansardError) as caught:
        prepared(tmp_path / "m\n.onnx", tmp_path / "out")
    assert "\n" not in str(caught.value)
    plain = _model(tmp_path / "a b\n.onnx")
    assert prepared(plain, tmp_path / "out").file.startswith("a_b-")


def test_quantised_weights_that_are_missing_are_no_guess(tmp_path: Path) -> None:
    body = "d = DequantizeLinear (w, s) y = Add (x, d)"
    model = parsed("(float[4] x) => (float[4] y)", body, "float s = {0.5}")
    model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.INT8, dims=[4]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"'w'.* cannot be drawn"):
        prepared(tmp_path / "m.onnx", tmp_path / "out")


def test_a_sequence_cannot_be_fed(tmp_path: Path) -> None:
    value = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    model = parsed("(float[2] x) => (float[4] y)", "y = ConcatFromSequence <axis = 0> (s)")
    model.graph.input.append(value)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(MansardError, match="'s'"):
        prepared(tmp_path / "m.onnx", tmp_path / "out", dims={"s.length": 2})
