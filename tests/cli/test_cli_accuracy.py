"""``mansard measure --data``: a small trained network whose accuracy NumPy knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from tests.cli.decide_runs import answer

pytestmark = pytest.mark.usefixtures("before_others")

N_CLASSES, N_SAMPLES = 10, 300


def blobs(folder: Path) -> tuple[Path, Path, np.ndarray]:
    """Clouds around ten centres, the classifier by the nearest centre, and which it gets right.

    |x - c|² is least where 2 c·x - |c|² is greatest: a linear layer.
    """
    random = np.random.default_rng(11)
    centres = random.standard_normal((N_CLASSES, 16), dtype=np.float32)
    labels = random.integers(0, N_CLASSES, N_SAMPLES)
    x = centres[labels] + 1.4 * random.standard_normal((N_SAMPLES, 16), dtype=np.float32)
    weights, bias = 2 * centres.T, -(centres**2).sum(axis=1)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["scores"])],
        "blobs",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", N_CLASSES])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    ids = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=ids, ir_version=8), folder / "blobs.onnx")
    np.savez(folder / "blobs.npz", x=x, labels=labels)
    scores = x @ weights + bias
    places = (scores > scores[np.arange(N_SAMPLES), labels][:, None]).sum(axis=1)
    return folder / "blobs.onnx", folder / "blobs.npz", places


def measure(
    capsys: pytest.CaptureFixture[str], folder: Path, *words: object
) -> tuple[int, str, str]:
    how = ("--runs", folder / "runs", "--profile", "brief", "--local", "--threads", "1")
    return answer(capsys, "measure", *words, *how)


def test_accuracy_is_measured_once_and_compared_with_fp32(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data, places = blobs(tmp_path)
    how = (model, "--data", data, "--mode", "1c")
    code, out, err = measure(capsys, tmp_path, *how, "--precision", "fp32,int8")
    assert code == 0
    assert "Accuracy of networks" in out
    assert "int8 is calibrated with 128 samples of blobs, of those that accuracy is me" in err
    # With another precision beside: what was measured is not measured again.
    code, out, err = measure(capsys, tmp_path, *how, "--precision", "fp32,fp16,int8", "--json")
    assert code == 0
    assert "accuracy of blobs in int8: already measured" in err
    assert "accuracy of blobs in fp16: already measured" not in err
    found = {row["precision"]: row for row in json.loads(out)["accuracies"]}
    assert set(found) == {"fp32", "fp16", "int8"}
    times = {row["precision"]: row["time_s"] for row in json.loads(out)["times"]}
    assert found["fp32"]["top1"]["value"] == pytest.approx((places == 0).mean())
    assert found["fp32"]["top5"]["value"] == pytest.approx((places < 5).mean())
    assert 0.5 < found["fp32"]["top1"]["value"] < 0.99  # else nothing could be lost
    assert found["fp32"]["unknown"]["drop"] == "it is what other precisions are compared with"
    int8 = found["int8"]
    assert int8["reference"] == "onnxruntime cpu"
    assert 0.9 < int8["agreement"]["value"] < 1
    drop = found["fp32"]["top1"]["value"] - int8["top1"]["value"]
    assert int8["drop"]["value"] == pytest.approx(drop)
    assert found["fp16"]["agreement"]["value"] > int8["agreement"]["value"]
    asked = ("--runs", tmp_path / "runs", "--precision", "fp32,fp16,int8", "--json")
    code, out, _ = answer(capsys, "recommend", model, *asked, "--max-drop", "0%")
    assert code == 0
    (found_best,) = json.loads(out)["recommendations"]
    # Without roofs only a network that ran has a time; other programs can have taken every sample.
    if times["fp32"] is not None:
        assert found_best["choice"]["precision"] == "fp32"
        assert found_best["accuracy"]["top1"] == found["fp32"]["top1"]
    else:
        assert found_best["choice"] is None
    assert any(note.startswith("int8 is left out: its accuracy") for note in found_best["notes"])
    code, _, err = answer(capsys, "recommend", model, *asked, "--max-drop", "few")
    assert (code, err.strip()) == (
        2,
        "mansard: --max-drop 'few' is not a percentage; write --max-drop 1%",
    )
    page = tmp_path / "report.html"
    code, out, _ = answer(capsys, "report", "--runs", tmp_path / "runs", "--output", page)
    assert code == 0
    assert "Accuracy of networks" in out
    assert "Accuracy of networks" in page.read_text()


def images(folder: Path, names: dict[str, int]) -> Path:
    """Grey pictures, each as bright as its number."""
    for name, grey in names.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (20, 12), grey).save(path)
    return folder


def brightness(folder: Path) -> Path:
    """Class 1 where the mean of an 8 × 8 picture is above a half, else class 0."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Conv", ["mean", "w", "b"], ["scores"]),
    ]
    weights = np.array([-1, 1], np.float32).reshape(2, 1, 1, 1)
    held = {"w": weights, "b": np.array([0.5, -0.5], np.float32)}
    graph = helper.make_graph(
        nodes,
        "brightness",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 2, 1, 1])],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    ids = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=ids, ir_version=8), folder / "bright.onnx")
    return folder / "bright.onnx"


