"""Providers of ONNX Runtime that are built in and cannot be used: why, and nothing printed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.inference.ort_builds import make_build

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")

NO_DEVICE = "CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; hostname=here"
NO_TENSORRT = (
    "/onnxruntime_src/onnxruntime/python/onnxruntime_pybind_state.cc:729 void "
    "onnxruntime::python::Register(PySessionOptions&, const onnxruntime::ProviderOptions&) "
    "Please install TensorRT libraries as mentioned in the GPU requirements page\n"
)
RAISED = {"CUDAExecutionProvider": NO_DEVICE, "TensorrtExecutionProvider": NO_TENSORRT}
LOAD = """
import sys
from pathlib import Path
from mansard.core.errors import MeasurementError
from mansard.inference.engines import find_engine
from mansard.inference.inputs import make_inputs
from tests.inference.small_networks import perceptron, trial
folder = Path(sys.argv[1])
made = trial("net.onnx", perceptron(folder / "net.onnx"), provider="cuda")
try:
    find_engine("ort").load(made, folder, make_inputs(made, folder, 1), 1)
except MeasurementError as error:
    sys.stderr.write(str(error))
"""


def run(build: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(build)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def probed(build: Path) -> dict[str, Any]:
    done = run(build, "-m", "mansard.inference", "--probe", "ort")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_provider_that_raises_gives_its_own_words(tmp_path: Path) -> None:
    found = probed(make_build(tmp_path, raised=RAISED))
    assert found["providers"] == ["cpu"]
    assert found["absent"] == {
        # The library says which other one is missing, where it cannot be loaded at all.
        "cuda": f"{NO_DEVICE}: libcublasLt.so.13: cannot open shared object file: No such file or "
        "directory",
        "tensorrt": "Please install TensorRT libraries as mentioned in the GPU requirements page",
    }


def test_a_provider_that_is_left_out_silently_gives_the_loaders_words(tmp_path: Path) -> None:
    assert probed(make_build(tmp_path))["absent"] == {
        "cuda": "ONNX Runtime leaves CUDAExecutionProvider out: libcublasLt.so.13: cannot open "
        "shared object file: No such file or directory",
        "tensorrt": "ONNX Runtime leaves TensorrtExecutionProvider out: it gives no reason",
    }


def test_a_network_is_not_loaded_on_another_provider(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    for name, raised, words in (("raising", RAISED, NO_DEVICE), ("silent", {}, "libcublasLt.so")):
        done = run(make_build(tmp_path / name, raised=raised), "-c", LOAD, str(tmp_path / "net"))
        assert done.stdout == ""
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_what_the_runtime_prints_is_kept_out_of_data(tmp_path: Path) -> None:
    build = make_build(tmp_path, raised=RAISED, noise=b"printed by C++\n")
    assert probed(build)["providers"] == ["cpu"]
    done = run(build, "-m", "mansard.cli", "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert f"no cuda: {NO_DEVICE}" in checks["ort"]["detail"]
    assert "printed by C++" in done.stderr
