"""NVRTC of NVIDIA's wheels: it compiles, and it is that of CuPy's own CUDA. No GPU is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mansard.microbench.cuda.nvrtc import find_nvrtc
from tests.microbench.cupy_process import opened, run_python

# NVRTC that is loaded already, by its name, as cuda.pathfinder asks for it.
LOADED = """
import ctypes, os
def loaded(name):
    try:
        return ctypes.CDLL(name, os.RTLD_NOLOAD)
    except OSError:
        return None
"""
BUILTINS = "int answer(void) { return 42; }\n"
# Opens its built-in functions by name, and only when something is compiled.
NVRTC = """
#include <dlfcn.h>
#include <stddef.h>
int nvrtcCompileProgram(void) {
    void *builtins = dlopen("libnvrtc-builtins.so.13.0", RTLD_NOW);
    if (builtins == NULL) return 7; /* NVRTC_ERROR_BUILTIN_OPERATION_FAILURE */
    int (*answer)(void) = dlsym(builtins, "answer");
    return answer() == 42 ? 0 : 11;
}
"""


def compile_library(source: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.with_suffix(".c")
    text.write_text(source)
    name = f"-Wl,-soname,{path.name}"
    subprocess.run(["gcc", "-shared", "-fPIC", name, "-o", path, text, "-ldl"], check=True)


@pytest.fixture
def wheel_without_rpath(tmp_path: Path) -> Path:
    """The wheel of CUDA 13.0: NVRTC lies beside its built-ins, and does not look there."""
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    compile_library(BUILTINS, folder / "libnvrtc-builtins.so.13.0")
    compile_library(NVRTC, folder / "libnvrtc.so.13")
    return tmp_path


def test_nvrtc_without_rpath_has_its_builtins(wheel_without_rpath: Path) -> None:
    code = opened(13) + LOADED + "print(loaded('libnvrtc.so.13').nvrtcCompileProgram())"
    assert run_python(code, wheel_without_rpath) == "0"


def test_nvrtc_whose_builtins_are_missing_is_loaded_and_refuses(wheel_without_rpath: Path) -> None:
    (wheel_without_rpath / "nvidia" / "cu13" / "lib" / "libnvrtc-builtins.so.13.0").unlink()
    code = opened(13) + LOADED + "print(loaded('libnvrtc.so.13').nvrtcCompileProgram())"
    assert run_python(code, wheel_without_rpath) == "7"


def test_a_broken_wheel_is_left_to_cupy(tmp_path: Path) -> None:
    library = tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    library.write_text("no library")
    assert run_python(opened(13) + LOADED + "print(loaded('libnvrtc.so.13'))", tmp_path) == "None"


@pytest.mark.parametrize("major", [12, 13])
def test_each_wheel_compiles_every_source(major: int) -> None:
    if find_nvrtc(major) is None:
        pytest.skip(f"the wheel of NVRTC {major} is missing")
    code = f"""
from mansard.microbench.kernel import cuda_kernels
from mansard.microbench.cuda.building import OPTIONS
from tests.microbench.cuda_compilers import find_compilers
compiler = next(one for one in find_compilers() if one.version[0] == {major})
sources = {{kernel.source for kernel in cuda_kernels() if kernel.backend == "cupy"}}
print(all(compiler.cubin(source, 90, OPTIONS)[:4] == b"\\x7fELF" for source in sources))
"""
    assert run_python(code, Path(__file__).parents[2]) == "True"


@pytest.mark.parametrize(("major", "other"), [(12, 13), (13, 12)])
def test_of_two_wheels_cupys_own_is_taken(major: int, other: int) -> None:
    if find_nvrtc(12) is None or find_nvrtc(13) is None:
        pytest.skip("the wheels of NVRTC 12 and 13 are not both here")
    code = (
        opened(major)
        + LOADED
        + (f"print(bool(loaded('libnvrtc.so.{major}')), loaded('libnvrtc.so.{other}'))")
    )
    assert run_python(code) == "True None"


def test_a_cuda_without_a_wheel_has_none() -> None:
    assert find_nvrtc(11) is None
