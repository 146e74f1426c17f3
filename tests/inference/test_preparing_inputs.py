"""What a network is fed: guesses by what becomes of an input, and the arrays of a user."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mansard.core.errors import InputError, MansardError, MeasurementError, UsageError
from mansard.inference.inputs import make_inputs
from tests.inference.npz_files import without_data
from tests.inference.preparing_models import prepared, run, stored_at

TABLE = "float[7,4] table = {" + ",".join(map(str, range(28))) + "}"
LOOK_UP = "i = Cast <to = 6> (ids) f = Reshape (i, flat) y = Gather (table, f)"
FLAT = TABLE + ", int64[1] flat = {-1}"
PLAIN = "(float[N,4] x, float[N,4] z) => (float[N,4] y)"


def test_an_index_stays_in_its_table(tmp_path: Path) -> None:
    signature = "(int64[2,300] ids) => (float[600,4] y)"
    network = prepared(stored_at(tmp_path / "m.onnx", signature, LOOK_UP, FLAT), tmp_path)
    (spec,) = network.input_specs
    assert (spec.fill, spec.low, spec.high) == ("integers", 0, 7)
    assert network.inputs == "ids: random integers from 0 to 6"
    ids = make_inputs(network.trial(engine="ort", provider="cpu"), tmp_path, 1)["ids"]
    assert set(np.unique(ids)) == set(range(7))
    assert np.isfinite(run(network, tmp_path)[0]).all()


def test_masks_pixels_and_lengths(tmp_path: Path) -> None:
    body = """
      m = Cast <to = 1> (mask) p = Cast <to = 1> (image) a = Mul (m, p)
      h = Transpose <perm = [1, 0, 2]> (v)
      o, l = GRU <hidden_size = 2> (h, w, r, , lengths)
      y = ReduceSum <keepdims = 0> (a) k = Identity (l)
    """
    signature = """(int64[3] mask, uint8[5,3] image, float[2,9,3] v, int32[2] lengths,
        float[1,6,3] w, float[1,6,2] r, bool[2] flag) => (float y, float[1,2,2] k)"""
    network = prepared(stored_at(tmp_path / "m.onnx", signature, body), tmp_path)
    assert network.inputs == (
        "mask, flag: ones; image: random integers from 0 to 255; "
        "v, w, r: random numbers from 0 to 1; lengths: 9"  # whole sequences, as they are scored
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float", "double"])
def test_floats_of_all_widths(dtype: str, tmp_path: Path) -> None:
    signature = f"({dtype}[64] x) => ({dtype}[64] y)"
    network = prepared(stored_at(tmp_path / "m.onnx", signature, "y = Identity (x)"), tmp_path)
    array = make_inputs(network.trial(engine="ort", provider="cpu"), tmp_path, 1)["x"]
    if dtype == "bfloat16":  # its bits are the upper half of a float32's
        array = (array.astype(np.uint32) << 16).view(np.float32)
    assert 0 <= array.min() < 0.2
    assert 0.8 < array.max() <= 1


def test_a_shape_is_not_guessed_but_read(tmp_path: Path) -> None:
    path = stored_at(
        tmp_path / "m.onnx",
        "(float[6] x, int64[2] s) => (float[A,B] y)",
        """
      y = Reshape (x, s)""",
    )
    with pytest.raises(UsageError, match=r"input 's' sets a shape .*--inputs x.npz"):
        prepared(path, tmp_path)
    np.savez(tmp_path / "x.npz", s=np.array([2, 3]))
    network = prepared(path, tmp_path, inputs=tmp_path / "x.npz")
    assert [spec.fill for spec in network.input_specs] == ["uniform", "file"]
    assert run(network, tmp_path)[0].shape == (2, 3)


def test_dimensions_follow_from_the_arrays(tmp_path: Path) -> None:
    path = stored_at(tmp_path / "m.onnx", PLAIN, "y = Add (x, z)")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    x[0, 0] = np.nan
    np.savez(tmp_path / "x.npz", x=x)
    network = prepared(path, tmp_path, inputs=tmp_path / "x.npz")
    assert (network.batch, network.dimensions) == (3, {"N": 3})
    assert network.notes == ("1 of 12 numbers for input 'x' are not finite",)
    (y,) = run(network, tmp_path)
    z = make_inputs(network.trial(engine="ort", provider="cpu"), tmp_path, 7)["z"]
    np.testing.assert_array_equal(y, x + z)


X = np.zeros((3, 4), np.float32)
BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a stranger": ({"q": X}, {}, "no input 'q'; its inputs are x, z"),
    "another type": ({"x": X.astype(float)}, {}, "'x' is float64, the input float32; save it as"),
    "another rank": ({"x": X[0]}, {}, "1 dimensions, the input 2"),
    "another size": ({"x": X.T}, {}, r"'x' is \[4, 3\], the input \[N, 4\]"),
    "two sizes": ({"x": X, "z": X[:2]}, {}, "array for 'z' is 2, but 'N' is 3"),
    "another dimension": ({"x": X}, {"dims": {"N": 2}}, "is 3, but 'N' is 2"),
    "another batch": ({"x": X}, {"batch": 2}, "is 3, but 'N' is 2"),
    "objects": ({"x": np.array([{}])}, {}, "holds Python objects"),
    "nothing": ({}, {}, "no array"),
}


@pytest.mark.parametrize("case", BAD)
def test_arrays_that_do_not_fit_are_one_line(case: str, tmp_path: Path) -> None:
    arrays, wishes, message = BAD[case]
    path = stored_at(tmp_path / "m.onnx", PLAIN, "y = Add (x, z)")
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(MansardError, match=message) as caught:
        prepared(path, tmp_path / "out", inputs=tmp_path / "x.npz", **wishes)
    assert "\n" not in str(caught.value)
    assert "x.npz" in str(caught.value)


HEADERS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a stranger": ({"junk": ("<f4", (3, 4))}, {}, "no input 'junk'"),
    "another type": ({"x": ("<f8", (3, 4))}, {}, "'x' is float64, the input float32"),
    "another rank": ({"x": ("<f4", (12,))}, {}, "1 dimensions, the input 2"),
    "another width": ({"x": ("<f4", (3, 1 << 27))}, {}, r"\[3, 134217728\], the input \[N, 4\]"),
    "two sizes": (
        {"x": ("<f4", (3, 4)), "z": ("<f4", (1 << 27, 4))},
        {},
        "134217728, but 'N' is 3",
    ),
    "another batch": ({"x": ("<f4", (1 << 27, 4))}, {"batch": 2}, "say --batch 134217728"),
    "3 GiB together": (
        {"x": ("<f4", (3 << 25, 4)), "z": ("<f4", (3 << 25, 4))},
        {},
        r"take 3\.0 GiB, more than the 2 GiB",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_are_compared_before_any_number_is_read(case: str, tmp_path: Path) -> None:
    arrays, wishes, message = HEADERS[case]
    path = stored_at(tmp_path / "m.onnx", PLAIN, "y = Add (x, z)")
    without_data(tmp_path / "x.npz", **arrays)  # else "is cut short"
    with pytest.raises(MansardError, match=message):
        prepared(path, tmp_path / "out", inputs=tmp_path / "x.npz", **wishes)


def test_values_that_set_shapes_are_few(tmp_path: Path) -> None:
    path = stored_at(
        tmp_path / "m.onnx", "(float[6] x, int64[K] s) => (float[A,B] y)", "y = Reshape (x, s)"
    )
    without_data(tmp_path / "x.npz", s=("<i8", (1 << 27,)))
    with pytest.raises(UsageError, match="its values set shapes: at most 65,536 of them are read"):
        prepared(path, tmp_path, inputs=tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": ("<f4", (3, 1 << 27)), "z": ("<f4", (3, 4))}, r"float32 \[3, 134217728\]"),
        ({"x": ("<f8", (3, 4)), "z": ("<f4", (3, 4))}, r"float64 \[3, 4\]"),
        ({"z": ("<f4", (3, 4))}, "there is no array 'x'"),
    ],
)
def test_a_file_of_inputs_that_was_changed_is_not_read(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    path = stored_at(tmp_path / "m.onnx", PLAIN, "y = Add (x, z)")
    np.savez(tmp_path / "x.npz", x=X, z=X)
    network = prepared(path, tmp_path, inputs=tmp_path / "x.npz")
    trial = network.trial(engine="ort", provider="cpu")
    (tmp_path / trial.inputs_file).unlink()
    without_data(tmp_path / trial.inputs_file, **arrays)
    with pytest.raises(MeasurementError, match=message):
        make_inputs(trial, tmp_path, 1)


def test_text_cannot_be_fed(tmp_path: Path) -> None:
    path = stored_at(tmp_path / "m.onnx", "(string[2] x) => (string[2] y)", "y = Identity (x)")
    with pytest.raises(UsageError, match="input 'x' is string; networks are measured whose"):
        prepared(path, tmp_path)


def test_an_index_beyond_its_table_is_told(tmp_path: Path) -> None:
    signature = "(int64[B,2] ids) => (float[M,4] y)"
    path = stored_at(tmp_path / "m.onnx", signature, LOOK_UP, FLAT)
    np.savez(tmp_path / "x.npz", ids=np.array([[0, 7]]))
    with pytest.raises(UsageError, match="'ids' holds 7, and indexes a table of 7 rows"):
        prepared(path, tmp_path, inputs=tmp_path / "x.npz")


def _claiming_100_gb(path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (25000000000,), }"
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def _cut(path: Path) -> None:
    np.savez(path, x=X)
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    "make", [_claiming_100_gb, _cut, lambda path: path.write_bytes(b"\x93NUMPY"), Path.mkdir]
)
def test_files_that_are_no_arrays_are_one_line(make: object, tmp_path: Path) -> None:
    path = stored_at(tmp_path / "m.onnx", PLAIN, "y = Add (x, z)")
    make(tmp_path / "x.npz")  # type: ignore[operator]
    with pytest.raises(MansardError) as caught:
        prepared(path, tmp_path / "out", inputs=tmp_path / "x.npz")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, InputError) or "folder" in str(caught.value)
