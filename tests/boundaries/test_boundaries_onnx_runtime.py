"""ONNX Runtime is imported, and its sessions are made, in one file: with its telemetry off."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
THE_FILE = ROOT / "core/src/mansard/core/onnx_runtime.py"
SESSIONS = {"InferenceSession", "TrainingSession"}


def uses_of(text: str) -> Iterator[str]:
    """Each import of ONNX Runtime and each name of a session in a program's text."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute | ast.Name):
            names = [node.attr if isinstance(node, ast.Attribute) else node.id]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            names = [str(node.args[0].value)] if called in {"import_module", "__import__"} else []
        for name in names:
            # A variable may be called onnxruntime; then it came from the one file.
            is_import = name.partition(".")[0] == "onnxruntime" and not isinstance(node, ast.Name)
            if is_import or name in SESSIONS:
                yield name


def test_one_file_imports_onnx_runtime_and_makes_sessions() -> None:
    shipped = sorted(ROOT.glob("*/src/mansard/**/*.py"))
    uses = {
        str(path.relative_to(ROOT)): use
        for path in shipped
        if path != THE_FILE
        for use in uses_of(path.read_text(encoding="utf-8"))
    }
    assert uses == {}
    assert set(uses_of(THE_FILE.read_text(encoding="utf-8"))) == {"InferenceSession", "onnxruntime"}


@pytest.mark.parametrize(
    "text",
    [
        "import onnxruntime",
        "import onnxruntime.quantization as tools",
        "def late():\n    from onnxruntime import OrtValue",
        "from onnxruntime.quantization import QuantType",
        "need('x').InferenceSession(path)",
        "from mansard.elsewhere import InferenceSession",
        "importlib.import_module('onnxruntime')",
        "import_module('onnxruntime.tools')",
        "__import__('onnxruntime')",
    ],
)
def test_each_way_to_import_it_is_seen(text: str) -> None:
    assert list(uses_of(text)) != []


@pytest.mark.parametrize(
    "use",
    [
        "from mansard.core.onnx_runtime import import_runtime as use; use('quantization')",
        "from mansard.core.onnx_runtime import import_runtime as use; use('transformers.float16')",
        "from mansard.estimator.export.network import need; need('onnxruntime')",
        # What PyTorch's exporters import by themselves, after anything of ours was needed.
        "from mansard.estimator.export.network import need\n"
        "try:\n    need('torch')\nexcept Exception:\n    pass\nimport onnxruntime",
    ],
    ids=["quantising", "fp16", "export", "import-of-others"],
)
def test_no_use_leaves_a_file_of_telemetry(tmp_path: Path, use: str) -> None:
    pytest.importorskip("onnxruntime")
    inherited = {name: text for name, text in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    folders = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(tmp_path))
    subprocess.run([sys.executable, "-c", use], env=inherited | folders, check=True)
    assert list(tmp_path.iterdir()) == []
