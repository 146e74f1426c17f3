"""Streams that are closed, full, or cannot show a character; paths that are no text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import parser

MANSARD = (sys.executable, "-m", "mansard.cli")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3] x) => (float[1,3] y)'
        " { y = Relu(x) }"
    )
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def shell(
    command: str, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` with the mansard command line in $@."""
    return subprocess.run(
        [
            "/bin/sh",
            "-c",
            command,
            "sh",
            *MANSARD,
            *(os.fspath(argument) for argument in arguments),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_full_disk_behind_stdout(model: Path, form: str) -> None:
    done = shell('"$@" > /dev/full', "score", model, "--format", form)
    assert done.returncode == 1
    assert done.stderr == "mansard: standard output: No space left on device\n"


@pytest.mark.parametrize("form", ["table", "json"])
def test_closed_streams(model: Path, form: str) -> None:
    done = shell('"$@" >&- 2>&- <&-', "score", model, "--format", form)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert shell('"$@" >&- 2>&-', "score", model.with_name("none.onnx")).returncode == 1


def test_a_reader_that_has_seen_enough(model: Path) -> None:
    done = shell('"$@" | true', "score", model, "--json")
    assert done.stderr == ""


def test_a_terminal_that_knows_ascii_only(model: Path) -> None:
    named = model.rename(model.with_name("größe×2.onnx"))
    done = shell('"$@"', "score", named, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert r"gr\xf6\xdfe\xd72" in done.stdout
    done = shell('"$@"', "score", named, "--json", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["scores"][0]["score"]["model"] == "größe×2"


def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/zoo\xff"))
    for option in ((), ("--json",)):
        done = shell('"$@"', "models", "write", folder, "lstm", *option)
        assert done.returncode == 0, done.stderr
        assert "lstm.onnx" in done.stdout


def test_dimensions_of_thousands_of_digits(model: Path) -> None:
    done = shell('"$@"', "score", model, "--dim", "n=" + "9" * 5000)
    assert done.returncode == 2
    assert "write name=value" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_table_is_not_written_to_a_file(model: Path) -> None:
    done = shell('"$@"', "score", model, "-o", model.with_name("out.txt"))
    assert done.returncode == 2
    assert "add --format json, csv or parquet" in done.stderr
    assert not model.with_name("out.txt").exists()
