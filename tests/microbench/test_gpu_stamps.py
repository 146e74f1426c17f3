"""The stamp kernels compile for every architecture that the compilers here have."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.microbench.cuda import cupy_runtime
from mansard.microbench.cuda.building import OPTIONS
from tests.microbench.cuda_compilers import find_compilers, read_functions

SOURCE = Path(cupy_runtime.__file__).parent / "sources" / "stamp.cu"


def test_stamps_compile_for_all_architectures() -> None:
    compilers = find_compilers()
    if not compilers:
        pytest.skip("no NVRTC: the wheels nvidia-cuda-nvrtc and nvidia-cuda-nvrtc-cu12")
    source = SOURCE.read_text(encoding="utf-8")
    for compiler in compilers:
        for sm in compiler.architectures():
            functions = read_functions(compiler.cubin(source, sm, OPTIONS))
            assert set(functions) == {"stamp_before", "stamp_after"}, (compiler.version, sm)
