"""``mansard offload tune --network``: two small trained networks, whose answers NumPy knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.cli.decide_runs import answer, document

N_CLASSES, N_FEATURES, N_SAMPLES = 6, 12, 205  # the last batch of 16 is not full
CURVE = ("--rule", "threshold", "--curve")
KNOWN = ("--decision-latency", "1us±0", "--local-latency", "1ms±0", "--offload-latency", "5ms±0")


def write_network(
    path: Path, weights: NDArray[np.float32], *, has_softmax: bool, is_8_bits: bool = False
) -> Path:
    """Scores 2 c·x − |c|² of each centre, greatest where |x − c|² is least."""
    bias = -((weights / 2) ** 2).sum(axis=0)
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["s" if has_softmax else "scores"])]
    if has_softmax:
        softmax = "p" if is_8_bits else "scores"
        nodes.append(helper.make_node("Softmax", ["s"], [softmax], axis=1))
    if is_8_bits:
        nodes.append(helper.make_node("QuantizeLinear", ["p", "step", "zero"], ["q"]))
        nodes.append(helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["scores"]))
    graph = helper.make_graph(
        nodes,
        "centres",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", N_FEATURES])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", N_CLASSES])],
        [
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(bias, "b"),
            numpy_helper.from_array(np.array(1 / 64, np.float32), "step"),
            numpy_helper.from_array(np.array(0, np.uint8), "zero"),
        ],
    )
    ids = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=ids, ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local network that sees a third of the features, a remote one that sees all."""
    folder = tmp_path_factory.mktemp("networks")
    random = np.random.default_rng(5)
    centres = random.standard_normal((N_CLASSES, N_FEATURES), dtype=np.float32)
    labels = random.integers(0, N_CLASSES, N_SAMPLES)
    noise = random.standard_normal((N_SAMPLES, N_FEATURES), dtype=np.float32)
    np.savez(folder / "data.npz", x=centres[labels] + 0.8 * noise, labels=labels)
    seen = centres * (np.arange(N_FEATURES) < 4)
    write_network(folder / "local.onnx", 2 * seen.T, has_softmax=True)
    write_network(folder / "coarse.onnx", 2 * seen.T, has_softmax=True, is_8_bits=True)
    write_network(folder / "logits.onnx", 2 * seen.T, has_softmax=False)
    write_network(folder / "remote.onnx", 2 * centres.T, has_softmax=False)
    np.savez(folder / "unlabelled.npz", x=centres)
    return folder


def expected(folder: Path, at: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """p1 and whether the local network is right, by its first ``at`` features."""
    with np.load(folder / "data.npz") as stored:
        x, labels = stored["x"], stored["labels"]
    model = onnx.load(folder / ("local.onnx" if at < N_FEATURES else "remote.onnx"))
    weights, bias = (numpy_helper.to_array(each) for each in model.graph.initializer[:2])
    scores = (x @ weights + bias).astype(np.float64)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers.max(axis=1) / powers.sum(axis=1), scores.argmax(axis=1) == labels


@pytest.mark.parametrize("name", ["local.onnx", "logits.onnx"])
def test_networks_are_run_for_their_answers(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    networks = ("--network", folder / name, "--remote-network", folder / "remote.onnx")
    curve = tmp_path / "curve.csv"
    asked = (
        "--data",
        folder / "data.npz",
        "--beta",
        "0.2",
        "--held-out",
        "0",
        "--rule",
        "threshold",
        "--curve",
        curve,
    )
    found = document(capsys, "offload", "tune", *networks, *asked, *KNOWN)
    p1, right = expected(folder, 4)
    _, remote = expected(folder, N_FEATURES)
    assert found["local_accuracy"] == right.mean()
    assert found["remote_accuracy"] == remote.mean()
    assert remote.mean() - right.mean() > 0.1  # else there is nothing to gain
    thresholds = [float(line.split(",")[0]) for line in curve.read_text().splitlines()[1:-1]]
    assert thresholds == pytest.approx([0, *np.unique(p1)[1:]], abs=1e-6)
    assert found["chosen"]["accuracy"] > right.mean()


def test_a_quantised_softmax_gives_probabilities_though_they_miss_1(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = tmp_path / "curve.csv"
    asked = (
        "--network",
        folder / "coarse.onnx",
        "--data",
        folder / "data.npz",
        "--rule",
        "threshold",
        "--curve",
        curve,
    )
    code, _, err = answer(capsys, "offload", "tune", *asked, "--beta", "0.2", *KNOWN)
    assert code == 0, err
    thresholds = [float(line.split(",")[0]) for line in curve.read_text().splitlines()[1:-1]]
    p1, _ = expected(folder, 4)
    # Each p1 is rounded to a multiple of 1/64 (steps of 8 bits, made coarse). A second softmax
    # of 6 classes would give e / (e + 5) = 0.35 at most.
    assert thresholds == [0, *np.unique(np.round(64 * p1) / 64)[1:]]


def test_a_crash_of_the_engine_is_one_line(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The process that runs a network finds this in the place of ONNX Runtime.
    crash = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    (tmp_path / "onnxruntime.py").write_text(crash, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    asked = ("--network", folder / "local.onnx", "--data", folder / "data.npz")
    code, out, err = answer(capsys, "offload", "tune", *asked)
    assert (code, out) == (1, "")
    assert "the process that ran local ended with code -9" in err.splitlines()[-1]


def test_without_a_remote_network_accuracy_has_bounds(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (
        "--network",
        folder / "local.onnx",
        "--data",
        folder / "data.npz",
        "--n-samples",
        "100",
    )
    found = document(capsys, "offload", "tune", *asked, "--beta", "0.2", "--held-out", "0", *KNOWN)
    assert found["n_judged"] == 100
    assert found["remote_accuracy"] is None
    assert found["chosen"]["accuracy_most"] > found["chosen"]["accuracy_least"]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ((), "no samples; give SAMPLES, or --network"),
        (
            ("s.npz", "--n-samples", "5"),
            "--remote-network, --preprocess and --n-samples are about a network that is run",
        ),
        (("--network", "local.onnx"), "a network needs samples to run on"),
        (
            ("s.npz", "--labels", "x.txt"),
            "--remote-network, --preprocess and --n-samples are about",
        ),
        (("--network", "resnet18", "--data", "data.npz"), "resnet18 is not an ONNX file"),
        (("--network", "local.onnx", "--data", "unlabelled.npz"), "has no labels"),
        (("s.npz", "--network", "local.onnx"), "samples and a network exclude each other"),
    ],
)
def test_wrong_usage_is_one_line(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    fault: str,
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = answer(capsys, "offload", "tune", *arguments)
    assert (code, out) == (2, ""), err
    assert fault in err.splitlines()[-1]
