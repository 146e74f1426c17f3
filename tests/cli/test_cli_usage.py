"""The command as a user starts it: exit codes, one line of error, data on stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.cli.__main__ import interrupted_line, with_groups
from tests.cli.in_process import mansard

RESUMES = "interrupted; finished work is kept: the same command resumes"


def started(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mansard.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def assert_one_line(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("mansard: ")
    for word in words:
        assert word in lines[0]


def test_version() -> None:
    result = started("--version")
    assert (result.returncode, result.stdout) == (0, "mansard 0.1.0\n")


def test_help_names_every_command_and_the_exit_codes() -> None:
    result = started("--help")
    assert result.returncode == 0
    for word in ("bench", "score", "report", "doctor", "models", "130 interrupted"):
        assert word in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["score"],
        ["score", "a.onnx", "--batch", "0"],
        ["score", "a.onnx", "--format", "xml"],
        ["bench", "--profile", "slow"],
    ],
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    result = mansard(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_a_mode_that_is_not_there(tmp_path: Path) -> None:
    result = started("bench", "--mode", "9999c", cwd=tmp_path)
    assert_one_line(result, 2, "unknown power mode '9999c'", "1c to")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dim", ["nonsense=3", "batch=4"])
def test_a_dimension_that_no_network_of_the_zoo_has(tmp_path: Path, dim: str) -> None:
    result = mansard("bench", "--dim", dim, cwd=tmp_path)
    assert_one_line(result, 2, repr(dim.partition("=")[0]), "use --batch", "sequence")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dim", ["sequence", "=3", "sequence=-1", "a=b"])
def test_a_dimension_that_is_none(dim: str) -> None:
    assert_one_line(mansard("score", "a.onnx", "--dim", dim), 2, repr(dim), "name=value")


def test_an_unknown_precision(tmp_path: Path) -> None:
    assert mansard("models", "write", str(tmp_path), "alexnet").returncode == 0
    result = mansard("score", str(tmp_path / "alexnet.onnx"), "--precision", "fp33")
    assert_one_line(result, 2, "unknown precision 'fp33'", "fp16")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty.onnx", "empty"]),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), ["empty.onnx"]),
        (b"not a model at all", ["empty.onnx"]),
    ],
)
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes, words: list[str]) -> None:
    path = tmp_path / "empty.onnx"
    path.write_bytes(content)
    assert_one_line(mansard("score", str(path)), 1, *words)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert_one_line(started("score", str(tmp_path / "no.onnx")), 1, "no.onnx", "No such file")
    assert_one_line(mansard("score", str(tmp_path)), 1)


def test_a_report_without_runs(tmp_path: Path) -> None:
    assert_one_line(mansard("report", "--runs", str(tmp_path / "gone")), 1, "gone")


def test_scores_are_data_on_stdout(tmp_path: Path) -> None:
    assert mansard("models", "write", str(tmp_path), "resnet50").returncode == 0
    path = str(tmp_path / "resnet50.onnx")
    as_json = started("score", path, "--batch", "1", "--json")
    assert (as_json.returncode, as_json.stderr) == (0, "")
    (document,) = json.loads(as_json.stdout)["scores"]
    assert document["totals"]["macs"] == 4_089_184_256  # 8,178,368,512 FLOP by torch's counter
    table = mansard("score", path, "--batch", "1")
    assert table.returncode == 0
    assert "4.089" in table.stdout
    csv = mansard("score", path, "--batch", "1", "--format", "csv", "--layers")
    header = csv.stdout.splitlines()[0].split(",")
    assert {"layer", "op_type", "macs", "work_flop", "traffic_bytes"} <= set(header)
    parquet = tmp_path / "scores.parquet"
    assert_one_line(mansard("score", path, "--format", "parquet"), 2, "--output")
    written = mansard("score", path, "--batch", "1", "--format", "parquet", "-o", str(parquet))
    assert written.returncode == 0, written.stderr
    assert parquet.read_bytes()[:4] == b"PAR1"


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    assert mansard("models", "write", str(tmp_path), "resnet50").returncode == 0
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "mansard.cli", "score", str(tmp_path / "resnet50.onnx")]
    with os.fdopen(write_end, "wb") as closed:
        result = subprocess.run(
            [*command, "--batch", "1", "--json"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 1
    assert "Traceback" not in result.stderr


def test_hostile_names_do_not_reach_the_terminal_raw(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mred\n.onnx"
    path.write_bytes(b"junk")
    assert_one_line(mansard("score", str(path)), 1, "\\x1b[31mred\\x0a.onnx")


def test_doctor_answers_in_both_forms() -> None:
    table = mansard("doctor")
    assert table.returncode == 0, table.stderr
    assert "pinned threads" in table.stdout
    found = json.loads(mansard("doctor", "--json").stdout)["checks"]
    checks = {check["name"]: check for check in found}
    assert checks["kernels"]["status"] == "ok"
    for check in checks.values():
        assert check["status"] == "ok" or check["fix"]


def test_the_zoo_lists_networks_and_language_models() -> None:
    entries = json.loads(mansard("models", "list", "--json").stdout)["networks"]
    published = {entry["name"]: entry["published_parameters"] for entry in entries}
    assert published["resnet50"] == 25_557_032
    assert published["llama-3.1-8b"] == 8_030_261_248
    table = mansard("models", "list").stdout
    assert "resnet50" in table
    assert "8,030" in next(line for line in table.splitlines() if line.startswith("llama-3.1-8b "))
    assert_one_line(mansard("models", "show", "resnet5"), 2, "resnet50")


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    result = started("--debug", "score", str(tmp_path / "no.onnx"))
    assert result.returncode == 1
    assert "Traceback" in result.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("bench --mode 15W", RESUMES),
        ("demo simulated", RESUMES),
        ("multi run resnet50", RESUMES),
        ("contention", RESUMES),
        ("build resnet50", RESUMES),
        ("models ncu run resnet50", RESUMES),
        ("offload run small.onnx", RESUMES),
        ("recommend resnet50 --measure=3", RESUMES),
        ("schedule a.toml --run", RESUMES),
        ("schedule a.toml", "interrupted; nothing was written"),
        ("recommend resnet50", "interrupted; nothing was written"),
        ("models ncu check", "interrupted; nothing was written"),
        ("offload tune a.npz", "interrupted; nothing was written"),
        ("score bench", "interrupted; nothing was written"),
        ("watch", "ended; recorded rows are complete"),
    ],
)
def test_an_interrupt_says_what_is_kept(words: str, line: str) -> None:
    assert interrupted_line(with_groups(words.split())) == line
