"""``mansard measure MODEL``: what it prints, keeps and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mansard.cli.measuring.networks import note_saved
from tests.api.test_nn_profiler import written
from tests.cli.decide_runs import answer
from tests.inference.small_networks import perceptron
from tests.undisturbed import without_doubts

pytestmark = pytest.mark.usefixtures("before_others")

BRIEF = ("--profile", "brief", "--local")


def rows_in(runs: Path) -> list[dict[str, Any]]:
    """The rows of the only run of networks."""
    (path,) = runs.glob("*/measurements.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]  # after the schema


def test_each_network_is_a_row_with_loop_and_single_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Calls of microseconds: other programs do not take the CPU in every sample of 2 ms.
    perceptron(tmp_path / "mlp.onnx")
    command = ["measure", str(tmp_path / "mlp.onnx"), "--runs", str(tmp_path / "runs"), *BRIEF]
    code, out, _ = answer(capsys, *command, "--threads", "1", "--layers", "--all")
    assert code == 0
    assert "mlp" in out
    assert "worst" in out
    assert "Layers of mlp" in out
    without_doubts(tmp_path / "runs")
    before = rows_in(tmp_path / "runs")
    code, out, err = answer(capsys, *command, "--threads", "1", "--json")
    assert code == 0
    assert "already measured, nothing to do" in err
    assert rows_in(tmp_path / "runs") == before
    found = json.loads(out)
    (times,) = found["times"]
    row = found["rows"][0]["row"]
    assert times["network"] == row["model"] == "mlp"
    assert times["worst_s"] == max(row["call_seconds_s"])
    assert row["layers"]


def test_layers_alone_are_printed_with_their_sum_and_written_for_nn_profiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    perceptron(tmp_path / "mlp.onnx")
    words = ["measure", str(tmp_path / "mlp.onnx"), "--runs", str(tmp_path / "runs"), *BRIEF]
    words += ["--threads", "1", "--each-layer", "all"]
    code, out, err = answer(capsys, *words)
    assert code == 0
    assert "Layers that were run alone: their sum compared with the whole network" in out
    assert "Gemm, Relu" in out
    assert "Conversions: casts and reorders" in err
    code, out, _ = answer(capsys, *words, "--json")
    assert code == 0
    found = json.loads(out)
    of_networks = {"times", "accuracies", "rows", "memory", "builds"}
    assert found.keys() == of_networks | {"schema", "version", "parts", "sums", "groups"}
    # Gemm and Relu, which the estimator takes for one kernel, and Gemm.
    assert [each["part"]["number"] for each in found["parts"]] == [0, 1]
    assert found["sums"][0]["n_measured"] == found["sums"][0]["n_parts"] == 2
    path = written(tmp_path / "runs", tmp_path / "nn")
    assert json.loads(path.read_text())["mlp"]["cpu"]["latency"].keys() == {"0", "1"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["alexnet", "--metric", "x"], "--metric is an option for programs, not for a network"),
        (["--engine", "ort", "--", "true"], "--engine is an option for networks, not for a"),
        (["--threads", "2", "--", "true"], "--threads is an option for networks, not for a"),
        ([], "give networks or a command, not both"),
        (["alexnet", "--", "true"], "give networks or a command, not both"),
        (["alexnet", "--engine", "caffe"], "caffe"),
        (["alexnet", "--batch", "0"], "--batch '0' holds no size"),
        (["nosuch"], "no network or language model is called 'nosuch'"),
        (["alexnet", "--mode", "MAXN"], "MAXN"),
        (["alexnet", "--dim", "nosuch=3"], "nosuch"),
        (["alexnet", "--each-layer", "most"], "--each-layer 'most' names no layers"),
        (["alexnet", "--window", "3"], "--window is an option for layers that are run alone"),
        (["alexnet", "--rest", "1"], "--rest is an option for layers that are run alone"),
        (["alexnet", "--each-layer", "all", "--groups", "2"], "layers are no groups"),
        (["alexnet", "--each-layer", "stages", "--cpus", "x"], "--cpus 'x' names no CPUs"),
        (["--each-layer", "all", "--", "true"], "--each-layer is an option for networks, not for"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    runs = tmp_path / "runs"
    code, _, err = answer(capsys, "measure", "--runs", runs, *words)
    assert code == 2
    last = err.splitlines()[-1]
    assert last.startswith("mansard: ")
    assert said in last
    assert not runs.exists()


def test_the_command_after_a_measurement_can_be_copied(capsys: pytest.CaptureFixture[str]) -> None:
    note_saved(Path("my runs"))
    assert capsys.readouterr().err == (
        "saved in my runs: mansard report --runs 'my runs' draws it\n"
    )