def test_a_folder_of_images_with_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 30 and 100 are dark, 200 and 250 bright; the label of 100 says bright, so 3 of 4 are right.
    model = brightness(tmp_path)
    files = {"a/1.png": 30, "a/2.png": 100, "b/3.png": 200, "b/4.png": 250}
    data = images(tmp_path / "pictures", files)
    (data / "labels.csv").write_text("image,class\n1.png,0\na/2.png,1\n3.png,1\n4.png,1\n")
    words = (model, "--data", data, "--preprocess", "unit,resize=exact", "--json")
    code, out, err = measure(capsys, tmp_path, *words)
    assert code == 0
    (row,) = json.loads(out)["accuracies"]
    assert (row["n_samples"], row["n_classes"]) == (4, 2)
    assert f"images for bright: {row['preprocessing']}" in err
    assert row["top1"]["value"] == 0.75
    assert row["preprocessing"].startswith(
        "8 × 8 as it is, else resize 8 × 8, grey, channels first"
    )


def test_random_weights_have_no_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "x.npz", input=np.zeros((2, 3, 224, 224), np.float32), labels=[0, 1])
    code, _, err = measure(capsys, tmp_path, "squeezenet1_1", "--data", tmp_path / "x.npz")
    assert code == 2
    assert "the weights of squeezenet1_1 are random, so it has no accuracy" in err.splitlines()[-1]


def test_what_was_measured_before_is_shown_though_a_newer_run_has_other_ranges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data, _ = blobs(tmp_path)
    other = tmp_path / "other.npz"
    np.savez(other, x=np.random.default_rng(1).standard_normal((40, 16), dtype=np.float32))
    how = (model, "--data", data, "--precision", "fp32,int8", "--mode", "1c", "--json")
    found = []
    for calibration in (data, other, data):
        code, out, _ = measure(capsys, tmp_path, *how, "--calibration", calibration)
        assert code == 0
        found.append({row["precision"]: row for row in json.loads(out)["accuracies"]})
    assert [set(each) for each in found] == [{"fp32", "int8"}] * 3
    assert "40 samples of other" in found[1]["int8"]["calibration"]
    assert found[2] == found[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "nosuch"], "there is no data set 'nosuch'"),
        (["--labels", "x.csv"], "--labels is about --data"),
        (["--data", "empty"], "there are no images"),
        (["--data", "few.npz"], "there are 2 labels and 3 samples"),
        (["--data", "far.npz"], "label 10 is none of the network's 10 classes, 0 to 9"),
        (["--data", "other.npz"], "there is no array for input 'x'"),
        (["--data", "wide.npz"], "samples of 'x' are float32 [17], the network wants float32 [16]"),
        (["--data", "none.npz"], "it is empty"),
        (["--data", "text.npz"], "it is no .npz of arrays"),
        (["--data", "pictures"], "images are [batch, channels, height, width]"),
        (["--precision", "int8"], "int8 needs data to calibrate with"),
        (["--preprocess", "unit"], "--preprocess is about --data"),
        (
            ["--data", "far.npz", "--precision", "int8", "--calibration", "random"],
            "int8 with random ranges has no accuracy",
        ),
        (["--calibration", "few.npz"], "--calibration is about --precision int8"),
        (["--data", "far.npz", "--preprocess", "nosuch"], "no preprocessing is called 'nosuch'"),
    ],
)
def test_data_that_does_not_fit_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    said: str,
) -> None:
    model, _, _ = blobs(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    images(Path("pictures"), {"1.png": 3})
    x = np.zeros((3, 16), np.float32)
    kinds: dict[str, dict[str, Any]] = {
        "few": {"x": x, "labels": np.zeros(2, int)},
        "far": {"x": x, "labels": np.full(3, 10)},
        "other": {"y": x},
        "wide": {"x": np.zeros((3, 17), np.float32)},
        "none": {"x": x[:0]},
    }
    for name, arrays in kinds.items():
        np.savez(f"{name}.npz", **arrays)
    Path("text.npz").write_text("no archive")
    code, _, err = measure(capsys, tmp_path, model, *words)
    assert code in {1, 2}
    last = err.splitlines()[-1]
    assert last.startswith("mansard: ")
    assert said in last
    assert not (tmp_path / "runs").exists()
