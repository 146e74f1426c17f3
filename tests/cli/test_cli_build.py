"""``mansard models build``: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mansard.inference.engines.tensorrt.versions import MODULE_VARIABLE
from tests.cli.decide_runs import answer
from tests.inference import stand_in
from tests.inference.small_networks import perceptron

pytestmark = [pytest.mark.board(is_on=False), pytest.mark.usefixtures("before_others")]


def test_files_are_built_once_and_listed(
    board: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    perceptron(tmp_path / "mlp.onnx", batch="N")
    where = ("--board", str(board), "--local", "--runs", str(tmp_path / "runs"))
    command = ("build", str(tmp_path / "mlp.onnx"), "--precision", "fp16", *where)
    with stand_in.played("10.3.0", device="orin"):
        code, out, _ = answer(capsys, *command, "--dry-run")
        assert (code, "missing" in out) == (0, True)
        code, out, _ = answer(capsys, *command)
        assert (code, "built" in out, "MB" in out) == (0, True, True)
        code, out, _ = answer(capsys, *command, "--json")
    (file,) = json.loads(out)["files"]
    assert (code, file["state"], file["precision"], file["batch"]) == (0, "kept", "fp16", 1)
    assert Path(file["path"]).stat().st_size == file["build"]["engine_bytes"]


def test_what_cannot_be_done_is_one_line(
    board: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    perceptron(tmp_path / "mlp.onnx")
    monkeypatch.setenv(MODULE_VARIABLE, "not_installed_here")
    monkeypatch.setenv("PATH", "/nowhere")
    where = ("--board", str(board), "--local", "--runs", str(tmp_path / "runs"))
    command = ("build", str(tmp_path / "mlp.onnx"), *where)
    code, _, err = answer(capsys, *command)
    assert (code, "nothing here builds engine files" in err) == (1, True)
    code, _, err = answer(capsys, *command, "--engine", "ort")
    assert (code, "it builds no engine files" in err) == (2, True)
    for nodes in ("3-", "a", "1,,2", "5-3", "9" * 30):
        code, _, err = answer(capsys, *command, "--dla", "0", "--dla-nodes", nodes)
        assert (code, "names no nodes; write --dla-nodes 0-56,60" in err) == (2, True), nodes
    assert not (tmp_path / "runs").exists()
