"""``mansard models export`` where PyTorch is not installed, or the command line is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# As if the libraries named first were not installed, whether or not they are.
WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
from mansard.cli.__main__ import run
sys.exit(run(["export", *sys.argv[2:]]))
"""


def export_without(missing: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def assert_refused(
    result: subprocess.CompletedProcess[str], code: int, *words: str, folder: Path
) -> None:
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for word in words:
        assert word in result.stderr
    assert not list(folder.glob("*.onnx*"))
    assert not list(folder.glob(".*.onnx*"))


@pytest.mark.parametrize(
    "source", ["torchvision:resnet18", "transformers:BertConfig", "net.py:make", "json:loads"]
)
def test_export_without_pytorch_says_what_to_install(tmp_path: Path, source: str) -> None:
    result = export_without("torch", source, "-o", "a.onnx", "--no-check", cwd=tmp_path)
    words = ("needs torch", "pip install ", "[export]'")
    assert_refused(result, 1, *words, folder=tmp_path)


def test_export_without_what_the_check_needs(tmp_path: Path) -> None:
    arguments = ("torchvision:resnet18", "-o", "a.onnx")
    result = export_without("onnxruntime", *arguments, cwd=tmp_path)
    assert_refused(result, 1, "needs onnxruntime", "--no-check", folder=tmp_path)
    result = export_without("onnxscript,onnxruntime", *arguments, "--no-check",
                            "--exporter", "dynamo", cwd=tmp_path)  # fmt: skip
    assert_refused(result, 1, "needs onnxscript", "--exporter torchscript", folder=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["resnet18"], "package.module:factory"),
        (["net.py:make", "--input", "x=1xx2"], "name=1x3x224x224"),
        (["net.py:make", "--dynamic", "x:batch"], "input:axis=symbol"),
        (["net.py:make", "--set", "layers"], "key=value"),
    ],
)
def test_export_refuses_before_it_looks_for_pytorch(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    result = export_without("torch,onnxruntime", *arguments, "-o", "a.onnx", "--no-check",
                            cwd=tmp_path)  # fmt: skip
    assert_refused(result, 2, words, folder=tmp_path)


def test_export_looks_at_the_output_first(tmp_path: Path) -> None:
    arguments = ("net.py:make", "--no-check", "-o")
    result = export_without("torch", *arguments, str(tmp_path), cwd=tmp_path)
    assert_refused(result, 2, "is a folder", "-o model.onnx", folder=tmp_path)
    result = export_without("torch", *arguments, "no/a.onnx", cwd=tmp_path)
    assert_refused(result, 1, "no/a.onnx", "No such file", folder=tmp_path)


def test_export_needs_an_output(tmp_path: Path) -> None:
    result = export_without("torch", "net.py:make", cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
