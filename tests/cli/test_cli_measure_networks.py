"""``mansard measure MODEL``: what it prints, keeps and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.decide_runs import answer
from tests.inference.small_networks import perceptron

BRIEF = ("--profile", "brief", "--local")


def test_each_network_is_a_row_with_loop_and_single_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Calls of microseconds: other programs do not take the CPU in every sample of 2 ms.
    perceptron(tmp_path / "mlp.onnx")
    command = ["measure", str(tmp_path / "mlp.onnx"), "--runs", str(tmp_path / "runs"), *BRIEF]
    code, out, _ = answer(capsys, *command, "--threads", "1", "--layers")
    assert code == 0
    assert "mlp" in out
    assert "worst" in out
    assert "Layers of mlp" in out
    # Measured before: nothing is measured again, and the rows are the same.
    code, out, err = answer(capsys, *command, "--threads", "1", "--json")
    assert code == 0
    assert "already measured, nothing to do" in err
    found = json.loads(out)
    (times,) = found["times"]
    row = found["rows"][0]["row"]
    assert times["network"] == row["model"] == "mlp"
    assert times["worst_s"] == max(row["call_seconds_s"])
    assert row["layers"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["alexnet", "--metric", "x"], "--metric is an option for programs, not for a network"),
        (["--engine", "ort", "--", "true"], "--engine is an option for networks, not for a"),
        (["--threads", "2", "--", "true"], "--threads is an option for networks, not for a"),
        ([], "name networks or a command, and not both"),
        (["alexnet", "--", "true"], "name networks or a command, and not both"),
        (["alexnet", "--engine", "caffe"], "caffe"),
        (["alexnet", "--batch", "0"], "--batch '0' holds no size"),
        (["nosuch"], "the zoo has no network 'nosuch'"),
        (["alexnet", "--mode", "MAXN"], "MAXN"),
        (["alexnet", "--dim", "nosuch=3"], "nosuch"),
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
